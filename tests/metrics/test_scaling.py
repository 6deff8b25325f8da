"""How many workers a queue needs."""

from __future__ import annotations

from penstock.metrics.scaling import QueueLoad, backlog_per_worker, suggested_workers
from support.rows import every_row


@every_row(
    ("load", "latency_s", "per_worker", "expected"),
    [
        (QueueLoad(0, 0, 0.0, None), 60, 1, 0),
        (QueueLoad(7, 0, 0.0, None), 60, 1, 1),  # nothing is known of the work: one worker will tell
        (QueueLoad(0, 3, 0.0, None), 60, 1, 1),
        (QueueLoad(0, 0, 0.0, 2.0), 60, 1, 0),
        (QueueLoad(0, 0, 5.0, 2.0), 60, 1, 10),  # keeps up with what is sent
        (QueueLoad(600, 0, 0.0, 2.0), 60, 1, 20),  # and works the backlog off
        (QueueLoad(600, 0, 5.0, 2.0), 60, 1, 30),
        (QueueLoad(600, 0, 5.0, 2.0), 60, 10, 3),
        (QueueLoad(600, 0, 5.0, 2.0), 600, 1, 12),
        (QueueLoad(1, 0, 0.0, 0.001), 60, 1, 1),
        (QueueLoad(100_000, 0, 0.0, 0.1), 100, 1, 100),
    ],
)
def test_suggested_workers(load: QueueLoad, latency_s: float, per_worker: int, expected: int) -> None:
    assert suggested_workers(load, latency_s, per_worker) == expected


def test_so_many_workers_bring_the_backlog_down_in_time() -> None:
    """Played through, second by second."""
    backlog, sent_rate, processing_s, latency_s = 5000.0, 20, 0.5, 100
    workers = suggested_workers(QueueLoad(5000, 0, sent_rate, processing_s), latency_s, 1)
    for _ in range(latency_s):
        backlog = max(0.0, backlog + sent_rate - workers / processing_s)
    assert backlog == 0
    assert (workers - 1) / processing_s * latency_s < 5000 + sent_rate * latency_s


def test_backlog_per_worker() -> None:
    load = QueueLoad(100, 8, 1.0, 1.0)
    assert backlog_per_worker(load, 1, 4) == 25
    assert backlog_per_worker(load, 1, None) == 12.5
    assert backlog_per_worker(load, 4, None) == 50
    assert backlog_per_worker(load, 1, 0) == 100
