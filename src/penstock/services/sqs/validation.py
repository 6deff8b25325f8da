"""What a request may say, and SQS's words for what it may not.

The order is SQS's: required parameters, then ranges, then what the type of queue allows, then contents.
"""

from __future__ import annotations

import re

from penstock.names import is_account
from penstock.services.sqs.faults import invalid_value, sqs_fault
from penstock.wire.faults import invalid_parameter, missing_parameter
from penstock.wire.registry import Fault

VISIBILITY_S_MAX = 43_200
DELAY_S_MAX = 900
BATCH_BYTES_MAX = 1_048_576
BATCH_ENTRIES_MAX = 10

# What XML 1.0 cannot carry, SQS refuses in both protocols.
ILLEGAL_CHARACTER = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_CONTROLS = bytes(code for code in range(0x20) if ILLEGAL_CHARACTER.match(chr(code)))
_NAME = re.compile(r"[A-Za-z0-9_-]{1,80}")
_FIFO_NAME = re.compile(r"[A-Za-z0-9_-]{1,75}\.fifo")
_ID = re.compile(r"[!-~]{1,128}")  # alphanumeric and punctuation, which is ASCII without space and controls
_LABEL = re.compile(r"[A-Za-z0-9_-]{1,80}")

NOT_FOR_THIS_TYPE = "The request include parameter that is not valid for this queue type"  # sic
NEEDS_DEDUP_ID = (
    "The queue should either have ContentBasedDeduplication enabled "
    "or MessageDeduplicationId provided explicitly"
)


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
            "must end with .fifo suffix and be 1 to 80 in length."
        )
    if not fifo and not _NAME.fullmatch(name):
        raise invalid_parameter(
            "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length"
        )


def can_be_queue(account: str, name: str) -> bool:
    """Whether there can be such a queue at all, of either type. What cannot be is not asked about."""
    return is_account(account) and (
        _NAME.fullmatch(name) is not None or _FIFO_NAME.fullmatch(name) is not None
    )


def check_range(value: int | None, low: int, high: int, parameter: str, reason: str) -> None:
    if value is not None and not low <= value <= high:
        raise invalid_value(value, parameter, reason)


def check_id(value: str, parameter: str) -> None:
    """A message group, a deduplication id, a receive attempt."""
    if not _ID.fullmatch(value):
        reason = f"{parameter} can only include alphanumeric and punctuation characters. 1 to 128 in length."
        raise invalid_value(value, parameter, reason)


def check_label(label: str) -> None:
    if not _LABEL.fullmatch(label):
        reason = "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length."
        raise invalid_value(label, "Label", reason)


def is_legal(text: str) -> bool:
    # What is printable holds nothing illegal, and ASCII only some control characters: both is told far faster.
    if text.isascii():
        return len(text.encode().translate(None, _CONTROLS)) == len(text)
    return text.isprintable() or ILLEGAL_CHARACTER.search(text) is None


def check_body(body: str) -> None:
    if is_legal(body):
        return
    found = ILLEGAL_CHARACTER.search(body)
    assert found is not None
    raise sqs_fault(
        "InvalidMessageContents",
        f"Invalid binary character '#x{ord(found[0]):X}' was found in the message body, the set of allowed "
        "characters is #x9 | #xA | #xD | [#x20-#xD7FF] | [#xE000-#xFFFD] | [#x10000-#x10FFFF].",
    )


def utf8_length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def too_long(bytes_max: int, *, in_batch: bool) -> Fault:
    verb = "cannot be validated" if in_batch else "are invalid"
    return invalid_parameter(
        f"One or more parameters {verb}. Reason: Message must be shorter than {bytes_max} bytes."
    )
