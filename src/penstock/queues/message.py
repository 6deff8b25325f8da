"""A message in its three shapes: as sent, as kept, and as received.

What never changes after the send (body, attributes, ids) is encoded once into bytes, which is all that memory and
store hold. What changes (due time, receive count, position) is the :class:`Entry`, small enough that a window of
thousands costs little.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    Value = str | bytes
else:
    Value = Any  # msgspec reads no union of text and bytes; msgpack itself tells them apart


class Attribute(msgspec.Struct, frozen=True, array_like=True, gc=False):
    type: str
    value: Value


class Content(msgspec.Struct, frozen=True, array_like=True):
    """The part of a message that never changes."""

    id: str
    body: str
    sender: str
    sent_ms: int
    attributes: dict[str, Attribute] | None = None
    trace: str | None = None
    dedup_id: str | None = None


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Content)
encode_content = _encoder.encode
decode_content = _decoder.decode


class Outgoing(msgspec.Struct, frozen=True, kw_only=True):
    """A message as its sender hands it in; already found valid."""

    body: str
    sender: str
    attributes: dict[str, Attribute] | None = None
    trace: str | None = None
    delay_ms: int | None = None
    group: str | None = None
    dedup_id: str | None = None


class Sent(msgspec.Struct, frozen=True):
    id: str
    sequence: int | None = None


class State(IntEnum):
    """Where memory holds an entry. Never stored: the store's ``due_ms`` and ``receives`` say it again at load."""

    READY = 0
    DELAYED = 1
    IN_FLIGHT = 2
    GONE = 3


class Entry(msgspec.Struct, gc=False):
    """A message in memory. ``seq`` is its name for life; ``position`` its place in the queue it is in now."""

    seq: int
    position: int
    group: str | None
    enqueued_ms: int
    due_ms: int = 0
    receives: int = 0
    receives_before: int = 0  # counted elsewhere, before it came to this queue: redrive counts anew
    first_received_ms: int = 0
    source: str | None = None  # ARN of the queue it was dead-lettered from
    content: bytes | None = None  # None: only the store has it
    state: State = State.READY
    commit: int = 0  # the commit that carries its last change


class Received(msgspec.Struct, frozen=True):
    """A message as a receiver gets it."""

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
