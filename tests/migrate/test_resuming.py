"""A copy that is interrupted at any commit goes on where it was, and the target does not serve before the end."""

from __future__ import annotations

import pytest

from migrate.test_copies import migrate
from penstock.errors import StoreError, StoreRefused
from penstock.migrate.stores import copying
from penstock.migrate.stores.copying import AlreadyComplete
from penstock.store.changes import Changes
from penstock.store.port import UNFINISHED, Mark
from support.generated_stores import Interruption, MemorySite, dump, fill
from support.rows import every_row


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying, "ROWS_PER_PAGE", 17)


@every_row("made", [False, True])
@every_row(("before", "after"), [(1, 1), (1, 3), (3, 1), (3, 2)])
def test_interrupted_at_every_commit(before: int, after: int, made: bool) -> None:
    source = MemorySite(before)
    fill(source.stores, seed=5, queues=3, messages=12)
    expected = dump(source.stores)
    interruptions = 0
    while True:
        target = MemorySite(after)
        interruption = Interruption(interruptions, made=made)
        target.interrupt(interruption)
        try:
            migrate(source, target)
        except StoreError:
            assert interruption.happened
        else:
            break
        target.interrupt(None)
        try:
            assert migrate(source, target).resumed == (interruptions + made > 0)
        except AlreadyComplete:
            assert made, "the interruption hid only the answer to the last commit"
        assert dump(target.stores) == expected, f"interrupted at commit {interruptions}"
        interruptions += 1
    assert interruptions > 10


def test_interrupted_again_and_again() -> None:
    source, target = MemorySite(2), MemorySite(3)
    fill(source.stores, seed=6)
    expected, runs = dump(source.stores), 0
    while True:
        target.interrupt(Interruption(3, made=runs % 2 == 0))
        try:
            migrate(source, target)
            break
        except AlreadyComplete:
            break
        except StoreError:
            runs += 1
    assert runs > 5
    assert dump(target.stores) == expected


def test_every_shard_is_marked_from_the_first_commit_of_data_to_the_end() -> None:
    source, target = MemorySite(2), MemorySite(3)
    fill(source.stores, seed=6)
    target.interrupt(Interruption(4, made=False))
    with pytest.raises(StoreError):
        migrate(source, target)
    assert all(UNFINISHED in store.open().records for store in target.stores)
    target.interrupt(None)
    migrate(source, target)
    assert not any(UNFINISHED in store.open().records for store in target.stores)


def _half_migrated() -> tuple[MemorySite, MemorySite]:
    source, target = MemorySite(2), MemorySite(3)
    fill(source.stores, seed=6)
    target.interrupt(Interruption(6, made=False))
    with pytest.raises(StoreError):
        migrate(source, target)
    target.interrupt(None)
    return source, target


def test_another_source_is_refused() -> None:
    _, target = _half_migrated()
    other = MemorySite(2)
    fill(other.stores, seed=6)
    with pytest.raises(StoreRefused, match="of another store"):
        migrate(other, target)


def test_a_source_that_was_used_since_is_refused() -> None:
    source, target = _half_migrated()
    state = source.stores[1].open()
    source.stores[1].append(Changes(state.end.number + 1, state.end.number), state.mark)
    with pytest.raises(StoreRefused, match="used after"):
        migrate(source, target)


def test_a_half_migrated_store_is_no_source() -> None:
    _, target = _half_migrated()
    with pytest.raises(StoreRefused, match="not finished"):
        migrate(target, MemorySite(1))


def test_a_target_that_holds_something_is_refused() -> None:
    source, target = MemorySite(1), MemorySite(4)
    fill(source.stores, seed=1)
    target.stores[2].open()
    target.stores[2].append(Changes(1, 0), Mark(2, 0, 0))
    with pytest.raises(StoreRefused, match="not empty"):
        migrate(source, target)
    assert all(store.end().number == 0 for store in target.stores[:2])


def test_a_copy_that_is_complete_is_not_made_again() -> None:
    source, target = MemorySite(2), MemorySite(3)
    fill(source.stores, seed=1)
    migrate(source, target)
    ends = [store.end().number for store in target.stores]
    with pytest.raises(AlreadyComplete):
        migrate(source, target)
    assert [store.end().number for store in target.stores] == ends


def test_records_of_an_unknown_kind_are_refused() -> None:
    source, target = MemorySite(1), MemorySite(1)
    source.stores[0].open()
    changes = Changes(1, 0)
    changes.records["unknown-kind", "1"] = b"{}"
    source.stores[0].append(changes, Mark(2, 0, 0))
    with pytest.raises(StoreRefused, match='"unknown-kind"'):
        migrate(source, target)
