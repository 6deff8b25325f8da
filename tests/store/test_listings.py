"""Listings of messages on every store: each order and filter, page by page, against all rows of the store."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TypeVar

import pytest

from penstock.broker.bulk_tasks import BulkTasks, TaskStatus
from penstock.broker.live_queue import LiveQueue
from penstock.broker.operations import Operation
from penstock.broker.waiting import Ask
from penstock.limits import HOUR, SECOND
from penstock.queues.filters import MessageFilter
from penstock.queues.messages import Outgoing
from penstock.store.changes import EntryRow
from penstock.store.port import LAST, Order
from store.store_broker import StoreBroker
from store.store_driver import Driver
from support.world import Caller

T = TypeVar("T")

KEYS: dict[Order, Callable[[EntryRow], tuple[int, int]]] = {
    Order.POSITION: lambda row: (0, row.position),
    Order.AGE: lambda row: (row.enqueued_ms, row.position),
    Order.DUE: lambda row: (row.due_ms, row.position),
}


class Listed(StoreBroker):
    """A broker on a store, with a queue whose messages are in all states."""

    def fill(self, queue: LiveQueue, random: Random) -> None:
        for i in range(60):
            delay_ms = random.choice([None, None, SECOND, 20 * SECOND])
            group = f"g{random.randrange(5)}" if queue.settings.fifo else random.choice([None, "g"])
            message = Outgoing(
                body=f"m{i}", sender="me", group=group, dedup_id=str(i) if queue.settings.fifo else None,
                delay_ms=None if queue.settings.fifo else delay_ms,
            )  # fmt: skip
            self.do(queue.send([message]))
            if not random.randrange(4):
                self.runtime.advance(random.randrange(900))
            if not random.randrange(3):
                hidden_ms = random.choice([0, SECOND, HOUR, HOUR])
                asked = queue.receive(Ask(2, hidden_ms, None), Caller(), 0)
                self.do(asked)
        self.runtime.advance(SECOND)
        self.runtime.run_until_idle()

    def listed(self, queue: LiveQueue, filter: MessageFilter, order: Order, limit: int) -> list[int]:
        found: list[int] = []
        after: str | None = None
        while True:
            listing = self.broker.partition_of(queue).inspection.list(
                queue, filter, order=order, after=after, limit=limit, looked_max=7
            )
            page = self.do(listing)
            assert len(page.messages) <= limit
            found += [view.row.seq for view in page.messages]
            after = page.next
            if after is None:
                return found

    def expected(self, queue: LiveQueue, filter: MessageFilter, order: Order) -> list[int]:
        now_ms = self.clock.now_ms()
        rows = [row for row in self.driver.store.scan(0, LAST, LAST, LAST) if row.queue == queue.id]
        matching = [
            row
            for row in rows
            if (filter.state is None or filter.state == _state(row, now_ms))
            and row.receives >= (filter.receives_min or 0)
            and now_ms - row.enqueued_ms >= (filter.older_than_s or 0) * SECOND
            and now_ms - row.enqueued_ms <= (filter.younger_than_s or HOUR) * SECOND
        ]
        return [row.seq for row in sorted(matching, key=KEYS[order])]


def _state(row: EntryRow, now_ms: int) -> str:
    if row.due_ms <= now_ms:
        return "visible"
    return "in_flight" if row.receives else "delayed"


FILTERS = [
    MessageFilter(),
    MessageFilter(state="visible"),
    MessageFilter(state="delayed"),
    MessageFilter(state="in_flight"),
    MessageFilter(older_than_s=3),
    MessageFilter(younger_than_s=3, receives_min=1),
    MessageFilter(older_than_s=2, state="in_flight"),
]


@pytest.mark.parametrize("name", ["q", "q.fifo"])
def test_listings(driver: Driver, name: str) -> None:
    world = Listed(driver)
    queue = world.create(name)
    world.create("other")
    world.fill(queue, Random(5))
    for filter in FILTERS:
        for order in Order:
            wanted = world.expected(queue, filter, order)
            for limit in (1, 4, 100):
                assert world.listed(queue, filter, order, limit) == wanted, (filter, order, limit)
    assert len(world.expected(queue, MessageFilter(state="in_flight"), Order.DUE)) > 2


def test_a_bulk_task(driver: Driver) -> None:
    world = Listed(driver)
    queue, other = world.create("q"), world.create("other")
    world.fill(queue, Random(7))
    free = world.expected(queue, MessageFilter(), Order.POSITION)
    busy = world.expected(queue, MessageFilter(state="in_flight"), Order.POSITION)
    tasks: BulkTasks = world.broker.partition_of(queue).bulk_tasks
    task = world.do(tasks.begin(queue, Operation.MOVE, other.name, MessageFilter()))
    world.runtime.advance(SECOND)
    world.runtime.run_until_idle()
    task = tasks.get(queue, task.id)
    assert (task.status, task.done, task.cannot) == (
        TaskStatus.COMPLETED,
        len(free) - len(busy),
        {"in flight": len(busy)},
    )
    assert world.expected(queue, MessageFilter(), Order.POSITION) == busy
    assert len(world.expected(other, MessageFilter(), Order.POSITION)) == task.done
