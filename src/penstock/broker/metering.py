"""Samples the queues of a shard, stores their samples and counts, and reads them back.

While a queue is used it is looked at every second. If too many are (``limits.metrics_seconds_queues``), each of the
others is looked at when a second ends in which it was used, so that what arrives is seen in every queue. Once a
minute, half a second after it has begun, every queue that is active is looked at, and what the last minute brought is
stored by one commit.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence, Set
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from penstock.broker.metric_log import (
    MetricLog,
    PackedChunk,
    PlacedEntry,
    RecentEntry,
    StoredRows,
    packed_chunks,
)
from penstock.broker.parts import Part
from penstock.broker.queue_figures import FigureReader, QueueFigures, is_walked, levels_of
from penstock.broker.queue_meter import (
    NO_LOOKS,
    ROW_BYTES,
    MinuteLooks,
    QueueMeter,
    SecondsMemory,
    looked_row,
)
from penstock.broker.runtime import Timer
from penstock.broker.shard import Shard
from penstock.clock import wall_offset
from penstock.errors import StoreClosed, StoreError
from penstock.limits import HOUR, MINUTE, SECOND
from penstock.metrics.budget import MetricBudget
from penstock.metrics.chunks import rows_between
from penstock.metrics.queue_hours import hour_points
from penstock.metrics.queue_rows import (
    ALL_LOOKS,
    SHORT_HELD_S,
    Look,
    NoisyGroups,
    QueueMetric,
    QueueRow,
    Rows,
    TimedQueueRow,
    points_of,
    short_points,
)
from penstock.metrics.series import MINUTE_S, Point, merged_points
from penstock.promise import Promise, run_detached
from penstock.store.port import LAST
from penstock.turns import Steps, Turns, in_pieces

if TYPE_CHECKING:
    from penstock.broker.live_queue import LiveQueue

log = logging.getLogger("penstock.broker")

_ACTIVE_MS = (
    6 * HOUR
)  # SQS: a queue has metrics while it holds messages, and for six hours after its last use
_AWAKE_MS = MINUTE
_ROUND_DELAY_MS = SECOND // 2  # so that the last second of the minute was looked at
_ROWS_MIN, _ROWS_MAX = 10, 60  # of a queue, before they are stored as a chunk
_CHUNK_MINUTES = 60  # from one chunk of a queue to the next
_UNWRITTEN_MAX = 60  # minutes
_QUEUES_PER_TURN = 100
_OLDEST_READ_MAX = 20  # queues whose oldest message is read from the store in a second
_SWEEPS = 24  # until every queue was swept, once an hour


class Metering(Part):
    """``memory``: for the seconds of all queues of the process. ``shards``: how many share the space for metrics."""

    def __init__(
        self, shard: Shard, figures: FigureReader, memory: SecondsMemory, shards: int, turns: Turns
    ) -> None:
        self._shard = shard
        self._figures = figures
        self._turns = turns
        self._memory = memory
        self._minutes_budget = MetricBudget(shard.limits.metrics_minutes_bytes)
        self._left_out_logged_ms = 0
        self._log = MetricLog(shard, shards)
        self._meters: dict[LiveQueue, QueueMeter] = {}
        self._awake: dict[LiveQueue, None] = {}
        self._used: dict[LiveQueue, None] = {}  # in this second, of those that are not awake
        self._to_find: dict[
            LiveQueue, None
        ] = {}  # their oldest message is not known, in the order of their turn
        self._offset_ms = wall_offset(shard.clock)
        self._tick: Timer | None = None
        self._round: Timer | None = None
        self._restored: Promise[None] = Promise()
        self._stopped = False
        self._unwritten: list[PlacedEntry] = []  # minutes whose commit was refused
        self._ended_s: int | None = None  # the last minute in which all queues were looked at
        self._chunked_to: int | None = None  # the last minute whose due chunks are stored
        self._swept = 0
        # What a stop stores: the packed minutes of queues, by id.
        self._packed: dict[int, tuple[Rows, PackedChunk]] = {}

    def start(self) -> None:
        run_detached(self._restore())

    def stop(self) -> None:
        self._stopped = True
        for timer in (self._tick, self._round):
            if timer is not None:
                timer.cancel()

    # -- which queues ----------------------------------------------------------------------------------------

    def add(self, queue: LiveQueue) -> None:
        meter = QueueMeter(
            queue.name.account,
            self._memory,
            self._minutes_budget,
            self._wall_offset_ms,
            partial(self._wake, queue),
        )
        self._meters[queue] = meter
        self._log.add(queue.id, queue.name.account)
        queue.metrics.measure_with(meter)

    def leave(self, queue: LiveQueue) -> None:
        """The queue does not exist any more."""
        self._meters.pop(queue).forget()
        self._log.leave(queue.id)
        for queues in (self._awake, self._used, self._to_find):
            queues.pop(queue, None)

    def queue_deleted(self, queue: LiveQueue) -> None:
        self._log.forget([queue.id])

    def forget(self) -> None:
        for meter in self._meters.values():
            meter.forget()

    def _is_active(self, queue: LiveQueue, now_ms: int) -> bool:
        """Whether it has rows of minutes. In exposition, a queue is active from its first use on."""
        return queue.holds_messages or (
            queue.metrics.used_ms > 0 and now_ms - queue.metrics.used_ms < _ACTIVE_MS + MINUTE
        )

    def _wall_offset_ms(self) -> int:
        return self._offset_ms

    # -- every second ----------------------------------------------------------------------------------------

    def _wake(self, queue: LiveQueue) -> None:
        """Looks at the queue when this second ends, and every second until a minute after its last use if not too
        many are looked at already."""
        meter = self._meters.get(queue)
        if meter is None or self._stopped:
            return
        if len(self._awake) < self._shard.limits.metrics_seconds_queues:
            meter.awake = True
            self._awake[queue] = None
        else:
            self._used[queue] = None
        if self._tick is None:
            self._figures.note_numbers(after_idle=True)
            self._set_tick()

    def _set_tick(self) -> None:
        now_ms = self._shard.clock.now_ms()
        next_ms = now_ms + SECOND - (now_ms + self._offset_ms) % SECOND
        self._tick = self._shard.runtime.at(next_ms, self._look_at_awake)

    def _look_at_awake(self) -> None:
        self._tick = None
        self._offset_ms = wall_offset(self._shard.clock)
        run_detached(self._look_at_used())

    async def _look_at_used(self) -> None:
        self._figures.note_numbers()
        looked_at, self._used = self._awake | self._used, {}
        await self._find_oldest(looked_at)
        await self._turns.run(self._looks(looked_at))

    async def _find_oldest(self, queues: Iterable[LiveQueue]) -> None:
        """Reads the oldest messages of queues that are not walked over and of which the one that was found last is
        gone. If too many are, the others come next."""
        for queue in queues:
            meter = self._meters.get(queue)
            if meter is None or not queue.memory.loaded or is_walked(queue):
                continue
            if meter.oldest is None or not self._figures.is_oldest(queue, meter.oldest):
                self._to_find.setdefault(queue)
        due = [queue for queue, _ in zip(self._to_find, range(_OLDEST_READ_MAX), strict=False)]
        for queue in due:
            del self._to_find[queue]
        if not due:
            return
        try:
            found = await self._figures.oldest_stored(due)
        except StoreError as error:
            log.debug("the oldest messages of %d queues cannot be read: %s", len(due), error)
            return
        except Exception:
            # Without this look there would be no other.
            log.exception("looking for the oldest messages failed")
            return
        for queue in due:
            if (meter := self._meters.get(queue)) is not None:
                meter.oldest = found.get(queue)

    def _looks(self, looked_at: Iterable[LiveQueue]) -> Steps[None]:
        for queue in looked_at:
            now_ms, meter = self._shard.clock.now_ms(), self._meters.get(queue)
            if meter is None or self._stopped:
                continue  # it was deleted meanwhile
            metrics = queue.metrics
            metrics.pass_time(now_ms)
            levels = levels_of(queue, now_ms)
            oldest_s, is_known = self._oldest_s(queue, meter)
            meter.look(now_ms, levels, oldest_s, knows_oldest=is_known)
            if now_ms - metrics.used_ms > _AWAKE_MS:
                meter.awake = False
                self._awake.pop(queue, None)
            yield
        if (self._awake or self._used) and not self._stopped and self._tick is None:
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
        self._memory.trim(minute_s)
        position = self._log.next_entry_position()
        rows: list[tuple[int, int, QueueRow]] = []
        same: list[int] = []
        async for queue, looks in self._active_queues(now_ms):
            if self._stopped:
                return  # a stop stores what was gathered
            queue.metrics.pass_time(now_ms)
            meter = self._meters[queue]
            for at_s, row in meter.end_minute(minute_s, looks, self._ended_s):
                if not meter.takes_minutes:
                    self._log_left_out(now_ms)
                elif meter.add_minute(at_s, row, position) or at_s != minute_s:
                    rows.append((queue.id, at_s, row))
                else:
                    same.append(queue.id)
        self._ended_s = minute_s
        if rows or same:
            entry = PlacedEntry(position, RecentEntry(minute_s, rows, same))
            self._unwritten = [*self._unwritten[1 - _UNWRITTEN_MAX :], entry]
        if self._chunked_to is None:
            self._chunked_to = minute_s // MINUTE_S - 1
        if self._unwritten and shard.refuses is None and shard.ended is None:
            due = self._due_chunks(minute_s // MINUTE_S, self._chunked_to)
            await self._write(minute_s, *await self._turns.run(due))

    def _log_left_out(self, now_ms: int) -> None:
        if now_ms >= self._left_out_logged_ms + HOUR:
            self._left_out_logged_ms = now_ms
            log.warning("minutes of queues are left out of their metrics: too many could not be stored")

    async def _write(
        self, minute_s: int, chunks: dict[LiveQueue, list[TimedQueueRow]], recent_from: int
    ) -> None:
        shard = self._shard
        rows = {queue.id: gathered for queue, gathered in chunks.items()}
        packed = await self._turns.run(packed_chunks(rows, minute_s + MINUTE_S))
        if self._stopped or shard.refuses is not None or shard.ended is not None:
            return  # a stop stores what was gathered
        by_id = {queue.id: packed[queue.id] for queue in chunks if queue in self._meters}
        position, last = self._unwritten[-1]
        last = RecentEntry(last.minute_s, last.rows, last.same, list(by_id))
        entries = [*self._unwritten[:-1], PlacedEntry(position, last)]
        meters = [self._meters[queue] for queue in chunks if queue in self._meters]
        for meter in meters:
            meter.begin_chunk()
        settled = partial(self._settled, minute_s // MINUTE_S, position, meters)
        self._log.write(entries, by_id, recent_from, settled)
        self._figures.store_numbers()
        if minute_s % (60 * MINUTE_S) == 0:
            self._sweep()
        await shard.settled()

    def _settled(self, minute: int, position: int, meters: Iterable[QueueMeter], is_durable: bool) -> None:
        """The outcome of a commit with the entries up to this position and with chunks of these queues is known."""
        if is_durable:
            self._unwritten = [each for each in self._unwritten if each.position > position]
            self._chunked_to = minute
        for meter in meters:
            meter.end_chunk(is_durable=is_durable)

    def _due_chunks(
        self, minute: int, done_to: int
    ) -> Steps[tuple[dict[LiveQueue, list[TimedQueueRow]], int]]:
        """Returns the rows to pack, and the position of the first recent entry with other rows. A queue is due once
        an hour, in its own minute, or if its rows take much memory. ``done_to``: the last minute of which this was
        stored. Those after it may have been refused or left out."""
        passed = max(1, minute - done_to)
        budget, size_max = self._minutes_budget, LAST
        if budget.used > budget.bytes_max // 2:
            busy = 0
            for piece in in_pieces(list(self._meters.values())):
                busy += sum(len(meter.minutes.timed) > 1 for meter in piece)
                yield
            size_max = max(_ROWS_MIN * ROW_BYTES, budget.bytes_max // 2 // (busy or 1))
        found: dict[LiveQueue, list[TimedQueueRow]] = {}
        recent_from = LAST
        for pairs in in_pieces(list(self._meters.items())):
            for queue, meter in pairs:
                rows = meter.minutes.timed
                if not rows:
                    continue
                is_due = (minute + queue.id) % _CHUNK_MINUTES < passed
                if is_due or len(rows) >= _ROWS_MAX or meter.minutes_bytes >= size_max:
                    found[queue] = list(rows)
                else:
                    recent_from = min(recent_from, meter.recent_from)
            yield
        return found, recent_from

    def _sweep(self) -> None:
        queues = sorted(queue.id for queue in self._meters)
        share = len(queues) // _SWEEPS + 1
        if self._swept >= len(queues):
            self._swept = 0
        self._log.sweep(queues[self._swept : self._swept + share])
        self._swept += share

    # -- looks -----------------------------------------------------------------------------------------------

    async def _active_queues(self, now_ms: int) -> AsyncGenerator[tuple[LiveQueue, MinuteLooks], None]:
        """Yields each active queue with what is seen of it, some in each turn of the loop."""
        for piece in in_pieces(list(self._meters), _QUEUES_PER_TURN):
            part = [queue for queue in piece if self._is_active(queue, now_ms)]
            looks = await self._look_at(dict.fromkeys(part, ALL_LOOKS))
            for queue in part:
                if queue in self._meters:  # it may have been deleted meanwhile
                    yield queue, looks[queue]
            await self._shard.turn()

    async def _look_at(self, wanted: Mapping[LiveQueue, Set[Look]]) -> dict[LiveQueue, MinuteLooks]:
        return {
            queue: self._looks_of(figures) for queue, figures in (await self._figures.figures(wanted)).items()
        }

    def _looks_of(self, figures: QueueFigures) -> MinuteLooks:
        """The figures in the form of a row."""
        levels, noisy, groups = figures.levels, figures.noisy, None
        if noisy is not None:
            quiet = None
            if levels is not None:
                quiet = (
                    max(0, levels.visible - noisy.visible),
                    max(0, levels.in_flight - noisy.in_flight),
                    max(0, levels.delayed - noisy.delayed),
                )
            groups = NoisyGroups(
                noisy.tenants, noisy.visible, noisy.in_flight, noisy.delayed,
                self._wall_s(noisy.quiet_oldest_ms), quiet,
            )  # fmt: skip
        return MinuteLooks(levels, self._wall_s(figures.oldest_ms), groups)

    def _oldest_s(self, queue: LiveQueue, meter: QueueMeter) -> tuple[int | None, bool]:
        """Returns when the oldest message came, and whether that is known. If that takes a read of the store, it is
        what was found last."""
        if is_walked(queue):
            return self._wall_s(self._figures.oldest_in_memory(queue)), True
        if meter.oldest is not None and self._figures.is_oldest(queue, meter.oldest):
            return self._wall_s(meter.oldest.came_ms), True
        return meter.last.oldest_s, False

    def _wall_s(self, now_ms: int | None) -> int | None:
        return None if now_ms is None else (now_ms + self._offset_ms) // SECOND

    # -- stop and start --------------------------------------------------------------------------------------

    async def prepare_flush(self) -> None:
        """Packs what was gathered."""
        if self._restored.done and self._shard.refuses is None and self._shard.ended is None:
            minutes = {queue.id: meter.minutes for queue, meter in self._meters.items()}
            rows = {id: list(gathered.timed) for id, gathered in minutes.items() if gathered.timed}
            chunks = await self._turns.run(packed_chunks(rows, LAST))
            self._packed = {id: (minutes[id], chunk) for id, chunk in chunks.items()}

    def flush(self) -> None:
        """The open commit stores everything that was gathered: another process continues with it. What is not packed
        is in a recent entry, with the minute that has not ended, so that no minute is in two chunks."""
        if not self._restored.done or self._shard.refuses is not None or self._shard.ended is not None:
            return
        now_ms = self._shard.clock.now_ms()
        used_ms: dict[int, int] = {}
        chunks: dict[int, PackedChunk] = {}
        others: list[tuple[int, int, QueueRow]] = []
        for queue, meter in self._meters.items():
            if self._is_active(queue, now_ms):
                used_ms[queue.id] = queue.metrics.used_ms
            levels = levels_of(queue, now_ms) or meter.last.levels
            looks = MinuteLooks(levels, self._oldest_s(queue, meter)[0], meter.last.noisy)
            # A commit under way may have chunks: if it is refused, so is this one.
            rows = self._rows_until_now(queue, meter, looks, with_taken=False)
            packed = self._packed.get(queue.id)
            if packed is not None and packed[0] is meter.minutes:
                chunks[queue.id] = packed[1]
            else:
                rows = [*meter.minutes.timed, *rows]
            others += [(queue.id, at_s, row) for at_s, row in rows_between(rows, MINUTE_S, 0, LAST)]
        if chunks or others:
            position = self._log.next_entry_position()
            entry = RecentEntry(now_ms // SECOND, others, used_ms=used_ms)
            self._log.write([PlacedEntry(position, entry)], chunks, position)
            self._figures.note_numbers()
            self._figures.store_numbers(now=True)

    async def _restore(self) -> None:
        """Gather again what was in no chunk when the shard was closed or its process died."""
        try:
            gathered = await self._log.gathered()
        except StoreClosed:
            return
        except StoreError as error:
            log.warning("the metrics of the last hour cannot be read: %s", error)
        else:
            for queue, meter in self._meters.items():
                metrics, rows = queue.metrics, gathered.rows.get(queue.id)
                metrics.used_ms = max(metrics.used_ms, gathered.used_ms.get(queue.id, 0))
                if rows is not None:
                    meter.restore_minutes(rows, gathered.first[queue.id])
                    if queue.id not in gathered.used_ms:
                        metrics.used_ms = max(metrics.used_ms, rows.end_s * SECOND - self._offset_ms)
        self._restored.resolve(None)
        self._set_round()

    # -- reading ---------------------------------------------------------------------------------------------

    async def points(
        self, asked: Sequence[tuple[LiveQueue, QueueMetric]], start_s: int, end_s: int, period_s: int
    ) -> list[list[Point]]:
        """Returns the buckets of a period for each queue and metric, from ``start_s`` on; those without values are
        left out. Periods of whole hours have the hours that are in one period each.

        A period of less than a minute has seconds, which are kept for some hours while a queue is used, and not
        through a restart. Where there are none, numbers of messages hold their values."""
        wanted: defaultdict[LiveQueue, set[Look]] = defaultdict(set)
        places: defaultdict[LiveQueue, list[int]] = defaultdict(list)
        for place, (queue, metric) in enumerate(asked):
            wanted[queue].update(metric.looks)
            places[queue].append(place)
        looks = await self._present_looks(wanted, end_s)
        found: list[list[Point]] = [[] for _ in asked]
        times = start_s, end_s, period_s
        for (
            queue,
            of_queue,
        ) in places.items():  # one after the other, because the rows of many take much memory
            points = await self._points_of([asked[place] for place in of_queue], queue, looks[queue], *times)
            for place, each in zip(of_queue, points, strict=False):
                found[place] = each
        return found

    async def _points_of(
        self,
        asked: Sequence[tuple[LiveQueue, QueueMetric]],
        queue: LiveQueue,
        looks: MinuteLooks,
        start_s: int,
        end_s: int,
        period_s: int,
    ) -> list[list[Point]]:
        """Returns the points of one queue by metric; an empty list if the queue does not exist any more."""
        is_short = period_s < MINUTE_S
        from_s = start_s - SHORT_HELD_S if is_short else start_s
        known = await self._rows(queue, looks, from_s, end_s, period_s)
        if known is None:
            return []
        minutes, hours = known.minutes.timed, known.hours
        now_s = (self._shard.clock.now_ms() + self._offset_ms) // SECOND
        seconds = [
            self._seconds(queue, metric, looks, from_s, now_s) if is_short else () for _, metric in asked
        ]

        def computed() -> Steps[list[list[Point]]]:
            found: list[list[Point]] = []
            for (_, metric), short in zip(asked, seconds, strict=True):
                if is_short:
                    points = yield from short_points(metric, short, minutes, start_s, end_s, period_s, now_s)
                else:
                    rows = rows_between(minutes, MINUTE_S, start_s, end_s)
                    by_minute = points_of(metric, rows, MINUTE_S, now_s)
                    all_points = chain(hour_points(metric, hours), by_minute)
                    points = yield from merged_points(all_points, start_s, end_s, period_s)
                found.append(points)
            return found

        return await self._turns.run(computed(), of=queue.name.account)

    async def _present_looks(
        self, wanted: Mapping[LiveQueue, Set[Look]], end_s: int
    ) -> dict[LiveQueue, MinuteLooks]:
        """A queue is looked at only if a minute is asked for in which not all queues were looked at yet."""
        await self._restored
        minute_s = (self._shard.clock.now_ms() + self._offset_ms) // MINUTE * MINUTE_S
        looked_to_s = minute_s if self._ended_s == minute_s - MINUTE_S else minute_s - MINUTE_S
        looks = {} if end_s <= looked_to_s else await self._look_at(wanted)
        return {queue: looks.get(queue, NO_LOOKS) for queue in wanted}

    def _seconds(
        self, queue: LiveQueue, metric: QueueMetric, looks: MinuteLooks, start_s: int, now_s: int
    ) -> Iterable[tuple[int, QueueRow]]:
        """Returns the seconds that have ended, and for a gauge also what the queue has now."""
        meter = self._meters.get(queue)
        if meter is None:
            return ()
        rows = meter.second_rows(start_s, now_s)
        return chain(rows, [(now_s, looked_row(looks))]) if metric.looks else rows

    async def _rows(
        self, queue: LiveQueue, looks: MinuteLooks, start_s: int, end_s: int, period_s: int
    ) -> StoredRows | None:
        """What is stored, what was gathered, and the minute that has not ended. The store is read only if not enough
        was gathered."""
        while (meter := self._meters.get(queue)) is not None:
            minutes, gathered = meter.minutes, self._rows_until_now(queue, meter, looks)
            from_s, offset_ms = meter.minutes_from_s, self._offset_ms
            stored = await self._log.read(queue.id, start_s, end_s, period_s, from_s, offset_ms)
            if meter.minutes is minutes:  # else rows may be in what was read and be gathered
                stored.minutes.extend(gathered)
                return stored
        return None

    def _rows_until_now(
        self, queue: LiveQueue, meter: QueueMeter, looks: MinuteLooks, *, with_taken: bool = True
    ) -> list[TimedQueueRow]:
        metrics, now_ms = queue.metrics, self._shard.clock.now_ms()
        metrics.pass_time(now_ms)
        if not self._is_active(queue, now_ms):
            return meter.gathered_rows(with_taken=with_taken)
        return meter.rows_until_now(metrics.totals, metrics.sizes, looks, with_taken=with_taken)
