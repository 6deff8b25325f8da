"""What goes into a batch and when; no clock, no server."""

from __future__ import annotations

import random
from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.client.batching import Batcher, BatchLimits, PendingSend

Message = PendingSend[int]


def message(number: int, group: str | None = None, size: int = 100) -> Message:
    return PendingSend(number, size, group)


def numbers(batch: list[Message]) -> list[int]:
    return [one.request for one in batch]


def test_a_full_batch_goes_at_once() -> None:
    batcher: Batcher[int] = Batcher(BatchLimits(linger_s=1))
    for number in range(13):
        batcher.add(message(number), now_s=0)
    assert numbers(batcher.take(now_s=0)) == list(range(10))
    assert batcher.take(now_s=0) == []


def test_others_wait_for_the_linger_of_the_first() -> None:
    batcher: Batcher[int] = Batcher(BatchLimits(linger_s=1))
    batcher.add(message(1), now_s=10)
    batcher.add(message(2), now_s=10.5)
    assert batcher.take(now_s=10.9) == []
    assert batcher.next_due_s() == 11
    assert numbers(batcher.take(now_s=11)) == [1, 2]
    assert batcher.next_due_s() is None


def test_a_flush_does_not_wait() -> None:
    batcher: Batcher[int] = Batcher(BatchLimits(linger_s=1))
    batcher.add(message(1), now_s=0)
    assert numbers(batcher.take(now_s=0, flush=True)) == [1]


def test_bytes_fill_a_batch() -> None:
    batcher: Batcher[int] = Batcher(BatchLimits(linger_s=1, bytes_max=1000))
    for number, size in enumerate([400, 500, 101, 1000, 2000, 1]):
        batcher.add(message(number, size=size), now_s=0)
    assert numbers(batcher.take(now_s=0)) == [0, 1]
    assert numbers(batcher.take(now_s=0)) == [2]
    assert numbers(batcher.take(now_s=0)) == [3]
    assert numbers(batcher.take(now_s=0)) == [4], "larger than a batch: the server decides"
    assert batcher.take(now_s=0) == []


def test_a_message_to_be_sent_again_waits_and_then_goes_first() -> None:
    batcher: Batcher[int] = Batcher(BatchLimits(linger_s=0))
    first, second = message(1), message(2)
    batcher.add(first, now_s=0)
    batcher.add(second, now_s=0)
    batcher.retry(batcher.take(now_s=0), due_s=5)
    batcher.add(message(3), now_s=4)
    assert numbers(batcher.take(now_s=4)) == [3]
    assert batcher.next_due_s() == 5
    batcher.add(message(4), now_s=5)
    assert numbers(batcher.take(now_s=5)) == [1, 2, 4]


def test_a_message_that_goes_alone_splits_batches() -> None:
    batcher: Batcher[int] = Batcher(BatchLimits(linger_s=0))
    messages = [message(number) for number in range(4)]
    messages[1].alone = True
    for one in messages:
        batcher.add(one, now_s=0)
    assert [numbers(batcher.take(now_s=0)) for _ in range(4)] == [[0], [1], [2, 3], []]


def test_a_batch_has_one_message_of_a_group() -> None:
    batcher: Batcher[int] = Batcher(BatchLimits(linger_s=0), ordered=True)
    for number, group in enumerate("aabba"):
        batcher.add(message(number, group), now_s=0)
    batch = batcher.take(now_s=0)
    assert numbers(batch) == [0, 2]
    assert batcher.take(now_s=0) == [], "both groups wait for the result"
    batcher.settle(batch[0])
    assert numbers(batcher.take(now_s=0)) == [1]
    batcher.settle(batch[1])
    assert numbers(batcher.take(now_s=0)) == [3]


def test_groups_do_not_matter_on_a_standard_queue() -> None:
    batcher: Batcher[int] = Batcher(BatchLimits(linger_s=0))
    for number in range(3):
        batcher.add(message(number, "tenant"), now_s=0)
    assert numbers(batcher.take(now_s=0)) == [0, 1, 2]


def test_a_failed_message_blocks_its_group_and_no_other() -> None:
    batcher: Batcher[int] = Batcher(BatchLimits(linger_s=0), ordered=True)
    for number, group in enumerate("ab"):
        batcher.add(message(number, group), now_s=0)
    failed, sent = batcher.take(now_s=0)
    batcher.retry([failed], due_s=9)
    batcher.settle(sent)
    batcher.add(message(2, "a"), now_s=1)
    batcher.add(message(3, "b"), now_s=1)
    assert numbers(batcher.take(now_s=1)) == [3]
    assert numbers(batcher.take(now_s=9)) == [0]


def test_groups_can_fill_batches() -> None:
    batcher: Batcher[int] = Batcher(BatchLimits(linger_s=0), ordered=True, batch_groups=True)
    for number in range(12):
        batcher.add(message(number, "a"), now_s=0)
    batch = batcher.take(now_s=0)
    assert numbers(batch) == list(range(10))
    assert batcher.take(now_s=0) == [], "the group waits for the result of all"
    batcher.retry(batch[3:], due_s=0)
    for one in batch[:3]:
        batcher.settle(one)
    assert numbers(batcher.take(now_s=0)) == [3, 4, 5, 6, 7, 8, 9, 10, 11]


@pytest.mark.parametrize("batch_groups", [False, True])
@settings(deadline=None)
@given(groups=st.lists(st.sampled_from("abc"), max_size=40), chance=st.randoms(use_true_random=False))
def test_nothing_overtakes_a_failed_message_of_its_group(
    batch_groups: bool, groups: list[str], chance: random.Random
) -> None:
    """Any number of requests are under way and end in any order; each as a whole or, where batches have one message
    of a group, entry by entry."""
    limits = BatchLimits(linger_s=0, bytes_max=1000)
    batcher: Batcher[int] = Batcher(limits, ordered=True, batch_groups=batch_groups)
    waiting = [message(number, group, size=300) for number, group in enumerate(groups)]
    arrived: dict[str | None, list[int]] = defaultdict(list)
    under_way: list[list[Message]] = []
    now_s = 0.0
    while waiting or under_way or batcher.next_due_s() is not None:
        if waiting and chance.random() < 0.5:
            batcher.add(waiting.pop(0), now_s)
        if batch := batcher.take(now_s):
            under_way.append(batch)
        if under_way and chance.random() < 0.5:
            batch = under_way.pop(chance.randrange(len(under_way)))
            whole = chance.random() < 0.5
            failed = [one for one in batch if (whole if batch_groups else chance.random() < 0.5)]
            for one in batch:
                if one not in failed:
                    arrived[one.group].append(one.request)
                    batcher.settle(one)
            for one in failed:
                one.alone = chance.random() < 0.5
            batcher.retry(failed, due_s=now_s + chance.randrange(4))
        now_s += 1
    assert sum(map(len, arrived.values())) == len(groups)
    for sent in arrived.values():
        assert sent == sorted(sent)
