"""What every store does when contents are written anew: the same messages, other bytes."""

from __future__ import annotations

import pytest
from store_driver import FOREVER, T0, Driver, row, update_of

from penstock.auth.encryption.envelope import is_sealed

SMALL, LARGE = b"\x94small", b"\x94" + b"large" * 1000


def begins(driver: Driver, after: int = 0, upto: int = FOREVER, rows_max: int = 100) -> list[int]:
    return [head.seq for head in driver.store.heads(after, upto, rows_max, 5)]


def test_heads_go_by_seq_through_all_queues(driver: Driver) -> None:
    driver.append(
        added=[row(seq, queue=seq % 3, position=100 - seq, group="g" * (seq % 2)) for seq in range(1, 9)]
    )
    assert begins(driver) == list(range(1, 9))
    assert begins(driver, after=2, upto=6) == [3, 4, 5, 6]
    assert begins(driver, after=2, upto=6, rows_max=3) == [3, 4, 5]
    assert begins(driver, after=8) == []
    assert [head.queue for head in driver.store.heads(0, 3, 100, 5)] == [1, 2, 0]


def test_heads_are_the_first_bytes_as_they_are_stored(driver: Driver) -> None:
    driver.append(added=[row(1, content=SMALL), row(2, content=LARGE), row(3, content=b"\x94")])
    for head, content in zip(driver.store.heads(0, FOREVER, 9, 5), (SMALL, LARGE, b"\x94"), strict=True):
        if is_sealed(head.start):
            assert head.size > len(content)
            assert len(head.start) == 5
        else:
            assert head.start == content[:5]
            assert head.size == len(content)


@pytest.mark.parametrize("content", [SMALL, LARGE])
@pytest.mark.parametrize("another", [b"\x95other", b"\x95" + b"other" * 1000])
def test_a_rewritten_content_is_what_is_read(driver: Driver, content: bytes, another: bytes) -> None:
    driver.append(added=[row(seq, content=content) for seq in range(1, 6)])
    driver.store.rewrite([(2, another), (4, another)])
    found = driver.store.contents(range(1, 6))
    assert found == {1: content, 2: another, 3: content, 4: another, 5: content}
    assert [entry.content for entry in driver.store.waiting(1, None, 0, FOREVER, 9)] == list(found.values())


def test_a_rewrite_changes_nothing_else(driver: Driver) -> None:
    entries = [row(1, group="g", due=T0, receives=2), row(2, position=9)]
    driver.append(added=entries)
    moved = update_of(entries[0], queue=5, position=77, receives=3)
    driver.append(updated=[moved])
    driver.store.rewrite([(1, SMALL)])
    driver.store.rewrite([])
    (found,) = driver.whole(5)
    assert found == entries[0]._replace(**moved._asdict(), content=SMALL)
    assert driver.store.tally(1, 0, T0).total == 1


@pytest.mark.parametrize("content", [SMALL, LARGE])
def test_a_message_that_is_gone_stays_gone(driver: Driver, content: bytes) -> None:
    driver.append(added=[row(1, content=content), row(2, content=content)])
    driver.append(removed=[1])
    driver.store.rewrite([(1, b"\x95ghost"), (2, b"\x95there"), (3, b"\x95never")])
    assert driver.store.contents([1, 2, 3]) == {2: b"\x95there"}
    assert begins(driver) == [2]


def test_a_rewrite_is_no_batch_and_lasts(lasting: Driver) -> None:
    lasting.append(added=[row(seq, content=SMALL) for seq in range(1, 1200)])
    lasting.store.rewrite([(seq, b"\x95%d" % seq) for seq in range(1, 1200)])
    position = lasting.position
    lasting.reopen()
    assert lasting.position == position
    assert lasting.store.contents([1, 600, 1199]) == {1: b"\x951", 600: b"\x95600", 1199: b"\x951199"}
    lasting.append(added=[row(2000)])


def test_seals_are_remembered_until_others_are(lasting: Driver) -> None:
    assert lasting.shard.seals == frozenset()
    lasting.store.remember_seals({b"one", b"\xc1\x00two"})
    lasting.reopen()
    assert lasting.shard.seals == {b"one", b"\xc1\x00two"}
    lasting.store.remember_seals({b"three"})
    lasting.reopen()
    assert lasting.shard.seals == {b"three"}
    lasting.append(added=[row(1)])  # it is no batch of the log
