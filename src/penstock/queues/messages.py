"""A message in each of its shapes: as sent, as stored, as delivered and as received.

What does not change between edits (body, attributes, ids) is encoded once into bytes, and memory and store hold only
those bytes. What changes (due time, receive count, position) is the :class:`Entry`, which is small: thousands fit in
memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from penstock.errors import ContentDamaged
from penstock.names import Requester
from penstock.store.changes import POSITION_GAP, EntryRow

if TYPE_CHECKING:
    Value = str | bytes
else:
    Value = Any  # msgspec cannot decode a union of str and bytes; msgpack itself tells them apart


class Attribute(msgspec.Struct, frozen=True, array_like=True, gc=False):
    type: str
    value: Value


class Content(msgspec.Struct, frozen=True, array_like=True):
    """The part of a message that its sender gave, and its id.

    It is stored as a msgpack array: the order of the fields is the stored format. New ones come last, with a
    default."""

    id: str
    body: str
    sender: str
    sent_ms: int
    attributes: dict[str, Attribute] | None = None
    trace: str | None = None
    dedup_id: str | None = None
    edited: bool = False  # whether it is not as its sender gave it any more

    @property
    def bytes_sent(self) -> int:
        """What counts against the maximum size of messages."""
        return bytes_sent(self.body, self.attributes)


def bytes_sent(body: str, attributes: Mapping[str, Attribute] | None) -> int:
    """What counts against the maximum size of messages."""
    size = len(body.encode())
    for name, attribute in (attributes or {}).items():
        value = attribute.value
        size += len(name.encode()) + len(attribute.type)
        size += len(value.encode() if isinstance(value, str) else value)
    return size


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Content)
encode_content = _encoder.encode

UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""The errors of decoding stored data that is damaged."""

# Raises one of UNDECODABLE. For a receive, whose path has no call to spare.
decode_content_quickly = _decoder.decode


def decode_content(content: bytes) -> Content:
    """Decodes a stored content. Raises ContentDamaged."""
    try:
        return decode_content_quickly(content)
    except UNDECODABLE:
        raise ContentDamaged from None


class Outgoing(msgspec.Struct, frozen=True, kw_only=True):
    """A valid message as its sender hands it in."""

    body: str
    sender: str
    attributes: dict[str, Attribute] | None = None
    trace: str | None = None
    delay_ms: int | None = None
    group: str | None = None
    dedup_id: str | None = None
    size: int = 0  # of body and attributes, in bytes, for the metrics
    insert_at: int | None = None  # where in the body each of several queues gets a text of its own

    def with_insertion(self, text: str) -> Outgoing:
        """The message that one queue gets: with this text in its body."""
        at = self.insert_at
        assert at is not None, "the message has a place for it"
        body = f"{self.body[:at]}{text}{self.body[at:]}"
        size = self.size + len(text.encode())
        return msgspec.structs.replace(self, body=body, size=size, insert_at=None)


class Sent(msgspec.Struct, frozen=True):
    id: str
    sequence: int | None = None


class State(IntEnum):
    """Where memory has an entry. It is not stored: at load it follows from ``due_ms`` and ``receives``."""

    READY = 0
    DELAYED = 1
    IN_FLIGHT = 2
    GONE = 3


class Hold(msgspec.Struct, frozen=True, gc=False):
    """A receive that hides messages. What hides one until another time is not this receive any more."""

    requester: Requester | None
    since_ms: int
    until_ms: int
    extended: int = 0  # how often the time was changed


class Entry(msgspec.Struct, gc=False):
    """A message in memory. ``seq`` identifies it for life; ``position`` is its place in the queue it is in."""

    seq: int
    position: int
    group: str | None
    enqueued_ms: int
    due_ms: int = 0
    receives: int = 0
    receives_before: int = 0  # counted in other queues: the redrive policy counts only receives in this one
    first_received_ms: int = 0
    source: str | None = None  # ARN of the queue it was dead-lettered from
    content: bytes | None = None  # None: only the store has it
    size: int = 0  # of the content
    version: int = 1
    state: State = State.READY
    commit: int = 0  # number of the commit that carries its last change
    hold: Hold | None = None  # by the last receive, where it is known


def as_in_memory(row: EntryRow, entry: Entry) -> EntryRow:
    """A stored message as memory has it, which may be ahead of the store."""
    return row._replace(
        position=entry.position, enqueued_ms=entry.enqueued_ms, due_ms=entry.due_ms, receives=entry.receives,
        receives_before=entry.receives_before, first_received_ms=entry.first_received_ms, source=entry.source,
    )  # fmt: skip


def entry_of(row: EntryRow) -> Entry:
    """A message as the store has it, without its content."""
    return Entry(
        row.seq, row.position, row.group, row.enqueued_ms, row.due_ms, row.receives, row.receives_before,
        row.first_received_ms, row.source, None, row.size, row.version,
    )  # fmt: skip


def position_of(number: int) -> int:
    """The position at the end of a queue that belongs to a number of the shard's counter."""
    return number * POSITION_GAP


def sequence_of(position: int) -> int:
    """The sequence number that clients of a FIFO queue see; the inverse of :func:`position_of`."""
    return position // POSITION_GAP


class Delivery(msgspec.Struct, frozen=True, gc=False):
    """One message handed out: what its receiver gets, and what is needed to take it back."""

    seq: int
    position: int
    receives: int
    first_received_ms: int
    received_ms: int
    group: str | None
    source: str | None
    content: bytes | None  # None: only the store has it


class ReceiveResult(NamedTuple):
    """The result of a receive."""

    deliveries: list[Delivery]
    dead: list[Entry]  # received too often: they left this queue and go to the dead-letter queue


class Received(msgspec.Struct, frozen=True):
    """A message as its receiver gets it."""

    content: Content
    handle: str
    receives: int
    first_received_ms: int
    group: str | None
    sequence: int | None
    source: str | None


class Counts(msgspec.Struct, frozen=True):
    visible: int = 0
    in_flight: int = 0
    delayed: int = 0
