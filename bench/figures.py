"""What is measured, in which unit, and how rounds become one figure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple

from bench.jobs import Done

Figures = dict[str, float]
"""One round of one case on one system, by the names in METRICS."""


class Metric(NamedTuple):
    title: str
    more_is_better: bool = False


METRICS = {
    "cpu_us": Metric("CPU µs"),
    "rate": Metric("per second", more_is_better=True),
    "p50_ms": Metric("p50 ms"),
    "p99_ms": Metric("p99 ms"),
    "cpu_percent": Metric("CPU %"),
    "rate_of_empty": Metric("rate, of an empty queue's", more_is_better=True),
    "cpu_of_empty": Metric("CPU, of an empty queue's"),
    "memory_mb": Metric("memory MB"),
    "bytes": Metric("bytes a message"),
    "start_ms": Metric("start ms"),
    "twice": Metric("delivered twice"),
    "generator_busy": Metric("generator busy"),
}
GENERATOR_BUSY_MAX = 0.8  # above this a rate says more about the generator than about the server


class Spread(NamedTuple):
    median: float
    least: float
    most: float


def spread(values: Sequence[float]) -> Spread:
    return Spread(statistics.median(values), min(values), max(values))


def of_load(done: Done, server_is_seen: bool) -> Figures:
    """Per message. The latencies are those of the requests, or what the job says."""
    figures = {
        "rate": done.messages / done.seconds,
        "generator_busy": done.own_cpu / done.seconds,
    }
    if done.twice:
        figures["twice"] = done.twice
    if done.latencies:
        figures["p50_ms"] = 1000 * _quantile(done.latencies, 0.50)
        figures["p99_ms"] = 1000 * _quantile(done.latencies, 0.99)
    if server_is_seen:
        figures["cpu_us"] = 1e6 * (done.server_cpu[1] - done.server_cpu[0]) / done.messages
    return figures


def _quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def shown(value: float) -> str:
    """Three digits say all that a measurement knows."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
