"""Which process owns which shard, as far as this process knows."""

from __future__ import annotations

from typing import Protocol


class Owners(Protocol):
    shards: int

    def address_of(self, shard: int) -> str | None:
        """Where the owner is reached: ``host:port`` or the path of a Unix socket. None if it is not known at
        present."""

    async def refresh(self, shard: int) -> None:
        """The owner said that it is not, or does not answer: find out again. Returns when that is done."""
