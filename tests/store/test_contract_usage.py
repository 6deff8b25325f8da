"""How much each queue holds, whatever happened to it."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest
from store_driver import FOREVER, Driver, queue_record, row, update_of

from penstock.errors import StoreLost
from penstock.store.changes import EntryRow
from penstock.store.port import Mark, Store, Usage

LARGE = b"x" * 5000  # lies apart from its entry


def counted(driver: Driver, entries: Iterable[EntryRow]) -> dict[int, Usage]:
    """What these come to. A store may keep more than the content itself: it says how much that is."""
    sizes = {head.seq: head.size for head in driver.store.heads(0, FOREVER, 10**6, 0)}
    found: dict[int, Usage] = {}
    for entry in entries:
        held = found.get(entry.queue, Usage(0, 0))
        found[entry.queue] = Usage(held.messages + 1, held.bytes + sizes[entry.seq])
    return found


@pytest.fixture(params=["asked before", "asked after"])
def asked(request: pytest.FixtureRequest, driver: Driver) -> Driver:
    """A store that keeps count from the beginning, and one that has to count what it finds."""
    if request.param == "asked before":
        assert driver.store.usage() == {}
    return driver


def test_what_is_added_and_removed(asked: Driver) -> None:
    entries = [row(1), row(2, content=LARGE), row(3, queue=2, group="g", content=LARGE), row(4, queue=2)]
    asked.append(added=entries)
    asked.append(removed=[2, 3, 99])
    assert asked.store.usage() == counted(asked, [entries[0], entries[3]])
    asked.append(removed=[1, 4])
    assert asked.store.usage() == {}


def test_a_message_that_comes_and_goes_in_one_batch_counts_nothing(asked: Driver) -> None:
    asked.append(added=[row(1), row(2)], removed=[2])
    assert asked.store.usage() == counted(asked, [row(1)])


def test_a_message_that_moves_counts_where_it_is(asked: Driver) -> None:
    entry = row(1, content=LARGE)
    asked.append(added=[entry, row(2)])
    asked.append(updated=[update_of(entry, queue=7, position=10), update_of(row(2), receives=1, due_ms=5)])
    assert asked.store.usage() == counted(asked, [entry._replace(queue=7), row(2)])


@pytest.mark.parametrize("group", [None, "g"])
def test_what_was_purged_counts_no_more_though_its_rows_are_there(asked: Driver, group: str | None) -> None:
    asked.append(queues={1: queue_record(1)}, added=[row(seq, group=group) for seq in range(1, 11)])
    asked.append(
        purged={1: 6}, removed=[3, 8], added=[row(5 + 6, position=5), row(12, group=group, content=LARGE)]
    )
    left = [row(7), row(9), row(10), row(12, content=LARGE)]
    assert asked.store.usage() == counted(asked, left)
    asked.append(removed=[9, 2])
    while asked.store.tidy(2):
        pass
    assert asked.store.usage() == counted(asked, [row(7), row(10), row(12, content=LARGE)])


def test_a_dropped_queue_counts_no_more(asked: Driver) -> None:
    asked.append(queues={1: queue_record(1)}, added=[row(1), row(2), row(3, queue=2)])
    asked.append(dropped=[1], removed=[2])
    assert asked.store.usage() == counted(asked, [row(3, queue=2)])


def test_other_bytes_for_the_same_contents(asked: Driver) -> None:
    asked.append(added=[row(1), row(2, content=LARGE)])
    asked.store.rewrite([(1, b"longer than it was"), (2, LARGE + b"!"), (3, b"nobody")])
    assert asked.store.usage() == {1: Usage(2, len(b"longer than it was") + len(LARGE) + 1)}


def test_a_batch_that_was_refused_counts_nothing(asked: Driver) -> None:
    asked.append(added=[row(1)])
    late = asked.batch(added=[row(2)], removed=[1])
    late.number -= 1
    with pytest.raises(StoreLost):
        asked.store.append(late, Mark(10**6, 0, 0))
    assert asked.store.usage() == counted(asked, [row(1)])
    asked.append(added=[row(3)])
    assert asked.store.usage() == counted(asked, [row(1), row(3)])


def test_what_is_given_is_a_copy(driver: Driver) -> None:
    driver.append(added=[row(1)])
    driver.store.usage().clear()
    assert driver.store.usage() == counted(driver, [row(1)])


def test_keeping_count_and_counting_come_to_the_same(driver: Driver) -> None:
    """Any history at all: a store that kept count, and one that opens what it left."""
    chance, store, present = random.Random(7), driver.store, dict[int, EntryRow]()
    store.usage()
    seq, void = 0, dict[int, int]()
    for _ in range(150):
        news = []
        for _ in range(chance.randrange(4)):
            seq += 1
            news.append(row(seq, queue=chance.randrange(1, 4), content=b"c" * chance.choice((1, 50, 3000))))
        gone = [each for each in present if chance.random() < 0.1]
        moved = [present[each] for each in present if each not in gone and chance.random() < 0.05]
        updates = [update_of(each, queue=chance.randrange(1, 4), position=(seq := seq + 1)) for each in moved]
        purged = {chance.randrange(1, 4): seq} if chance.random() < 0.1 else {}
        driver.append(added=news, removed=gone, updated=updates, purged=purged)
        void.update(purged)
        present |= {each.seq: each for each in news}
        for update in updates:
            present[update.seq] = present[update.seq]._replace(queue=update.queue, position=update.position)
        present = {
            each.seq: each
            for each in present.values()
            if each.seq not in gone and each.position > void.get(each.queue, 0)
        }
        if chance.random() < 0.2:
            store.tidy(3)
        assert store.usage() == counted(driver, present.values())


def test_it_is_the_same_after_a_restart(lasting: Driver) -> None:
    lasting.append(queues={1: queue_record(1)}, added=[row(seq) for seq in range(1, 9)])
    lasting.append(purged={1: 4}, removed=[5])
    kept = lasting.store.usage()
    lasting.reopen()
    store: Store = lasting.store
    assert store.usage() == kept == counted(lasting, [row(6), row(7), row(8)])
