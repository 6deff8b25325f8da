"""Carries what a queue wants to read to the store, and the answer back. See :mod:`penstock.queues.paged`."""

from __future__ import annotations

from collections.abc import Callable

from penstock.queues.fifo import FifoQueue
from penstock.queues.paged import Restored
from penstock.queues.reads import Read, ReadDelayed, ReadExpired, ReadGroups
from penstock.queues.standard import StandardQueue
from penstock.store.changes import Changes
from penstock.store.port import CONTENT_BYTES_PER_READ, Store

Rules = StandardQueue | FifoQueue
Apply = Callable[[int, Changes], None]
"""(now_ms, changes): what to do on the loop with what was read in the thread."""


def reader(store: Store, rules: Rules, read: Read) -> Callable[[], Apply]:
    """A blocking job for the reading thread. What it gives back is called on the loop."""
    queue, purged_to = rules.id, rules.purged_to

    def job() -> Apply:
        if isinstance(read, ReadGroups):
            groups, last = store.groups(queue, read.after, read.due_ms_max, read.rows_max)
            return lambda now_ms, changes: rules.apply_groups(read, groups, last, now_ms)
        if isinstance(read, ReadDelayed):
            delayed = store.delayed(queue, purged_to, read.due_ms_min, read.rows_max)
            assert isinstance(rules, StandardQueue)
            standard = rules
            return lambda now_ms, changes: standard.apply_delayed(read, delayed)
        if isinstance(read, ReadExpired):
            expired = store.expired(queue, max(purged_to, read.after), read.enqueued_ms_max, read.rows_max)
            oldest_ms = store.oldest_ms(queue, purged_to)
            return lambda now_ms, changes: rules.apply_expired(read, expired, oldest_ms, changes)
        waiting = []
        bytes_left = CONTENT_BYTES_PER_READ
        for lane in read.lanes:
            rows = store.waiting(queue, lane.group, lane.after, read.due_ms_max, lane.rows_max, bytes_left)
            bytes_left -= sum(len(row.content or b"") for row in rows)
            waiting.append((lane, rows))
        return lambda now_ms, changes: rules.apply_waiting(waiting, now_ms)

    return job


def loader(store: Store, rules: Rules, now_ms: int) -> Callable[[], Restored]:
    """A blocking job that reads what an empty queue needs to know first."""
    queue, purged_to = rules.id, rules.purged_to

    def job() -> Restored:
        total, _, delayed = store.tally(queue, purged_to, now_ms)
        return Restored(
            total,
            0 if isinstance(rules, FifoQueue) else delayed,
            store.in_flight(queue, purged_to, now_ms + 1),
            store.oldest_ms(queue, purged_to),
        )

    return job
