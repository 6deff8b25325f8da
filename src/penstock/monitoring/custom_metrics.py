"""The metrics that clients send to one shard: in memory as series, in the store as what was sent and as chunks.

What a request sends is one record of its commit, so that it is durable before the answer, and joins the series in
memory then. Every ten minutes the chunks that have changed are stored, and the records of what they contain are
removed by the same commit: after a crash nothing is lost and nothing is counted twice. While that commit is made
ready, no values join the series.

All series of a process share a budget of bytes. Beyond it the oldest chunks of accounts that use more than their
share are forgotten; if that does not help, values of these accounts are refused. Other accounts notice nothing.
"""

from __future__ import annotations

import logging
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Any, Generic, TypeVar

import msgspec

from penstock.broker.parts import Part
from penstock.broker.runtime import Timer
from penstock.broker.shard import RecordTable, Shard
from penstock.errors import QuotaReached, StoreError
from penstock.limits import MINUTE, SECOND
from penstock.metrics.buckets import Bucket
from penstock.metrics.budget import MetricBudget
from penstock.metrics.series import CHUNK_BUCKETS, ChunkId, MetricKey, Series
from penstock.names import Home, Space
from penstock.promise import Promise, run_detached
from penstock.store.changes import RecordKind
from penstock.store.moving import by_home
from penstock.turns import Steps, Turns, finished

log = logging.getLogger("penstock.monitoring")

T = TypeVar("T")

_STORE_EVERY_MS = 10 * MINUTE
_SENT_BYTES_MAX = 8 * 1024 * 1024  # of records of what was sent: then chunks are stored at once
_DATUM_BYTES, _VALUE_BYTES = (
    1200,
    320,
)  # what a datum may add to its four levels at most, and each of its values
_METRIC_BYTES = 1000
_METRICS_PER_TURN = 25
_RELIEF_PAUSE_MS = 10 * SECOND


class Datum(msgspec.Struct, frozen=True, array_like=True):
    """What a client says of a metric at a time."""

    name: str
    dimensions: tuple[tuple[str, str], ...]  # sorted
    unit: str
    at_s: float
    bucket: Bucket
    high_resolution: bool = False

    @property
    def cost(self) -> int:
        return _DATUM_BYTES + _VALUE_BYTES * len(self.bucket.sketch or ())


class SentData(msgspec.Struct, frozen=True):
    """What a request sent; removed when it is part of stored chunks."""

    space: Space
    namespace: str
    data: tuple[Datum, ...]

    @property
    def cost(self) -> int:
        return sum(datum.cost for datum in self.data)


class MetricRecord(msgspec.Struct, frozen=True):
    space: Space
    key: MetricKey


SENT_DATA = RecordKind("metric-data", SentData, by_home)
METRICS = RecordKind("metric-2", MetricRecord, by_home)
CHUNKS = RecordKind("metric-chunk-2", bytes, by_home)
FORMER_METRICS = RecordKind("metric", MetricRecord, by_home)
FORMER_CHUNKS = RecordKind("metric-chunk", bytes, by_home)


class RenewedTable(Generic[T]):
    """Records of a kind whose form has changed, and which has another name since then: an earlier release, such as a
    node that is not upgraded yet, does not see what it cannot read. What it stores is read, and gets the new name
    when it is stored again."""

    def __init__(self, shard: Shard, kind: RecordKind[T], former: RecordKind[T]) -> None:
        self._renewed = shard.table(kind)
        self._former = shard.table(former)

    def __iter__(self) -> Iterator[tuple[str, T]]:
        """Yields the records of both tables, which may have one of the same key."""
        yield from self._renewed
        yield from self._former

    def __len__(self) -> int:
        return len(self._renewed) + len(self._former)

    def is_renewed(self, key: str) -> bool:
        return self._renewed.get(key) is not None

    def put(self, key: str, record: T) -> None:
        self._renewed.put(key, record)
        if self._former.get(key) is not None:
            self._former.remove(key)

    def remove(self, key: str) -> None:
        """Remove the record of this key, if there is one."""
        for table in (self._renewed, self._former):
            if table.get(key) is not None:
                table.remove(key)


