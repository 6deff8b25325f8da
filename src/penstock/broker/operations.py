"""What becomes of one message that an operator changes, and why that may not be possible.

A decision is made without changing anything; the caller adds it to the open commit, or not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import partial
from typing import NamedTuple

import msgspec

from penstock.broker.delivery import Destination, QueueDelivery
from penstock.broker.handover import Cause, Departed
from penstock.broker.history import DEAD_LETTERED, DELETED, EDITED, MOVED, RELEASED, EventKind
from penstock.broker.live_queue import LiveQueue
from penstock.broker.quotas import Quotas
from penstock.broker.shard import Shard
from penstock.errors import (
    ContentDamaged,
    KeyUnavailable,
    MessageNotAvailable,
    NotPossible,
    PenstockError,
    QueueMissing,
)
from penstock.names import Arn, QueueName
from penstock.queues.messages import Attribute, decode_content, encode_content, entry_of
from penstock.store.changes import EntryRow

Destinations = Mapping[QueueName, Destination | PenstockError]
"""The queues that messages go to, or why they take none."""


class Edit(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be changed of a message. None: it stays as it is."""

    body: str | None = None
    attributes: dict[str, Attribute] | None = None  # instead of all that it has
    delay_ms: int | None = None  # from now on; 0: it is visible at once
    group: str | None = None  # "": it belongs to none


class Operation(StrEnum):
    """What can be done with many messages at once."""

    DELETE = "delete"
    MOVE = "move"
    COPY = "copy"
    DEAD_LETTER = "dead-letter"
    REDRIVE = "redrive"
    RELEASE = "release"
    RESET = "reset"


WITH_CONTENTS = (Operation.MOVE, Operation.COPY, Operation.REDRIVE, Operation.RESET)


class StoredMessages(NamedTuple):
    """What the store has of some messages."""

    rows: dict[int, EntryRow]
    contents: dict[int, bytes | KeyUnavailable]

    def content(self, row: EntryRow) -> bytes:
        """Raises KeyUnavailable if it cannot be decrypted, and ContentDamaged if it is damaged."""
        content = self.contents.get(row.seq)
        if content is None:
            raise ContentDamaged
        if isinstance(content, KeyUnavailable):
            raise content
        return content


class Decision(NamedTuple):
    change: Callable[[], Departed | None]  # adds it to the open commit
    event: tuple[EventKind, str | None] | None  # for the history of the message, with its detail


Decide = Callable[[EntryRow, int], Decision]
"""``decide(row, now_ms)`` says how one message is to be changed, or raises PenstockError."""


