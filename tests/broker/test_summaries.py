"""Queues at a glance: exact, sorted and paged, in one shard and in many."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from penstock.broker.summaries import (
    QueueQuery,
    QueueSummary,
    QueueTotals,
    SortKey,
    StatusQuestion,
    SummariesQuestion,
    TargetsQuestion,
    TotalsQuestion,
    summary_of,
)
from penstock.errors import StoreAway
from penstock.names import Space
from penstock.queues.settings import QueueSettings
from penstock.store.port import StoreStatus
from support.shards import ShardsWorld
from support.world import MINUTE, SECOND, World, name_of

SPACE = Space("000000000000", "eu-west-1")
SORTS: tuple[SortKey, ...] = ("name", "visible", "in_flight", "delayed", "age", "sent_rate", "bytes")


@pytest.fixture
def shards() -> Iterator[ShardsWorld]:
    with ShardsWorld() as world:
        yield world


def summaries(world: World, **query: object) -> list[QueueSummary]:
    asked = msgspec.structs.replace(QueueQuery(SPACE, 1000), **query)
    return world.do(world.broker.ask(SummariesQuestion(asked)))


def names(found: list[QueueSummary]) -> list[str]:
    return [each.name.name for each in found]


def fill(world: World) -> None:
    """Twelve queues that differ in everything."""
    for n in range(12):
        name = f"q{n:02}"
        world.create(name)
        world.send_all(name, *["x" * (1 + n * 7 % 12)] * (n * 5 % 12))
        for _ in range(n % 3):
            world.send(name, "later", delay_ms=MINUTE)
        if n % 4 == 1:
            world.receive(name, count=1 + n // 4)
        world.advance(3 * SECOND)


def test_counts_and_ages_are_exact(shards: ShardsWorld) -> None:
    fill(shards)
    for summary in summaries(shards):
        name = summary.name.name
        counts = summary.counts
        assert (counts.visible, counts.in_flight, counts.delayed) == shards.counts(name)
        stored = shards.do(summary_of(shards.broker.partition_of(shards.queue(name)), shards.queue(name)))
        assert stored == summary
        empty = not any((counts.visible, counts.in_flight, counts.delayed))
        assert (summary.oldest_age_ms is None) == empty == (summary.bytes == 0)
    assert summaries(shards)[1].oldest_age_ms == 11 * 3 * SECOND


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("sort", SORTS)
def test_pages_hold_every_queue_once_and_in_order(
    shards: ShardsWorld, sort: SortKey, descending: bool
) -> None:
    fill(shards)
    everything = summaries(shards, sort=sort, descending=descending)
    keys = [(each.sort_value, each.name.name) for each in everything]
    assert keys == sorted(keys, reverse=descending) and len(keys) == 12
    paged: list[QueueSummary] = []
    after = None
    while page := summaries(shards, sort=sort, descending=descending, rows_max=5, after=after):
        paged += page
        after = page[-1].end
    assert names(paged) == names(everything)


def test_each_order_is_by_what_it_says(shards: ShardsWorld) -> None:
    fill(shards)
    for sort in ("visible", "in_flight", "delayed"):
        found = [getattr(each.counts, sort) for each in summaries(shards, sort=sort, descending=True)]
        assert found == sorted(found, reverse=True) and found[0] > found[-1]
    ages = [each.oldest_age_ms or -1 for each in summaries(shards, sort="age")]
    assert ages == sorted(ages) and ages[0] == -1
    sizes = [each.bytes for each in summaries(shards, sort="bytes")]
    assert sizes == sorted(sizes) and sizes[-1] > 0


def test_queues_are_chosen_by_name_and_kind(world: World) -> None:
    for name in ("orders", "orders-dead", "bills"):
        world.create(name)
    world.create("orders.fifo")
    assert names(summaries(world, prefix="orders")) == ["orders", "orders-dead", "orders.fifo"]
    assert names(summaries(world, contains="dead")) == ["orders-dead"]
    assert names(summaries(world, fifo=True)) == ["orders.fifo"]
    assert names(summaries(world, only=frozenset(["bills", "missing"]))) == ["bills"]
    assert summaries(world, space=Space("000000000000", "us-east-1")) == []


def test_a_page_of_thousands_lets_other_requests_through(world: World) -> None:
    for n in range(1000):
        world.start(world.broker.create(name_of(f"q{n:04}"), QueueSettings(), {}))
    world.run()
    listing = world.start(world.broker.ask(SummariesQuestion(QueueQuery(SPACE, 10, sort="visible"))))
    turns = 0
    while not listing.done:
        assert world.runtime.step(), "it waits for nothing"
        turns += 1
    assert turns > 5 and names(listing.result())[:1] == ["q0000"]


def test_dead_letter_queues_are_those_that_another_names(shards: ShardsWorld) -> None:
    for n in range(6):
        shards.create(f"dead-{n}")
        shards.create(f"source-{n}", dead_letters=(f"dead-{n}", 3))
    assert shards.do(shards.broker.ask(TargetsQuestion(SPACE))) == {f"dead-{n}" for n in range(6)}


def test_a_shard_that_is_not_open_is_shown_as_such(shards: ShardsWorld) -> None:
    fill(shards)
    statuses = shards.do(shards.broker.ask(StatusQuestion()))
    assert [each.index for each in statuses] == list(range(shards.shards))
    assert sum(each.queues for each in statuses) == 12 and all(each.is_open for each in statuses)
    shards.close_shard(0)
    shards.run()
    assert [each.is_open for each in shards.do(shards.broker.ask(StatusQuestion()))][:2] == [False, True]
    shards.open_shard(0)


def test_a_shard_whose_store_cannot_be_read_is_shown_with_the_reason(shards: ShardsWorld) -> None:
    fill(shards)

    def unreachable() -> StoreStatus:
        raise StoreAway("the database does not answer")

    shards.stores[1].status = unreachable  # type: ignore[method-assign]
    statuses = shards.do(shards.broker.ask(StatusQuestion()))
    assert [each.is_open for each in statuses] == [True, False, True]
    assert [each.refuses for each in statuses] == [None, "the database does not answer", None]


def totals(world: World, targets: set[str] | None = None, **query: object) -> QueueTotals:
    asked = msgspec.structs.replace(QueueQuery(SPACE, 1), **query)  # a page of one: it does not matter
    return world.do(world.broker.ask(TotalsQuestion(asked, frozenset(targets or set()))))


def test_totals_are_sums_over_all_queues_whatever_the_page(shards: ShardsWorld) -> None:
    fill(shards)
    everything = summaries(shards)
    found = totals(shards, {"q02", "q05"})
    assert found.queues == len(everything) == 12
    for state in ("visible", "in_flight", "delayed"):
        assert getattr(found, state) == sum(getattr(each.counts, state) for each in everything) > 0
    assert found.bytes == sum(each.bytes for each in everything)
    assert found.dead_letters == sum(sum(shards.counts(name)) for name in ("q02", "q05"))
    assert found.sent_rate == pytest.approx(sum(each.rates.sent for each in everything))
    assert found.received_rate == pytest.approx(sum(each.rates.received for each in everything)) != 0
    wanted = [each for each in everything if each.name.name.startswith("q0")]
    assert totals(shards, prefix="q0").visible == sum(each.counts.visible for each in wanted)
    assert totals(shards, only=frozenset(["q03"])).queues == 1
    assert totals(shards, prefix="missing") == QueueTotals()


def test_totals_load_no_queue_into_memory(world: World) -> None:
    for n in range(5):
        world.create(f"q{n}")
        world.send_all(f"q{n}", "a", "b")
    for queue in world.broker.queues():
        queue.memory.forget()
    assert totals(world).visible == 10
    assert not any(queue.memory.loaded for queue in world.broker.queues())


def test_totals_of_thousands_let_other_requests_through(world: World) -> None:
    for n in range(1000):
        world.start(world.broker.create(name_of(f"q{n:04}"), QueueSettings(), {}))
    world.run()
    summing = world.start(world.broker.ask(TotalsQuestion(QueueQuery(SPACE, 1), frozenset())))
    turns = 0
    while not summing.done:
        assert world.runtime.step(), "it waits for nothing"
        turns += 1
    assert turns > 5 and summing.result().queues == 1000