def metrics_home(space: Space, namespace: str) -> Home:
    """All metrics of a namespace live in one shard, so that what a request sends is one commit."""
    return Home.of("metrics", space.account, space.region, namespace)


class CustomMetric:
    """One metric: a series for each unit."""

    __slots__ = ("cost", "key", "record_key", "series", "space")

    def __init__(self, space: Space, key: MetricKey) -> None:
        self.space = space
        self.key = key
        digest = blake2b(msgspec.msgpack.encode(key), digest_size=16).hexdigest()
        self.record_key = metrics_home(space, key.namespace).key(digest)
        self.series: dict[str, Series] = {}  # by unit
        self.cost = _METRIC_BYTES  # in bytes, at most

    @property
    def newest_s(self) -> int:
        return max((series.newest_s for series in self.series.values()), default=0)

    @property
    def is_empty(self) -> bool:
        return not any(series.chunks() for series in self.series.values())

    @property
    def size(self) -> int:
        return _METRIC_BYTES + sum(series.size for series in self.series.values())

    def of_unit(self, unit: str) -> Series:
        return self.series.setdefault(unit, Series())

    def chunk_key(self, unit: str, chunk: ChunkId) -> str:
        return f"{self.record_key}/{unit}/{chunk.bucket_s}/{chunk.number}"


