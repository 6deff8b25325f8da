"""Purge and drop: a mark at once, the rows in small pieces later; and what a queue remembers of its sends."""

from __future__ import annotations

import pytest

from penstock.store.changes import DedupRow
from penstock.store.port import Selection
from store.store_driver import T0, Driver, bare, row, update_of


def send(seq: int, queue: int = 1, until: int = T0 + 1000) -> DedupRow:
    return DedupRow(queue, seq, seq.to_bytes(16, "big"), until)


def test_cleaning_up_removes_what_was_purged_and_nothing_else(driver: Driver) -> None:
    gone = [row(seq, group="g" if seq % 3 else None, content=b"x" * (seq * 50)) for seq in range(1, 101)]
    driver.append(added=[*gone, row(101, queue=2)], records={("alarm", "1"): b"{}"})
    driver.append(purged={1: 100}, added=[row(102), row(103, group="g")])
    kept = [row(102), row(103, group="g")]
    assert driver.all(after=100) == bare(kept)
    assert driver.clean_up(rows_max=7) > 100 // 7
    assert driver.all() == bare(kept)
    assert driver.all(2) == bare([row(101, queue=2)])
    assert driver.store.contents(range(1, 104)) == {seq: b"content %d" % seq for seq in (101, 102, 103)}
    assert driver.store.records("alarm") == {"1": b"{}"}


def test_a_message_that_moved_in_after_the_purge_stays(driver: Driver) -> None:
    driver.append(added=[row(1), row(2, queue=2), row(3)])
    driver.append(purged={1: 3})
    driver.append(updated=[update_of(row(2, queue=2), queue=1, position=4)])
    driver.clean_up(rows_max=1)
    assert driver.all() == bare([row(2, position=4)])


def test_a_message_that_moved_out_before_the_purge_stays(driver: Driver) -> None:
    driver.append(added=[row(1), row(2)])
    driver.append(updated=[update_of(row(1), queue=2, position=3)], purged={})
    driver.append(purged={1: 3})
    driver.clean_up()
    assert driver.all(1) == []
    assert [entry.seq for entry in driver.all(2)] == [1]


def test_purging_twice_and_between_pieces(driver: Driver) -> None:
    driver.append(added=[row(seq) for seq in range(1, 51)])
    driver.append(purged={1: 50})
    assert driver.store.maintain(10) is True
    driver.append(added=[row(seq) for seq in range(51, 101)], purged={})
    driver.append(purged={1: 100}, added=[row(101)])
    driver.clean_up(10)
    assert driver.all() == bare([row(101)])


def test_drop_takes_all_that_a_queue_holds(driver: Driver) -> None:
    driver.append(added=[row(1), row(2, queue=2)], dedup=[send(1), send(2, queue=2)])
    driver.append(dropped=[1])
    assert driver.store.dedup(1, T0) == []
    driver.clean_up(1)
    assert driver.all(1) == []
    assert driver.store.contents([1, 2]) == {2: b"content 2"}
    assert driver.store.dedup(2, T0) == [send(2, queue=2)]


def test_void_messages_are_not_counted(driver: Driver) -> None:
    driver.append(added=[row(seq, group="g" if seq % 2 else None) for seq in range(1, 21)])
    driver.append(added=[row(21, queue=2)], purged={1: 15})
    driver.reopen()
    assert {queue: usage.messages for queue, usage in driver.state.usage.items()} == {1: 5, 2: 1}
    driver.append(dropped=[2])
    driver.reopen()
    assert {queue: usage.messages for queue, usage in driver.state.usage.items()} == {1: 5}
    driver.clean_up()
    driver.reopen()
    assert {queue: usage.messages for queue, usage in driver.state.usage.items()} == {1: 5}


def test_a_scan_leaves_out_what_is_void(driver: Driver) -> None:
    driver.append(added=[row(1), row(2), row(3, queue=2), row(4)])
    driver.append(purged={1: 2}, dropped=[2])
    assert driver.store.scan(0, 100, 10, 10_000) == [row(4)]


def test_cleaning_up_goes_on_after_reopening(driver: Driver) -> None:
    driver.append(added=[row(seq) for seq in range(1, 101)])
    driver.append(purged={1: 100})
    assert driver.store.maintain(10) is True
    driver.reopen()
    driver.clean_up(10)
    assert driver.total() == 0


def test_cleaning_up_does_not_take_a_batch_number(driver: Driver) -> None:
    driver.append(added=[row(1)])
    driver.append(purged={1: 1})
    driver.clean_up()
    driver.append(added=[row(2)])
    assert driver.all() == bare([row(2)])


def test_large_contents_are_removed_in_the_end(driver: Driver) -> None:
    driver.append(added=[row(seq, content=b"x" * 100_000) for seq in range(1, 21)])
    driver.append(purged={1: 20})
    assert driver.store.maintain(300) is True
    driver.clean_up(1)
    assert driver.total() == 0
    assert driver.store.contents(range(1, 21)) == {}


def test_sends_are_remembered_until_their_time(driver: Driver) -> None:
    driver.append(dedup=[send(3), send(1), send(2, until=T0 + 5), send(4, queue=2)])
    assert driver.store.dedup(1, T0) == [send(1), send(2, until=T0 + 5), send(3)]
    assert driver.store.dedup(1, T0 + 5) == [send(1), send(3)]
    assert driver.store.dedup(1, T0 + 1000) == []
    assert driver.store.dedup(2, T0) == [send(4, queue=2)]


def test_remembered_sends_can_be_read_in_pages(driver: Driver) -> None:
    sends = [send(seq) for seq in range(1, 11)]
    driver.append(dedup=sends)
    assert driver.store.dedup(1, T0, 0, 4) == sends[:4]
    assert driver.store.dedup(1, T0, 4, 100) == sends[4:]
    driver.append(purged={1: 6})
    assert driver.store.dedup(1, T0, 2, 2) == sends[6:8]


def test_sends_are_forgotten_up_to_a_seq(driver: Driver) -> None:
    driver.append(dedup=[send(seq) for seq in range(1, 6)])
    driver.append(dedup=[send(6)], dedup_forgotten={1: 3, 9: 9})
    assert driver.store.dedup(1, T0) == [send(4), send(5), send(6)]


def test_forgetting_very_many_sends(driver: Driver) -> None:
    for first in range(1, 9001, 3000):
        driver.append(dedup=[send(seq) for seq in range(first, first + 3000)], added=[row(first)])
    driver.append(dedup_forgotten={1: 8999})
    assert driver.store.dedup(1, T0) == [send(9000)]
    driver.clean_up(1000)
    assert driver.store.dedup(1, T0) == [send(9000)]
    assert driver.total() == 3, "the messages themselves are not forgotten"


@pytest.mark.parametrize("tidied", [False, True])
def test_a_purge_forgets_the_sends_before_it(driver: Driver, tidied: bool) -> None:
    driver.append(added=[row(1), row(2)], dedup=[send(1), send(2)])
    # In the batch of the purge: 3 was sent before it, 4 after.
    driver.append(purged={1: 3}, added=[row(3), row(4)], dedup=[send(3), send(4)])
    if tidied:
        driver.clean_up()
    driver.reopen()
    assert driver.store.dedup(1, T0) == [send(4)]
    assert [entry.seq for entry in driver.store.lane(Selection(1, 3), None, 9)] == [4]
