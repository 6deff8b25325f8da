"""Serves receives that wait. Nothing polls: whoever changes a queue calls :meth:`Polls.serve`.

Rule 1: a waiting receive is answered the moment a message can be handed out, first come first served.
Rule 2: while somebody waits, one timer per queue is set to the next moment that something can become available.
Rule 3: a caller who hangs up stops waiting at once and takes nothing.
Rule 4: a short poll waits only while messages are being read from the store.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

from penstock.broker.live_queue import LiveQueue
from penstock.broker.shard import Shard
from penstock.broker.waiters import Ask, Caller, Waiter
from penstock.errors import QueueMissing
from penstock.queues.backlog import NEVER
from penstock.queues.messages import Delivery

_ENDED_AT_ONCE = 250  # some ten milliseconds: thousands in one go would hold up everybody else


class Polls:
    def __init__(self, shard: Shard, take: Callable[[LiveQueue, Ask], list[Delivery]]) -> None:
        self._shard = shard
        self._runtime = shard.runtime
        self._clock = shard.clock
        self._take = take

    async def wait(self, queue: LiveQueue, ask: Ask, caller: Caller, wait_ms: int) -> list[Delivery]:
        """What the queue hands out within the time; nothing if that ends, or the caller hangs up."""
        if caller.gone or (not wait_ms and not queue.rules.backlog.reading):
            return []
        waiter = Waiter(ask, caller)
        line = queue.waiters if wait_ms else queue.short_polls
        line[waiter] = None

        def leave() -> None:
            if waiter in line:
                del line[waiter]
                waiter.resolve([])

        caller.on_gone = leave
        if wait_ms:
            waiter.timer = self._runtime.at(self._clock.now_ms() + wait_ms, leave)
        self._set_timer(queue)
        return await waiter.answer

    def serve(self, queue: LiveQueue) -> None:
        if not queue.loaded or not queue.awaited:
            return
        for line in (queue.short_polls, queue.waiters):
            while line:
                waiter = next(iter(line))
                deliveries = self._take(queue, waiter.ask)
                if not deliveries:
                    break
                # Answering may run anything, even another receive on this queue: take it out first.
                del line[waiter]
                waiter.leave()
                self._shard.answer(waiter.answer, deliveries)
        while queue.short_polls and not queue.rules.backlog.reading:
            queue.short_polls.popitem(last=False)[0].resolve([])
        self._set_timer(queue)

    def end(self, queue: LiveQueue) -> None:
        """Whoever waits now waits no longer: the queue is gone, or the server stops."""
        self._end_some(queue, deque((*queue.short_polls, *queue.waiters)))

    def _end_some(self, queue: LiveQueue, ending: deque[Waiter]) -> None:
        for _ in range(min(len(ending), _ENDED_AT_ONCE)):
            waiter = ending.popleft()
            line = queue.waiters if waiter in queue.waiters else queue.short_polls
            if waiter not in line:
                continue  # its time ended, its caller hung up, or it was served before its turn came
            del line[waiter]
            if queue.dropped:
                waiter.fail(QueueMissing())
            else:
                waiter.resolve([])
        if ending:
            self._runtime.soon(partial(self._end_some, queue, ending))
        else:
            self._set_timer(queue)

    def _set_timer(self, queue: LiveQueue) -> None:
        due_ms = queue.rules.next_deadline_ms() if queue.awaited else NEVER
        if queue.timer is not None:
            if queue.timer_ms == due_ms:
                return
            queue.timer.cancel()
            queue.timer = None
        if due_ms != NEVER:
            queue.timer_ms = due_ms

            def due() -> None:
                queue.timer = None
                self.serve(queue)

            queue.timer = self._runtime.at(due_ms, due)
