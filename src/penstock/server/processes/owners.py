"""Which process owns which shard, and where it is reached: as the supervisor says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from penstock.server.processes.messages import ProcessState

# The end of a process is seen by the others before the supervisor can tell them.
_NEWS_S = 0.2
_RESTART_S = 5.0


def owned_by(process: int, processes: int, shards: int) -> range:
    """The shards of a process, numbered from 1."""
    return range(process - 1, shards, processes)


class ProcessOwners:
    def __init__(self, shards: int, processes: int) -> None:
        self.shards = shards
        self._processes = processes
        self._addresses: list[str | None] = [None] * processes
        self._waiting: list[asyncio.Future[None]] = []

    def know(self, states: list[ProcessState]) -> None:
        addresses = [each.address for each in states]
        if addresses != self._addresses:
            self._addresses = addresses
            waiting, self._waiting = self._waiting, []
            for each in waiting:
                _end(each)

    def address_of(self, shard: int) -> str | None:
        return self._addresses[shard % self._processes]

    async def refresh(self, shard: int) -> None:
        """Wait for the supervisor's next word about the owner, for a moment; for a restart, as long as one takes."""
        before = self.address_of(shard)
        if before is not None:
            await self._until(lambda: self.address_of(shard) != before, _NEWS_S)
        await self._until(lambda: self.address_of(shard) is not None, _RESTART_S)

    async def _until(self, known: Callable[[], bool], within_s: float) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + within_s
        while not known() and loop.time() < end:
            news: asyncio.Future[None] = loop.create_future()
            self._waiting.append(news)
            timer = loop.call_at(end, _end, news)
            await news
            timer.cancel()


def _end(wait: asyncio.Future[None]) -> None:
    if not wait.done():
        wait.set_result(None)
