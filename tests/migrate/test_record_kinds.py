"""A kind of record that a store may hold can be migrated."""

from __future__ import annotations

import sys
from collections import Counter

from penstock.migrate.stores.copying import PROGRESS
from penstock.migrate.stores.mapping import ShardPlace, TargetShard
from penstock.monitoring.metric_store import MetricKinds
from penstock.queues.backlog import EXPIRY_PAUSES, ExpiryPause
from penstock.server.compose import record_kinds
from penstock.store.changes import RecordKind
from penstock.store.moving import StoredRecord
from penstock.store.port import Mark


def test_every_kind_is_registered() -> None:
    declared = {
        kind.name
        for name, module in list(sys.modules.items())
        if name.startswith("penstock.")
        for value in vars(module).values()
        for kind in (value if isinstance(value, MetricKinds) else [value])
        if isinstance(kind, RecordKind)
    }
    assert declared - {PROGRESS.name} == {kind.name for kind in record_kinds()}


def test_a_pause_of_expiry_holds_in_each_shard_that_takes_its_messages() -> None:
    targets = [TargetShard(dict.fromkeys(fed, 0), Mark(1, 0, 0), []) for fed in ((0,), (1,), (0, 1))]
    record = StoredRecord(EXPIRY_PAUSES.name, "pause", EXPIRY_PAUSES.encode(ExpiryPause(1, 2)))
    place = ShardPlace(targets, 0, {}, Counter())
    assert EXPIRY_PAUSES.move(place, record) == [(0, record), (2, record)]
