"""Stores of every number of shards copied into each other: nothing is lost, doubled or changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from penstock.migrate.stores.mapping import feeding_shards
from penstock.migrate.stores.migration import Migration
from penstock.migrate.stores.opened import opened
from penstock.names import QueueName, shard_of
from penstock.store.port import StoreSite
from support.generated_stores import MemorySite, dump, fill
from support.rows import every_row


@contextmanager
def silent(step: str, total: int) -> Iterator[Callable[[int], None]]:
    """Checks that progress ends where it should."""
    done = [0]
    yield done.append
    assert done == sorted(done)
    assert done[-1] == total


def migrate(source: StoreSite, target: StoreSite) -> Migration:
    with opened(source) as sources, opened(target) as targets:
        migration = Migration(sources, target.shards, lambda: None)
        migration.run(targets, silent)
    return migration


@every_row("seed", range(3))
@every_row(("before", "after"), [(1, 1), (1, 8), (8, 1), (4, 4), (4, 8), (8, 4), (3, 7), (7, 3), (6, 4)])
def test_everything_arrives(before: int, after: int, seed: int) -> None:
    source, target = MemorySite(before), MemorySite(after)
    fill(source.stores, seed)
    expected = dump(source.stores)
    assert migrate(source, target).amount.queues == len(expected["queues"]) > 0
    assert dump(target.stores) == expected
    assert dump(source.stores) == expected


def test_there_and_back_again() -> None:
    source = MemorySite(3)
    fill(source.stores, 7)
    expected = dump(source.stores)
    for shards in (1, 5, 2, 3):
        target = MemorySite(shards)
        migrate(source, target)
        assert dump(target.stores) == expected
        source = target


@pytest.mark.parametrize(("sources", "targets"), [(1, 5), (5, 1), (4, 6), (6, 4), (3, 3), (2, 8)])
def test_which_shards_feed_a_shard(sources: int, targets: int) -> None:
    names = [QueueName("1" * 12, "eu-west-1", f"q{i}") for i in range(2000)]
    pairs = {(shard_of(name, targets), shard_of(name, sources)) for name in names}
    assert pairs == {(t, s) for t in range(targets) for s in feeding_shards(t, sources, targets)}
