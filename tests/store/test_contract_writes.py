"""What every store owes the broker: commits, whole, in order, and kept."""

from __future__ import annotations

import pytest

from penstock.errors import DataRefused, StoreLost
from penstock.store.changes import Changes, DedupRow, LogRow, Replacement
from penstock.store.port import Cursor, JournalEnd, Mark, Order, Selection, Usage
from store.store_driver import T0, Driver, bare, row, update_of


def test_a_new_store_is_empty(driver: Driver) -> None:
    state = driver.state
    assert state.end.number == 0
    assert state.end.owner
    assert state.mark.next_number == 1
    assert len(state.secret) == 32
    assert (state.records, state.usage) == ({}, {})
    assert driver.all() == []
    assert driver.store.maintain(10) is False


def test_two_stores_have_two_secrets(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> None:
    from penstock.store.sqlite.store import SqliteStore

    other = SqliteStore(tmp_path_factory.mktemp("other"))
    assert other.open().secret != driver.state.secret
    other.close()


def test_everything_is_the_same_after_reopening(driver: Driver) -> None:
    entries = [row(seq, 7, group=f"g{seq}") for seq in range(10, 20)]
    records = {("alarm", "7"): '{"a": "ü"}'.encode(), ("alarm", "8"): b"\x00,", ("topic", "ö"): b""}
    driver.store.append(
        driver.commit(
            added=entries, records=records, logs=[LogRow("points", "a", 5, b"point")],
            dedup=[DedupRow(7, 10, b"0123456789abcdef", T0 + 300)],
        ),
        Mark(20, T0 + 1, T0 + 2),
    )  # fmt: skip
    before = driver.state
    driver.reopen()
    state = driver.state
    assert (state.end.number, state.mark, state.secret) == (1, Mark(20, T0 + 1, T0 + 2), before.secret)
    assert state.end.owner != before.end.owner
    assert driver.store.end() == state.end
    queues = {"7": '{"a": "ü"}'.encode(), "8": b"\x00,"}
    assert state.records["alarm"] == queues == driver.store.records("alarm")
    assert state.records["topic"] == {"ö": b""} == driver.store.records("topic")
    assert driver.store.records("none") == {}
    assert driver.store.log("points", "a", 0, 10) == [LogRow("points", "a", 5, b"point")]
    assert state.usage == {7: Usage(10, sum(entry.size for entry in entries))}
    assert driver.all(7) == bare(entries)
    assert driver.store.dedup(7, T0) == [DedupRow(7, 10, b"0123456789abcdef", T0 + 300)]


def test_a_sync_leaves_everything_as_it_is(driver: Driver) -> None:
    driver.store.sync()
    driver.append(added=[row(1)])
    end = driver.store.end()
    driver.store.sync()
    assert driver.store.end() == end
    driver.append(added=[row(2)])
    assert driver.whole() == [row(1), row(2)]


def test_the_end_of_the_journal_tells_whether_a_commit_was_made(driver: Driver) -> None:
    owner = driver.state.end.owner
    assert driver.store.end() == JournalEnd(0, owner)
    driver.append(added=[row(1)])
    assert driver.store.end() == JournalEnd(1, owner)
    with pytest.raises(DataRefused):
        driver.append(added=[row(1)])
    assert driver.store.end() == JournalEnd(1, owner)


def test_a_commit_number_is_taken_once(driver: Driver) -> None:
    driver.append(added=[row(1)])
    late = Changes(1, 0)
    late.added.append(row(2))
    early = Changes(3, 2)
    early.added.append(row(3))
    for changes in (late, early):
        with pytest.raises(StoreLost):
            driver.store.append(changes, Mark(99, T0, T0))
    assert driver.all() == bare([row(1)])
    driver.append(added=[row(2)])
    assert driver.all() == bare([row(1), row(2)])


def test_a_refused_commit_leaves_nothing(driver: Driver) -> None:
    driver.append(added=[row(1), row(2)], records={("alarm", "1"): b"one"})
    bad = driver.commit(
        added=[row(3), row(2)],  # 2 is there already
        removed=[1],
        purged={1: 2},
        records={("alarm", "1"): b"two", ("topic", "a"): b"new"},
        logs=[LogRow("points", "a", 1, b"point")],
    )
    with pytest.raises(DataRefused):
        driver.store.append(bad, Mark(50, T0, T0))
    assert driver.all() == bare([row(1), row(2)])
    assert driver.store.records("alarm") == {"1": b"one"}
    assert driver.store.records("topic") == {}
    assert driver.store.log("points", "a", 0, 10) == []
    assert driver.store.usage()[1].messages == 2
    driver.append(added=[row(3)])
    assert [entry.seq for entry in driver.all()] == [1, 2, 3]


def test_text_that_cannot_be_kept_is_refused_whole(driver: Driver) -> None:
    with pytest.raises(DataRefused):
        driver.append(added=[row(1), row(2, group="\ud800")])
    with pytest.raises(DataRefused):
        driver.append(added=[row(1)], records={("alarm", "\ud800"): b"one"})
    driver.append(added=[row(3)])
    assert [entry.seq for entry in driver.all()] == [3]


def test_a_commit_may_be_empty(driver: Driver) -> None:
    """It takes the place of one that was refused."""
    driver.append()
    assert driver.store.end().number == 1
    driver.append(added=[row(1)])
    assert driver.all() == bare([row(1)])


def test_an_update_changes_what_it_names(driver: Driver) -> None:
    entries = [row(seq, group="g" if seq % 2 else None) for seq in range(1, 8)]
    driver.append(added=entries)
    changed = {"receives": 2, "receives_before": 1, "first_received_ms": T0, "source": "arn:x"}
    driver.append(updated=[update_of(entry, due_ms=T0 + entry.seq, **changed) for entry in entries])
    expected = [entry._replace(due_ms=T0 + entry.seq, **changed) for entry in entries]  # type: ignore[arg-type]
    assert driver.all() == bare(expected)
    hidden = Selection(1, due_ms_min=T0, received=True)
    assert driver.store.select(hidden, rows_max=99) == bare(expected)
    assert driver.store.contents([3]) == {3: b"content 3"}


def test_an_update_of_a_missing_message_makes_none(driver: Driver) -> None:
    driver.append(added=[row(1)])
    driver.append(updated=[update_of(row(2), receives=1), update_of(row(1), receives=1)], removed=[])
    assert driver.all() == bare([row(1, receives=1)])


@pytest.mark.parametrize("content", [b"small", b"L" * 5000])
def test_an_update_moves_a_message_to_another_queue(driver: Driver, content: bytes) -> None:
    driver.append(added=[row(1, content=content), row(2), row(5, queue=2)])
    moved = update_of(row(1), queue=2, position=9, enqueued_ms=T0 + 7, receives_before=4, source="arn:1")
    driver.append(updated=[moved, update_of(row(2), due_ms=T0 + 1, receives=1)])
    assert [entry.seq for entry in driver.all(1)] == [2]
    arrived = driver.store.lane(Selection(2, 5), None, 10)
    assert len(arrived) == 1
    expected = row(1, 2, position=9, enqueued=T0 + 7, content=content)
    assert arrived[0] == expected._replace(receives_before=4, source="arn:1")
    assert driver.store.lookup(1, 0, [1]) == []
    assert driver.oldest_ms(2, 5) == T0 + 7


def test_order_within_a_commit(driver: Driver) -> None:
    """Purged first, then added, updated, removed: one batch can hold a message's whole life."""
    driver.append(added=[row(1), row(2)])
    driver.append(
        purged={1: 2},
        added=[row(3), row(4)],
        updated=[update_of(row(3), receives=1, due_ms=T0 + 1)],
        removed=[4],
    )
    assert driver.all(after=2) == bare([row(3, receives=1, due=T0 + 1)])
    assert driver.store.usage() == {1: (1, row(3).size)}


def test_records_are_replaced_and_removed(driver: Driver) -> None:
    keys = ["a", "b", "c'\"", "ü", ""]
    driver.append(records={("kind", key): key.encode() for key in keys} | {("other", "a"): b"other"})
    driver.append(
        records={("kind", "a"): b"new", ("kind", "b"): None, ("kind", "c'\""): None, ("kind", "no"): None}
    )
    assert driver.store.records("kind") == {"a": b"new", "ü": "ü".encode(), "": b""}
    assert driver.store.records("other") == {"a": b"other"}


def test_a_log_is_read_in_order_and_truncated(driver: Driver) -> None:
    points = [LogRow("points", "a", position, b"%d" % position) for position in (3, 7, 9, 12)]
    other = LogRow("points", "b", 1, b"b")
    driver.append(logs=[points[1], points[0], other])
    driver.append(logs=points[2:])
    assert driver.store.log("points", "a", 0, 100) == points
    assert driver.store.log("points", "a", 3, 2) == points[1:3]
    assert driver.store.log("points", "a", 12, 2) == []
    assert driver.store.log("none", "a", 0, 2) == []
    driver.append(truncated={("points", "a"): 7})
    assert driver.store.log("points", "a", 0, 100) == points[2:]
    assert driver.store.log("points", "b", 0, 100) == [other]
    with pytest.raises(DataRefused):
        driver.append(logs=[points[2]])


@pytest.mark.parametrize("content", [b"new", b"N" * 5000])
@pytest.mark.parametrize("before", [b"old", b"O" * 5000])
def test_a_content_is_replaced_under_a_new_version(driver: Driver, before: bytes, content: bytes) -> None:
    entry = row(1, group="g", content=before)
    driver.append(added=[entry, row(2)])
    assert driver.append(replaced=[Replacement(1, 1, content, 1, 2, len(content), "g")]) == frozenset()
    replaced = entry._replace(content=content, version=2, size=len(content))
    assert driver.whole() == [replaced, row(2)]
    assert driver.store.lane(Selection(1), "g", 10) == [replaced]
    # A replacement of the first version comes too late.
    late = Replacement(1, 1, b"late", 1, 2, 4, "g")
    assert driver.append(replaced=[late, Replacement(99, 1, b"never", 1, 2, 5, None)]) == {1, 99}
    assert driver.whole() == [replaced, row(2)]
    driver.append(removed=[1])
    assert driver.append(replaced=[Replacement(1, 1, b"gone", 2, 3, 4, None)]) == {1}
    assert driver.all() == bare([row(2)])


@pytest.mark.parametrize("size", [30, 5000])
@pytest.mark.parametrize("edit_first", [True, False])
def test_an_edit_and_a_reencryption_of_one_message_may_share_a_commit(
    driver: Driver, edit_first: bool, size: int
) -> None:
    entry = row(1, content=b"O" * size)
    driver.append(added=[entry])
    changes = Changes(driver.number + 1, driver.number)
    edit, reencryption = (b"N" * size * 2, 2), (b"O" * size, 1)
    for content, version in (edit, reencryption) if edit_first else (reencryption, edit):
        changes.replace(entry, content, version)
    assert driver.store.append(changes, Mark(10**6, T0, T0)) == frozenset()
    assert driver.whole() == [entry._replace(content=b"N" * size * 2, version=2, size=size * 2)]
    assert driver.store.usage() == {1: Usage(1, size * 2)}


@pytest.mark.parametrize("content", [b"small", b"L" * 5000])
@pytest.mark.parametrize(("before", "group"), [("g", "h"), ("g", None), (None, "h"), ("g", "g")])
def test_an_edit_changes_group_and_version_and_leaves_the_content(
    driver: Driver, before: str | None, group: str | None, content: bytes
) -> None:
    entry = row(1, group=before, content=content)
    driver.append(added=[entry, row(2, group="h")])
    edited = entry._replace(position=9, due_ms=T0 + 5, group=group, version=2)
    update = update_of(entry, position=9, due_ms=T0 + 5)
    edit = Replacement(1, 1, None, 1, 2, entry.size, group)
    assert driver.append(updated=[update], replaced=[edit]) == frozenset()
    assert driver.whole() == [row(2, group="h"), edited]
    assert edited in driver.store.lane(Selection(1), group, 10)
    assert len(driver.store.groups(Selection(1), 10)[0]) == len({group, "h"})
    if group != before:
        assert driver.store.lane(Selection(1), before, 10) == []
    assert driver.store.usage() == {1: Usage(2, entry.size + row(2).size)}
    assert driver.append(replaced=[edit._replace(group="x")]) == {1}
    assert driver.whole() == [row(2, group="h"), edited]
    driver.append(removed=[1])
    assert driver.all() == bare([row(2, group="h")])


@pytest.mark.parametrize("edit_first", [True, False])
def test_a_reencryption_beside_an_edit_of_other_parts_is_written(driver: Driver, edit_first: bool) -> None:
    entry = row(1, content=b"O" * 20)
    driver.append(added=[entry])
    changes = Changes(driver.number + 1, driver.number)
    edit, reencryption = (entry._replace(group="g"), None, 2), (entry, b"R" * 30, 1)
    for each in (edit, reencryption) if edit_first else (reencryption, edit):
        changes.replace(*each)
    assert driver.store.append(changes, Mark(10**6, T0, T0)) == frozenset()
    assert driver.whole() == [entry._replace(content=b"R" * 30, version=2, group="g")]
    assert driver.store.usage() == {1: Usage(1, 20)}


def test_a_purged_message_is_not_replaced(driver: Driver) -> None:
    driver.append(added=[row(1)])
    driver.append(purged={1: 1})
    assert driver.append(replaced=[Replacement(1, 1, b"new content", 1, 2, 11, None)]) == {1}
    assert driver.store.usage() == {}


def test_a_message_can_be_put_before_another(driver: Driver) -> None:
    driver.append(added=[row(seq, position=seq * 1000) for seq in (1, 2, 3)])
    driver.append(updated=[update_of(row(3), position=1500)])
    assert [entry.seq for entry in driver.all()] == [1, 3, 2]
    assert [entry.seq for entry in driver.store.lane(Selection(1), None, 10)] == [1, 3, 2]


def test_a_queue_is_listed_in_any_order_in_pages(driver: Driver) -> None:
    entries = [
        row(1, enqueued=T0 + 5), row(2, enqueued=T0 + 1, due=T0 + 9), row(3, enqueued=T0 + 5, due=T0 + 9, receives=1),
        row(4, enqueued=T0, due=T0 + 3, receives=2, group="g"), row(5, enqueued=T0 + 5, group="g"), row(6, queue=2),
    ]  # fmt: skip
    driver.append(added=entries)

    def pages(which: Selection, order: Order) -> list[list[int]]:
        found: list[list[int]] = []
        after, which_now = None, which
        while rows := driver.store.select(which_now, order, after=after, rows_max=2):
            assert all(entry.content is None for entry in rows)
            found.append([entry.seq for entry in rows])
            last = rows[-1]
            if order is Order.POSITION:
                which_now = which_now._replace(after=last.position)
            else:
                time_ms = last.enqueued_ms if order is Order.AGE else last.due_ms
                after = Cursor(time_ms, last.position)
        return found

    every = Selection(1)
    assert pages(every, Order.POSITION) == [[1, 2], [3, 4], [5]]
    assert pages(every, Order.AGE) == [[4, 2], [1, 3], [5]]
    assert pages(every, Order.DUE) == [[4, 2], [3]]
    ready, hidden = Selection(1, due_ms_max=T0 + 4), Selection(1, due_ms_min=T0 + 5)
    delayed, in_flight = hidden._replace(received=False), hidden._replace(received=True)
    assert [pages(ready, order) for order in Order] == [[[1, 4], [5]], [[4, 1], [5]], [[4]]]
    assert [pages(delayed, order) for order in Order] == [[[2]]] * 3
    assert [pages(in_flight, order) for order in Order] == [[[3]]] * 3
    assert [driver.store.count(which) for which in (every, ready, delayed, in_flight)] == [5, 3, 1, 1]
    younger = Selection(1, after=1, enqueued_ms_min=T0 + 1, enqueued_ms_max=T0 + 5)
    assert [pages(younger, order) for order in Order] == [[[2, 3], [5]], [[2, 3], [5]], [[2, 3]]]


@pytest.mark.parametrize("count", [1, 2, 3, 63, 64, 65, 511, 513, 1500])
def test_commits_of_any_size(driver: Driver, count: int) -> None:
    entries = [row(seq, content=bytes([seq % 251]) * (1 + seq * 7 % 4000)) for seq in range(1, count + 1)]
    driver.append(added=entries)
    assert driver.whole() == entries
    driver.append(updated=[update_of(entry, due_ms=T0 + 1, receives=1) for entry in entries])
    assert driver.store.count(Selection(1, due_ms_min=T0, received=True)) == count
    driver.append(removed=[entry.seq for entry in entries[1:]])
    assert driver.all() == bare([entries[0]._replace(due_ms=T0 + 1, receives=1)])
    assert driver.store.contents([entry.seq for entry in entries]) == {1: entries[0].content}


def test_numbers_at_the_edge(driver: Driver) -> None:
    last = (1 << 63) - 1
    driver.append(added=[row(last, enqueued=last, due=last)])
    assert driver.store.select(Selection(1, received=False), Order.DUE, rows_max=5) == bare(
        [row(last, enqueued=last, due=last)]
    )
    with pytest.raises(DataRefused):
        driver.append(added=[row(7), row(last + 1)])
    assert driver.total() == 1
