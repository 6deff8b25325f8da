"""What the actions of SQS return, and what batches are made of.

Fields have the names of the members of SQS in snake_case.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Generic, TypeVar

import msgspec


def _member(field: str) -> str:
    """``md5_of_body``: ``MD5OfBody``."""
    return "".join("MD5" if part == "md5" else part.capitalize() for part in field.split("_"))


class SqsMembers(msgspec.Struct, rename=_member, omit_defaults=True):
    """Absent members are None or empty, and are not written."""


# -- message attributes ----------------------------------------------------------------------------------------------


class MessageAttribute(msgspec.Struct, rename=_member, omit_defaults=True, frozen=True):
    """A value with its type, which may have a label of its own: ``Number.int``, ``String.uuid``.

        await client.send_message("orders", "latte", message_attributes={"id": MessageAttribute("Number.int", "7")})

    :param data_type: ``String``, ``Number`` or ``Binary``, perhaps with a label.
    :param string_value: The value of a String or a Number. None by default.
    :param binary_value: The value of a Binary. None by default.
    """

    data_type: str
    string_value: str | None = None
    binary_value: bytes | None = None

    @property
    def value(self) -> str | int | float | bytes:
        """The value as Python has it: a number for Number, bytes for Binary, else the text."""
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


class Notification(msgspec.Struct, frozen=True, kw_only=True):
    """A message that came from a topic, as its publisher gave it.

        def handle(message: Message) -> None:
            if message.notification is not None:
                print(message.notification.topic_arn, message.notification.attributes.get("table"))

    :param message_id: The id that the topic gave the message. It is the same in all queues.
    :param topic_arn: The ARN of the topic.
    :param message: The text.
    :param published_at: When it was published.
    :param subject: The subject. None by default.
    :param attributes: The message attributes by name: texts, numbers, bytes, and lists. Empty by default.
    :param sequence_number: The number of the message, on a FIFO topic. None by default.
    :param is_replayed: Whether it comes from the archive of the topic. False by default.
    """

    message_id: str
    topic_arn: str
    message: str
    published_at: datetime
    subject: str | None = None
    attributes: Mapping[str, Any] = {}
    sequence_number: str | None = None
    is_replayed: bool = False

    @property
    def topic(self) -> str:
        """The name of the topic."""
        return self.topic_arn.rpartition(":")[2]


class Message(SqsMembers):
    """One delivery of a message.

        for message in await client.receive_message("orders", message_attribute_names=["table"]):
            print(message.body, message.message_attributes["table"].value)

    :param message_id: The id of the message.
    :param receipt_handle: What deletes this delivery, or changes its visibility.
    :param body: The text of the message.
    :param md5_of_body: The MD5 that the server has computed. Empty by default.
    :param attributes: The system attributes that were asked for. Empty by default.
    :param message_attributes: The message attributes that were asked for. Empty by default.
    :param md5_of_message_attributes: The MD5 of these attributes. None by default.
    :param notification: What a topic said about the message, where a consumer has opened its envelope. None by
        default.
    """

    message_id: str
    receipt_handle: str
    body: str
    md5_of_body: str = ""
    attributes: dict[str, str] = {}
    message_attributes: dict[str, MessageAttribute] = {}
    md5_of_message_attributes: str | None = None
    notification: Notification | None = None

    @property
    def topic(self) -> str | None:
        """The name of the topic that the message came from; None if no envelope was opened."""
        return None if self.notification is None else self.notification.topic

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
        """The number of times it was received so far; 0 unless ``ApproximateReceiveCount`` was asked for."""
        return int(self.attributes.get("ApproximateReceiveCount", 0))

    @property
    def group_id(self) -> str | None:
        """The message group; None unless it has one and ``MessageGroupId`` was asked for."""
        return self.attributes.get("MessageGroupId")


class SentMessage(SqsMembers):
    """The server's answer to a message that was sent.

    :param message_id: The id of the message.
    :param md5_of_message_body: The MD5 that the server has computed. Empty by default.
    :param md5_of_message_attributes: The MD5 of the message attributes. None by default.
    :param md5_of_message_system_attributes: The MD5 of the system attributes. None by default.
    :param sequence_number: The number of the message, on a FIFO queue only. None by default.
    """

    message_id: str
    md5_of_message_body: str = ""
    md5_of_message_attributes: str | None = None
    md5_of_message_system_attributes: str | None = None
    sequence_number: str | None = None


# -- batches ---------------------------------------------------------------------------------------------------------


class SendEntry(msgspec.Struct, kw_only=True):
    """A message of a batch to send.

        latte = SendEntry(body="latte", delay_seconds=5, message_attributes={"table": 7})
        result = await client.send_message_batch("orders", [latte, SendEntry(body="espresso")])

    :param body: The text of the message.
    :param id: Names the entry in the result; None (the default): its place, "0", "1", ...
    :param delay_seconds: How long the message is hidden at first; None (the default): as the queue says.
    :param message_attributes: Attributes of the message. None by default.
    :param message_system_attributes: System attributes, such as ``AWSTraceHeader``. None by default.
    :param message_group_id: The message group. None by default.
    :param message_deduplication_id: The deduplication id, on a FIFO queue. None by default.
    """

    body: str
    id: str | None = None
    delay_seconds: int | None = None
    message_attributes: dict[str, AttributeValue] | None = None
    message_system_attributes: dict[str, AttributeValue] | None = None
    message_group_id: str | None = None
    message_deduplication_id: str | None = None


class DeleteEntry(msgspec.Struct):
    """A message of a batch to delete.

        entries = [DeleteEntry(message.receipt_handle, id=message.message_id) for message in messages]
        result = await client.delete_message_batch("orders", entries)

    :param receipt_handle: The receipt handle of the last receive.
    :param id: Names the entry in the result; None (the default): its place, "0", "1", ...
    """

    receipt_handle: str
    id: str | None = None


class VisibilityEntry(msgspec.Struct):
    """A message of a batch whose visibility is changed.

        entries = [VisibilityEntry(message.receipt_handle, 60) for message in messages]
        result = await client.change_message_visibility_batch("orders", entries)

    :param receipt_handle: The receipt handle of the last receive.
    :param visibility_timeout: Seconds from now on; 0 makes the message visible at once.
    :param id: Names the entry in the result; None (the default): its place, "0", "1", ...
    """

    receipt_handle: str
    visibility_timeout: int
    id: str | None = None


class DoneEntry(SqsMembers):
    """An entry of a batch that was deleted or changed.

    :param id: The id of the entry.
    """

    id: str


class SentEntry(SentMessage, kw_only=True):
    """An entry of a batch that was sent: the members of :class:`SentMessage`, and its id.

    :param id: The id of the entry.
    """

    id: str


class FailedEntry(SqsMembers):
    """An entry of a batch that was refused.

    :param id: The id of the entry.
    :param code: The error code.
    :param sender_fault: Whether it would be refused again. False by default.
    :param message: The text of the server. Empty by default.
    """

    id: str
    code: str
    sender_fault: bool = False
    message: str = ""


E = TypeVar("E")


class BatchResult(SqsMembers, Generic[E]):
    """The result of a batch, which can succeed in part: each entry is in one of the two lists.

        result = await client.send_message_batch("orders", ["latte", "espresso"])
        for entry in result.failed:
            print(entry.id, entry.code, entry.message)

    :param successful: The entries that were done. Empty by default.
    :param failed: The entries that were refused. Empty by default.
    """

    successful: list[E] = []
    failed: list[FailedEntry] = []


# -- queues and move tasks -------------------------------------------------------------------------------------------


class QueuePage(SqsMembers):
    """A page of queues.

    :param queue_urls: The URLs of the queues. Empty by default.
    :param next_token: What asks for the next page; None (the default) on the last page.
    """

    queue_urls: list[str] = []
    next_token: str | None = None


class MoveTask(SqsMembers):
    """A task that moves the messages of a dead-letter queue.

    :param status: ``RUNNING``, ``COMPLETED``, ``CANCELLING``, ``CANCELLED`` or ``FAILED``.
    :param source_arn: The ARN of the dead-letter queue.
    :param started_timestamp: When it started, in milliseconds since 1970. 0 by default.
    :param approximate_number_of_messages_moved: How many messages were moved. 0 by default.
    :param approximate_number_of_messages_to_move: How many there were at the start. None by default.
    :param task_handle: What cancels the task, only while it runs. None by default.
    :param destination_arn: The ARN of the target, if there is one for all messages. None by default.
    :param max_number_of_messages_per_second: The speed that was asked for. None by default.
    :param failure_reason: Why the task failed. None by default.
    """

    status: str
    source_arn: str
    started_timestamp: int = 0
    approximate_number_of_messages_moved: int = 0
    approximate_number_of_messages_to_move: int | None = None
    task_handle: str | None = None
    destination_arn: str | None = None
    max_number_of_messages_per_second: int | None = None
    failure_reason: str | None = None


# -- responses of which the client returns a single member ---------------------------------------------------------


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
