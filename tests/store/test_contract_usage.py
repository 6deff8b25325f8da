"""How much each queue holds, whatever happened to it."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from penstock.errors import StoreLost
from penstock.store.changes import EntryRow, Replacement
from penstock.store.port import Mark, Usage
from store.store_driver import Driver, row, update_of

LARGE = b"x" * 5000  # lies apart from its entry


def counted(entries: Iterable[EntryRow]) -> dict[int, Usage]:
    """What these come to."""
    found: dict[int, Usage] = {}
    for entry in entries:
        held = found.get(entry.queue, Usage(0, 0))
        found[entry.queue] = Usage(held.messages + 1, held.bytes + entry.size)
    return found


def test_what_is_added_and_removed(driver: Driver) -> None:
    entries = [row(1), row(2, content=LARGE), row(3, queue=2, group="g", content=LARGE), row(4, queue=2)]
    driver.append(added=entries)
    driver.append(removed=[2, 3, 99])
    assert driver.store.usage() == counted([entries[0], entries[3]])
    driver.append(removed=[1, 4])
    assert driver.store.usage() == {}


def test_a_message_that_comes_and_goes_in_one_batch_counts_nothing(driver: Driver) -> None:
    driver.append(added=[row(1), row(2)], removed=[2])
    assert driver.store.usage() == counted([row(1)])


def test_a_message_that_moves_counts_where_it_is(driver: Driver) -> None:
    entry = row(1, content=LARGE)
    driver.append(added=[entry, row(2)])
    driver.append(updated=[update_of(entry, queue=7, position=10), update_of(row(2), receives=1, due_ms=5)])
    assert driver.store.usage() == counted([entry._replace(queue=7), row(2)])


@pytest.mark.parametrize("group", [None, "g"])
def test_what_was_purged_counts_no_more_though_its_rows_are_there(driver: Driver, group: str | None) -> None:
    driver.append(added=[row(seq, group=group) for seq in range(1, 11)])
    driver.append(
        purged={1: 6}, removed=[3, 8], added=[row(5 + 6, position=5), row(12, group=group, content=LARGE)]
    )
    left = [row(7), row(9), row(10), row(12, content=LARGE)]
    assert driver.store.usage() == counted(left)
    driver.append(removed=[9, 2])
    while driver.store.maintain(2):
        pass
    assert driver.store.usage() == counted([row(7), row(10), row(12, content=LARGE)])


def test_a_dropped_queue_counts_no_more(driver: Driver) -> None:
    driver.append(added=[row(1), row(2), row(3, queue=2)])
    driver.append(dropped=[1], removed=[2])
    assert driver.store.usage() == counted([row(3, queue=2)])


def test_a_replaced_content_counts_with_its_new_size(driver: Driver) -> None:
    driver.append(added=[row(1), row(2, content=LARGE), row(3)])
    news = [Replacement(1, 1, b"n" * 70, 1, 2, 70, None), Replacement(2, 1, b"n" * 9, 1, 2, 9, None)]
    stale = Replacement(3, 1, b"n" * 500, 7, 8, 500, None)
    assert driver.append(replaced=[*news, stale]) == {3}
    assert driver.store.usage() == {1: Usage(3, 70 + 9 + row(3).size)}
    assert driver.store.usage(1) == driver.store.usage()
    assert driver.store.usage(2) == {}


def test_a_batch_that_was_refused_counts_nothing(driver: Driver) -> None:
    driver.append(added=[row(1)])
    late = driver.commit(added=[row(2)], removed=[1])
    late.number -= 1
    with pytest.raises(StoreLost):
        driver.store.append(late, Mark(10**6, 0, 0))
    assert driver.store.usage() == counted([row(1)])
    driver.append(added=[row(3)])
    assert driver.store.usage() == counted([row(1), row(3)])


def test_what_is_given_is_a_copy(driver: Driver) -> None:
    driver.append(added=[row(1)])
    driver.store.usage().clear()
    assert driver.store.usage() == counted([row(1)])


def test_what_is_kept_is_what_counting_gives(driver: Driver) -> None:
    """This holds after any history."""
    chance, store, present = random.Random(7), driver.store, dict[int, EntryRow]()
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
            store.maintain(3)
        assert store.usage() == counted(present.values())


def test_it_is_the_same_after_a_restart(driver: Driver) -> None:
    driver.append(added=[row(seq) for seq in range(1, 9)])
    driver.append(purged={1: 4}, removed=[5])
    kept = driver.store.usage()
    driver.reopen()
    assert driver.store.usage() == kept == counted([row(6), row(7), row(8)])
