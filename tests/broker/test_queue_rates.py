"""Totals and rates of a queue."""

from __future__ import annotations

import pytest

from penstock.broker.queue_metrics import QueueMetrics, Rates
from support.world import MINUTE, SECOND, World

T0 = 1_700_000_000_000


def count(rates: QueueMetrics, now_ms: int, sent: int) -> None:
    if now_ms >= rates.second_ends_ms:
        rates.turn(now_ms)
    rates.sent += sent


def test_a_steady_stream_has_its_rate() -> None:
    rates = QueueMetrics()
    for second in range(120):
        count(rates, T0 + second * SECOND, 10)
    for later in (0, 1_000, 2_500, 4_999):
        assert rates.per_second(T0 + 119 * SECOND + later).sent == pytest.approx(10, rel=0.1)
    assert rates.sent == 1200


def test_a_burst_is_over_after_a_minute() -> None:
    rates = QueueMetrics()
    count(rates, T0, 600)
    assert rates.per_second(T0 + 30 * SECOND).sent == pytest.approx(10, rel=0.1)
    assert rates.per_second(T0 + 60 * SECOND).sent == pytest.approx(10, rel=0.1)
    assert rates.per_second(T0 + 66 * SECOND).sent == 0
    count(rates, T0 + 66 * SECOND, 60)
    assert rates.per_second(T0 + 70 * SECOND).sent == pytest.approx(1, rel=0.1)


def test_a_queue_without_requests_has_no_rates() -> None:
    assert QueueMetrics().per_second(T0) == Rates(0, 0, 0, 0)


def test_a_queue_counts_what_is_done_with_its_messages(world: World) -> None:
    world.create("q")
    world.send_all("q", "a", "b", "c")
    received = world.receive("q", 2)
    world.delete("q", received[0])
    world.delete("q", received[0])
    world.receive("q")
    assert world.receive("q") == []
    rates = world.queue("q").metrics
    assert (rates.sent, rates.received, rates.deleted, rates.empty) == (3, 3, 2, 1)
    per_second = rates.per_second(world.clock.now_ms())
    assert per_second.sent == pytest.approx(3 / 60, rel=0.1)
    world.advance(2 * MINUTE)
    assert rates.per_second(world.clock.now_ms()) == Rates(0, 0, 0, 0)
    assert rates.sent == 3
