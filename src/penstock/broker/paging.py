"""Reads from the store what a queue asks for. Both functions block, and run in the thread that reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.queues.backlog import Restored
from penstock.queues.fifo import FifoQueue
from penstock.queues.paging import Read, ReadDelayed, ReadExpired, ReadGroups
from penstock.queues.standard import StandardQueue
from penstock.store.port import CONTENT_BYTES_PER_READ, Store


def fetch(store: Store, queue: int, purged_to: int, read: Read) -> Any:
    """The answer to a read, for the ``apply`` of the queue."""
    if isinstance(read, ReadGroups):
        return store.groups(queue, read.after, read.due_ms_max, read.rows_max)
    if isinstance(read, ReadDelayed):
        return store.delayed(queue, purged_to, read.due_ms_min, read.rows_max)
    if isinstance(read, ReadExpired):
        expired = store.expired(queue, max(purged_to, read.after), read.enqueued_ms_max, read.rows_max)
        return expired, store.oldest_ms(queue, purged_to)
    answers = []
    bytes_left = CONTENT_BYTES_PER_READ
    for lane in read.lanes:
        rows = store.waiting(queue, lane.group, lane.after, read.due_ms_max, lane.rows_max, bytes_left)
        bytes_left -= sum(len(row.content or b"") for row in rows)
        answers.append(rows)
    return answers


def loader(store: Store, rules: StandardQueue | FifoQueue, now_ms: int) -> Callable[[], Restored]:
    """What an empty queue needs to know first."""
    queue, purged_to = rules.id, rules.backlog.purged_to

    def job() -> Restored:
        total, _, delayed = store.tally(queue, purged_to, now_ms)
        return Restored(
            total,
            0 if isinstance(rules, FifoQueue) else delayed,
            store.in_flight(queue, purged_to, now_ms + 1),
            store.oldest_ms(queue, purged_to),
        )

    return job
