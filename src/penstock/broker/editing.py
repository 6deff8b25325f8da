"""Changes of messages that are not in flight, without receiving them.

An edit is written to the store by an ordinary commit, and the memory of the queue is loaded again behind it: edits
are rare, and no state of memory has to be patched. Edits of a shard are made one after the other, so that two of them
cannot choose the same position, and no version changes between the check and the commit.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Sequence
from enum import StrEnum
from functools import partial
from typing import Any, NamedTuple, TypeVar

import msgspec

from penstock.broker.encryption import contents_or_errors
from penstock.broker.history import (
    DEAD_LETTERED,
    DELETED,
    EDITED,
    MOVED,
    RELEASED,
    EventKind,
    MessageHistory,
)
from penstock.broker.live_queue import LiveQueue, Outcomes
from penstock.broker.quotas import Quotas
from penstock.broker.shard import Shard
from penstock.broker.transfers import Destination, Transfers
from penstock.errors import (
    ContentOutdated,
    KeyUnavailable,
    MessageInFlight,
    MessageNotAvailable,
    NoRoomBetween,
    NotPossible,
    PenstockError,
    QueueMissing,
    Unreachable,
)
from penstock.names import Arn, QueueName, Requester
from penstock.promise import Promise
from penstock.queues.messages import Attribute, State, decode_content, encode_content, entry_of
from penstock.store.changes import POSITION_GAP, EntryRow
from penstock.store.port import Cursor, Order, Selection, Store

T = TypeVar("T")

_NEIGHBOURS_MAX = 1000


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


_WITH_CONTENTS = (Operation.MOVE, Operation.COPY, Operation.REDRIVE, Operation.RESET)


class StoredMessages(NamedTuple):
    """What the store has of some messages."""

    rows: dict[int, EntryRow]
    contents: dict[int, bytes | KeyUnavailable]

    def content(self, row: EntryRow) -> bytes:
        """Raises KeyUnavailable if it cannot be decrypted, and MessageNotAvailable if it is damaged."""
        content = self.contents.get(row.seq)
        if content is None:
            raise MessageNotAvailable
        if isinstance(content, KeyUnavailable):
            raise content
        return content


class Terms(NamedTuple):
    """On what terms messages are changed."""

    if_version: int | None = None
    by: Requester | None = None
    task: str | None = None  # the bulk task that wants it
    in_commit: Callable[[Outcomes], None] | None = None
    dry_run: bool = False


class Decision(NamedTuple):
    change: Callable[[], None]  # adds it to the open commit
    event: tuple[EventKind, str | None] | None  # for the history of the message, with its detail


Decide = Callable[[EntryRow, int], Decision]
"""``decide(row, now_ms)`` says how one message is to be changed, or raises PenstockError."""


class Editing:
    def __init__(self, shard: Shard, transfers: Transfers, quotas: Quotas, history: MessageHistory) -> None:
        self._shard = shard
        self._transfers = transfers
        self._quotas = quotas
        self._history = history
        self._last: Promise[None] | None = None  # done when the edit under way is

    async def list(
        self,
        queue: LiveQueue,
        which: Selection,
        order: Order = Order.POSITION,
        *,
        after: Cursor | None = None,
        rows_max: int,
    ) -> list[EntryRow]:
        """Messages in any state, without their content. ``which`` selects among those of this queue."""
        shard = self._shard
        shard.write_later()
        await shard.settled()
        which = which._replace(queue=queue.id, after=max(which.after, queue.record.purged_to))
        return await shard.read(partial(shard.store.select, which, order, after=after, rows_max=rows_max))

    # Each of these raises MessageNotAvailable, MessageInFlight, or ContentOutdated if the message does not have the
    # version ``if_version``; and NotPossible. Then nothing is changed. A message that stays in its queue has the next
    # version afterwards. ``by``: who wants it, for the history of the message.

    async def edit(
        self,
        queue: LiveQueue,
        seq: int,
        edit: Edit,
        if_version: int | None = None,
        *,
        by: Requester | None = None,
    ) -> None:
        async def change() -> Outcomes:
            queue.check_key()
            self._shard.check_sends()
            found = await self._read(queue, [seq], with_contents=True)
            decide = partial(self._edit, queue, edit, found)
            return await self._decide(queue, [seq], found, decide, Terms(if_version, by))

        _raise_first(await self._alone(queue, change))

    async def move_before(
        self,
        queue: LiveQueue,
        seq: int,
        other: int,
        if_version: int | None = None,
        *,
        by: Requester | None = None,
    ) -> None:
        """Put a message directly before another one. On a FIFO queue only the order within a group has an effect."""

        async def change() -> Outcomes:
            found = await self._read(queue, [seq, other])
            if other not in found.rows:
                raise MessageNotAvailable
            place = found.rows[other].position
            position = None if other == seq else await self._position_before(queue, place)
            return await self._reposition(queue, found, seq, position, Terms(if_version, by))

        _raise_first(await self._alone(queue, change))

    async def move_to_front(
        self, queue: LiveQueue, seq: int, if_version: int | None = None, *, by: Requester | None = None
    ) -> None:
        async def change() -> Outcomes:
            found, shard = await self._read(queue, [seq]), self._shard
            everything = Selection(queue.id, queue.record.purged_to)
            first = await shard.read(partial(shard.store.select, everything, rows_max=1))
            is_first = not first or first[0].seq == seq
            position = None if is_first else await self._position_before(queue, first[0].position)
            return await self._reposition(queue, found, seq, position, Terms(if_version, by))

        _raise_first(await self._alone(queue, change))

    async def move_to_back(
        self, queue: LiveQueue, seq: int, if_version: int | None = None, *, by: Requester | None = None
    ) -> None:
        async def change() -> Outcomes:
            found = await self._read(queue, [seq])
            return await self._reposition(
                queue, found, seq, self._shard.next_position(), Terms(if_version, by)
            )

        _raise_first(await self._alone(queue, change))

    async def release(
        self, queue: LiveQueue, seq: int, if_version: int | None = None, *, by: Requester | None = None
    ) -> None:
        """A delayed message becomes visible now."""
        _raise_first(await self._apply(queue, [seq], Operation.RELEASE, None, Terms(if_version, by)))

    async def reset(
        self, queue: LiveQueue, seq: int, if_version: int | None = None, *, by: Requester | None = None
    ) -> None:
        """Receive counts and times as if it had just been sent. It keeps its place."""
        _raise_first(await self._apply(queue, [seq], Operation.RESET, None, Terms(if_version, by)))

    async def delete(
        self, queue: LiveQueue, seq: int, if_version: int | None = None, *, by: Requester | None = None
    ) -> None:
        _raise_first(await self._apply(queue, [seq], Operation.DELETE, None, Terms(if_version, by)))

    async def send_to(
        self,
        queue: LiveQueue,
        seq: int,
        target: QueueName,
        if_version: int | None = None,
        *,
        by: Requester | None = None,
    ) -> None:
        """To another queue, of whichever shard. It keeps its id. In the dead-letter queue of its queue it is a dead
        letter. Raises QueueMissing, KeyUnavailable or Unreachable too."""
        _raise_first(await self._apply(queue, [seq], Operation.MOVE, target, Terms(if_version, by)))

    async def apply(
        self,
        queue: LiveQueue,
        seqs: Sequence[int],
        operation: Operation,
        target: QueueName | None = None,
        *,
        by: Requester | None = None,
        task: str | None = None,
        in_commit: Callable[[Outcomes], None] | None = None,
        dry_run: bool = False,
    ) -> Outcomes:
        """The same with many messages in one commit. Their contents are in memory meanwhile, except where they are
        deleted, released or dead-lettered. Raises Unreachable if it is not known whether a target exists.

        ``target``: where they are moved or copied to. One outcome for each, in their order; None: it is done.
        ``task``: the bulk task that wants it, to be notified of messages that another shard refuses. ``in_commit`` is
        called with the outcomes while the commit is open, and may add to it. ``dry_run``: nothing is changed."""
        terms = Terms(None, by, task, in_commit, dry_run)
        return await self._apply(queue, seqs, operation, target, terms)

    # -- steps of an edit ------------------------------------------------------------------------------------

    async def _alone(self, queue: LiveQueue, change: Callable[[], Coroutine[Any, None, T]]) -> T:
        while self._last is not None:
            await self._last
        self._last = last = Promise[None]()
        backlog = queue.rules.backlog
        backlog.lookups += 1  # what memory knows of these messages stays there until it is decided
        try:
            self._shard.check_not_ended()
            self._shard.check_owned()
            self._shard.write_later()
            await self._shard.settled()  # the store is as memory decided
            return await change()
        finally:
            backlog.lookups -= 1
            self._last = None
            last.resolve(None)

    async def _apply(
        self,
        queue: LiveQueue,
        seqs: Sequence[int],
        operation: Operation,
        target: QueueName | None,
        terms: Terms,
    ) -> Outcomes:
        async def change() -> Outcomes:
            if operation in _WITH_CONTENTS:
                self._shard.check_sends()
            found = await self._read(queue, seqs, with_contents=operation in _WITH_CONTENTS)
            if operation is Operation.RELEASE:
                decide: Decide = partial(self._release, queue)
            elif operation is Operation.RESET:
                decide = partial(self._reset, found)
            elif operation is Operation.DELETE:
                decide = partial(self._delete, queue)
            else:
                names = {_destination_name(queue, row, operation, target) for row in found.rows.values()}
                destinations = await self._destinations(names)
                decide = partial(self._send, queue, found, operation, target, destinations, terms.task)
            changes_queue = operation is not Operation.COPY
            return await self._decide(queue, seqs, found, decide, terms, changes_queue=changes_queue)

        return await self._alone(queue, change)

    async def _read(
        self, queue: LiveQueue, seqs: Sequence[int], *, with_contents: bool = False
    ) -> StoredMessages:
        shard, purged_to = self._shard, queue.record.purged_to
        found = await shard.read(partial(_read, shard.store, queue.id, purged_to, seqs, with_contents))
        await shard.settled()  # memory knows of every message that was read
        return found

    async def _destinations(
        self, names: Iterable[QueueName | None]
    ) -> dict[QueueName, Destination | PenstockError]:
        found: dict[QueueName, Destination | PenstockError] = {}
        for name in names:
            if name is not None:
                try:
                    found[name] = await self._transfers.find(name)
                except Unreachable:
                    raise
                except PenstockError as error:
                    found[name] = error
        return found

    async def _decide(
        self,
        queue: LiveQueue,
        seqs: Sequence[int],
        found: StoredMessages,
        decide: Decide,
        terms: Terms,
        *,
        changes_queue: bool = True,
    ) -> Outcomes:
        """Everything is decided at once, with what memory knows, and written by one commit."""
        shard, if_version = self._shard, terms.if_version
        await queue.memory.load()
        if queue.deleted:
            raise QueueMissing
        now_ms, commit = shard.clock.now_ms(), shard.open_commit
        queue.rules.advance(now_ms, shard.changes)
        outcomes: dict[int, PenstockError | None] = {}
        decisions: dict[int, Decision] = {}
        for seq in dict.fromkeys(seqs):
            try:
                row = _current(queue, found.rows.get(seq), now_ms)
                if if_version is not None and row.version != if_version:
                    raise ContentOutdated(row.version)
                decision = decide(row, now_ms)
                if not terms.dry_run:
                    decision.change()
                    decisions[seq] = decision
                outcomes[seq] = None
            except PenstockError as error:
                outcomes[seq] = error
        if terms.in_commit is not None:
            terms.in_commit([outcomes[seq] for seq in seqs])
        shard.touch(queue)
        if changes_queue and decisions:
            queue.memory.forget()
            queue.memory.reload()
        else:
            queue.decided(now_ms)
        await shard.settled()
        for seq in commit.skipped & outcomes.keys():
            outcomes[seq] = outcomes[seq] or MessageNotAvailable()  # it expired in the store meanwhile
        for seq, (_, event) in decisions.items():
            if event is not None and outcomes[seq] is None:
                self._history.note((shard.index, seq, now_ms, event[0], terms.by, event[1]))
        return [outcomes[seq] for seq in seqs]

    # -- what happens to one message -------------------------------------------------------------------------

    def _edit(
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

    async def _reposition(
        self,
        queue: LiveQueue,
        found: StoredMessages,
        seq: int,
        position: int | None,
        terms: Terms,
    ) -> Outcomes:
        """``position``: None: where it is."""

        def decide(row: EntryRow, now_ms: int) -> Decision:
            entry = entry_of(row)
            entry.position = row.position if position is None else position
            return Decision(partial(self._shard.changes.edit, row, entry), (EDITED, "place in the queue"))

        return await self._decide(queue, [seq], found, decide, terms)

    async def _position_before(self, queue: LiveQueue, position: int) -> int:
        """A position between a message and the one before it."""
        shard = self._shard
        floor = max(queue.record.purged_to, position - POSITION_GAP)
        near = Selection(queue.id, floor)
        rows = await shard.read(partial(shard.store.select, near, rows_max=_NEIGHBOURS_MAX))
        before = [row.position for row in rows if row.position < position]
        chosen = ((before[-1] if before else floor) + position) // 2
        if len(before) == _NEIGHBOURS_MAX or chosen <= (before[-1] if before else floor):
            raise NoRoomBetween
        return chosen

    def _release(self, queue: LiveQueue, row: EntryRow, now_ms: int) -> Decision:
        entry, settings = entry_of(row), queue.settings
        entry.due_ms = 0
        if settings.fifo and row.enqueued_ms + settings.delay_ms > now_ms:
            # SQS: the delay is the queue's, and counts from the time of the send.
            entry.enqueued_ms = now_ms - settings.delay_ms
            if entry.enqueued_ms <= queue.rules.backlog.expiry_cutoff_ms(now_ms):
                raise NotPossible("the retention of the queue is not longer than its delay")
        return Decision(partial(self._shard.changes.edit, row, entry), (RELEASED, None))

    def _reset(self, found: StoredMessages, row: EntryRow, now_ms: int) -> Decision:
        content = decode_content(found.content(row))
        entry = entry_of(row)
        entry.receives = entry.receives_before = entry.first_received_ms = entry.due_ms = 0
        entry.enqueued_ms = now_ms
        sent_now = msgspec.structs.replace(content, sent_ms=self._shard.clock.wall_ms())
        change = partial(self._shard.changes.edit, row, entry, encode_content(sent_now))
        return Decision(change, (EDITED, "reset"))

    def _delete(self, queue: LiveQueue, row: EntryRow, now_ms: int) -> Decision:
        return Decision(partial(self._shard.changes.remove, queue.id, row), (DELETED, None))

    def _send(
        self,
        queue: LiveQueue,
        found: StoredMessages,
        operation: Operation,
        target: QueueName | None,
        destinations: dict[QueueName, Destination | PenstockError],
        task: str | None,
        row: EntryRow,
        now_ms: int,
    ) -> Decision:
        name = _destination_name(queue, row, operation, target)
        if name is None:
            raise NotPossible(
                "the queue has no dead-letter queue"
                if operation is Operation.DEAD_LETTER
                else "the message does not say which queue it came from: move it"
            )
        to, redrive = destinations[name], queue.settings.redrive
        if isinstance(to, PenstockError):
            raise to
        if to.queue is not None and to.queue.deleted:
            raise QueueMissing
        transfers = self._transfers
        if operation is not Operation.COPY and name == queue.name:
            raise NotPossible("the message is in this queue already")
        if operation is not Operation.COPY and redrive is not None and redrive.target == name:
            change = partial(transfers.dead_letter, row, queue, to, task, now_ms)
            return Decision(change, (DEAD_LETTERED, f"to {name.name}"))
        content = found.content(row)
        to.check(row, content)
        if operation is Operation.COPY:
            transfers.check_quota(to, content)
            return Decision(partial(transfers.copy, row, content, queue, to, task, now_ms), None)
        return Decision(
            partial(transfers.move, row, content, queue, to, task, now_ms), (MOVED, f"to {name.name}")
        )


def _destination_name(
    queue: LiveQueue, row: EntryRow, operation: Operation, target: QueueName | None
) -> QueueName | None:
    """None: there is none."""
    if operation is Operation.DEAD_LETTER:
        return None if queue.settings.redrive is None else queue.settings.redrive.target
    if operation is Operation.REDRIVE:
        arn = Arn.parse(row.source or "")
        return None if arn is None else arn.queue
    assert target is not None, "a move and a copy have a target"
    return target


def _current(queue: LiveQueue, row: EntryRow | None, now_ms: int) -> EntryRow:
    """A message as it is now. Memory decides what it knows: the store may not have it yet."""
    if row is None:
        raise MessageNotAvailable
    backlog = queue.rules.backlog
    entry = backlog.index.get(row.seq)
    if entry is None:
        if backlog.knows(row.seq):
            raise MessageNotAvailable
    elif entry.state is State.IN_FLIGHT:
        raise MessageInFlight(max(0, entry.due_ms - now_ms))
    else:
        row = row._replace(
            position=entry.position, enqueued_ms=entry.enqueued_ms, due_ms=entry.due_ms, receives=entry.receives,
            receives_before=entry.receives_before, first_received_ms=entry.first_received_ms, source=entry.source,
        )  # fmt: skip
    if row.position <= backlog.purged_to or row.enqueued_ms <= backlog.expiry_cutoff_ms(now_ms):
        raise MessageNotAvailable
    return row


def _raise_first(outcomes: Outcomes) -> None:
    if outcomes[0] is not None:
        raise outcomes[0]


# -- in the thread that reads --------------------------------------------------------------------------------


def _read(
    store: Store, queue: int, purged_to: int, seqs: Sequence[int], with_contents: bool
) -> StoredMessages:
    rows = {row.seq: row for row in store.lookup(queue, purged_to, seqs)}
    return StoredMessages(rows, contents_or_errors(store, list(rows)) if with_contents else {})
