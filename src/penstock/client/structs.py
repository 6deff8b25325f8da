"""What the actions of SQS return, and what batches are made of.

Fields have the names of the members of SQS in snake_case.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec


def _member(field: str) -> str:
    """``md5_of_body``: ``MD5OfBody``."""
    return "".join("MD5" if part == "md5" else part.capitalize() for part in field.split("_"))


class SqsMembers(msgspec.Struct, rename=_member, omit_defaults=True):
    """Absent members are None or empty, and are not written."""


# -- message attributes ----------------------------------------------------------------------------------------------


class MessageAttribute(msgspec.Struct, rename=_member, omit_defaults=True, frozen=True):
    """A value with its type, which may have a label of its own: ``Number.int``, ``String.uuid``."""

    data_type: str
    string_value: str | None = None
    binary_value: bytes | None = None

    @property
    def value(self) -> str | int | float | bytes:
        """As Python has it: a number for Number, bytes for Binary, else the text."""
        if self.data_type.startswith("Binary"):
            return self.binary_value or b""
        text = self.string_value or ""
        if not self.data_type.startswith("Number"):
            return text
        try:
            return int(text)
        except ValueError:
            return float(text)


AttributeValue = MessageAttribute | str | int | float | bytes
"""A string is sent as String, a number as Number, bytes as Binary."""


def to_attribute(name: str, value: AttributeValue) -> MessageAttribute:
    match value:
        case MessageAttribute():
            return value
        case str():
            return MessageAttribute("String", string_value=value)
        case bytes():
            return MessageAttribute("Binary", binary_value=value)
        case int() | float() if not isinstance(value, bool):
            return MessageAttribute("Number", string_value=repr(value))
    raise TypeError(
        f"invalid value of the message attribute {name!r}: expected str, int, float, bytes or MessageAttribute, "
        f"not {type(value).__name__}"
    )


# -- messages --------------------------------------------------------------------------------------------------------


class Message(SqsMembers):
    """One delivery of a message."""

    message_id: str
    receipt_handle: str
    body: str
    md5_of_body: str = ""
    attributes: dict[str, str] = {}
    message_attributes: dict[str, MessageAttribute] = {}
    md5_of_message_attributes: str | None = None

    @property
    def text_attributes(self) -> dict[str, str]:
        """The message attributes of type String."""
        return {
            name: attribute.string_value
            for name, attribute in self.message_attributes.items()
            if attribute.string_value is not None and attribute.data_type.startswith("String")
        }

    @property
    def receive_count(self) -> int:
        """How often it was received so far; 0 unless ``ApproximateReceiveCount`` was asked for."""
        return int(self.attributes.get("ApproximateReceiveCount", 0))

    @property
    def group_id(self) -> str | None:
        """None unless it has one and ``MessageGroupId`` was asked for."""
        return self.attributes.get("MessageGroupId")


class SentMessage(SqsMembers):
    message_id: str
    md5_of_message_body: str = ""
    md5_of_message_attributes: str | None = None
    md5_of_message_system_attributes: str | None = None
    sequence_number: str | None = None
    """Of a FIFO queue only."""


# -- batches ---------------------------------------------------------------------------------------------------------


class SendEntry(msgspec.Struct, kw_only=True):
    """A message to send. ``id`` names it in the result; without one it is its place: "0", "1", ..."""

    body: str
    id: str | None = None
    delay_seconds: int | None = None
    message_attributes: dict[str, AttributeValue] | None = None
    message_system_attributes: dict[str, AttributeValue] | None = None
    message_group_id: str | None = None
    message_deduplication_id: str | None = None


class DeleteEntry(msgspec.Struct):
    receipt_handle: str
    id: str | None = None


class VisibilityEntry(msgspec.Struct):
    receipt_handle: str
    visibility_timeout: int
    id: str | None = None


class DoneEntry(SqsMembers):
    """An entry of a batch that was deleted or changed."""

    id: str


class SentEntry(SentMessage, kw_only=True):
    """An entry of a batch that was sent."""

    id: str


class FailedEntry(SqsMembers):
    """An entry of a batch that was refused. ``sender_fault``: it would be refused again."""

    id: str
    code: str
    sender_fault: bool = False
    message: str = ""


E = TypeVar("E")


class BatchResult(SqsMembers, Generic[E]):
    """Each entry is in one of the two: a batch can succeed in part."""

    successful: list[E] = []
    failed: list[FailedEntry] = []


# -- queues and move tasks -------------------------------------------------------------------------------------------


class QueuePage(SqsMembers):
    """``next_token``: None if this is the last page."""

    queue_urls: list[str] = []
    next_token: str | None = None


class MoveTask(SqsMembers):
    """``started_timestamp``: in milliseconds. ``task_handle``: only while it runs."""

    status: str
    source_arn: str
    started_timestamp: int = 0
    approximate_number_of_messages_moved: int = 0
    approximate_number_of_messages_to_move: int | None = None
    task_handle: str | None = None
    destination_arn: str | None = None
    max_number_of_messages_per_second: int | None = None
    failure_reason: str | None = None


# -- answers of which an action returns one member -------------------------------------------------------------------


class Nothing(SqsMembers):
    pass


class FoundUrl(SqsMembers):
    queue_url: str


class FoundAttributes(SqsMembers):
    attributes: dict[str, str] = {}


class FoundTags(SqsMembers):
    tags: dict[str, str] = {}


class ReceivedMessages(SqsMembers):
    messages: list[Message] = []


class StartedTask(SqsMembers):
    task_handle: str


class CancelledTask(SqsMembers):
    approximate_number_of_messages_moved: int = 0


class FoundTasks(SqsMembers):
    results: list[MoveTask] = []


class DeadLetterSources(msgspec.Struct, rename={"queue_urls": "queueUrls", "next_token": "NextToken"}):
    """A page of them on the wire, where SQS has another name for the list."""

    queue_urls: list[str] = []
    next_token: str | None = None
