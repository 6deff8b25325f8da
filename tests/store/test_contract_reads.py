"""What every store answers about the messages it keeps."""

from __future__ import annotations

import random

import pytest

from penstock.store.changes import EntryRow
from penstock.store.port import CONTENT_BYTES_PER_READ, LAST, GroupCount, Order, Selection
from store.store_driver import T0, Driver, bare, row, update_of

LARGE = bytes(range(256)) * 40


def lane(
    driver: Driver, queue: int, group: str | None, after: int, due_ms_max: int, rows_max: int
) -> list[EntryRow]:
    return driver.store.lane(Selection(queue, after, due_ms_max=due_ms_max), group, rows_max)


def delayed(driver: Driver, queue: int, after: int, due_ms_min: int, rows_max: int) -> list[EntryRow]:
    which = Selection(queue, after, due_ms_min=due_ms_min, received=False)
    return driver.store.select(which, Order.DUE, rows_max=rows_max)


def in_flight(driver: Driver, queue: int, after: int, due_ms_min: int) -> list[EntryRow]:
    return driver.store.select(Selection(queue, after, due_ms_min=due_ms_min, received=True), rows_max=LAST)


def expired(driver: Driver, queue: int, after: int, enqueued_ms_max: int, rows_max: int) -> list[EntryRow]:
    return driver.store.select(Selection(queue, after, enqueued_ms_max=enqueued_ms_max), rows_max=rows_max)


def tally(driver: Driver, queue: int, after: int, now_ms: int) -> tuple[int, int, int]:
    """All, those in flight, and those delayed."""
    hidden = Selection(queue, after, due_ms_min=now_ms + 1)
    in_flight, delayed = (
        driver.store.count(hidden._replace(received=received)) for received in (True, False)
    )
    return driver.store.count(Selection(queue, after)), in_flight, delayed


def test_waiting_gives_one_group_in_order(driver: Driver) -> None:
    groups = [None, "a", "ä€𝄞", 'q"uote\\', "a'); DROP TABLE entries; --", " ", "a\x00b\x1f"]
    entries = [row(seq, group=groups[seq % len(groups)]) for seq in range(1, 71)]
    driver.append(added=random.Random(1).sample(entries, len(entries)))
    for group in groups:
        expected = [entry for entry in entries if entry.group == group]
        assert lane(driver, 1, group, 0, LAST, 100) == expected
        assert lane(driver, 1, group, expected[2].position, LAST, 3) == expected[3:6]
    assert lane(driver, 1, "A", 0, LAST, 100) == []
    assert lane(driver, 2, "a", 0, LAST, 100) == []


def test_waiting_goes_by_position_not_by_seq(driver: Driver) -> None:
    entries = [row(seq, position=100 - seq, group="g") for seq in range(1, 10)]
    driver.append(added=entries)
    assert lane(driver, 1, "g", 0, LAST, 100) == entries[::-1]


@pytest.mark.parametrize("group", [None, "g"])
def test_waiting_leaves_out_what_sleeps(driver: Driver, group: str | None) -> None:
    entries = [row(seq, group=group, due=T0 + seq) for seq in range(1, 6)] + [row(6, group=group)]
    driver.append(added=entries)
    assert [entry.seq for entry in lane(driver, 1, group, 0, T0 + 2, 100)] == [1, 2, 6]
    assert [entry.seq for entry in lane(driver, 1, group, 1, T0 + 3, 2)] == [2, 3]


@pytest.mark.parametrize("content", [b"\x00", b",", b"\xff" * 2048, b"x" * 2049, LARGE * 100])
def test_contents_come_back_to_the_byte(driver: Driver, content: bytes) -> None:
    driver.append(added=[row(1, content=content), row(2), row(3, group="g", content=content)])
    assert [entry.content for entry in lane(driver, 1, None, 0, T0, 9)] == [content, b"content 2"]
    assert lane(driver, 1, "g", 0, T0, 9)[0].content == content
    assert driver.store.contents([3, 1, 2, 4]) == {1: content, 2: b"content 2", 3: content}
    assert driver.store.contents([]) == {}


def test_one_read_brings_a_bounded_amount_of_content(driver: Driver) -> None:
    megabyte = LARGE * 102
    for first in range(1, 25, 8):
        driver.append(added=[row(seq, content=megabyte) for seq in range(first, first + 8)])
    rows = lane(driver, 1, None, 0, T0, 512)
    assert [entry.seq for entry in rows] == list(range(1, 25))
    with_content = [entry.seq for entry in rows if entry.content is not None]
    assert with_content == list(range(1, len(with_content) + 1)), "the first ones"
    assert 0 < sum(len(entry.content or b"") for entry in rows) <= CONTENT_BYTES_PER_READ + len(megabyte)
    assert driver.store.contents([24]) == {24: megabyte}


