"""Hands out what a receive has taken: finds the contents and makes the receipt handles."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from penstock.broker.live_queue import LiveQueue
from penstock.broker.shard import Shard
from penstock.queues.messages import Delivery, Received, decode_content, sequence_of
from penstock.queues.receipts import Receipt, ReceiptSigner


class Outlet:
    def __init__(self, shard: Shard, receipts: ReceiptSigner) -> None:
        self._shard = shard
        self._store = shard.store
        self._receipts = receipts

    async def hand_out(self, queue: LiveQueue, deliveries: list[Delivery]) -> list[Received]:
        """Raises KeyUnavailable if one of the messages cannot be decrypted. SQS: then the whole receive fails."""
        missing = [delivery.seq for delivery in deliveries if delivery.content is None]
        contents = await self._shard.read(partial(self._store.contents, missing)) if missing else {}
        return list(self._received(queue, deliveries, contents))

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
                    sequence=sequence_of(delivery.position) if queue.settings.fifo else None,
                    source=delivery.source,
                )
