"""What receivers say about messages they hold, by receipt handle: delete it, or hide it for so long.

Rule 1: one decision per handle, and one outcome: a bad handle spoils nothing for the others of its batch.
Rule 2: what memory cannot judge is judged again with the store's help.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from penstock.broker.live_queue import LiveQueue
from penstock.broker.shard import Shard
from penstock.broker.upkeep import Upkeep
from penstock.errors import PenstockError
from penstock.queues.queue import Stored, Unknown
from penstock.queues.receipts import Receipt, ReceiptSigner
from penstock.store.changes import EntryRow

Outcomes = list[PenstockError | None]
"""In the order of the handles; None where it was done."""

_Decide = Callable[[int, Receipt, int, Stored | None], PenstockError | None]
"""(which handle, what it says, the time, what the store has) -> its outcome. Raises Unknown if memory cannot tell."""


class Handles:
    def __init__(
        self,
        shard: Shard,
        keeper: Upkeep,
        receipts: ReceiptSigner,
    ) -> None:
        self._shard = shard
        self._store = shard.store
        self._clock = shard.clock
        self._keeper = keeper
        self._receipts = receipts

    async def delete(self, queue: LiveQueue, handles: Sequence[str]) -> Outcomes:
        def decide(i: int, receipt: Receipt, now_ms: int, stored: Stored | None) -> PenstockError | None:
            return queue.rules.delete(receipt, now_ms, self._shard.changes, stored)

        return await self._judge(queue, handles, decide)

    async def change_visibility(self, queue: LiveQueue, changes: Sequence[tuple[str, int]]) -> Outcomes:
        """``changes``: handles, each with the milliseconds to hide its message for."""

        def decide(i: int, receipt: Receipt, now_ms: int, stored: Stored | None) -> PenstockError | None:
            return queue.rules.change_visibility(receipt, changes[i][1], now_ms, self._shard.changes, stored)

        return await self._judge(queue, [handle for handle, _ in changes], decide)

    async def _judge(self, queue: LiveQueue, handles: Sequence[str], decide: _Decide) -> Outcomes:
        if not queue.loaded:
            await self._keeper.loaded(queue)
        outcomes: Outcomes = [None] * len(handles)
        unknown: list[tuple[int, Receipt]] = []
        now_ms = self._clock.now_ms()
        queue.rules.advance(now_ms, self._shard.changes)
        for i, handle in enumerate(handles):
            try:
                receipt = self._receipts.read(handle, queue.id)
                outcomes[i] = decide(i, receipt, now_ms, None)
            except PenstockError as error:
                outcomes[i] = error
            except Unknown:
                unknown.append((i, receipt))
        self._keeper.changed(queue)
        if unknown:
            queue.rules.backlog.lookups += 1
            try:
                stored = await self._look_up(queue, [receipt.seq for _, receipt in unknown])
                now_ms = self._clock.now_ms()
                queue.rules.advance(now_ms, self._shard.changes)
                for i, receipt in unknown:
                    outcomes[i] = decide(i, receipt, now_ms, stored)
            finally:
                queue.rules.backlog.lookups -= 1
            self._keeper.changed(queue)
        await self._shard.settled()
        return outcomes

    async def _look_up(self, queue: LiveQueue, seqs: list[int]) -> dict[int, EntryRow]:
        rules = queue.rules
        await self._shard.settled()
        rows = await self._shard.read(partial(self._store.lookup, rules.id, rules.backlog.purged_to, seqs))
        if not queue.loaded:
            await self._keeper.loaded(queue)
        return {row.seq: row for row in rows}