class CustomMetrics(Part):
    def __init__(self, shard: Shard, budget: MetricBudget, metrics_max: int, turns: Turns) -> None:
        """``metrics_max``: of one account in this shard."""
        self._shard = shard
        self._turns = turns
        self._budget = budget
        self._metrics_max = metrics_max
        self._by_space: dict[Space, dict[MetricKey, CustomMetric]] = {}
        self._sorted: dict[Space, list[MetricKey]] = {}  # of spaces whose metrics were listed
        self._sent: RecordTable[SentData] = shard.table(SENT_DATA, self._undone)
        self._joined: set[str] = set()  # records of what was sent that is part of the series
        self._sent_bytes = 0
        self._records = RenewedTable(shard, METRICS, FORMER_METRICS)
        self._chunks = RenewedTable(shard, CHUNKS, FORMER_CHUNKS)
        self._old: list[str] = []  # chunks that are to be removed from the store
        self._storing: Promise[None] | None = None
        self._joining: Promise[None] | None = None  # of one request at a time
        self._timer: Timer | None = None
        self._relieved_ms = 0
        self._stopped = False
        self._load()

    def _load(self) -> None:
        found: dict[str, CustomMetric] = {}
        for key, record in self._records:
            found[key] = self._metric(record.space, record.key)
        for key, packed in self._chunks:
            record_key, _, rest = key.partition("/")[2].partition("/")
            metric = found.get(f"{key[:16]}/{record_key}")
            unit, bucket_s, number = rest.rsplit("/", 2)
            if metric is not None:
                metric.of_unit(unit).put_chunk(ChunkId(int(bucket_s), int(number)), packed)
        self._join_all()
        self._undone()
        for metric in self:
            self._trim(metric)
        finished(self._measure())

    # -- work that no request asks for -----------------------------------------------------------------------

    def start(self) -> None:
        if len(self._records) or len(self._sent):
            self._set_timer()

    def stop(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def forget(self) -> None:
        for metric in self:
            self._budget.add(metric.space.account, -metric.cost)

    def _set_timer(self) -> None:
        if self._timer is None and not self._stopped:
            self._timer = self._shard.runtime.at(self._shard.clock.now_ms() + _STORE_EVERY_MS, self._round)

    def _round(self) -> None:
        self._timer = None
        if not self._stopped:
            self._set_timer()
            self._store_soon()

    def _store_soon(self) -> None:
        if self._storing is None and not self._stopped:
            run_detached(self.store())

    # -- values that come ------------------------------------------------------------------------------------

    async def put(self, space: Space, namespace: str, data: Sequence[Datum]) -> None:
        """Done when it is durable and can be read. Raises QuotaReached, NotOwned or StoreError."""
        shard = self._shard
        shard.check_not_ended()
        shard.check_owned()
        shard.check_sends()
        self._check_room(space, namespace, data)
        sent = SentData(space, namespace, tuple(data))
        key = metrics_home(space, namespace).key(f"{shard.next_number():020d}")
        self._sent.put(key, sent)
        self._sent_bytes += sent.cost
        await shard.settled()
        while (busy := self._storing or self._joining) is not None:
            await busy
        if key not in self._joined and self._sent.get(key) is not None:
            self._joining = done = Promise[None]()
            try:
                await self._turns.run(self._join(key, sent), space.account)
            finally:
                self._joining = None
                done.resolve(None)
        self._set_timer()
        if self._sent_bytes > _SENT_BYTES_MAX:
            self._store_soon()

    def _check_room(self, space: Space, namespace: str, data: Sequence[Datum]) -> None:
        if self._budget.is_spent:
            self._relieve()
            if self._budget.is_spent and self._budget.is_above_share(space.account):
                raise QuotaReached("bytes of metrics in memory", self._budget.bytes_max)
        known = self._by_space.get(space, {})
        keys = {MetricKey(namespace, datum.name, datum.dimensions) for datum in data}
        new = sum(key not in known for key in keys)
        if new:
            present = sum(len(each) for of, each in self._by_space.items() if of.account == space.account)
            if present + new > self._metrics_max:
                raise QuotaReached("metrics in one shard", self._metrics_max)

    def _undone(self, key: str = "", record: SentData | None = None) -> None:
        self._sent_bytes = sum(each.cost for _, each in self._sent)

    def _join_all(self) -> None:
        """Everything that was sent and is durable becomes part of the series."""
        for key, sent in self._sent:
            if key not in self._joined:
                finished(self._join(key, sent))

    def _join(self, key: str, sent: SentData) -> Steps[None]:
        self._joined.add(key)
        # Values of one series are added in order of time, because switching chunks is slow.
        for datum in sorted(sent.data, key=lambda each: (each.name, each.dimensions, each.unit, each.at_s)):
            metric = self._metric(sent.space, MetricKey(sent.namespace, datum.name, datum.dimensions))
            series = metric.of_unit(datum.unit)
            series.add(datum.bucket, datum.at_s, high_resolution=datum.high_resolution)
            metric.cost += datum.cost
            self._budget.add(sent.space.account, datum.cost)
            yield
            if self._stopped:
                return  # it is stored as it was sent

    def _metric(self, space: Space, key: MetricKey) -> CustomMetric:
        metrics = self._by_space.setdefault(space, {})
        metric = metrics.get(key)
        if metric is None:
            metric = metrics[key] = CustomMetric(space, key)
            self._budget.add(space.account, metric.cost)
            if space in self._sorted:
                insort(self._sorted[space], key)
        return metric

    # -- chunks ----------------------------------------------------------------------------------------------

    async def store(self) -> None:
        """Store the chunks that have changed, instead of what was sent."""
        self._storing = done = Promise[None]()
        try:
            await self._shard.settled()
            while self._joining is not None:
                await self._joining
            self._join_all()  # also what was sent by requests whose commit was made although they were refused
            await self._store()
        except StoreError as error:
            if not self._stopped:
                log.warning("metrics could not be stored and stay as they were sent: %s", error)
        finally:
            self._storing = None
            done.resolve(None)

    async def _store(self) -> None:
        shard = self._shard
        packed: dict[str, bytes] = {}
        changed: list[tuple[CustomMetric, Series, set[ChunkId]]] = []
        empty: list[CustomMetric] = []
        for number, metric in enumerate(list(self)):
            if number % _METRICS_PER_TURN == _METRICS_PER_TURN - 1:
                await shard.turn()
            self._trim(metric)
            if metric.is_empty:
                empty.append(metric)
            for unit, series in metric.series.items():
                if series.changed:
                    packed |= {
                        metric.chunk_key(unit, each): series.chunk(each) or b"" for each in series.changed
                    }
                    changed.append((metric, series, set(series.changed)))
        if self._stopped:
            return
        for metric, series, _ in changed:
            if not self._records.is_renewed(metric.record_key):
                self._records.put(metric.record_key, MetricRecord(metric.space, metric.key))
            series.changed.clear()
        for key, data in packed.items():
            self._chunks.put(key, data)
        old, self._old = self._old, []
        self._forget(old, empty)
        joined, self._joined = self._joined, set()
        for key in joined:
            self._sent.remove(key)
        self._undone()
        try:
            await shard.settled()
        except StoreError:
            # What was sent is there again, and part of the series already.
            self._joined |= {key for key in joined if self._sent.get(key) is not None}
            for _, series, chunks in changed:
                series.changed |= chunks
            self._old += old
            raise
        await self._turns.run(self._measure())

    def _trim(self, metric: CustomMetric) -> None:
        """Forget what is older than is kept."""
        now_s = self._shard.clock.wall_ms() // SECOND
        for unit, series in metric.series.items():
            self._old += [metric.chunk_key(unit, chunk) for chunk in series.trim(now_s)]

    def _forget(self, chunk_keys: Sequence[str], empty: Iterable[CustomMetric]) -> None:
        for key in chunk_keys:
            self._chunks.remove(key)
        for metric in empty:
            self._remove(metric)

    def _remove(self, metric: CustomMetric) -> None:
        self._budget.add(metric.space.account, -metric.cost)
        self._records.remove(metric.record_key)
        del self._by_space[metric.space][metric.key]
        if metric.space in self._sorted:
            keys = self._sorted[metric.space]
            del keys[bisect_left(keys, metric.key)]
        if not self._by_space[metric.space]:
            del self._by_space[metric.space]
            self._sorted.pop(metric.space, None)

    # -- memory ----------------------------------------------------------------------------------------------

    def _measure(self) -> Steps[None]:
        for metric in self:
            if not self._stopped and self.get(metric.space, metric.key) is metric:
                before, metric.cost = metric.cost, metric.size
                self._budget.add(metric.space.account, metric.cost - before)
            yield

    def _relieve(self) -> None:
        """Forget the oldest chunks of accounts above their share, until a tenth of the budget is free."""
        now_ms = self._shard.clock.now_ms()
        if now_ms < self._relieved_ms + _RELIEF_PAUSE_MS:
            return
        self._relieved_ms = now_ms
        finished(self._measure())
        wanted = self._budget.bytes_max * 9 // 10
        if not self._budget.is_spent or self._storing is not None:
            return
        oldest = sorted(
            ((chunk.number + 1) * CHUNK_BUCKETS * chunk.bucket_s, number, unit, chunk)
            for number, metric in enumerate(self)
            for unit, series in metric.series.items()
            for chunk in series.chunks() - series.changed
        )
        metrics = list(self)
        forgotten = []
        for _, number, unit, chunk in oldest:
            if self._budget.used <= wanted:
                break
            metric = metrics[number]
            if not self._budget.is_above_share(metric.space.account):
                continue
            before = metric.series[unit].size
            metric.series[unit].drop(chunk)
            freed = before - metric.series[unit].size
            self._budget.add(metric.space.account, -freed)
            metric.cost -= freed
            forgotten.append(metric.chunk_key(unit, chunk))
        self._forget(forgotten, [metric for metric in metrics if metric.is_empty])
        log.warning(
            "metrics take more memory than they may: %d of the oldest chunks were forgotten", len(forgotten)
        )

    # -- reading ---------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[CustomMetric]:
        return iter([metric for metrics in self._by_space.values() for metric in metrics.values()])

    def get(self, space: Space, key: MetricKey) -> CustomMetric | None:
        return self._by_space.get(space, {}).get(key)

    def beyond(self, space: Space, after: tuple[Any, ...], metrics_max: int) -> list[CustomMetric]:
        """The first metrics beyond a key or the beginning of one, in order of their keys."""
        metrics = self._by_space.get(space)
        if metrics is None:
            return []
        if space not in self._sorted:
            self._sorted[space] = sorted(metrics)
        keys: list[Any] = self._sorted[space]
        begin = bisect_right(keys, after)
        return [metrics[key] for key in keys[begin : begin + metrics_max]]