def test_tally_counts_three_kinds(driver: Driver) -> None:
    driver.append(
        added=[
            row(1), row(2, group="g"), row(3, due=T0 + 5), row(4, group="g", due=T0 + 5), row(5, due=T0 + 4),
            row(6, due=T0 + 5, receives=1), row(7, group="h", due=T0 + 9, receives=3),
            row(8, due=T0 + 1, receives=2), row(9, queue=2),
        ]
    )  # fmt: skip
    assert tally(driver, 1, 0, T0) == (8, 3, 3)
    assert tally(driver, 1, 0, T0 + 4) == (8, 2, 2)
    assert tally(driver, 1, 0, T0 + 5) == (8, 1, 0)
    assert tally(driver, 1, 3, T0 + 4) == (5, 2, 1)
    assert tally(driver, 3, 0, T0) == (0, 0, 0)


def test_groups_counts_the_first_messages_of_each(driver: Driver) -> None:
    order = ["a", "b", None, "a", "c", None, "b", "a"]
    driver.append(added=[row(seq, group=group) for seq, group in enumerate(order, 1)])
    assert driver.store.groups(Selection(1, 0, due_ms_max=T0), 100) == (
        [GroupCount("a", 3, 1), GroupCount("b", 2, 2), GroupCount(None, 2, 3), GroupCount("c", 1, 5)],
        8,
    )
    assert driver.store.groups(Selection(1, 0, due_ms_max=T0), 4) == (
        [GroupCount("a", 2, 1), GroupCount("b", 1, 2), GroupCount(None, 1, 3)],
        4,
    )
    assert driver.store.groups(Selection(1, 4, due_ms_max=T0), 2) == (
        [GroupCount("c", 1, 5), GroupCount(None, 1, 6)],
        6,
    )
    assert driver.store.groups(Selection(1, 8, due_ms_max=T0), 2) == ([], 8)
    assert driver.store.groups(Selection(2, 0, due_ms_max=T0), 2) == ([], 0)


def test_groups_leaves_out_what_sleeps(driver: Driver) -> None:
    driver.append(added=[row(1, group="a", due=T0 + 9), row(2, group="b", due=T0), row(3, group="c")])
    assert driver.store.groups(Selection(1, 0, due_ms_max=T0), 1) == ([GroupCount("b", 1, 2)], 2)
    assert driver.store.groups(Selection(1, 0, due_ms_max=T0), 9) == (
        [GroupCount("b", 1, 2), GroupCount("c", 1, 3)],
        3,
    )


def test_delayed_comes_soonest_first(driver: Driver) -> None:
    dues = [50, 10, 30, 10, 20, 30]
    entries = [row(seq, due=T0 + due, position=100 - seq) for seq, due in enumerate(dues, 1)]
    driver.append(added=[*entries, row(8, position=8), row(9, due=T0 + 30, receives=1, position=9)])
    assert [entry.seq for entry in delayed(driver, 1, 0, T0, 100)] == [4, 2, 5, 6, 3, 1]
    assert delayed(driver, 1, 0, T0 + 30, 2) == bare([entries[5], entries[2]])
    assert [entry.seq for entry in delayed(driver, 1, 96, T0, 100)] == [2, 3, 1]


def test_in_flight_comes_in_order(driver: Driver) -> None:
    entries = [
        row(seq, due=T0 + 100 - seq, receives=1, group="g" if seq % 2 else None) for seq in range(1, 9)
    ]
    driver.append(added=[*entries, row(10, due=T0 + 90), row(11, receives=1)])
    assert in_flight(driver, 1, 0, T0) == bare(entries)
    assert in_flight(driver, 1, 2, T0 + 95) == bare(entries[2:5])


def test_lookup_finds_only_what_is_in_the_queue(driver: Driver) -> None:
    driver.append(added=[row(1), row(2, queue=2), row(3, group="g", content=LARGE), row(4)])
    found = driver.store.lookup(1, 1, [4, 3, 2, 1, 99])
    assert sorted(found) == bare([row(3, group="g", content=LARGE), row(4)])
    assert driver.store.lookup(1, 0, []) == []


