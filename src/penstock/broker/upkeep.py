"""Periodic work that no request asks for: loading and expiry of idle queues, memory relief, cleanup of the store."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from penstock.broker.catalogue import Catalogue
from penstock.broker.failures import Failures
from penstock.broker.history import ShardHistory
from penstock.broker.live_queue import LiveQueue
from penstock.broker.parts import Part
from penstock.broker.queue_figures import FigureReader
from penstock.broker.runtime import Timer
from penstock.broker.shard import Commit, Shard
from penstock.clock import iso_time, wall_offset
from penstock.errors import StoreError
from penstock.limits import MINUTE, SECOND
from penstock.promise import Promise, run_detached
from penstock.queues.backlog import Budget, ExpiryPause
from penstock.store.port import Selection

log = logging.getLogger("penstock.broker")

_MAINTAIN_ROWS = 1000
_TRIMMED_PER_COMMIT = 16


class MemoryRelief:
    """Keeps the memory of all queues, of whichever shard, within the budget of the process."""

    def __init__(self, budget: Budget, queues: Callable[[], Iterable[LiveQueue]]) -> None:
        """``queues`` returns all queues of the process, with the internal ones."""
        self._budget = budget
        self._queues = queues
        self._to_trim: Iterator[LiveQueue] = iter(())
        self._no_relief_bytes = 0  # with less than this in use, another round of trimming would not help
        self._trimmed_all = False

    def relieve(self, _commit: Commit) -> None:
        """The memory is over the budget: let some queues keep only the floor of each lane. Every queue has its turn.

        After a round that could not help (floors alone may exceed a small budget) wait until 5 % more is in use."""
        budget = self._budget
        if budget.used < budget.bytes_max or budget.used < self._no_relief_bytes:
            return
        for _ in range(_TRIMMED_PER_COMMIT):
            queue = next(self._to_trim, None)
            if queue is None:
                if self._trimmed_all:
                    self._no_relief_bytes = budget.used * 21 // 20
                self._to_trim, self._trimmed_all = iter(list(self._queues())), not self._trimmed_all
                return
            if queue.memory.loaded:
                queue.rules.trim(queue.shard.changes.durable)
                if budget.has_room():
                    self._no_relief_bytes = 0
                    return


class Upkeep(Part):
    def __init__(
        self,
        shard: Shard,
        catalogue: Catalogue,
        figures: FigureReader,
        failures: Failures,
        history: ShardHistory,
        pause: ExpiryPause,
    ) -> None:
        self._shard = shard
        self._catalogue = catalogue
        self._figures = figures
        self._failures = failures
        self._history = history
        self._pause = pause
        self._round: Timer | None = None
        self._maintaining = False
        self._stopped = False

    def start(self) -> None:
        self.maintain()
        self._set_round()
        run_detached(self._load_all())

    def stop(self) -> None:
        self._stopped = True
        if self._round is not None:
            self._round.cancel()

    async def _load_all(self) -> None:
        """Load every queue, one after the other, so that messages expire in queues without requests."""
        for queue in self._catalogue:
            if self._stopped:
                return
            await self._load(queue)
        if self._pause.until_ms > self._shard.clock.now_ms():
            try:
                await self._report_pause()
            except StoreError as error:
                log.warning("messages past their retention could not be counted: %s", error)

    async def _report_pause(self) -> None:
        shard, pause = self._shard, self._pause
        now_ms, messages, queues = shard.clock.now_ms(), 0, 0
        for queue in self._catalogue:
            retention_ms = queue.settings.retention_ms
            late = Selection(
                queue.id,
                queue.record.purged_to,
                enqueued_ms_min=pause.since_ms - retention_ms + 1,
                enqueued_ms_max=now_ms - retention_ms,
            )
            found = await shard.read(partial(shard.store.count, late))
            messages, queues = messages + found, queues + (found > 0)
        if messages:
            log.warning(
                "%d messages of %d queues passed their retention since %s, when shard %d was last used by the clock: "
                "they expire in %d minutes. If the clock is or was wrong, raise MessageRetentionPeriod of the queues",
                messages,
                queues,
                iso_time((pause.since_ms + wall_offset(shard.clock)) / SECOND),
                shard.index,
                (pause.until_ms - now_ms) // MINUTE,
            )

    async def _load(self, queue: LiveQueue) -> None:
        try:
            await queue.memory.load()
        except Exception as error:
            if not self._stopped:
                log.warning("queue %s could not be loaded yet: %s", queue.name.name, error)

    # -- every minute ----------------------------------------------------------------------------------------

    def _set_round(self) -> None:
        if not self._stopped:
            self._round = self._shard.runtime.at(self._shard.clock.now_ms() + MINUTE, self._make_round)

    def _make_round(self) -> None:
        """Expire messages, remembered sends and receive attempts of idle queues, and the cooldowns of names."""
        self.maintain()
        now_ms = self._shard.clock.now_ms()
        for queue in self._catalogue:
            if not queue.memory.loaded:
                run_detached(self._load(queue))
            elif queue.rules.next_expiry_ms() <= now_ms:
                queue.rules.advance(now_ms, self._shard.changes)
                queue.decided(now_ms)
        self._figures.note_numbers()
        self._catalogue.end_cooldowns(now_ms)
        self._failures.forget_old(self._shard.clock.wall_ms())
        self._history.forget_old()
        self._set_round()

    # -- the store -------------------------------------------------------------------------------------------

    def queue_deleted(self, queue: LiveQueue) -> None:
        self._shard.open_commit.when_durable.append(self._emptied)

    def queue_purged(self, queue: LiveQueue) -> None:
        self._shard.open_commit.when_durable.append(self._emptied)

    def _emptied(self, _commit: Commit) -> None:
        self.maintain()

    def maintain(self) -> None:
        """Let the store remove what purged and deleted queues left, in small pieces between commits."""
        if not self._maintaining:
            self._maintaining = True
            self._maintain_some()

    def _maintain_some(self) -> None:
        maintain = partial(self._shard.store.maintain, _MAINTAIN_ROWS)
        self._shard.runtime.write(maintain).on_done(self._maintained)

    def _maintained(self, outcome: Promise[bool]) -> None:
        try:
            more = outcome.result() and not self._stopped
        except Exception as error:
            if not self._stopped:
                log.warning("removing purged messages failed and is tried again later: %s", error)
            more = False
        if more:
            self._shard.runtime.soon(self._maintain_some)
        else:
            self._maintaining = False
