"""Metrics, alarms and dashboards of all shards of a process: the one object that services call.

What a request is about lives in one shard (:class:`penstock.names.Home`). If another process owns it, NotOwned is
raised, always before anything was decided, so that the request can be passed on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock.broker.parts import PartList
from penstock.broker.shard import Shard
from penstock.metrics.budget import MetricBudget
from penstock.monitoring.actions import AlarmActions, AlarmTexts, PostWebhook, PublishTo
from penstock.monitoring.alarm_history import AlarmHistory
from penstock.monitoring.alarm_records import ALARMS, HISTORY, PENDING, alarms_home
from penstock.monitoring.alarm_table import AlarmTable
from penstock.monitoring.dashboards import DASHBOARDS, Dashboards, dashboards_home
from penstock.monitoring.evaluation import Evaluation
from penstock.monitoring.limits import MonitoringLimits
from penstock.monitoring.measured import MEASURED_KINDS, MeasuredMetrics, ServiceNamespace
from penstock.monitoring.metric_store import CUSTOM_KINDS, MetricStore, metrics_home
from penstock.monitoring.reading import (
    BucketsQuestion,
    KeysQuestion,
    MetricNamespace,
    MetricReader,
    PointsQuestion,
    ShardMetrics,
)
from penstock.names import Home, Space
from penstock.store.changes import RecordKind

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.partition import Partition


KINDS: tuple[RecordKind[Any], ...] = (
    ALARMS, HISTORY, PENDING, *CUSTOM_KINDS.all, *MEASURED_KINDS.all, DASHBOARDS,
)  # fmt: skip
"""All kinds of records. Their keys say where they live (:meth:`penstock.names.Home.of_key`)."""


class ShardMonitoring(PartList):
    """The alarms, metrics and dashboards of one shard."""

    def __init__(self, partition: Partition, monitoring: Monitoring) -> None:
        limits, turns = monitoring.limits, monitoring.turns
        self.shard: Shard = partition.shard
        common = monitoring.budget, limits.metrics_max, turns
        self.metrics = MetricStore(self.shard, CUSTOM_KINDS, *common)
        self.measured = MeasuredMetrics(self.shard, *common)
        self.dashboards = Dashboards(self.shard, limits.dashboards_max, limits.dashboard_bytes_max)
        self.history = AlarmHistory(self.shard)
        self.actions = AlarmActions(
            partition, self.history, monitoring.texts, monitoring.post, monitoring.publish
        )
        self.alarms = AlarmTable(
            self.shard, self.history, self.actions, limits, turns, lambda: self.evaluation.watch()
        )
        self.evaluation = Evaluation(self.shard, self.alarms, self.history, monitoring.reader, turns)
        shown = ShardMetrics(self.metrics, self.measured, monitoring.namespaces, turns)
        super().__init__([shown, self.metrics, self.measured, self.actions, self.evaluation, self.alarms])


class Monitoring:
    def __init__(
        self,
        broker: Broker,
        texts: AlarmTexts,
        post: PostWebhook,
        publish: PublishTo,
        namespaces: Sequence[MetricNamespace | ServiceNamespace],
        limits: MonitoringLimits | None = None,
    ) -> None:
        """This must be constructed before the first shard of the broker is opened. ``namespaces`` are those whose
        metrics services measure."""
        self.limits = limits or MonitoringLimits()
        self.budget = MetricBudget(self.limits.metrics_bytes_max)
        self.texts = texts
        self.post = post
        self.publish = publish
        self.turns = broker.turns
        self._broker = broker
        self.namespaces = {each.name: each for each in namespaces}
        self.reader = MetricReader(broker, self.namespaces)
        questions = PointsQuestion, BucketsQuestion, KeysQuestion
        broker.extend(lambda partition: ShardMonitoring(partition, self), questions)

    def _at(self, home: Home) -> ShardMonitoring:
        """Raises NotOwned."""
        partition = self._broker.partition(home.shard(self._broker.shards))
        partition.shard.check_not_ended()
        return partition.part(ShardMonitoring)

    def of_alarms(self, space: Space) -> ShardMonitoring:
        """Where the alarms of an account in a region are. Raises NotOwned."""
        return self._at(alarms_home(space))

    def of_dashboards(self, account: str) -> ShardMonitoring:
        return self._at(dashboards_home(account))

    def of_metrics(self, space: Space, namespace: str) -> ShardMonitoring:
        return self._at(metrics_home(space, namespace))

    def wall_ms(self) -> int:
        """The time that metrics and alarms go by."""
        return self._broker.wall_ms()
