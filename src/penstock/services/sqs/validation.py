"""Checks that several actions share, with the texts of SQS.

The order is that of SQS: required parameters, then ranges, then what the type of queue allows, then contents.
"""

from __future__ import annotations

import re

from penstock.services.sqs.faults import invalid_value
from penstock.services.sqs.limits import ID_LENGTH_MAX, QUEUE_NAME_LENGTH_MAX
from penstock.wire.faults import invalid_parameter, missing_parameter

# SQS: what XML 1.0 cannot carry is refused in both protocols.
ILLEGAL_CHARACTER = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
CONTROL_CHARACTERS = bytes(code for code in range(0x20) if ILLEGAL_CHARACTER.match(chr(code)))
_NAME = re.compile(rf"[A-Za-z0-9_-]{{1,{QUEUE_NAME_LENGTH_MAX}}}")
_FIFO_NAME = re.compile(rf"[A-Za-z0-9_-]{{1,{QUEUE_NAME_LENGTH_MAX - len('.fifo')}}}\.fifo")
# Alphanumeric and punctuation, which is ASCII without space and controls.
_ID = re.compile(rf"[!-~]{{1,{ID_LENGTH_MAX}}}")


def required(value: str | None, parameter: str) -> str:
    """Absent and empty are the same: missing."""
    if not value:
        raise missing_parameter(parameter)
    return value


def given_queue_name(name: str | None) -> str:
    if name is None:
        raise invalid_parameter(
            "Value for parameter QueueName is invalid. Reason: Must specify a queue name."
        )
    if not name:
        raise invalid_parameter("Queue name cannot be empty")
    return name


def check_queue_name(name: str, *, fifo: bool) -> None:
    if fifo and not _FIFO_NAME.fullmatch(name):
        raise invalid_parameter(
            "The name of a FIFO queue can only include alphanumeric characters, hyphens, or underscores, "
            f"must end with .fifo suffix and be 1 to {QUEUE_NAME_LENGTH_MAX} in length."
        )
    if not fifo and not _NAME.fullmatch(name):
        raise invalid_parameter(
            "Can only include alphanumeric characters, hyphens, or underscores. "
            f"1 to {QUEUE_NAME_LENGTH_MAX} in length"
        )


def is_queue_name(name: str) -> bool:
    """Whether a queue of either type can have this name."""
    return _NAME.fullmatch(name) is not None or _FIFO_NAME.fullmatch(name) is not None


def check_range(value: int | None, low: int, high: int, parameter: str, reason: str) -> None:
    if value is not None and not low <= value <= high:
        raise invalid_value(value, parameter, reason)


def check_id(value: str, parameter: str) -> None:
    """A message group, a deduplication id, a receive attempt."""
    if not _ID.fullmatch(value):
        characters = "can only include alphanumeric and punctuation characters"
        raise invalid_value(value, parameter, f"{parameter} {characters}. 1 to {ID_LENGTH_MAX} in length.")


def is_legal(text: str) -> bool:
    # Printable text holds nothing illegal, and ASCII only some control characters: both checks are far faster.
    if text.isascii():
        return len(text.encode().translate(None, CONTROL_CHARACTERS)) == len(text)
    return text.isprintable() or ILLEGAL_CHARACTER.search(text) is None


def utf8_length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
