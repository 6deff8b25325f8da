"""Keeps each queue's memory in step with the store: loads it, reads ahead, gives back what is too much.

Memory of a queue is filled by one piece of code, whether the server starts, a commit was refused, or a read failed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import partial
from typing import Any

from penstock.broker.catalogue import Catalogue
from penstock.broker.live_queue import LiveQueue
from penstock.broker.paging import fetch, loader
from penstock.broker.polls import Polls
from penstock.broker.runtime import Timer
from penstock.broker.shard import Shard
from penstock.errors import QueueMissing
from penstock.limits import MINUTE, SECOND
from penstock.promise import Promise, run_detached
from penstock.queues.backlog import Budget
from penstock.queues.fifo import FifoQueue
from penstock.queues.paging import Read

log = logging.getLogger("penstock.broker")

_TIDY_ROWS = 1000
_TRY_AGAIN_MS = SECOND
_SENDS_PER_READ = 20_000
_TRIMMED_AT_ONCE = 16


class Upkeep:
    def __init__(
        self,
        shard: Shard,
        budget: Budget,
        catalogue: Catalogue,
        polls: Polls,
    ) -> None:
        self._shard = shard
        self._store = shard.store
        self._runtime = shard.runtime
        self._clock = shard.clock
        self._budget = budget
        self._catalogue = catalogue
        self._polls = polls
        self._victims: Iterator[LiveQueue] = iter(())
        self._hopeless_bytes = 0
        self._round_begun = False
        self._round: Timer | None = None
        self._tidying = False
        self._stopped = False

    def start(self) -> None:
        self.tidy()
        self._next_round()
        run_detached(self._warm())

    def stop(self) -> None:
        self._stopped = True
        if self._round is not None:
            self._round.cancel()

    # -- loading ---------------------------------------------------------------------------------------------

    async def loaded(self, queue: LiveQueue) -> None:
        """Wait until memory knows what the store holds of this queue."""
        while not queue.loaded:
            if queue.dropped:
                raise QueueMissing
            if queue.loading is None:
                queue.loading = Promise()
                run_detached(self._load(queue, queue.loading))
            else:
                await queue.loading

    async def _load(self, queue: LiveQueue, loading: Promise[None]) -> None:
        try:
            while not queue.loaded and not queue.dropped:
                queue.outdated = False
                await self._shard.settled()
                generation, now_ms = queue.generation, self._clock.now_ms()
                restored = await self._shard.read(loader(self._store, queue.rules, now_ms))
                await self._recall_sends(queue, generation, now_ms)
                if self._shard.coming(queue):
                    continue  # what was read may hold them already
                if queue.generation == generation and not queue.outdated and not queue.dropped:
                    queue.rules.restore(restored, now_ms)
                    queue.loaded = True
        except Exception as error:
            queue.loading = None
            loading.fail(error)
        else:
            queue.loading = None
            self.page(queue)
            loading.resolve(None)

    async def _recall_sends(self, queue: LiveQueue, generation: int, now_ms: int) -> None:
        """A FIFO queue's deduplication memory, a page at a time: it can be a million sends."""
        rules, after, full = queue.rules, 0, True
        if not isinstance(rules, FifoQueue) or queue.generation != generation:
            return
        rules.dedup.clear()
        while full:
            read = partial(self._store.dedup, queue.id, now_ms, after, _SENDS_PER_READ)
            sends = await self._shard.read(read)
            if queue.generation != generation:
                return  # purged meanwhile: what the store remembered is void
            rules.recall(sends)
            full = len(sends) == _SENDS_PER_READ
            after = sends[-1].seq if sends else after

    async def _warm(self) -> None:
        """Load every queue, one after the other, so that expiry runs where nobody calls."""
        for queue in self._catalogue:
            if self._stopped:
                return
            await self._warm_one(queue)

    async def _warm_one(self, queue: LiveQueue) -> None:
        try:
            await self.loaded(queue)
        except Exception as error:
            if not self._stopped:
                log.warning("queue %s could not be loaded yet: %s", queue.name.name, error)

    # -- reading ahead ---------------------------------------------------------------------------------------

    def page(self, queue: LiveQueue) -> None:
        """Fetch what this queue wants from the store, if anything."""
        if not queue.loaded:
            return
        read = queue.rules.next_read(self._clock.now_ms())
        if read is not None:
            queue.paged = Promise()
            outcome = self._shard.read(
                partial(fetch, self._store, queue.id, queue.rules.backlog.purged_to, read)
            )
            outcome.on_done(partial(self._paged, queue, queue.generation, read))

    def _paged(self, queue: LiveQueue, generation: int, read: Read, outcome: Promise[Any]) -> None:
        if queue.generation != generation or queue.dropped:
            return
        now_ms, changes = self._clock.now_ms(), self._shard.changes
        try:
            answer = outcome.result()
            queue.rules.backlog.arriving = self._shard.coming(queue)
            queue.rules.apply(read, answer, now_ms, changes)
            queue.rules.advance(now_ms, changes)
        except Exception:
            # Whatever went wrong, the store knows better than this memory.
            log.exception("queue %s could not be read ahead; its memory is loaded anew", queue.name.name)
            queue.forget()
            self._runtime.at(now_ms + _TRY_AGAIN_MS, partial(self.recover, queue))
            return
        queue.end_read()
        self.changed(queue)

    def recover(self, queue: LiveQueue) -> None:
        """Memory was thrown away: load it again for those who wait, or tell them that there is nothing."""
        if queue.awaited:
            run_detached(self._recover(queue))

    async def _recover(self, queue: LiveQueue) -> None:
        try:
            await self.loaded(queue)
        except Exception:
            self._polls.end(queue)
        else:
            self.changed(queue)

    def forget_all(self) -> None:
        """Throw all memory away, and whatever is on its way into it, and load it again for those who wait."""
        for queue in self._catalogue:
            queue.forget()
            self.recover(queue)

    def changed(self, queue: LiveQueue) -> None:
        """A decision may have changed this queue: commit it, serve who waits, read what it wants."""
        if self._shard.changes:
            self._shard.touch(queue)
        self.page(queue)
        self._polls.serve(queue)

    # -- giving back -----------------------------------------------------------------------------------------

    def relieve(self) -> None:
        """Over the budget: let some queues keep only their floor. Every queue has its turn.

        After a round that could not help (floors alone may exceed a small budget) wait until more has piled up."""
        if self._budget.room() or self._budget.used < self._hopeless_bytes:
            return
        durable = self._shard.changes.durable
        for _ in range(_TRIMMED_AT_ONCE):
            queue = next(self._victims, None)
            if queue is None:
                if self._round_begun:
                    self._hopeless_bytes = self._budget.used * 21 // 20
                self._victims, self._round_begun = iter(self._catalogue), not self._round_begun
                return
            if queue.loaded:
                queue.rules.trim(durable)
                if self._budget.room():
                    self._hopeless_bytes = 0
                    return

    def tidy(self) -> None:
        """Remove in small bites what purged and deleted queues left in the store."""
        if not self._tidying:
            self._tidying = True
            self._bite()

    def _bite(self) -> None:
        self._runtime.write(partial(self._store.maintain, _TIDY_ROWS)).on_done(self._bitten)

    def _bitten(self, outcome: Promise[bool]) -> None:
        try:
            more = outcome.result() and not self._stopped
        except Exception as error:
            if not self._stopped:
                log.warning("removing purged messages stopped, and goes on with the next purge: %s", error)
            more = False
        if more:
            self._runtime.soon(self._bite)
        else:
            self._tidying = False

    def _next_round(self) -> None:
        if not self._stopped:
            self._round = self._runtime.at(self._clock.now_ms() + MINUTE, self._make_round)

    def _make_round(self) -> None:
        """Once a minute: expiry of messages, remembered sends and receive attempts in idle queues, and space of what
        was deleted."""
        self.tidy()
        now_ms = self._clock.now_ms()
        for queue in self._catalogue:
            if not queue.loaded:
                run_detached(self._warm_one(queue))
            elif queue.rules.next_expiry_ms() <= now_ms:
                queue.rules.advance(now_ms, self._shard.changes)
                self.changed(queue)
        self._catalogue.end_cooldowns(now_ms)
        self._next_round()
