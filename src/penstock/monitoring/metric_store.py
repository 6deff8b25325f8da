"""Stores the metrics of one shard: in memory as series, in the store as what was sent and as chunks.

There are two such stores in a shard: one for what clients send, and one for what services measure
(:mod:`penstock.monitoring.measured`).

What is sent is one record of a commit, and joins the series in memory when that is durable. Every ten minutes the
chunks that have changed are stored, and the records of what they contain are removed by the same commit: after a
crash nothing is lost and nothing is counted twice. While that commit is made ready, no values join the series.

All series of a process share a budget of bytes. Beyond it the oldest chunks of accounts that use more than their
share are forgotten; if that does not help, values of these accounts are refused. Other accounts notice nothing.
"""

from __future__ import annotations

import logging
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import chain
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from penstock.broker.parts import Part
from penstock.broker.runtime import Timer
from penstock.broker.shard import RecordTable, Shard
from penstock.errors import QuotaReached, StoreError
from penstock.limits import MINUTE, SECOND
from penstock.metrics.buckets import Bucket
from penstock.metrics.budget import MetricBudget
from penstock.metrics.series import CHUNK_BUCKETS, ChunkId, MetricKey, Point, Series, merged_points
from penstock.names import Home, Space
from penstock.promise import Promise, run_detached
from penstock.store.changes import RecordKind
from penstock.store.moving import by_home
from penstock.turns import Steps, Turns, finished

log = logging.getLogger("penstock.monitoring")

T = TypeVar("T")

_STORE_EVERY_MS = 10 * MINUTE
_SENT_BYTES_MAX = 8 * 1024 * 1024  # of records of what was sent: then chunks are stored at once
# A datum adds at most so much to its four levels, and each of its values so much more.
_DATUM_BYTES, _VALUE_BYTES = 1200, 320
_METRIC_BYTES = 1000
_RELIEF_PAUSE_MS = 10 * SECOND


class Datum(msgspec.Struct, frozen=True, array_like=True):
    """A value of a metric at a time, or several."""

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
    """Data that came together, such as with a request. The record is removed when they are part of stored chunks."""

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


class MetricKinds(NamedTuple):
    """The kinds of records that one store of metrics has."""

    sent: RecordKind[SentData]
    metrics: RecordKind[MetricRecord]
    chunks: RecordKind[bytes]
    former_metrics: RecordKind[MetricRecord] | None = None
    former_chunks: RecordKind[bytes] | None = None

    @property
    def all(self) -> list[RecordKind[Any]]:
        return [kind for kind in self if kind is not None]


CUSTOM_KINDS = MetricKinds(SENT_DATA, METRICS, CHUNKS, FORMER_METRICS, FORMER_CHUNKS)
"""The records of the metrics that clients send."""


class RenewedTable(Generic[T]):
    """Records of a kind whose form has changed, and which has another name since then: the name says which form a
    record has. What an earlier release has stored is read, and gets the new name when it is stored again."""

    def __init__(self, shard: Shard, kind: RecordKind[T], former: RecordKind[T] | None) -> None:
        """``former``: the kind under its name before; None: it has always had this one."""
        self._renewed = shard.table(kind)
        self._tables = [self._renewed] if former is None else [self._renewed, shard.table(former)]

    def __iter__(self) -> Iterator[tuple[str, T]]:
        """Yields the records of all tables, which may have one of the same key."""
        return chain.from_iterable(self._tables)

    def __len__(self) -> int:
        return sum(map(len, self._tables))

    def is_renewed(self, key: str) -> bool:
        return self._renewed.get(key) is not None

    def put(self, key: str, record: T) -> None:
        self._renewed.put(key, record)
        for former in self._tables[1:]:
            if former.get(key) is not None:
                former.remove(key)

    def remove(self, key: str) -> None:
        """Remove the record of this key, if there is one."""
        for table in self._tables:
            if table.get(key) is not None:
                table.remove(key)


def metrics_home(space: Space, namespace: str) -> Home:
    """All metrics of a namespace live in one shard, so that what a request sends is one commit."""
    return Home.of("metrics", space.account, space.region, namespace)


def custom_home(space: Space, key: MetricKey) -> Home:
    return metrics_home(space, key.namespace)


