"""How many workers a queue needs.

A worker that holds one message for S seconds ends 1/S messages a second. To keep up with what is sent, and to bring
the backlog down within the target latency, ``S * (sent per second + backlog / latency)`` messages have to be held at
the same time.
"""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

_ROUNDING = 1e-9


class QueueLoad(NamedTuple):
    backlog: int  # messages that can be received
    in_flight: int
    sent_rate: float  # per second
    processing_s: float | None  # from a receive to the delete, on average; None: nothing was deleted


def suggested_workers(load: QueueLoad, latency_s: float, messages_per_worker: int) -> int:
    """``latency_s``: within which the backlog is to be worked off. ``messages_per_worker``: that a worker holds at
    the same time. One if there is something to do and it is not known how long that takes."""
    if load.processing_s is None:
        return int(load.backlog + load.in_flight > 0)
    at_once = load.processing_s * (load.sent_rate + load.backlog / latency_s)
    needed = ceil(at_once / messages_per_worker - _ROUNDING)
    return max(needed, int(load.backlog + load.in_flight > 0))


def backlog_per_worker(load: QueueLoad, messages_per_worker: int, workers: int | None) -> float:
    """``workers``: that run now; None: as many as hold messages, at least one."""
    if workers is None:
        workers = ceil(load.in_flight / messages_per_worker)
    return load.backlog / max(1, workers)
