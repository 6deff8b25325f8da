"""The memory of one queue and the store: loads what the rules need to know, reads ahead, throws away what is wrong.

Memory is loaded by one piece of code, whether the server starts, a commit was refused or a read failed.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.broker.shard import Shard
from penstock.errors import DecideAgain, QueueMissing, StoreClosed
from penstock.limits import SECOND
from penstock.promise import Promise, run_detached
from penstock.queues.backlog import Restored
from penstock.queues.fifo import FifoQueue
from penstock.queues.paging import Read, ReadDelayed, ReadExpired, ReadGroups
from penstock.store.port import CONTENT_BYTES_PER_READ, LAST, Order, Selection, Store, Usage

if TYPE_CHECKING:
    from penstock.broker.live_queue import LiveQueue

log = logging.getLogger("penstock.broker")

_RETRY_MS = SECOND
_SENDS_PER_READ = 20_000
# Every third try to load a queue keeps commits from beginning: messages may arrive with each of them.
_TRIES_PER_HOLD = 3
_NOTHING = Usage(0, 0)


class QueueMemory:
    __slots__ = (
        "_generation", "_loading", "_outdated", "_queue", "_recalled", "_shard", "loaded", "read_done",
    )  # fmt: skip

    def __init__(self, shard: Shard, queue: LiveQueue) -> None:
        self._shard = shard
        self._queue = queue
        self.loaded = False  # whether memory knows what the store holds
        self.read_done: Promise[None] | None = None  # of the read under way
        self._loading: Promise[None] | None = None
        self._outdated = False  # messages arrived since the first read of the load began
        self._generation = 0  # counts how often memory was thrown away: answers to earlier reads are void
        self._recalled = -1  # the generation of memory that knows the sends again

    # -- loading ---------------------------------------------------------------------------------------------

    async def load(self) -> None:
        """Wait until memory knows what the store holds of this queue."""
        while not self.loaded:
            if self._queue.deleted:
                raise QueueMissing
            self._shard.check_owned()
            if self._loading is None:
                self._loading = Promise()
                run_detached(self._load(self._loading))
            else:
                await self._loading

    async def _load(self, loading: Promise[None]) -> None:
        shard, queue, tries = self._shard, self._queue, 0
        try:
            while not self.loaded and not queue.deleted and not shard.released:
                tries += 1
                await self._try_to_load(between_commits=tries % _TRIES_PER_HOLD == 0)
        except Exception as error:
            self._loading = None
            loading.fail(error)
        else:
            self._loading = None
            queue.decided(shard.clock.now_ms())
            loading.resolve(None)

    async def _try_to_load(self, *, between_commits: bool) -> None:
        """Load what the store holds. This fails if messages arrive meanwhile: the store may have had them already.

        Sends wait for the memory, but dead letters, moved messages and jobs do not. ``between_commits``: none
        arrives."""
        shard, queue = self._shard, self._queue
        try:
            await shard.settled(queue)
        except DecideAgain:
            return
        generation, now_ms = self._generation, shard.clock.now_ms()
        await self._recall_sends(generation, now_ms)
        purged_to, fifo = queue.rules.backlog.purged_to, queue.settings.fifo
        read_rows = partial(_first_read, shard.store, queue.id, purged_to, fifo, now_ms)
        self._outdated = False
        restored = await (shard.read_between_commits if between_commits else shard.read)(read_rows)
        if shard.coming(queue):
            return
        if self._generation == generation and not self._outdated and not queue.deleted:
            queue.rules.restore(restored, now_ms)
            self.loaded = True

    async def _recall_sends(self, generation: int, now_ms: int) -> None:
        """Read the deduplication memory of a FIFO queue a page at a time: it can be a million sends. Once is enough,
        because sends wait for the memory."""
        shard, rules, after, full = self._shard, self._queue.rules, 0, True
        if not isinstance(rules, FifoQueue) or self._recalled == generation:
            return
        rules.dedup.clear()
        while full:
            sends = await shard.read(partial(shard.store.dedup, rules.id, now_ms, after, _SENDS_PER_READ))
            if self._generation != generation:
                return  # purged meanwhile: what the store remembered is void
            rules.recall(sends)
            full = len(sends) == _SENDS_PER_READ
            after = sends[-1].seq if sends else after
        self._recalled = generation

    def accepts_arrivals(self) -> bool:
        """Whether memory can add messages that arrive now. While it is being loaded it cannot, and is loaded
        again."""
        self._outdated = not self.loaded
        return self.loaded

    # -- reading ahead ---------------------------------------------------------------------------------------

    def read_ahead(self, now_ms: int) -> None:
        """Read what the rules want from the store, if anything."""
        shard, rules = self._shard, self._queue.rules
        read = rules.next_read(now_ms)
        if read is not None:
            self.read_done = Promise()
            read_rows = partial(_read, shard.store, rules.id, rules.backlog.purged_to, read)
            shard.read(read_rows).on_done(partial(self._answered, self._generation, read))

    def _answered(self, generation: int, read: Read, outcome: Promise[Any]) -> None:
        shard, queue = self._shard, self._queue
        if self._generation != generation or queue.deleted:
            return
        now_ms, rules = shard.clock.now_ms(), queue.rules
        try:
            answer = outcome.result()
            rules.backlog.arriving = shard.coming(queue)
            rules.apply(read, answer, now_ms, shard.changes)
            rules.advance(now_ms, shard.changes)
        except StoreClosed:
            return  # the server stops
        except Exception:
            log.exception("reading messages failed, queue %s is loaded again", queue.name.name)
            self.forget()
            shard.runtime.at(now_ms + _RETRY_MS, self.reload)
            return
        self._end_read()
        queue.decided(now_ms)

    def _end_read(self) -> None:
        done, self.read_done = self.read_done, None
        if done is not None:
            done.resolve(None)

    # -- forgetting ------------------------------------------------------------------------------------------

    def emptied(self) -> None:
        """The queue is new or was purged: there is nothing to load, and the read under way is out of date."""
        self._generation += 1
        self._end_read()
        self.loaded = True

    def forget(self) -> None:
        """Throw the memory away; the next use loads it again."""
        self._shard.write_later()
        self._queue.rules.reset()
        self.loaded = False
        self._generation += 1
        self._end_read()

    def reload(self) -> None:
        """Load the memory again for waiting receives; if that fails, they get nothing."""
        if self._queue.waiting:
            run_detached(self._reload())

    async def _reload(self) -> None:
        queue = self._queue
        try:
            await self.load()
        except Exception:
            queue.waiting.end(QueueMissing() if queue.deleted else None)
        else:
            queue.decided(self._shard.clock.now_ms())


# -- in the thread that reads --------------------------------------------------------------------------------


def _first_read(store: Store, queue: int, purged_to: int, fifo: bool, now_ms: int) -> Restored:
    """What the rules need to know of a queue first."""
    hidden = Selection(queue, purged_to, due_ms_min=now_ms + 1)
    return Restored(
        store.usage(queue).get(queue, _NOTHING).messages,
        0 if fifo else store.count(hidden._replace(received=False)),
        store.select(hidden._replace(received=True), rows_max=LAST),
        _oldest_ms(store, queue, purged_to),
    )


def _oldest_ms(store: Store, queue: int, purged_to: int) -> int | None:
    oldest = store.select(Selection(queue, purged_to), Order.AGE, rows_max=1)
    return oldest[0].enqueued_ms if oldest else None


def _read(store: Store, queue: int, purged_to: int, read: Read) -> Any:
    """The answer to a read of the rules."""
    if isinstance(read, ReadGroups):
        return store.groups(Selection(queue, read.after, due_ms_max=read.due_ms_max), read.rows_max)
    if isinstance(read, ReadDelayed):
        delayed = Selection(queue, purged_to, due_ms_min=read.due_ms_min, received=False)
        return store.select(delayed, Order.DUE, rows_max=read.rows_max)
    if isinstance(read, ReadExpired):
        expired = Selection(queue, max(purged_to, read.after), enqueued_ms_max=read.enqueued_ms_max)
        return store.select(expired, rows_max=read.rows_max), _oldest_ms(store, queue, purged_to)
    answers = []
    bytes_left = CONTENT_BYTES_PER_READ
    for lane in read.lanes:
        ready = Selection(queue, lane.after, due_ms_max=read.due_ms_max)
        rows = store.lane(ready, lane.group, lane.rows_max, bytes_left)
        bytes_left -= sum(len(row.content or b"") for row in rows)
        answers.append(rows)
    return answers
