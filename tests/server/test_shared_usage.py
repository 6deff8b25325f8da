"""What accounts hold in all processes together."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from penstock.server.processes.usage import SharedUsage, shared_memory, usage_bytes

A, B = "000000000000", "999999999999"


@pytest.fixture
def memory() -> Iterator[int]:
    descriptor = shared_memory(usage_bytes(3))
    yield descriptor
    os.close(descriptor)


def test_each_process_sees_what_the_others_hold(memory: int) -> None:
    one, two, three = (SharedUsage(memory, process, 3) for process in (1, 2, 3))
    one.publish(A, 1, 100)
    two.publish(A, 2, 200)
    two.publish(B, 7, 700)
    one.publish(A, 3, 300)
    assert one.elsewhere(A) == (2, 200)
    assert two.elsewhere(A) == (3, 300)
    assert three.elsewhere(A) == (5, 500)
    assert three.elsewhere(B) == (7, 700)
    assert two.elsewhere(B) == (0, 0)


def test_a_restarted_process_begins_with_nothing(memory: int) -> None:
    one, two = (SharedUsage(memory, process, 3) for process in (1, 2))
    one.publish(A, 1, 100)
    one.publish(B, 2, 200)
    again = SharedUsage(memory, 1, 3)
    again.clear()
    assert two.elsewhere(A) == two.elsewhere(B) == (0, 0)
    again.publish(B, 5, 500)
    assert two.elsewhere(B) == (5, 500)


def test_many_accounts(memory: int) -> None:
    one, two = (SharedUsage(memory, process, 3) for process in (1, 2))
    accounts = [f"{number:012d}" for number in range(20_000)]
    for number, account in enumerate(accounts):
        one.publish(account, number, 2 * number)
    assert all(two.elsewhere(account) == (number, 2 * number) for number, account in enumerate(accounts))
