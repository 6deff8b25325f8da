"""Queues are given by name, URL or ARN: what is in these."""

from __future__ import annotations


def queue_name(queue: str) -> str:
    """The name in a URL or an ARN, or the name itself."""
    return queue.rstrip("/").rpartition("/" if "://" in queue else ":")[2]


def queue_account(queue: str) -> str | None:
    """The account in a URL or an ARN; None if it is the caller's."""
    if "://" in queue:
        account = queue.rstrip("/").rpartition("/")[0].rpartition("/")[2]
    else:
        account = queue.split(":")[4] if queue.startswith("arn:") and queue.count(":") == 5 else ""
    return account if account.isdigit() else None
