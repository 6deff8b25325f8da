"""When a message becomes a dead letter, and what a message keeps that changes queues.

A dead letter keeps what it was, a moved message starts again.
"""

from __future__ import annotations

import msgspec

from penstock.queues.deduplication import content_id
from penstock.queues.messages import Entry, State, decode_content, encode_content, position_of
from penstock.queues.settings import QueueSettings


def is_dead_letter(entry: Entry, receives_max: int) -> bool:
    """Whether a message is a dead letter. SQS: a message that was received ``receives_max`` times in this queue goes
    to the dead-letter queue when the next receive finds it, instead of being delivered."""
    return entry.receives - entry.receives_before >= receives_max


def dead_letter(entry: Entry, number: int, source_arn: str, source: QueueSettings, now_ms: int) -> Entry:
    """A message that was received too often, as the dead-letter queue gets it.

    SQS: it keeps its id, body, attributes, receive count and send time, and records where it came from. From a
    standard queue its retention counts from the first send; from a FIFO queue it starts again."""
    return msgspec.structs.replace(
        entry,
        state=State.READY,
        position=position_of(number),
        due_ms=0,
        receives_before=entry.receives,
        source=source_arn,
        enqueued_ms=now_ms if source.fifo else entry.enqueued_ms,
    )


def moved_message(
    entry: Entry, content: bytes, number: int, id: str | None, to: QueueSettings, now_ms: int, wall_ms: int
) -> Entry:
    """A message that a move task takes to another queue, or an operator.

    SQS: it is a new message with a new id, enqueue time and retention, and receive count zero, so that it is not
    dead-lettered again at once. ``id`` is None if an operator moves it: then it keeps its id. Raises
    ContentDamaged."""
    before = decode_content(content)
    dedup_id = before.dedup_id or (content_id(before.body) if to.fifo else None)
    renewed = msgspec.structs.replace(before, id=id or before.id, sent_ms=wall_ms, dedup_id=dedup_id)
    delay_ms = 0 if to.fifo else to.delay_ms
    return Entry(
        number, position_of(number), entry.group, now_ms, now_ms + delay_ms if delay_ms else 0,
        content=encode_content(renewed),
    )  # fmt: skip
