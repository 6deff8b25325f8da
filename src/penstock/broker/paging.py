"""Reads from the store what a queue asks for. Both functions block, and run in the thread that reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.queues.backlog import Restored
from penstock.queues.fifo import FifoQueue
from penstock.queues.paging import Read, ReadDelayed, ReadExpired, ReadGroups
from penstock.queues.standard import StandardQueue
from penstock.store.port import CONTENT_BYTES_PER_READ, LAST, Order, Selection, Store, Usage

_NOTHING = Usage(0, 0)


def fetch(store: Store, queue: int, purged_to: int, read: Read) -> Any:
    """The answer to a read, for the ``apply`` of the queue."""
    if isinstance(read, ReadGroups):
        return store.groups(Selection(queue, read.after, due_ms_max=read.due_ms_max), read.rows_max)
    if isinstance(read, ReadDelayed):
        delayed = Selection(queue, purged_to, due_ms_min=read.due_ms_min, received=False)
        return store.select(delayed, Order.DUE, rows_max=read.rows_max)
    if isinstance(read, ReadExpired):
        expired = Selection(queue, max(purged_to, read.after), enqueued_ms_max=read.enqueued_ms_max)
        return store.select(expired, rows_max=read.rows_max), _oldest_ms(store, queue, purged_to)
    answers = []
    bytes_left = CONTENT_BYTES_PER_READ
    for lane in read.lanes:
        ready = Selection(queue, lane.after, due_ms_max=read.due_ms_max)
        rows = store.lane(ready, lane.group, lane.rows_max, bytes_left)
        bytes_left -= sum(len(row.content or b"") for row in rows)
        answers.append(rows)
    return answers


def loader(store: Store, rules: StandardQueue | FifoQueue, now_ms: int) -> Callable[[], Restored]:
    """What an empty queue needs to know first."""
    queue, purged_to = rules.id, rules.backlog.purged_to

    def job() -> Restored:
        hidden = Selection(queue, purged_to, due_ms_min=now_ms + 1)
        return Restored(
            store.usage(queue).get(queue, _NOTHING).messages,
            0 if isinstance(rules, FifoQueue) else store.count(hidden._replace(received=False)),
            store.select(hidden._replace(received=True), rows_max=LAST),
            _oldest_ms(store, queue, purged_to),
        )

    return job


def _oldest_ms(store: Store, queue: int, purged_to: int) -> int | None:
    oldest = store.select(Selection(queue, purged_to), Order.AGE, rows_max=1)
    return oldest[0].enqueued_ms if oldest else None
