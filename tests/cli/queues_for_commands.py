"""Queues that commands are tested with."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from penstock.client.api import ApiSession
from penstock.client.credentials import SigningKeys
from support.command_line import CommandLine

_numbers = itertools.count()


@contextmanager
def session_of(commands: CommandLine) -> Iterator[ApiSession]:
    """Opens a session with the server of these commands, by the same user."""
    keys = None
    if "AWS_ACCESS_KEY_ID" in commands.environment:
        environment = commands.environment
        keys = SigningKeys(environment["AWS_ACCESS_KEY_ID"], environment["AWS_SECRET_ACCESS_KEY"])
    session = ApiSession(commands.endpoint, "us-east-1", keys)
    yield session
    session.close()


def sqs(commands: CommandLine, action: str, **members: Any) -> Any:
    with session_of(commands) as session:
        return session.sqs(action, **members)


def report_failure(commands: CommandLine, queue: str, id: str, reason: str) -> None:
    """Reports a failure, like a consumer that could not process a message."""
    with session_of(commands) as session:
        session.admin("POST", f"/queues/{queue}/messages/{id}/failures", body={"reason": reason})


def new_queue(commands: CommandLine, kind: str = "", **attributes: str) -> str:
    """Its name; ``kind``: "fifo"."""
    name = f"queue-{next(_numbers)}"
    if kind == "fifo":
        name, attributes = f"{name}.fifo", {"FifoQueue": "true", **attributes}
    sqs(commands, "CreateQueue", QueueName=name, Attributes=attributes)
    return name


def new_pair(commands: CommandLine, kind: str = "", max_receives: int = 1) -> tuple[str, str]:
    """A queue and its dead-letter queue."""
    dead_letters = new_queue(commands, kind)
    url = sqs(commands, "GetQueueUrl", QueueName=dead_letters)["QueueUrl"]
    arn = sqs(commands, "GetQueueAttributes", QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"][
        "QueueArn"
    ]
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": max_receives})
    return new_queue(commands, kind, RedrivePolicy=policy), dead_letters


def bodies(commands: CommandLine, queue: str) -> list[str]:
    return [message["body"] for message in commands.json_lines("message", "ls", queue, "--all")]
