"""Why a queue does not take a message of a topic, in words for operators: records have the names of errors."""

from __future__ import annotations

import re

_REASONS = {
    "QueueMissing": "the queue does not exist",
    "DeliveryDenied": "the access policy of the queue does not allow it",
    "QuotaReached": "the account of the queue has reached a quota",
    "DedupFull": "the queue remembers too many deduplication ids",
    "KeyUnavailable": "the encryption key of the queue cannot be used",
    "NotPossible": "it is larger than the queue accepts, or a FIFO queue got no group",
    "TooManyAttributes": "without an envelope, a queue does not take more than 10 attributes",
    "Unreachable": "the shard of the queue cannot be reached",
}
_REASON = re.compile(rf"\b({'|'.join(_REASONS)})\b")


def shown_reason(reason: str) -> str:
    """Why a message was not delivered, with the names of errors explained."""
    return _REASON.sub(lambda found: _REASONS[found[0]], reason)
