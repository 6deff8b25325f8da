"""Samples the queues of a shard, stores their samples and counts, and reads them back.

While a queue is used it is looked at every second. Once a minute, half a second after it has begun, every queue that
is active is looked at, and what the last minute brought is stored by one commit.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from penstock.broker.metric_log import MetricLog, RecentEntry
from penstock.broker.number_times import NUMBER_NOTES, NumberTimes
from penstock.broker.recording import NO_LOOKS, Levels, MinuteLooks, QueueRecorder, SecondsMemory
from penstock.broker.runtime import Timer
from penstock.broker.shard import Shard
from penstock.clock import wall_offset
from penstock.errors import PenstockError, StoreClosed, StoreError
from penstock.limits import HOUR, MINUTE, SECOND
from penstock.metrics.queue_rows import NoisyGroups, QueueMetric, QueueRow, TimedRow, points_of
from penstock.metrics.series import MINUTE_S, SECOND_S, Point, merged_points
from penstock.promise import Promise, run_detached
from penstock.queues.fifo import FifoQueue
from penstock.queues.messages import Counts, sequence_of
from penstock.store.changes import EntryRow
from penstock.store.port import Selection, Store
from penstock.turns import Steps, Turns

if TYPE_CHECKING:
    from penstock.broker.live_queue import LiveQueue

log = logging.getLogger("penstock.broker")

_ACTIVE_MS = (
    6 * HOUR
)  # SQS: a queue has metrics while it holds messages, and for six hours after its last use
_AWAKE_MS = MINUTE
_ROUND_DELAY_MS = SECOND // 2  # so that the last second of the minute was looked at
_ROWS_MIN, _ROWS_MAX = 10, 60  # of a queue, before they are stored as a chunk
_ROWS_TOTAL_MAX = 200_000
_UNWRITTEN_MAX = 60  # minutes
_QUEUES_PER_TURN = 100
_PAGE_ROWS = 100
_SWEEPS = 24  # until every queue was swept, once an hour
_NOTES_STORED_MS = 10 * MINUTE


class Metering:
    """``memory``: for the seconds of all queues of the process. ``shards``: how many share the space for metrics."""

    def __init__(self, shard: Shard, memory: SecondsMemory, shards: int, turns: Turns) -> None:
        self._shard = shard
        self._turns = turns
        self._memory = memory
        self._log = MetricLog(shard, shards)
        self._notes = shard.table(NUMBER_NOTES)
        self._numbers = NumberTimes(self._notes.get("numbers"))
        self._notes_stored_ms = 0
        self._recorders: dict[LiveQueue, QueueRecorder] = {}
        self._awake: dict[LiveQueue, None] = {}
        self._offset_ms = wall_offset(shard.clock)
        self._tick: Timer | None = None
        self._round: Timer | None = None
        self._restored: Promise[None] = Promise()
        self._stopped = False
        self._unwritten: list[RecentEntry] = []  # minutes whose commit was refused
        self._swept = 0
        self._writing: Promise[None] | None = None  # done when chunks that are being written are stored
        self._version = 0  # how often chunks were

    def start(self) -> None:
        self._numbers.note(self._shard.numbers_to, self._shard.clock.now_ms())
        run_detached(self._restore())

    def stop(self) -> None:
        self._stopped = True
        for timer in (self._tick, self._round):
            if timer is not None:
                timer.cancel()

    # -- which queues ----------------------------------------------------------------------------------------

    def add(self, queue: LiveQueue) -> None:
        recorder = QueueRecorder(self._memory, self._wall_offset_ms, partial(self._wake, queue))
        self._recorders[queue] = recorder
        queue.metrics.record(recorder)

    def leave(self, queue: LiveQueue) -> None:
        """The queue does not exist any more."""
        self._recorders.pop(queue).forget()
        self._awake.pop(queue, None)

    def forget(self, queue: LiveQueue) -> None:
        """The open commit deletes the queue."""
        self._log.forget([queue.id])

    def _is_active(self, queue: LiveQueue, now_ms: int) -> bool:
        holds = queue.memory.loaded and queue.rules.backlog.total > 0
        return holds or (queue.metrics.used_ms > 0 and now_ms - queue.metrics.used_ms < _ACTIVE_MS + MINUTE)

    def last_looks(self, queue: LiveQueue) -> MinuteLooks:
        """What was seen of a queue at the end of the last minute."""
        recorder = self._recorders.get(queue)
        return NO_LOOKS if recorder is None else recorder.last_looks

    def _wall_offset_ms(self) -> int:
        return self._offset_ms

    # -- every second ----------------------------------------------------------------------------------------

    def _wake(self, queue: LiveQueue) -> None:
        recorder = self._recorders.get(queue)
        too_many = len(self._awake) >= self._shard.limits.metrics_seconds_queues
        if recorder is None or too_many or self._stopped:
            return
        recorder.awake = True
        self._awake[queue] = None
        if self._tick is None:
            self._set_tick()

    def _set_tick(self) -> None:
        now_ms = self._shard.clock.now_ms()
        next_ms = now_ms + SECOND - (now_ms + self._offset_ms) % SECOND
        self._tick = self._shard.runtime.at(next_ms, self._look_at_awake)

    def _look_at_awake(self) -> None:
        self._tick = None
        self._offset_ms = wall_offset(self._shard.clock)
        run_detached(self._turns.run(self._looks_at_awake()))

    def _looks_at_awake(self) -> Steps[None]:
        for queue in list(self._awake):
            now_ms, recorder = self._shard.clock.now_ms(), self._recorders.get(queue)
            if recorder is None or self._stopped:
                continue  # it was deleted meanwhile
            metrics = queue.metrics
            metrics.pass_time(now_ms)
            recorder.look(now_ms, levels_of(queue, now_ms))
            if now_ms - metrics.used_ms > _AWAKE_MS:
                recorder.awake = False
                self._awake.pop(queue, None)
            yield
        if self._awake and not self._stopped and self._tick is None:
            self._set_tick()

    # -- every minute ----------------------------------------------------------------------------------------

    def _set_round(self) -> None:
        now_ms = self._shard.clock.now_ms()
        next_ms = now_ms + MINUTE - (now_ms + self._offset_ms - _ROUND_DELAY_MS) % MINUTE
        if not self._stopped:
            self._round = self._shard.runtime.at(next_ms, lambda: run_detached(self._make_round()))

    async def _make_round(self) -> None:
        try:
            self._offset_ms = wall_offset(self._shard.clock)
            await self._end_minute()
        except StoreError as error:
            log.debug("a minute of metrics was not stored, and is with the next one: %s", error)
        except Exception:
            log.exception("keeping metrics failed")
        self._set_round()

    async def _end_minute(self) -> None:
        """Put down the minute that has ended last."""
        shard = self._shard
        now_ms = shard.clock.now_ms()
        minute_s = (now_ms + self._offset_ms) // MINUTE * MINUTE_S - MINUTE_S
        rows: list[tuple[int, int, QueueRow]] = []
        same: list[int] = []
        self._numbers.note(shard.numbers_to, now_ms)
        async for queue, looks in self._active_queues(now_ms):
            queue.metrics.pass_time(now_ms)
            recorder = self._recorders[queue]
            for at_s, row in recorder.end_minute(minute_s, looks):
                if recorder.minutes.add(at_s, row):
                    rows.append((queue.id, at_s, row))
                else:
                    same.append(queue.id)
        if rows or same:
            self._unwritten = [*self._unwritten[1 - _UNWRITTEN_MAX :], RecentEntry(minute_s, rows, same)]
        if self._unwritten and shard.refuses is None and shard.ended is None:
            await self._write(minute_s, self._due_chunks(minute_s // MINUTE_S))

    async def _write(self, minute_s: int, chunks: dict[LiveQueue, list[TimedRow]]) -> None:
        by_id = {queue.id: gathered for queue, gathered in chunks.items()}
        last = self._unwritten[-1]
        entries = [*self._unwritten[:-1], RecentEntry(last.minute_s, last.rows, last.same, list(by_id))]
        self._version += 1
        writing: Promise[None] = Promise()
        self._writing = writing
        self._log.write(entries, by_id)
        self._store_notes()
        if minute_s % (60 * MINUTE_S) == 0:
            self._sweep()
        try:
            await self._shard.settled()
            self._unwritten = []
            for queue, gathered in chunks.items():
                if (recorder := self._recorders.get(queue)) is not None:
                    del recorder.minutes.timed[: len(gathered)]
        finally:
            self._writing = None
            writing.resolve(None)

    def _due_chunks(self, minute: int) -> dict[LiveQueue, list[TimedRow]]:
        """Returns the rows to pack: a queue is due once an hour, in its own minute, or if it has very many rows."""
        gathered = [(queue, recorder.minutes.timed) for queue, recorder in self._recorders.items()]
        busy = sum(len(rows) > 1 for _, rows in gathered)
        rows_max = max(_ROWS_MIN, min(_ROWS_MAX, _ROWS_TOTAL_MAX // (busy or 1)))
        return {
            queue: list(rows)
            for queue, rows in gathered
            if rows and (len(rows) >= rows_max or (minute + queue.id) % _ROWS_MAX == 0)
        }

    def _store_notes(self) -> None:
        now_ms = self._shard.clock.now_ms()
        if now_ms >= self._notes_stored_ms + _NOTES_STORED_MS:
            self._notes_stored_ms = now_ms
            self._notes.put("numbers", self._numbers.stored)

    def _sweep(self) -> None:
        queues = sorted(queue.id for queue in self._recorders)
        share = len(queues) // _SWEEPS + 1
        if self._swept >= len(queues):
            self._swept = 0
        self._log.sweep(queues[self._swept : self._swept + share])
        self._swept += share

    # -- looks -----------------------------------------------------------------------------------------------

    async def _active_queues(self, now_ms: int) -> AsyncGenerator[tuple[LiveQueue, MinuteLooks], None]:
        """Each with what is seen of it; some in each turn of the loop."""
        queues = [queue for queue in self._recorders if self._is_active(queue, now_ms)]
        for start in range(0, len(queues), _QUEUES_PER_TURN):
            part = queues[start : start + _QUEUES_PER_TURN]
            looks = await self._look_at(part)
            for queue in part:
                if queue in self._recorders:  # it may have been deleted meanwhile
                    yield queue, looks[queue]
            await self._shard.turn()

    async def _look_at(self, queues: Sequence[LiveQueue]) -> dict[LiveQueue, MinuteLooks]:
        oldest_ms = await self._oldest(queues)
        return {
            queue: MinuteLooks(
                await self._exact_levels(queue), self._wall_s(oldest_ms.get(queue)), self._noisy_groups(queue)
            )
            for queue in queues
        }

    async def _exact_levels(self, queue: LiveQueue) -> Levels | None:
        levels = levels_of(queue, self._shard.clock.now_ms())
        if levels is None and queue.memory.loaded:
            try:
                levels = _counted_levels(queue, await queue.counts())
            except PenstockError:
                return None  # it is deleted, or the store cannot be read
        return levels

    def _noisy_groups(self, queue: LiveQueue) -> NoisyGroups | None:
        rules, now_ms = queue.rules, self._shard.clock.now_ms()
        noisy = None if isinstance(rules, FifoQueue) else rules.noisy_tenants(now_ms)
        if noisy is None:
            return None
        quiet_oldest_s = self._wall_s(noisy.quiet_oldest_ms)
        return NoisyGroups(noisy.tenants, noisy.visible, noisy.in_flight, noisy.delayed, quiet_oldest_s)

    def _wall_s(self, now_ms: int | None) -> int | None:
        return None if now_ms is None else (now_ms + self._offset_ms) // SECOND

    async def _oldest(self, queues: Sequence[LiveQueue]) -> dict[LiveQueue, int]:
        """When the oldest message of each queue came into it. Without those that have none."""
        found: dict[LiveQueue, int] = {}
        rows_max, unknown = 1, [each for each in queues if each.memory.loaded and each.rules.backlog.total]
        while unknown and rows_max <= _PAGE_ROWS:
            now_ms = self._shard.clock.now_ms()
            which = [_kept(queue, now_ms) for queue in unknown]
            rows = await self._shard.read(partial(_first_rows, self._shard.store, which, rows_max))
            for queue in unknown:
                came_ms = self._came_ms(queue, rows[queue.id])
                if came_ms is not None:
                    found[queue] = came_ms
            # A message that is set aside hides those behind it from the first look.
            unknown = [queue for queue in unknown if queue not in found and len(rows[queue.id]) == rows_max]
            rows_max *= _PAGE_ROWS
        return found

    def _came_ms(self, queue: LiveQueue, rows: list[EntryRow]) -> int | None:
        """When the first of these messages came that is in the queue and not set aside."""
        rules = queue.rules
        for row in rows:
            entry = rules.backlog.index.get(row.seq)
            if entry is None and rules.backlog.knows(row.seq):
                continue  # it is gone, which the store did not know yet
            if rules.is_set_aside(row if entry is None else entry):
                continue
            if row.source is None or queue.settings.fifo:
                return row.enqueued_ms
            # SQS: a dead letter is as old as its time in the dead-letter queue.
            given_ms = self._numbers.given_ms(sequence_of(row.position), self._shard.clock.now_ms())
            return max(row.enqueued_ms, given_ms)
        return None

    # -- stop and start --------------------------------------------------------------------------------------

    def flush(self) -> None:
        """The open commit stores everything that was gathered: another process continues with it."""
        if not self._restored.done or self._shard.refuses is not None or self._shard.ended is not None:
            return
        now_ms = self._shard.clock.now_ms()
        used_ms = {
            queue.id: queue.metrics.used_ms for queue in self._recorders if self._is_active(queue, now_ms)
        }
        chunks: dict[int, list[TimedRow]] = {}
        for queue, recorder in self._recorders.items():
            looks = MinuteLooks(levels_of(queue, now_ms), None, None)
            if rows := self._rows_until_now(queue, recorder, looks):
                chunks[queue.id] = rows
        if chunks:
            self._log.write([RecentEntry(now_ms // SECOND, used_ms=used_ms)], chunks)
            self._numbers.note(self._shard.numbers_to, now_ms)
            self._notes.put("numbers", self._numbers.stored)

    async def _restore(self) -> None:
        """Gather again what was in no chunk when the shard was closed or its process died."""
        try:
            gathered = await self._log.gathered()
        except StoreClosed:
            return
        except StoreError as error:
            log.warning("the metrics of the last hour cannot be read: %s", error)
        else:
            for queue, recorder in self._recorders.items():
                metrics, rows = queue.metrics, gathered.rows.get(queue.id)
                metrics.used_ms = max(metrics.used_ms, gathered.used_ms.get(queue.id, 0))
                if rows is not None:
                    recorder.minutes = rows
                    metrics.used_ms = max(metrics.used_ms, rows.end_s * SECOND - self._offset_ms)
        self._restored.resolve(None)
        self._set_round()

    # -- reading ---------------------------------------------------------------------------------------------

    async def points(
        self,
        queues: Sequence[LiveQueue],
        metrics: Sequence[QueueMetric],
        start_s: int,
        end_s: int,
        period_s: int,
    ) -> dict[LiveQueue, list[list[Point]]]:
        """For each queue and metric the buckets of a period, from ``start_s`` on; those without values are left out.

        A period of less than a minute has seconds, which are kept for some hours and not through a restart."""
        if period_s < MINUTE_S:
            rows, bucket_s = self._seconds(queues), SECOND_S
        else:
            rows, bucket_s = await self._minutes(queues, start_s), MINUTE_S
        now_s = (self._shard.clock.now_ms() + self._offset_ms) // SECOND

        def computed() -> Steps[dict[LiveQueue, list[list[Point]]]]:
            found: dict[LiveQueue, list[list[Point]]] = {}
            for queue, timed in rows.items():
                found[queue] = []
                for metric in metrics:
                    points = points_of(metric, timed, bucket_s, now_s)
                    found[queue].append((yield from merged_points(points, start_s, end_s, period_s)))
            return found

        return await self._turns.run(computed())

    def _seconds(self, queues: Sequence[LiveQueue]) -> dict[LiveQueue, list[TimedRow]]:
        now_ms = self._shard.clock.now_ms()
        for queue in queues:
            queue.metrics.pass_time(now_ms)
        return {queue: self._recorders[queue].second_rows() for queue in queues if queue in self._recorders}

    async def _minutes(self, queues: Sequence[LiveQueue], start_s: int) -> dict[LiveQueue, list[TimedRow]]:
        """What is stored, what was gathered, and the minute that has not ended."""
        await self._restored
        looks = await self._look_at(queues)
        while True:
            if self._writing is not None:
                await self._writing
            version = self._version
            stored = await self._log.chunks([queue.id for queue in queues], start_s, self._offset_ms)
            if version == self._version:
                break  # else rows may be in what was read and still be gathered, or neither
        found: dict[LiveQueue, list[TimedRow]] = {}
        for queue in queues:
            if (recorder := self._recorders.get(queue)) is not None:
                rows = stored[queue.id]
                rows.extend(self._rows_until_now(queue, recorder, looks[queue]))
                found[queue] = rows.timed
        return found

    def _rows_until_now(
        self, queue: LiveQueue, recorder: QueueRecorder, looks: MinuteLooks
    ) -> list[TimedRow]:
        metrics, now_ms = queue.metrics, self._shard.clock.now_ms()
        metrics.pass_time(now_ms)
        if not self._is_active(queue, now_ms):
            return recorder.gathered_rows()
        return recorder.rows_until_now(metrics.totals, metrics.sizes, looks)


def levels_of(queue: LiveQueue, now_ms: int) -> Levels | None:
    """None if memory is not loaded, or the store would have to be asked."""
    rules, shard = queue.rules, queue.shard
    if not queue.memory.loaded or shard.lease_ended():
        return None
    if rules.next_deadline_ms() <= now_ms:
        rules.advance(now_ms, shard.changes)
        queue.decided(now_ms)
    if isinstance(rules, FifoQueue):
        if rules.settings.delay_ms and rules.backlog.total:
            return None
        return _counted_levels(queue, rules.counts_with(0, now_ms))
    return _counted_levels(queue, rules.counts(now_ms))


def _counted_levels(queue: LiveQueue, counts: Counts) -> Levels:
    rules = queue.rules
    groups = rules.groups_in_flight if isinstance(rules, FifoQueue) else None
    return Levels(counts.visible, counts.in_flight, counts.delayed, groups)


def _kept(queue: LiveQueue, now_ms: int) -> Selection:
    """The messages of a queue that are not past their retention."""
    first_ms = queue.rules.backlog.expiry_cutoff_ms(now_ms) + 1
    return Selection(queue.id, queue.record.purged_to, enqueued_ms_min=first_ms)


def _first_rows(store: Store, which: list[Selection], rows_max: int) -> dict[int, list[EntryRow]]:
    """In the thread that reads."""
    return {selection.queue: store.select(selection, rows_max=rows_max) for selection in which}