class StoredMetric:
    """One metric: a series for each unit."""

    __slots__ = ("cost", "foreign", "key", "record_key", "series", "space", "waiting")

    def __init__(self, space: Space, key: MetricKey, record_key: str) -> None:
        self.space = space
        self.key = key
        self.record_key = record_key
        self.foreign: list[str] = []
        """The keys under which the store has parts of it that other shards have measured, before they were
        migrated."""
        self.series: dict[str, Series] = {}  # by unit
        self.waiting: list[Datum] = []
        """Values that may be read already, although they are not part of the series before they are durable."""
        self.cost = 0  # in bytes, at most

    @property
    def newest_s(self) -> int:
        series = (series.newest_s for series in self.series.values())
        return max(chain(series, (int(datum.at_s) for datum in self.waiting)), default=0)

    @property
    def is_empty(self) -> bool:
        return not self.waiting and not any(series.chunks() for series in self.series.values())

    @property
    def has_changed(self) -> bool:
        return any(series.changed for series in self.series.values())

    @property
    def size(self) -> int:
        series = sum(series.size for series in self.series.values())
        return _METRIC_BYTES + series + sum(datum.cost for datum in self.waiting)

    @property
    def units(self) -> set[str]:
        return self.series.keys() | {datum.unit for datum in self.waiting}

    def of_unit(self, unit: str) -> Series:
        return self.series.setdefault(unit, Series())

    def read(self, unit: str, start_s: int, end_s: int, period_s: int) -> Steps[list[Point]]:
        """The buckets of a unit: see :meth:`Series.read`."""
        waiting = [(int(each.at_s), each.bucket.copy()) for each in self.waiting if each.unit == unit]
        series = self.series.get(unit)
        points = [] if series is None else (yield from series.read(start_s, end_s, period_s))
        if not waiting:
            return points
        return (yield from merged_points(chain(points, waiting), start_s, end_s, period_s))

    def chunk_key(self, unit: str, chunk: ChunkId) -> str:
        return _chunk_key(self.record_key, unit, chunk)

    def chunk_keys(self, unit: str, chunk: ChunkId) -> list[str]:
        """Every key under which the store may have a part of a chunk."""
        return [_chunk_key(key, unit, chunk) for key in (self.record_key, *self.foreign)]


def _end_s(chunk: ChunkId) -> int:
    return (chunk.number + 1) * CHUNK_BUCKETS * chunk.bucket_s


def _chunk_key(record_key: str, unit: str, chunk: ChunkId) -> str:
    return f"{record_key}/{unit}/{chunk.bucket_s}/{chunk.number}"


class _Gathered(NamedTuple):
    """What is to be stored."""

    packed: dict[str, bytes]  # chunks by key
    changed: list[tuple[StoredMetric, Series, set[ChunkId]]]  # which chunks these are
    empty: list[StoredMetric]
    adopted: list[StoredMetric]  # parts that other shards have measured get the key of this one


