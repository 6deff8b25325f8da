"""Changes of messages that are not in flight, without receiving them.

An edit is written to the store by an ordinary commit, and the memory of the queue is loaded again behind it: edits
are rare, and no state of memory has to be patched. Edits of a shard are made one after the other, so that two of them
cannot choose the same position, and no version changes between the check and the commit.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from penstock.broker.delivery import QueueDelivery
from penstock.broker.encryption import contents_or_errors
from penstock.broker.handover import Departed
from penstock.broker.history import MessageHistory
from penstock.broker.live_queue import LiveQueue, Outcomes
from penstock.broker.operations import (
    WITH_CONTENTS,
    Decide,
    Decision,
    Destinations,
    Edit,
    Operation,
    Operations,
    StoredMessages,
    destination_name,
)
from penstock.broker.quotas import Quotas
from penstock.broker.shard import Shard
from penstock.errors import (
    ContentOutdated,
    MessageInFlight,
    MessageNotAvailable,
    NoRoomBetween,
    PenstockError,
    QueueMissing,
)
from penstock.names import QueueName, Requester
from penstock.promise import Promise
from penstock.queues.messages import State, as_in_memory
from penstock.store.changes import POSITION_GAP, EntryRow
from penstock.store.port import Selection, Store

T = TypeVar("T")

_NEIGHBOURS_MAX = 1000


InCommit = Callable[[Outcomes, Sequence[Departed]], None]
"""A function that is called with the outcomes and with the messages that leave their queue or are copied, while the
commit is open."""


class Terms(NamedTuple):
    """The terms on which messages are changed."""

    if_version: int | None = None
    by: Requester | None = None
    task: str | None = None  # the bulk task that wants it
    in_commit: InCommit | None = None
    dry_run: bool = False


class Editing:
    def __init__(
        self, shard: Shard, delivery: QueueDelivery, quotas: Quotas, history: MessageHistory
    ) -> None:
        self._shard = shard
        self._delivery = delivery
        self._operations = Operations(shard, delivery, quotas)
        self._history = history
        self._last: Promise[None] | None = None  # done when the edit under way is

    # Each of these raises MessageNotAvailable, MessageInFlight, or ContentOutdated if the message does not have the
    # version ``if_version``; and NotPossible. Then nothing is changed. The message has the next version
    # afterwards, except a dead letter. ``by``: who wants it, for the history of the message.

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
            decide = partial(self._operations.edit, queue, edit, found)
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
            decide = partial(self._operations.reposition, position)
            return await self._decide(queue, [seq], found, decide, Terms(if_version, by))

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
            decide = partial(self._operations.reposition, position)
            return await self._decide(queue, [seq], found, decide, Terms(if_version, by))

        _raise_first(await self._alone(queue, change))

    async def move_to_back(
        self, queue: LiveQueue, seq: int, if_version: int | None = None, *, by: Requester | None = None
    ) -> None:
        async def change() -> Outcomes:
            found = await self._read(queue, [seq])
            decide = partial(self._operations.reposition, self._shard.next_position())
            return await self._decide(queue, [seq], found, decide, Terms(if_version, by))

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
        """Move the message to another queue, in this shard or another one. It keeps its id. In its queue's
        dead-letter queue it becomes a dead letter. Returns when it is there, or has been on its way for a second.
        Raises QueueMissing, KeyUnavailable or Unreachable too."""
        left: list[Departed] = []
        terms = Terms(if_version, by, in_commit=lambda _, departed: left.extend(departed))
        _raise_first(await self._apply(queue, [seq], Operation.MOVE, target, terms))
        for departed in left:
            await self._delivery.arrived(departed)

    async def apply(
        self,
        queue: LiveQueue,
        seqs: Sequence[int],
        operation: Operation,
        target: QueueName | None = None,
        *,
        by: Requester | None = None,
        task: str | None = None,
        in_commit: InCommit | None = None,
        dry_run: bool = False,
    ) -> Outcomes:
        """The same with many messages in one commit. Their contents are in memory meanwhile, except where they are
        deleted, released or dead-lettered. Raises StoreError if it is not known whether a target exists.

        ``target``: where they are moved or copied to. One outcome for each, in their order; None: it is done.
        ``task``: the bulk task that wants it, to be notified of messages that another shard refuses. ``in_commit``
        may add to the commit. ``dry_run``: nothing is changed."""
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
        # Before the lock, which changes in other queues wait for: the shard of a target may not answer for seconds.
        destinations = await self._destinations(queue, seqs, operation, target)

        async def change() -> Outcomes:
            if operation in WITH_CONTENTS:
                self._shard.check_sends()
            found = await self._read(queue, seqs, with_contents=operation in WITH_CONTENTS)
            operations = self._operations
            if operation is Operation.RELEASE:
                decide: Decide = partial(operations.release, queue)
            elif operation is Operation.RESET:
                decide = partial(operations.reset, found)
            elif operation is Operation.DELETE:
                decide = partial(operations.delete, queue)
            else:
                decide = partial(operations.send, queue, found, operation, target, destinations, terms.task)
            changes_queue = operation is not Operation.COPY
            return await self._decide(queue, seqs, found, decide, terms, changes_queue=changes_queue)

        return await self._alone(queue, change)

    async def _destinations(
        self, queue: LiveQueue, seqs: Sequence[int], operation: Operation, target: QueueName | None
    ) -> Destinations:
        """Where these messages go to, if they are moved or copied."""
        if operation in (Operation.RELEASE, Operation.RESET, Operation.DELETE):
            return {}
        sources: set[str | None] = {None}
        if operation is Operation.REDRIVE:
            sources = {row.source for row in (await self._read(queue, seqs)).rows.values()}
        names = {destination_name(queue, source, operation, target) for source in sources}
        return await self._delivery.find_all(name for name in names if name is not None)

    async def _read(
        self, queue: LiveQueue, seqs: Sequence[int], *, with_contents: bool = False
    ) -> StoredMessages:
        shard, purged_to = self._shard, queue.record.purged_to
        found = await shard.read(partial(_read, shard.store, queue.id, purged_to, seqs, with_contents))
        await shard.settled()  # memory knows of every message that was read
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
        departed: list[Departed] = []
        for seq in dict.fromkeys(seqs):
            try:
                row = _current(queue, found.rows.get(seq), now_ms)
                if if_version is not None and row.version != if_version:
                    raise ContentOutdated(row.version)
                decision = decide(row, now_ms)
                if not terms.dry_run:
                    left = decision.change()
                    decisions[seq] = decision
                    if left is not None:
                        departed.append(left)
                outcomes[seq] = None
            except PenstockError as error:
                outcomes[seq] = error
            except Exception:
                # Those before it are in the open commit, which others share: memory must not keep them.
                shard.touch(queue)
                queue.refused()
                raise
        if terms.in_commit is not None:
            terms.in_commit([outcomes[seq] for seq in seqs], departed)
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
                self._history.note((shard.index, seq, now_ms, event[0], terms.by, event[1], queue.id))
        return [outcomes[seq] for seq in seqs]

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
        row = as_in_memory(row, entry)
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
