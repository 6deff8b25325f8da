"""Group commit: decisions made while one batch is written share the next.

Rule 1: a reply that rests on a change waits until its batch is durable; so does one that only leans on it.
Rule 2: a sent message joins its queue when its batch is durable, never before.
Rule 3: when a batch is refused, everything decided since fails with it, and the queues it touched forget what they
        know: memory never runs ahead of the store.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Set
from functools import partial

from penstock.broker.live_queue import LiveQueue
from penstock.broker.runtime import Runtime
from penstock.clock import Clock
from penstock.errors import StoreBroken, StoreBusy, StoreError, StoreLost
from penstock.promise import Promise
from penstock.queues.messages import Entry
from penstock.store.changes import Changes
from penstock.store.port import Mark, Shard, Store

log = logging.getLogger("penstock.broker")


_ROWS_ENOUGH = 256
_ROUNDS_MAX = 4


class Batch:
    """The changes of one commit, and who waits for it."""

    __slots__ = ("arrivals", "changes", "durable", "touched")

    def __init__(self, number: int, durable: int) -> None:
        self.changes = Changes(number, durable)
        self.durable: Promise[None] = Promise()
        self.arrivals: list[tuple[LiveQueue, Entry]] = []
        self.touched: set[LiveQueue] = set()


class Committer:
    def __init__(
        self,
        store: Store,
        runtime: Runtime,
        clock: Clock,
        shard: Shard,
        on_durable: Callable[[Batch], None],
        on_refused: Callable[[StoreError, list[Batch]], None],
    ) -> None:
        self._store = store
        self._runtime = runtime
        self._clock = clock
        self._on_durable = on_durable
        self._on_refused = on_refused
        self._next_number = shard.mark.next_number
        self._batch = Batch(shard.position + 1, shard.position)
        self._under_way: Batch | None = None
        self._scheduled = False
        self._rounds = self._rows = 0  # how often we looked whether more comes, and how much there was
        self._end: StoreError | None = None  # after this, no commit is ever tried again

    @property
    def open(self) -> Changes:
        """The changes being gathered. Fetch it anew after every await."""
        return self._batch.changes

    def next_number(self) -> int:
        number = self._next_number
        self._next_number = number + 1
        return number

    def touch(self, queue: LiveQueue) -> None:
        """The open batch holds changes that memory of this queue has made already."""
        self._batch.touched.add(queue)
        if not self._scheduled:
            self._schedule()

    def arrive(self, queue: LiveQueue, entry: Entry) -> None:
        """This message joins this queue when the open batch is durable."""
        batch = self._batch
        batch.arrivals.append((queue, entry))
        batch.touched.add(queue)
        if not self._scheduled:
            self._schedule()

    def coming(self, queue: LiveQueue) -> Set[int]:
        """Messages that join this queue with the batch under way: perhaps durable, not yet known to the queue."""
        if self._under_way is None:
            return frozenset()
        return {entry.seq for held, entry in self._under_way.arrivals if held is queue}

    def check_pace(self, bytes_max: int) -> None:
        """Refuse more while so much waits for a slow disk: memory is not the place to keep it."""
        waiting = self._batch.changes.bytes + (self._under_way.changes.bytes if self._under_way else 0)
        if waiting > bytes_max:
            raise StoreBusy("the disk does not keep up with what is sent")

    def settled(self) -> Promise[None]:
        """Done when everything decided so far is durable."""
        batch = self._batch
        if batch.arrivals or batch.changes:
            if not self._scheduled:
                self._schedule()
            return batch.durable
        if self._under_way is not None:
            return self._under_way.durable
        return _SETTLED

    def _schedule(self) -> None:
        self._scheduled = True
        self._rounds = 0
        self._rows = self._batch.changes.rows
        self._runtime.soon(self._flush)

    def _flush(self) -> None:
        if self._under_way is None and self._grows():
            self._runtime.soon(self._flush)
            return
        self._scheduled = False
        if self._under_way is not None or not self._batch.changes:
            return
        if self._end is not None:
            self._refused(self._batch, self._end)
            return
        batch = self._under_way = self._batch
        number = batch.changes.number
        self._batch = Batch(number + 1, number - 1)
        mark = Mark(self._next_number, self._clock.now_ms(), self._clock.wall_ms())
        append = partial(self._store.append, batch.changes, mark)
        self._runtime.write(append, short=batch.changes.is_short).on_done(self._written)

    def _grows(self) -> bool:
        """Are requests coming in just now? Then their changes come along: many cost one commit, as one does.

        Whoever is alone does not wait, and nobody waits for long."""
        rows, self._rows = self._rows, self._batch.changes.rows
        self._rounds += 1
        return rows < self._rows < _ROWS_ENOUGH and self._rounds <= _ROUNDS_MAX

    def _written(self, outcome: Promise[None]) -> None:
        batch, self._under_way = self._under_way, None
        assert batch is not None
        try:
            outcome.result()
        except StoreError as error:
            self._refused(batch, error)
        except Exception as error:
            log.exception("a commit failed in a way that no store should")
            self._refused(batch, StoreError(str(error)))
        else:
            self._batch.changes.durable = batch.changes.number
            try:
                self._on_durable(batch)
            except Exception:
                log.exception("memory could not follow a commit; it is loaded anew")
                for queue in batch.touched:
                    queue.forget()
            batch.durable.resolve(None)
        if self._batch.changes and not self._scheduled:
            self._schedule()

    def _refused(self, batch: Batch, error: StoreError) -> None:
        if isinstance(error, (StoreBroken, StoreLost)):
            # An fsync that follows a failed one may report success for data that is lost.
            self._end = error
        on_top = self._batch
        number = batch.changes.number
        self._batch = Batch(number, number - 1)
        self._on_refused(error, [batch, on_top])
        for failed in (batch, on_top):
            if not failed.durable.done:
                failed.durable.fail(error)


_SETTLED: Promise[None] = Promise()
_SETTLED.resolve(None)
