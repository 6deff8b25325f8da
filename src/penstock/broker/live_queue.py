"""A queue as the broker holds it: its record, its rules in memory, and who waits for its messages."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from penstock.broker.runtime import Timer
from penstock.broker.waiters import Waiter
from penstock.names import QueueName
from penstock.promise import Promise
from penstock.queues.fifo import FifoQueue
from penstock.queues.messages import Entry
from penstock.queues.queue import Tools
from penstock.queues.settings import QueueRecord, QueueSettings
from penstock.queues.standard import StandardQueue


class LiveQueue:
    __slots__ = (
        "_on_arrival", "_on_refused", "_record", "dropped", "generation", "id", "loaded", "loading", "name",
        "outdated", "paged", "rules", "settings", "short_polls", "timer", "timer_ms", "waiters",
    )  # fmt: skip

    def __init__(
        self,
        record: QueueRecord,
        tools: Tools,
        on_arrival: Callable[[LiveQueue], None],
        on_refused: Callable[[LiveQueue], None],
    ) -> None:
        self.record = record
        self._on_arrival = on_arrival
        self._on_refused = on_refused
        kind = FifoQueue if record.settings.fifo else StandardQueue
        self.rules: StandardQueue | FifoQueue = kind(record, tools)
        self.loaded = False  # does memory know what the store holds?
        self.loading: Promise[None] | None = None
        self.outdated = False  # something arrived while the queue was being loaded
        self.generation = 0  # counts how often memory was thrown away: answers to earlier reads are void
        self.paged: Promise[None] | None = None  # the read under way
        self.dropped = False
        # Whoever waits, first come first served; ordered, and quick to leave when ten thousand hang up at once.
        self.waiters: OrderedDict[Waiter, None] = OrderedDict()  # long polls
        self.short_polls: OrderedDict[Waiter, None] = OrderedDict()  # wait only for what is being read
        self.timer: Timer | None = None
        self.timer_ms = 0

    @property
    def record(self) -> QueueRecord:
        return self._record

    @record.setter
    def record(self, record: QueueRecord) -> None:
        self._record = record
        # Asked for with every message.
        self.id: int = record.id
        self.name: QueueName = record.name
        self.settings: QueueSettings = record.settings

    @property
    def tags(self) -> dict[str, str]:
        return self.record.tags

    @property
    def created_ms(self) -> int:
        return self.record.created_ms

    @property
    def modified_ms(self) -> int:
        return self.record.modified_ms

    def committed(self, arrived: list[Entry], now_ms: int) -> None:
        """These messages are durable, and join the queue."""
        if not arrived:
            return
        if self.loaded:
            self.rules.arrive(arrived, now_ms)
            self._on_arrival(self)
        else:
            self.outdated = True

    def refused(self) -> None:
        """Something that memory has done already is not in the store, and never will be."""
        self.forget()
        self._on_refused(self)

    def forget(self) -> None:
        """Throw the memory away; the next use loads it again."""
        self.rules.reset()
        self.loaded = False
        self.void_reads()

    def void_reads(self) -> None:
        """Whatever the read under way brings, it is out of date."""
        self.generation += 1
        self.end_read()

    def end_read(self) -> None:
        paged, self.paged = self.paged, None
        if paged is not None:
            paged.resolve(None)

    @property
    def awaited(self) -> bool:
        return bool(self.waiters or self.short_polls)
