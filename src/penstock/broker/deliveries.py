"""Hands out what a receive has taken: finds the contents, and exchanges what cannot be opened for other messages.

Rule 1: a message whose key cannot be used is not handed out. It goes back uncounted, and hidden for a while, so that
        others come first; on a FIFO queue those behind it in its group wait.
Rule 2: a receive fails because of a key only if it could hand out nothing at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from penstock.broker.commits import Committer
from penstock.broker.live_queue import LiveQueue
from penstock.broker.polls import Polls
from penstock.broker.runtime import Runtime
from penstock.broker.upkeep import Upkeep
from penstock.broker.waiters import Ask, Caller
from penstock.clock import Clock
from penstock.errors import KeyUnavailable
from penstock.queues.message import Received, decode_content
from penstock.queues.queue import Delivery
from penstock.queues.receipts import Receipt, ReceiptSigner
from penstock.store.port import Store

_EXCHANGES_MAX = 100
"""So often one receive looks further. What it passed over is hidden, so the next goes on from there."""


class _Opened(NamedTuple):
    contents: dict[int, bytes]
    shut: dict[int, KeyUnavailable]  # what cannot be opened, and why


class Outlet:
    def __init__(
        self,
        store: Store,
        runtime: Runtime,
        clock: Clock,
        commits: Committer,
        keeper: Upkeep,
        polls: Polls,
        take: Callable[[LiveQueue, Ask], list[Delivery]],
        receipts: ReceiptSigner,
    ) -> None:
        self._store = store
        self._runtime = runtime
        self._clock = clock
        self._commits = commits
        self._keeper = keeper
        self._polls = polls
        self._take = take
        self._receipts = receipts

    async def hand_out(
        self, queue: LiveQueue, ask: Ask, caller: Caller, deliveries: list[Delivery]
    ) -> list[Received]:
        """``deliveries`` grows by what is taken in exchange. Raises KeyUnavailable."""
        missing = [delivery.seq for delivery in deliveries if delivery.content is None]
        if not missing:
            return list(self._received(queue, deliveries, {}))
        contents, shut = await self._runtime.read(partial(_open, self._store, missing))
        if shut:
            return await self._exchanged(queue, ask, caller, deliveries, _Opened(contents, shut))
        return list(self._received(queue, deliveries, contents))

    async def _exchanged(
        self, queue: LiveQueue, ask: Ask, caller: Caller, deliveries: list[Delivery], opened: _Opened
    ) -> list[Received]:
        taken = list(deliveries)
        for _ in range(_EXCHANGES_MAX):
            handed_out = self._pass_over(queue, taken, opened.shut)
            if received := list(self._received(queue, handed_out, opened.contents)):
                await self._commits.settled()  # a FIFO group must stay locked after a crash
                return received
            if not queue.loaded:
                await self._keeper.loaded(queue)
            taken = self._take(queue, ask) or await self._polls.wait(queue, ask, caller, 0)
            if not taken:
                break
            deliveries += taken
            missing = [delivery.seq for delivery in taken if delivery.content is None]
            found, shut = await self._runtime.read(partial(_open, self._store, missing))
            opened = _Opened(found, shut or opened.shut)
        raise next(iter(opened.shut.values()))

    def _pass_over(
        self, queue: LiveQueue, taken: list[Delivery], shut: dict[int, KeyUnavailable]
    ) -> list[Delivery]:
        if queue.dropped or not queue.loaded:
            return []  # memory was thrown away meanwhile: what is behind what in its group is for it to say
        handed_out = queue.rules.pass_over(taken, shut.keys(), self._clock.now_ms(), self._commits.open)
        self._keeper.changed(queue)
        return handed_out

    def _received(
        self, queue: LiveQueue, deliveries: list[Delivery], contents: dict[int, bytes]
    ) -> Iterator[Received]:
        """``contents``: those that memory did not have. What is in neither is damaged, and left out."""
        for delivery in deliveries:
            content = delivery.content or contents.get(delivery.seq)
            if content is not None:
                receipt = Receipt(queue.id, delivery.seq, delivery.receives, delivery.received_ms)
                yield Received(
                    content=decode_content(content),
                    handle=self._receipts.handle(receipt),
                    receives=delivery.receives,
                    first_received_ms=delivery.first_received_ms,
                    group=delivery.group,
                    sequence=delivery.position if queue.settings.fifo else None,
                    source=delivery.source,
                )


def _open(store: Store, seqs: list[int]) -> _Opened:
    """Blocks. All at once; one by one only if some cannot be opened."""
    try:
        return _Opened(store.contents(seqs), {})
    except KeyUnavailable:
        opened = _Opened({}, {})
    for seq in seqs:
        try:
            opened.contents.update(store.contents([seq]))
        except KeyUnavailable as error:
            opened.shut[seq] = error
    return opened