class Operations:
    def __init__(self, shard: Shard, delivery: QueueDelivery, quotas: Quotas) -> None:
        self._shard = shard
        self._delivery = delivery
        self._quotas = quotas

    def edit(
        self, queue: LiveQueue, edit: Edit, found: StoredMessages, row: EntryRow, now_ms: int
    ) -> Decision:
        fifo, entry, content = queue.settings.fifo, entry_of(row), None
        if edit.delay_ms is not None:
            if fifo:  # SQS: the delay is the queue's, never the message's
                raise NotPossible("a message of a FIFO queue has the delay of its queue, and none of its own")
            if edit.delay_ms and row.receives:
                raise NotPossible("a message that was received cannot be delayed: reset it first")
            entry.due_ms = now_ms + edit.delay_ms if edit.delay_ms else 0
        if edit.group is not None:
            if fifo and not edit.group:
                raise NotPossible("every message of a FIFO queue has a group")
            entry.group = edit.group or None
        if edit.body is not None or edit.attributes is not None or entry.group != row.group:
            content = self._edited_content(queue, edit, found.content(row))
        changed = [name for name in edit.__struct_fields__ if getattr(edit, name) is not None]
        detail = ", ".join(changed).replace("delay_ms", "delay")
        return Decision(partial(self._shard.changes.edit, row, entry, content), (EDITED, detail))

    def _edited_content(self, queue: LiveQueue, edit: Edit, content: bytes) -> bytes:
        before = decode_content(content)
        after = msgspec.structs.replace(
            before,
            body=before.body if edit.body is None else edit.body,
            attributes=before.attributes if edit.attributes is None else edit.attributes or None,
            edited=True,
        )
        most = queue.settings.message_bytes_max
        if after.bytes_sent > max(most, before.bytes_sent):
            raise NotPossible(f"the message would be larger than the {most} bytes that the queue accepts")
        edited = encode_content(after)
        if self._quotas.bounds_messages and len(edited) > len(content):
            self._quotas.check(queue.name.account, 0, len(edited) - len(content))
        return edited

    def reposition(self, position: int | None, row: EntryRow, now_ms: int) -> Decision:
        """``position``: None: where it is."""
        entry = entry_of(row)
        entry.position = row.position if position is None else position
        return Decision(partial(self._shard.changes.edit, row, entry), (EDITED, "place in the queue"))

    def release(self, queue: LiveQueue, row: EntryRow, now_ms: int) -> Decision:
        entry, settings = entry_of(row), queue.settings
        entry.due_ms = 0
        if settings.fifo and row.enqueued_ms + settings.delay_ms > now_ms:
            # SQS: the delay is the queue's, and counts from the time of the send.
            entry.enqueued_ms = now_ms - settings.delay_ms
            if entry.enqueued_ms <= queue.rules.backlog.expiry_cutoff_ms(now_ms):
                raise NotPossible("the retention of the queue is not longer than its delay")
        return Decision(partial(self._shard.changes.edit, row, entry), (RELEASED, None))

    def reset(self, found: StoredMessages, row: EntryRow, now_ms: int) -> Decision:
        content = decode_content(found.content(row))
        entry = entry_of(row)
        entry.receives = entry.receives_before = entry.first_received_ms = entry.due_ms = 0
        entry.enqueued_ms = now_ms
        sent_now = msgspec.structs.replace(content, sent_ms=self._shard.clock.wall_ms())
        change = partial(self._shard.changes.edit, row, entry, encode_content(sent_now))
        return Decision(change, (EDITED, "reset"))

    def delete(self, queue: LiveQueue, row: EntryRow, now_ms: int) -> Decision:
        return Decision(partial(self._shard.changes.remove, queue.id, row), (DELETED, None))

    def send(
        self,
        queue: LiveQueue,
        found: StoredMessages,
        operation: Operation,
        target: QueueName | None,
        destinations: Destinations,
        task: str | None,
        row: EntryRow,
        now_ms: int,
    ) -> Decision:
        name = destination_name(queue, row.source, operation, target)
        if name is None:
            raise NotPossible(
                "the queue has no dead-letter queue"
                if operation is Operation.DEAD_LETTER
                else "the message does not say which queue it came from: move it"
            )
        to, redrive = destinations.get(name), queue.settings.redrive
        if to is None:
            raise MessageNotAvailable  # it, or its dead-letter queue, was not there when the destinations were found
        if isinstance(to, PenstockError):
            raise to
        if to.queue is not None and to.queue.deleted:
            raise QueueMissing
        delivery = self._delivery
        if operation is not Operation.COPY and name == queue.name:
            raise NotPossible("the message is in this queue already")
        if operation is not Operation.COPY and redrive is not None and redrive.target == name:
            change = partial(delivery.dead_letter, entry_of(row), queue, name, now_ms, task)
            return Decision(change, (DEAD_LETTERED, f"to {name.name}"))
        content = found.content(row)
        to.check(row, content)
        delivery.check_quota(Cause.COPY if operation is Operation.COPY else Cause.MOVE, to, content)
        if operation is Operation.COPY:
            return Decision(partial(delivery.copy, row, content, queue, to, task, now_ms), None)
        return Decision(
            partial(delivery.move, row, content, queue, to, task, now_ms), (MOVED, f"to {name.name}")
        )


def destination_name(
    queue: LiveQueue, source: str | None, operation: Operation, target: QueueName | None
) -> QueueName | None:
    """The name of the queue that a message goes to, or None if it has no destination. ``source``: the ARN of the
    queue that the message came from."""
    if operation is Operation.DEAD_LETTER:
        return None if queue.settings.redrive is None else queue.settings.redrive.target
    if operation is Operation.REDRIVE:
        arn = Arn.parse(source or "")
        return None if arn is None else arn.queue
    assert target is not None, "a move and a copy have a target"
    return target
