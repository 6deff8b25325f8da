"""What every store owes the broker: batches, whole, in order, and kept."""

from __future__ import annotations

import pytest
from store_driver import FOREVER, T0, Driver, bare, queue_record, row, update_of

from penstock.errors import StoreError, StoreLost
from penstock.names import QueueName
from penstock.queues.settings import QueueSettings, Redrive
from penstock.store.changes import Changes, DedupRow, MoveTaskRecord
from penstock.store.port import Mark, Tally


def task(id: str, status: str = "RUNNING") -> MoveTaskRecord:
    source = QueueName("000000000000", "eu-west-1", "dead")
    return MoveTaskRecord(
        id=id, source=source, destination=None, rate=None, status=status, started_ms=T0, to_move=3
    )


def test_a_new_store_is_empty(driver: Driver) -> None:
    shard = driver.shard
    assert shard.position == 0
    assert shard.mark.next_number == 1
    assert len(shard.secret) == 32
    assert (shard.queues, shard.cooldowns, shard.tasks, shard.messages) == ([], {}, [], 0)
    assert driver.all() == []
    assert driver.store.tidy(10) is False


def test_two_stores_have_two_secrets(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> None:
    from penstock.store.sqlite.store import SqliteStore

    other = SqliteStore(tmp_path_factory.mktemp("other"))
    assert other.open().secret != driver.shard.secret
    other.close()


def test_everything_is_the_same_after_reopening(lasting: Driver) -> None:
    target = QueueName("000000000000", "eu-west-1", "dead")
    settings = QueueSettings(fifo=True, redrive=Redrive(target, 5), policy='{"a": "ü"}')
    record = queue_record(7, "a.fifo", purged_to=3, purged_ms=T0)
    record = type(record)(
        **{**{f: getattr(record, f) for f in record.__struct_fields__}, "settings": settings}
    )
    entries = [row(seq, 7, group=f"g{seq}") for seq in range(10, 20)]
    lasting.store.append(
        lasting.batch(
            added=entries, queues={7: record}, cooldowns={target: T0 + 5}, tasks={"t": task("t")},
            dedup=[DedupRow(7, 10, b"0123456789abcdef", T0 + 300)],
        ),
        Mark(20, T0 + 1, T0 + 2),
    )  # fmt: skip
    secret = lasting.shard.secret
    lasting.reopen()
    shard = lasting.shard
    assert (shard.position, shard.mark, shard.secret) == (1, Mark(20, T0 + 1, T0 + 2), secret)
    assert shard.queues == [record] == lasting.store.queues()
    assert shard.cooldowns == {target: T0 + 5} == lasting.store.cooldowns()
    assert shard.tasks == [task("t")] == lasting.store.tasks()
    assert shard.messages == 10
    assert shard.bytes > 0
    assert lasting.all(7) == bare(entries)
    assert lasting.store.dedup(7, T0) == [DedupRow(7, 10, b"0123456789abcdef", T0 + 300)]


def test_a_batch_number_is_taken_once(driver: Driver) -> None:
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


def test_a_refused_batch_leaves_nothing(driver: Driver) -> None:
    driver.append(added=[row(1), row(2)], queues={1: queue_record(1)})
    bad = driver.batch(
        added=[row(3), row(2)],  # 2 is there already
        removed=[1],
        purged={1: 2},
        queues={2: queue_record(2, "other")},
        cooldowns={QueueName("0", "r", "n"): T0},
    )
    with pytest.raises(StoreError):
        driver.store.append(bad, Mark(50, T0, T0))
    assert driver.all() == bare([row(1), row(2)])
    assert driver.store.queues() == [queue_record(1)]
    assert driver.store.cooldowns() == {}
    driver.append(added=[row(3)])
    assert [entry.seq for entry in driver.all()] == [1, 2, 3]


def test_text_that_cannot_be_kept_is_refused_whole(driver: Driver) -> None:
    with pytest.raises((StoreError, UnicodeError)):
        driver.append(added=[row(1), row(2, group="\ud800")])
    driver.append(added=[row(3)])
    assert [entry.seq for entry in driver.all()] == [3]


def test_an_update_changes_what_it_names(driver: Driver) -> None:
    entries = [row(seq, group="g" if seq % 2 else None) for seq in range(1, 8)]
    driver.append(added=entries)
    changed = {"receives": 2, "receives_before": 1, "first_received_ms": T0, "source": "arn:x"}
    driver.append(updated=[update_of(entry, due_ms=T0 + entry.seq, **changed) for entry in entries])
    expected = [entry._replace(due_ms=T0 + entry.seq, **changed) for entry in entries]  # type: ignore[arg-type]
    assert driver.all() == bare(expected)
    assert driver.store.in_flight(1, 0, T0) == bare(expected)
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
    arrived = driver.store.waiting(2, None, 5, FOREVER, 10)
    assert len(arrived) == 1
    expected = row(1, 2, position=9, enqueued=T0 + 7, content=content)
    assert arrived[0] == expected._replace(receives_before=4, source="arn:1")
    assert driver.store.lookup(1, 0, [1]) == []
    assert driver.store.oldest_ms(2, 5) == T0 + 7


def test_order_within_a_batch(driver: Driver) -> None:
    """Purged first, then added, updated, removed: one batch can hold a message's whole life."""
    driver.append(added=[row(1), row(2)])
    driver.append(
        purged={1: 2},
        added=[row(3), row(4)],
        updated=[update_of(row(3), receives=1, due_ms=T0 + 1)],
        removed=[4],
    )
    assert driver.all(after=2) == bare([row(3, receives=1, due=T0 + 1)])
    assert driver.store.tally(1, 2, T0) == Tally(1, 1, 0)


def test_a_name_can_be_used_again_in_the_batch_that_drops_it(driver: Driver) -> None:
    driver.append(queues={1: queue_record(1)})
    driver.append(dropped=[1], queues={2: queue_record(2)})
    assert driver.store.queues() == [queue_record(2)]
    with pytest.raises(StoreError):
        driver.append(queues={3: queue_record(3)})  # the same name twice


def test_queues_cooldowns_and_tasks_are_replaced_and_ended(driver: Driver) -> None:
    names = [QueueName("1", "r", f"n{i}") for i in range(5)]
    driver.append(
        queues={1: queue_record(1)},
        cooldowns=dict.fromkeys(names, T0),
        tasks={id: task(id) for id in ("a", "b", "c'\"")},
    )
    driver.append(
        queues={1: queue_record(1, purged_to=9)},
        cooldowns={names[0]: T0 + 9, **dict.fromkeys(names[1:4])},
        tasks={"a": task("a", "COMPLETED"), "b": None, "c'\"": None, "never": None},
    )
    assert driver.store.queues() == [queue_record(1, purged_to=9)]
    assert driver.store.cooldowns() == {names[0]: T0 + 9, names[4]: T0}
    assert driver.store.tasks() == [task("a", "COMPLETED")]


@pytest.mark.parametrize("count", [1, 2, 3, 63, 64, 65, 511, 513, 1500])
def test_batches_of_any_size(driver: Driver, count: int) -> None:
    entries = [row(seq, content=bytes([seq % 251]) * (1 + seq * 7 % 4000)) for seq in range(1, count + 1)]
    driver.append(added=entries)
    assert driver.whole() == entries
    driver.append(updated=[update_of(entry, due_ms=T0 + 1, receives=1) for entry in entries])
    assert driver.store.tally(1, 0, T0) == Tally(count, count, 0)
    driver.append(removed=[entry.seq for entry in entries[1:]])
    assert driver.all() == bare([entries[0]._replace(due_ms=T0 + 1, receives=1)])
    assert driver.store.contents([entry.seq for entry in entries]) == {1: entries[0].content}


def test_numbers_at_the_edge(driver: Driver) -> None:
    last = (1 << 63) - 1
    driver.append(added=[row(last, enqueued=last, due=last)])
    assert driver.store.delayed(1, 0, 0, 5) == bare([row(last, enqueued=last, due=last)])
    with pytest.raises((StoreError, OverflowError)):
        driver.append(added=[row(7), row(last + 1)])
    assert driver.store.tally(1, 0, T0).total == 1