class MetricStore(Part):
    def __init__(
        self,
        shard: Shard,
        kinds: MetricKinds,
        budget: MetricBudget,
        metrics_max: int,
        turns: Turns,
        home: Callable[[Space, MetricKey], Home] = custom_home,
        *,
        is_local: bool = False,
        on_undone: Callable[[str], None] = lambda key: None,
    ) -> None:
        """``metrics_max``: of one account in this shard. ``home``: where the records of a metric go if they are
        migrated. ``is_local``: other shards may have values of the same metric, under other keys. ``on_undone`` is
        called if a commit was refused, with the key of what was sent and is not stored."""
        self._shard = shard
        self._turns = turns
        self._budget = budget
        self._metrics_max = metrics_max
        self._home = home
        self._token = blake2b(b"metrics", digest_size=8, key=shard.secret).hexdigest() if is_local else ""
        self._on_undone = on_undone
        self._by_space: dict[Space, dict[MetricKey, StoredMetric]] = {}
        self._metrics: Counter[str] = Counter()  # how many there are, by account
        self._sorted: dict[Space, list[MetricKey]] = {}  # of spaces whose metrics were listed
        self._sent: RecordTable[SentData] = shard.table(kinds.sent, self._undone)
        self._joined: set[str] = set()  # records of what was sent that is part of the series
        self._sent_bytes = 0
        self._is_sent_counted = False
        self._records = RenewedTable(shard, kinds.metrics, kinds.former_metrics)
        self._chunks = RenewedTable(shard, kinds.chunks, kinds.former_chunks)
        self._old: list[str] = []  # chunks that are to be removed from the store
        self._storing: Promise[None] | None = None
        self._joining: Promise[None] | None = None  # of one request at a time
        self._timer: Timer | None = None
        self._relieving: Promise[None] | None = None
        self._relieved_ms = -_RELIEF_PAUSE_MS
        self._stopped = False
        self._is_forgotten = False  # the budget does not count it any more
        self._load()

    def _load(self) -> None:
        found: dict[str, StoredMetric] = {}
        for key, record in self._records:
            metric = found[key] = self.metric(record.space, record.key)
            if key != metric.record_key:
                metric.foreign.append(key)
        for key, packed in self._chunks:
            record_key, _, rest = key.partition("/")[2].partition("/")
            stored = found.get(f"{key[:16]}/{record_key}")
            unit, bucket_s, number = rest.rsplit("/", 2)
            if stored is not None:
                stored.of_unit(unit).put_chunk(ChunkId(int(bucket_s), int(number)), packed)
        self._join_all()
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
            self._spend(metric, -metric.cost)
        self._is_forgotten = True

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
        """Store data. Returns when they are durable and can be read. Raises QuotaReached, NotOwned or StoreError."""
        shard = self._shard
        shard.check_not_ended()
        shard.check_owned()
        shard.check_sends()
        if self._budget.is_spent:
            await self.relieve()
            shard.check_not_ended()
            shard.check_owned()
        self.check_room(space, {MetricKey(namespace, datum.name, datum.dimensions) for datum in data})
        key = self.keep(SentData(space, namespace, tuple(data)))
        await shard.settled()
        await self.join([key])

    def keep(self, sent: SentData) -> str:
        """Add a record of what was sent to the open commit, and return its key."""
        key = metrics_home(sent.space, sent.namespace).key(f"{self._shard.next_number():020d}")
        if self._token:
            key += f"/{self._token}"  # numbers of other shards may be the same
        self._sent.put(key, sent)
        self._sent_bytes += sent.cost
        return key

    @property
    def _sent_too_much(self) -> bool:
        """Whether what was sent should be stored in chunks before its time."""
        if not self._is_sent_counted:
            self._is_sent_counted = True
            self._sent_bytes = sum(each.cost for _, each in self._sent)
        return self._sent_bytes > _SENT_BYTES_MAX

    async def join(self, keys: Iterable[str]) -> None:
        """What was sent and is durable becomes part of the series."""
        for key in keys:
            while (busy := self._storing or self._joining) is not None:
                await busy
            sent = self._sent.get(key)
            if sent is None or key in self._joined:
                continue  # it was stored with the chunks meanwhile
            self._joining = done = Promise[None]()
            try:
                await self._turns.run(self._join(key, sent), sent.space.account)
            finally:
                self._joining = None
                done.resolve(None)
        self._set_timer()
        if self._sent_too_much:
            self._store_soon()

    def check_room(self, space: Space, keys: Iterable[MetricKey]) -> None:
        """Raises QuotaReached if values of these metrics cannot be taken."""
        if self._budget.is_spent and self._budget.is_above_share(space.account):
            raise QuotaReached("bytes of metrics in memory", self._budget.bytes_max)
        known = self._by_space.get(space, {})
        new = sum(key not in known for key in keys)
        if new and self._metrics[space.account] + new > self._metrics_max:
            raise QuotaReached("metrics in one shard", self._metrics_max)

    def _undone(self, key: str, record: SentData | None) -> None:
        self._is_sent_counted = False  # once for all records of the commit: there may be tens of thousands
        if record is None:
            self._on_undone(key)
        else:
            # The commit was to store chunks instead of it: it is there again, and part of the series already. The
            # outcome of that commit may have been unknown for long.
            self._joined.add(key)

    def _join_all(self) -> None:
        """Everything that was sent and is durable becomes part of the series."""
        for key, sent in self._sent:
            if key not in self._joined:
                finished(self._join(key, sent))

    def _join(self, key: str, sent: SentData) -> Steps[None]:
        self._joined.add(key)
        # Values of one series are added in order of time, because switching chunks is slow.
        for datum in sorted(sent.data, key=lambda each: (each.name, each.dimensions, each.unit, each.at_s)):
            metric_key = MetricKey(sent.namespace, datum.name, datum.dimensions)
            series = self.metric(sent.space, metric_key).of_unit(datum.unit)
            yield from series.opening(datum.at_s, high_resolution=datum.high_resolution)
            # All of its chunks may have been forgotten meanwhile: then it is another one.
            metric = self.metric(sent.space, metric_key)
            series = metric.of_unit(datum.unit)
            series.add(datum.bucket, datum.at_s, high_resolution=datum.high_resolution)
            if any(each is datum for each in metric.waiting):
                metric.waiting = [each for each in metric.waiting if each is not datum]
            else:
                self._spend(metric, datum.cost)
            yield
            if self._stopped:
                return  # it is stored as it was sent

    def wait(self, space: Space, namespace: str, datum: Datum) -> None:
        """Show a value that will be sent. It may grow until then."""
        metric = self.metric(space, MetricKey(namespace, datum.name, datum.dimensions))
        metric.waiting.append(datum)
        self._spend(metric, datum.cost)

    def metric(self, space: Space, key: MetricKey) -> StoredMetric:
        """The metric, which may be a new one."""
        metrics = self._by_space.setdefault(space, {})
        metric = metrics.get(key)
        if metric is None:
            digest = blake2b(
                msgspec.msgpack.encode(key), digest_size=16, key=self._token.encode()
            ).hexdigest()
            metric = metrics[key] = StoredMetric(space, key, self._home(space, key).key(digest))
            self._metrics[space.account] += 1
            self._spend(metric, _METRIC_BYTES)
            if space in self._sorted:
                insort(self._sorted[space], key)
        return metric

    def _spend(self, metric: StoredMetric, count: int) -> None:
        """Count the bytes that a metric takes more, or fewer."""
        metric.cost += count
        if not self._is_forgotten:
            self._budget.add(metric.space.account, count)

    # -- chunks ----------------------------------------------------------------------------------------------

    async def store(self) -> None:
        """Store the chunks that have changed, instead of what was sent."""
        self._storing = done = Promise[None]()
        try:
            await self._shard.settled()
            while (busy := self._joining or self._relieving) is not None:
                await busy
                await self._shard.settled()  # only what is durable joins
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
        packed, changed, empty, adopted = await self._turns.run(self._gathered())
        if self._stopped:
            return
        for metric, series, _ in changed:
            if not self._records.is_renewed(metric.record_key):
                self._records.put(metric.record_key, MetricRecord(metric.space, metric.key))
            series.changed.clear()
        for metric in adopted:
            self._forget_foreign(metric)
        for key, data in packed.items():
            self._chunks.put(key, data)
        old, self._old = self._old, []
        self._forget(old, empty)
        joined, self._joined = self._joined, set()
        for key in joined:
            self._sent.remove(key)
        self._is_sent_counted = False
        try:
            await shard.settled()
        except StoreError:
            for _, series, chunks in changed:
                series.changed |= chunks
            self._old += old
            raise
        for metric in adopted:
            metric.foreign.clear()
        await self._turns.run(self._measure())

    def _gathered(self) -> Steps[_Gathered]:
        found = _Gathered({}, [], [], [])
        for metric in self:
            if self._stopped:
                break
            self._trim(metric)
            if metric.is_empty:
                found.empty.append(metric)
            if metric.foreign and metric.has_changed:
                found.adopted.append(metric)
                for series in metric.series.values():
                    series.changed |= series.chunks()
            for unit, series in metric.series.items():
                chunks = set(series.changed)
                for chunk in chunks:
                    packed = yield from series.packing(chunk)
                    found.packed[metric.chunk_key(unit, chunk)] = packed or b""
                if chunks:
                    found.changed.append((metric, series, chunks))
            yield
        return found

    def _trim(self, metric: StoredMetric) -> None:
        """Forget what is older than is kept."""
        now_s = self._shard.clock.wall_ms() // SECOND
        for unit, series in metric.series.items():
            for chunk in series.trim(now_s):
                self._old += metric.chunk_keys(unit, chunk)

    def _forget_foreign(self, metric: StoredMetric) -> None:
        for key in metric.foreign:
            self._records.remove(key)
            for unit, series in metric.series.items():
                for chunk in series.chunks():
                    self._chunks.remove(_chunk_key(key, unit, chunk))

    def _forget(self, chunk_keys: Sequence[str], empty: Iterable[StoredMetric]) -> None:
        for key in chunk_keys:
            self._chunks.remove(key)
        for metric in empty:
            if metric.is_empty:  # else it has been measured meanwhile
                self._remove(metric)

    def _remove(self, metric: StoredMetric) -> None:
        self._spend(metric, -metric.cost)
        self._metrics[metric.space.account] -= 1
        for key in (metric.record_key, *metric.foreign):
            self._records.remove(key)
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
                self._spend(metric, metric.size - metric.cost)
            yield

    async def relieve(self) -> None:
        """Forget the oldest chunks of accounts above their share, until a tenth of the budget is free."""
        now_ms = self._shard.clock.now_ms()
        if self._relieving is not None:
            await self._relieving
        elif now_ms >= self._relieved_ms + _RELIEF_PAUSE_MS and self._storing is None and not self._stopped:
            self._relieved_ms = now_ms
            self._relieving = done = Promise[None]()
            try:
                await self._turns.run(self._relief())
            finally:
                self._relieving = None
                done.resolve(None)

    def _relief(self) -> Steps[None]:
        yield from self._measure()
        free = self._budget.used - self._budget.bytes_max * 9 // 10
        if not self._budget.is_spent:
            return
        forgotten = 0
        until_s = yield from self._oldest(free)
        for metric in self:
            if self._stopped or self._budget.used <= self._budget.bytes_max * 9 // 10:
                break
            if self._budget.is_above_share(metric.space.account):
                forgotten += self._drop_chunks(metric, until_s)
            yield
        log.warning(
            "metrics take more memory than they may: %d of the oldest chunks were forgotten", forgotten
        )

    def _oldest(self, free: int) -> Steps[int]:
        """The time at which the last of the chunks ends that have to go to free this many bytes."""
        sizes: Counter[int] = Counter()  # of what may go, by the time when it ends
        for metric in self:
            if self._budget.is_above_share(metric.space.account):
                for series in metric.series.values():
                    for chunk in series.chunks() - series.changed:
                        sizes[_end_s(chunk)] += series.chunk_size(chunk)
            yield
        until_s = 0
        for until_s in sorted(sizes):
            free -= sizes[until_s]
            if free <= 0:
                break
        return until_s

    def _drop_chunks(self, metric: StoredMetric, until_s: int) -> int:
        """Forget the chunks of a metric that end until then, and return how many those were."""
        if self.get(metric.space, metric.key) is not metric:
            return 0
        forgotten: list[str] = []
        for unit, series in metric.series.items():
            for chunk in series.chunks() - series.changed:
                if _end_s(chunk) <= until_s:
                    series.drop(chunk)
                    forgotten += metric.chunk_keys(unit, chunk)
        if forgotten:
            self._spend(metric, metric.size - metric.cost)
            self._forget(forgotten, [metric])
        return len(forgotten)

    # -- reading ---------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[StoredMetric]:
        return iter([metric for metrics in self._by_space.values() for metric in metrics.values()])

    def get(self, space: Space, key: MetricKey) -> StoredMetric | None:
        return self._by_space.get(space, {}).get(key)

    def beyond(self, space: Space, after: tuple[Any, ...], metrics_max: int) -> list[StoredMetric]:
        """The first metrics beyond a key or the beginning of one, in order of their keys."""
        metrics = self._by_space.get(space)
        if metrics is None:
            return []
        if space not in self._sorted:
            self._sorted[space] = sorted(metrics)
        keys: list[Any] = self._sorted[space]
        begin = bisect_right(keys, after)
        return [metrics[key] for key in keys[begin : begin + metrics_max]]
