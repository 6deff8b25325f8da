"""Records of metrics and alarms find their shard in a store with another number of shards."""

from __future__ import annotations

import pytest

from monitoring.alarms import put_alarm, set_state
from monitoring.world import MonitoringWorld
from penstock.migrate.stores.mapping import ShardMapping
from penstock.migrate.stores.opened import OpenShard
from penstock.monitoring.measured import MEASURED_KINDS
from penstock.monitoring.metric_store import FORMER_CHUNKS, FORMER_METRICS
from penstock.monitoring.monitoring import KINDS
from penstock.names import Home
from support.world import FaultyStore


@pytest.mark.parametrize("targets", [1, 2, 3, 5])
def test_records_go_to_the_shard_of_their_home(targets: int) -> None:
    with MonitoringWorld(shards=3) as world:
        for number in range(6):
            cw = world.client(account=f"{number:012d}")
            cw.put_metric_data(Namespace="App", MetricData=[{"MetricName": "m", "Value": 1}])
            put_alarm(cw, "a", AlarmActions=["arn:aws:sns:eu-west-1:000000000000:t"])
            set_state(cw, "a", "ALARM")
            cw.put_dashboard(DashboardName="d", DashboardBody='{"widgets":[]}')
        world.advance(11 * 60_000)
        for number in range(6):
            cw = world.client(account=f"{number:012d}")
            cw.put_metric_data(Namespace="App", MetricData=[{"MetricName": "m", "Value": 1}])
        for store in world.stores.values():
            store.close()
        opened = [FaultyStore(world._shard_directory(index)) for index in range(3)]
        sources = [OpenShard(store, store.open()) for store in opened]
        mapping = ShardMapping(sources, targets)
        absent = {FORMER_METRICS.name, FORMER_CHUNKS.name}  # only earlier releases store these
        absent |= {kind.name for kind in MEASURED_KINDS.all}  # no service measures anything
        names = {kind.name for kind in KINDS} - {"alarm-action"} - absent  # all actions were carried out
        moved = [each for source in range(3) for each in mapping.records(source) if each[1].kind in names]
        assert {record.kind for _, record in moved} == names
        for target, record in moved:
            assert target == Home.of_key(record.key).shard(targets)
        assert len({(record.kind, record.key) for _, record in moved}) == len(moved)
        for store in opened:
            store.close()
