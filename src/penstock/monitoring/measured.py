"""The metrics that services measure, such as how many messages a topic has published.

A service names its metrics in a :class:`ServiceNamespace` and says what happens where it happens, in any shard:
``measured.add(space, NAMESPACE, "Published", (("TopicName", "news"),))``. That is a look-up in memory. When a minute
has ended, what it brought is stored by one commit and becomes part of the series of this shard
(:mod:`penstock.monitoring.metric_store`). So a crash loses up to a minute. A stop, or a move of the shard, stores
everything. If several shards have measured the same metric, their values add up when they are read.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial

from penstock.broker.parts import Part
from penstock.broker.runtime import Timer
from penstock.broker.shard import Commit, Shard
from penstock.errors import QuotaReached, StoreError
from penstock.limits import HOUR, MINUTE, SECOND
from penstock.metrics.buckets import Bucket
from penstock.metrics.budget import MetricBudget
from penstock.metrics.series import MINUTE_S, MetricKey
from penstock.monitoring.metric_store import Datum, MetricKinds, MetricRecord, MetricStore, SentData
from penstock.names import Home, Space
from penstock.promise import run_detached
from penstock.store.changes import RecordKind
from penstock.store.moving import by_home
from penstock.turns import Turns

log = logging.getLogger("penstock.monitoring")

_ROUND_DELAY_MS = SECOND // 2  # after the end of a minute
_DATA_PER_RECORD = 250

Dimensions = tuple[tuple[str, str], ...]
"""Names with values, in order of the names."""


class ServiceNamespace:
    """A namespace of metrics that a service measures. They may be in every shard."""

    def __init__(self, name: str, units: Mapping[str, str]) -> None:
        """``units``: of each metric, by its name."""
        self.name = name
        self.units = units


MEASURED_KINDS = MetricKinds(
    RecordKind("measured-data", SentData, by_home),
    RecordKind("measured-metric", MetricRecord, by_home),
    RecordKind("measured-chunk", bytes, by_home),
)


def _home(space: Space, key: MetricKey) -> Home:
    """Where the parts of a metric meet if they are migrated."""
    dimensions = [text for dimension in key.dimensions for text in dimension]
    return Home.of("measured metric", space.account, space.region, key.namespace, key.name, *dimensions)


class MeasuredMetrics(Part):
    """What services have measured in one shard."""

    def __init__(self, shard: Shard, budget: MetricBudget, metrics_max: int, turns: Turns) -> None:
        """``metrics_max``: of one account in this shard."""
        self._shard = shard
        self._budget = budget
        self.store = MetricStore(
            shard, MEASURED_KINDS, budget, metrics_max, turns, _home, is_local=True, on_undone=self._undone
        )
        self._minute_s = 0  # of the values that are being gathered
        self._gathered: dict[tuple[Space, str, str, Dimensions], Datum] = {}
        self._ended: list[SentData] = []  # values of minutes that have ended, in no commit yet
        # Values in a commit that is not durable yet, by the key of the record.
        self._under_way: dict[str, SentData] = {}
        self._timer: Timer | None = None
        self._stopped = self._flushed = False
        self._refused_ms = -HOUR

    def start(self) -> None:
        self.store.start()

    def stop(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        self.store.stop()

    def flush(self) -> None:
        """The open commit stores everything that was gathered. What is measured from now on, by the last commits, is
        stored at once."""
        self._flushed = True
        self._end_minute()
        if self._shard.refuses is None and self._shard.ended is None:
            while self._ended:
                self._write()

    def forget(self) -> None:
        self.store.forget()

    # -- values that come ------------------------------------------------------------------------------------

    def add(
        self,
        space: Space,
        namespace: ServiceNamespace,
        name: str,
        dimensions: Dimensions = (),
        value: float = 1.0,
        count: float = 1.0,
    ) -> None:
        """Count this value ``count`` times, now. Values of an account that has too many metrics are left out."""
        minute_s = self._shard.clock.wall_ms() // MINUTE * MINUTE_S
        if minute_s != self._minute_s:
            self._end_minute()
            self._minute_s = minute_s
        datum = self._gathered.get((space, namespace.name, name, dimensions))
        if datum is not None:
            datum.bucket.merge(Bucket.of(value, count))
        else:
            self._begin(space, namespace, name, dimensions, Bucket.of(value, count))
        if self._flushed:
            self.flush()

    def _begin(
        self, space: Space, namespace: ServiceNamespace, name: str, dimensions: Dimensions, bucket: Bucket
    ) -> None:
        """The first value of a metric in a minute."""
        key = MetricKey.of(namespace.name, name, dimensions)
        assert dimensions == key.dimensions, "dimensions are in order"
        datum = Datum(name, dimensions, namespace.units[name], float(self._minute_s), bucket)
        try:
            self.store.check_room(space, [key])  # what makes room is the end of the minute before
        except QuotaReached as error:
            self._warn(space, error)
            return
        self._gathered[space, namespace.name, name, dimensions] = datum
        self.store.wait(space, namespace.name, datum)
        self._set_timer()

    def _warn(self, space: Space, error: QuotaReached) -> None:
        now_ms = self._shard.clock.now_ms()
        if now_ms >= self._refused_ms + HOUR:
            self._refused_ms = now_ms
            log.warning("some metrics of services in account %s are not kept: %s", space.account, error)

    # -- every minute ----------------------------------------------------------------------------------------

    def _set_timer(self) -> None:
        if self._timer is None and not self._stopped:
            clock = self._shard.clock
            rest_ms = MINUTE - clock.wall_ms() % MINUTE
            self._timer = self._shard.runtime.at(clock.now_ms() + rest_ms + _ROUND_DELAY_MS, self._round)

    def _round(self) -> None:
        self._timer = None
        if not self._stopped:
            run_detached(self._store_minutes())

    async def _store_minutes(self) -> None:
        shard = self._shard
        self._end_minute()
        keys: list[str] = []
        for _ in range(len(self._ended)):
            if self._stopped or shard.refuses is not None or shard.ended is not None:
                break
            keys.append(self._write())
            await shard.turn()
        try:
            await shard.settled()
        except StoreError as error:
            log.debug("a minute of metrics was not stored, and is with the next one: %s", error)
        await self.store.join([key for key in keys if key not in self._under_way])
        if self._budget.is_spent:
            await self.store.relieve()
        if self._gathered or self._ended:
            self._set_timer()

    def _end_minute(self) -> None:
        """End the minute: what was gathered in it does not change any more."""
        gathered, self._gathered = self._gathered, {}
        by_namespace: dict[tuple[Space, str], list[Datum]] = {}
        for (space, namespace, _, _), datum in gathered.items():
            by_namespace.setdefault((space, namespace), []).append(datum)
        for (space, namespace), data in by_namespace.items():
            for start in range(0, len(data), _DATA_PER_RECORD):
                self._ended.append(SentData(space, namespace, tuple(data[start : start + _DATA_PER_RECORD])))

    def _write(self) -> str:
        """The open commit stores some of the values of minutes that have ended."""
        sent = self._ended.pop(0)
        key = self.store.keep(sent)
        self._under_way[key] = sent
        self._shard.open_commit.when_durable.append(partial(self._durable, key))
        return key

    def _durable(self, key: str, _: Commit) -> None:
        self._under_way.pop(key, None)

    def _undone(self, key: str) -> None:
        """The commit was refused."""
        sent = self._under_way.pop(key, None)
        if sent is not None:
            self._ended.append(sent)
            self._set_timer()
