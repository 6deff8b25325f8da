"""What the broker asks about queues of shards that this process does not own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from penstock.names import QueueName, Space
from penstock.queues.settings import QueueRecord
from penstock.store.changes import LogRow


class OtherShards(Protocol):
    """Answers for all shards together. Raises Unreachable if one owner does not answer: never a part."""

    async def describe(self, name: QueueName) -> QueueRecord | None:
        """The definition of a queue; None if it does not exist."""

    async def names(self, space: Space, prefix: str) -> list[QueueName]:
        """Sorted."""

    async def sources_of(self, name: QueueName) -> list[QueueName]:
        """The queues that name this one as their dead-letter queue, sorted."""

    async def count(self, account: str) -> int:
        """How many queues an account has, in all regions."""

    async def deliver(self, source: int, target: int, rows: Sequence[LogRow]) -> int:
        """Hand messages from the outbox of one shard over to another; answers the last position that it has taken.

        May be repeated: what was taken before is not taken again."""
