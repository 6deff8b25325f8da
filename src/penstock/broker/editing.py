"""Messages without receiving them: list them in any state, replace the content of one, or move it within its queue.

An edit concerns a message that is not in flight. It is written to the store by an ordinary commit, and the memory of
the queue is loaded again behind it: edits are rare, and no state of memory has to be patched. Edits of a shard are
made one after the other, so that two of them cannot choose the same position.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from penstock.broker.live_queue import LiveQueue
from penstock.broker.shard import Shard
from penstock.errors import ContentOutdated, MessageInFlight, MessageNotAvailable, NoRoomBetween
from penstock.promise import Promise
from penstock.queues.messages import Content, Entry, State, encode_content
from penstock.store.changes import POSITION_GAP, EntryRow
from penstock.store.port import Cursor, Order, Selection

T = TypeVar("T")

_NEIGHBOURS_MAX = 1000


class Editing:
    def __init__(self, shard: Shard) -> None:
        self._shard = shard
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

    async def replace_content(self, queue: LiveQueue, seq: int, content: Content, if_version: int) -> int:
        """Give a message another content, and answer its new version. The message keeps its id.

        Raises ContentOutdated if its version is not ``if_version``."""

        async def edit() -> int:
            row = await self._find(queue, seq)
            if row.version != if_version:
                raise ContentOutdated(row.version)
            await self._check_not_in_flight(queue, seq)
            commit = self._shard.open_commit
            commit.changes.replace(row, encode_content(content), row.version + 1)
            await self._made(queue)
            if seq in commit.skipped:
                raise MessageNotAvailable  # it expired in the store meanwhile
            return row.version + 1

        return await self._alone(edit)

    async def move_before(self, queue: LiveQueue, seq: int, other: int) -> None:
        """Put a message directly before another one. On a FIFO queue only the order within a group has an effect."""

        async def edit() -> None:
            row, target = await self._find(queue, seq), await self._find(queue, other)
            await self._move(queue, row, await self._position_before(queue, target.position))

        await self._alone(edit)

    async def move_to_front(self, queue: LiveQueue, seq: int) -> None:
        async def edit() -> None:
            row = await self._find(queue, seq)
            everything = Selection(queue.id, queue.record.purged_to)
            shard = self._shard
            first = (await shard.read(partial(shard.store.select, everything, rows_max=1)))[0]
            if first.seq != seq:
                await self._move(queue, row, await self._position_before(queue, first.position))

        await self._alone(edit)

    async def move_to_back(self, queue: LiveQueue, seq: int) -> None:
        async def edit() -> None:
            await self._move(queue, await self._find(queue, seq), self._shard.next_position())

        await self._alone(edit)

    # -- steps of an edit ------------------------------------------------------------------------------------

    async def _alone(self, edit: Callable[[], Coroutine[Any, None, T]]) -> T:
        while self._last is not None:
            await self._last
        self._last = last = Promise[None]()
        try:
            self._shard.write_later()
            await self._shard.settled()  # the store is as memory decided
            return await edit()
        finally:
            self._last = None
            last.resolve(None)

    async def _find(self, queue: LiveQueue, seq: int) -> EntryRow:
        shard = self._shard
        rows = await shard.read(partial(shard.store.lookup, queue.id, queue.record.purged_to, [seq]))
        if not rows or rows[0].position <= queue.record.purged_to:
            raise MessageNotAvailable
        return rows[0]

    async def _check_not_in_flight(self, queue: LiveQueue, seq: int) -> Entry | None:
        """Memory decides: a receive may not be durable yet. Returns the message if it is in memory."""
        await queue.memory.load()
        backlog = queue.rules.backlog
        entry = backlog.index.get(seq)
        if entry is None and backlog.knows(seq):
            raise MessageNotAvailable
        if entry is not None and entry.state is State.IN_FLIGHT:
            raise MessageInFlight
        return entry

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

    async def _move(self, queue: LiveQueue, row: EntryRow, position: int) -> None:
        entry = await self._check_not_in_flight(queue, row.seq)
        if entry is None:
            entry = Entry(
                row.seq, row.position, row.group, row.enqueued_ms, row.due_ms, row.receives, row.receives_before,
                row.first_received_ms, row.source,
            )  # fmt: skip
        entry.position = position
        self._shard.changes.update(queue.id, entry)
        await self._made(queue)

    async def _made(self, queue: LiveQueue) -> None:
        self._shard.touch(queue)
        queue.memory.forget()
        queue.memory.reload()
        await self._shard.settled()
