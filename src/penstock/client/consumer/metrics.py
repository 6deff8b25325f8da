"""Counts and durations of handled messages, to be read by the program or by Prometheus.

metrics = Metrics()
app = Worker(middleware=[metrics])
metrics.counts()                              # {("orders", "done"): 17}
prometheus_client.REGISTRY.register(metrics)  # pip install 'penstock-mq[prometheus]'
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

from penstock.client.consumer.context import MessageContext
from penstock.client.consumer.middleware import CallNext
from penstock.client.consumer.retry import Retry
from penstock.client.queue_names import queue_name

if TYPE_CHECKING:
    from prometheus_client import Metric

Result = Literal["done", "duplicate", "retry", "failed", "interrupted"]
_BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


class Durations:
    """A histogram of how long the calls of one handler took."""

    def __init__(self) -> None:
        self.count = 0
        self.sum_s = 0.0
        self.buckets = [0] * (len(_BOUNDS_S) + 1)

    def add(self, seconds: float) -> None:
        self.count += 1
        self.sum_s += seconds
        self.buckets[bisect_left(_BOUNDS_S, seconds)] += 1


class Metrics:
    """Middleware that counts and times calls of handlers, for Prometheus or for your own use.

        app = Worker(middleware=[metrics := Metrics()])
        prometheus_client.REGISTRY.register(metrics)

    ``interrupted`` are calls that do not count: the message was lost, or the worker stopped.
    """

    def __init__(self) -> None:
        self._counts: dict[tuple[str, Result], int] = {}
        self._durations: dict[str, Durations] = {}
        self._running: dict[str, int] = {}

    async def __call__(self, context: MessageContext, call_next: CallNext) -> Any:
        """Call the handler, and count its outcome.

        :param context: The context of the message.
        :param call_next: The handler, or the next middleware.
        :returns: What the handler returned.
        """
        queue, started = queue_name(context.queue), time.perf_counter()
        self._running[queue] = self._running.get(queue, 0) + 1
        result: Result = "failed"
        try:
            returned = await call_next()
            result = "duplicate" if context.is_duplicate else "done"
            if context.claim_lost.is_set():
                result = "interrupted"
            return returned
        except Retry:
            result = "retry"
            raise
        except asyncio.CancelledError:
            result = "interrupted"
            raise
        finally:
            self._running[queue] -= 1
            key = queue, result
            self._counts[key] = self._counts.get(key, 0) + len(context.messages)
            self._durations.setdefault(queue, Durations()).add(time.perf_counter() - started)

    def counts(self) -> dict[tuple[str, Result], int]:
        """Count messages by queue and result. Those of a batch that failed in part count as done.

        :returns: The numbers by queue name and result.
        """
        return dict(self._counts)

    def durations(self) -> dict[str, Durations]:
        """Say how long the calls of handlers took.

        :returns: A histogram for each queue name.
        """
        return dict(self._durations)

    def collect(self) -> Iterator[Metric]:
        """Write the metrics for a registry of prometheus_client.

        :returns: An iterator over the metrics.
        :raises ImportError: prometheus_client is not installed.
        """
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        messages = CounterMetricFamily(
            "penstock_worker_messages", "Messages that were handled, by result.", labels=["queue", "result"]
        )
        for (queue, result), count in self._counts.items():
            messages.add_metric([queue, result], count)
        running = GaugeMetricFamily(
            "penstock_worker_running", "Calls of handlers that run.", labels=["queue"]
        )
        for queue, count in self._running.items():
            running.add_metric([queue], count)
        seconds = HistogramMetricFamily(
            "penstock_worker_handler_seconds", "How long calls of handlers took.", labels=["queue"]
        )
        for queue, durations in self._durations.items():
            seconds.add_metric([queue], _cumulated(durations.buckets), durations.sum_s)
        yield from (messages, running, seconds)


def _cumulated(buckets: list[int]) -> list[tuple[str, float]]:
    total, found = 0, []
    for bound, count in zip((*map(str, _BOUNDS_S), "+Inf"), buckets, strict=True):
        total += count
        found.append((bound, float(total)))
    return found