def test_expired_goes_by_age_in_order_of_position(driver: Driver) -> None:
    ages = [5, 1, 9, 2, 8, 3]
    entries = [row(seq, enqueued=T0 + age, group="g" if seq % 2 else None) for seq, age in enumerate(ages, 1)]
    driver.append(added=entries)
    assert expired(driver, 1, 0, T0 + 5, 100) == bare([entries[i] for i in (0, 1, 3, 5)])
    assert expired(driver, 1, 0, T0 + 5, 2) == bare(entries[:2])
    assert expired(driver, 1, 2, T0 + 5, 1) == bare([entries[3]])
    assert expired(driver, 1, 0, T0, 100) == []
    assert driver.oldest_ms(1, 0) == T0 + 1
    assert driver.oldest_ms(1, 2) == T0 + 2
    assert driver.oldest_ms(1, 6) is None
    assert driver.store.count(Selection(1, 0, enqueued_ms_min=T0 + 5)) == 3
    assert driver.store.count(Selection(1, 3, enqueued_ms_min=T0 + 5)) == 1


def test_reads_agree_with_a_plain_list(driver: Driver) -> None:
    """Random batches against the store and against a dict, and every read compared."""
    chance = random.Random(7)
    model: dict[int, EntryRow] = {}
    next_number = 1
    for _ in range(40):
        added, updated = [], {}
        for _ in range(chance.randrange(12)):
            group = chance.choice([None, "a", "b", "é"])
            due = chance.choice([0, 0, T0 + chance.randrange(50)])
            enqueued, content = T0 + chance.randrange(50), chance.randbytes(chance.choice([1, 30, 3000]))
            queue = chance.randrange(1, 3)
            added.append(row(next_number, queue, group=group, due=due, enqueued=enqueued, content=content))
            next_number += 1
        model.update({entry.seq: entry for entry in added})
        for seq in chance.sample(sorted(model), min(len(model), chance.randrange(8))):
            entry = model[seq]._replace(due_ms=T0 + chance.randrange(50), receives=chance.randrange(3))
            if chance.random() < 0.3:
                entry = entry._replace(queue=3 - entry.queue, position=next_number, source="arn")
                next_number += 1
            model[seq] = entry
            updated[seq] = update_of(entry)
        removed = chance.sample(sorted(model), min(len(model), chance.randrange(6)))
        for seq in removed:
            del model[seq]
            updated.pop(seq, None)
        driver.append(added=added, updated=updated.values(), removed=removed)
        compare(driver, model, chance.randrange(next_number), T0 + chance.randrange(50))


def compare(driver: Driver, model: dict[int, EntryRow], after: int, now: int) -> None:
    store = driver.store
    for queue in (1, 2):
        rows = sorted(
            (entry for entry in model.values() if entry.queue == queue and entry.position > after),
            key=lambda entry: entry.position,
        )
        asleep = [entry for entry in rows if entry.due_ms > now]
        received = sum(1 for entry in asleep if entry.receives)
        assert driver.all(queue, after) == bare(rows)
        assert tally(driver, queue, after, now) == (len(rows), received, len(asleep) - received)
        for group in (None, "a", "b", "é"):
            ready = [entry for entry in rows if entry.group == group and entry.due_ms <= now]
            assert lane(driver, queue, group, after, now, 5) == ready[:5]
        soonest = [entry for entry in rows if entry.receives == 0 and entry.due_ms >= now]
        soonest.sort(key=lambda entry: (entry.due_ms, entry.position))
        assert delayed(driver, queue, after, now, 5) == bare(soonest[:5])
        flying = [entry for entry in rows if entry.receives and entry.due_ms >= now]
        assert in_flight(driver, queue, after, now) == bare(flying)
        old = [entry for entry in rows if entry.enqueued_ms <= now]
        assert expired(driver, queue, after, now, 5) == bare(old[:5])
        assert driver.oldest_ms(queue, after) == min((entry.enqueued_ms for entry in rows), default=None)
        assert driver.store.count(Selection(queue, after, enqueued_ms_min=now)) == sum(
            1 for entry in rows if entry.enqueued_ms >= now
        )
        ahead = [entry for entry in rows if entry.due_ms <= now][:6]
        groups, last = store.groups(Selection(queue, after, due_ms_max=now), 6)
        assert last == (ahead[-1].position if ahead else after)
        assert {group.group: group[1] for group in groups} == {
            name: sum(1 for entry in ahead if entry.group == name)
            for name in {entry.group for entry in ahead}
        }
    assert store.contents(sorted(model)) == {seq: entry.content for seq, entry in model.items()}
