"""Encrypts anew, in the background, what is stored under an older version of a key, under another, or under none.

Rule 1: it goes through all messages once for each generation of the keyring, in order of seq, in small bites.
Rule 2: it rests longer than it works: commits and reads come first.
Rule 3: how far it came is kept, so that a restart goes on from there. It may be behind, never ahead.
Rule 4: what cannot be opened is counted and left as it is.
Rule 5: it takes space, and waits while that is scarce: the last of it is for what clients do.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Protocol

import msgspec

from penstock.broker.shard import Shard
from penstock.errors import StoreBroken, StoreError, StoreFull, StoreLost
from penstock.limits import MINUTE, SECOND
from penstock.promise import Promise, run_detached
from penstock.store.changes import EntryRow

log = logging.getLogger("penstock.broker")

SCARCE_BYTES = 32 * 1024 * 1024
"""With no more than this free where the data lives, the last of it is for what clients do."""

_BITE_ROWS = 500
_BITE_BYTES = 1024 * 1024
_REST_MS_MIN = 5
_RESTS_PER_WORK = 2
_KEEP_EVERY_MS = 5 * SECOND
_TELL_EVERY_MS = MINUTE
_TRY_AGAIN_MS = MINUTE


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far one round came."""

    generation: int
    upto: int  # messages with a higher seq came later, and were encrypted rightly at once
    after: int = 0  # messages up to this seq are done
    looked_at: int = 0
    resealed: int = 0
    unreadable: int = 0
    done: bool = False

    @property
    def percent(self) -> int:
        return 100 if self.done else min(99, 100 * self.after // max(1, self.upto))


class Reencrypting(Protocol):
    """What it needs of a store that encrypts."""

    @property
    def newest(self) -> int: ...

    def outdated(self, after: int, upto: int, rows_max: int, bytes_max: int) -> OutdatedMessages: ...


class OutdatedMessages(Protocol):
    @property
    def last(self) -> int | None: ...
    @property
    def seen(self) -> int: ...
    @property
    def messages(self) -> list[EntryRow]: ...
    @property
    def unreadable(self) -> int: ...


class Resealing:
    def __init__(
        self,
        store: Reencrypting,
        shard: Shard,
        generation: Callable[[], int],
        progress: Progress | None,
        keep: Callable[[Progress], None],
    ) -> None:
        """``generation`` is the keyring's; ``progress`` what was kept last; ``keep`` blocks, and runs in a thread."""
        self._store = store
        self._shard = shard
        self._runtime = shard.runtime
        self._clock = shard.clock
        self._generation = generation
        self._progress = progress
        self._keep = keep
        self._running = False
        self._stopped = False
        self._kept_ms = self._told_ms = 0

    def wake(self) -> None:
        """Go to work if there is any: at the start, and when the keyring has changed."""
        if not self._running and not self._stopped and not self._is_done():
            self._running = True
            run_detached(self._run())

    def stop(self) -> None:
        self._stopped = True

    def _is_done(self) -> bool:
        progress = self._progress
        return progress is not None and progress.done and progress.generation == self._generation()

    async def _run(self) -> None:
        try:
            while not self._stopped and not self._is_done():
                begun_ms = self._clock.now_ms()
                try:
                    await self._step()
                    worked_ms = self._clock.now_ms() - begun_ms
                    await self._rest(max(_REST_MS_MIN, _RESTS_PER_WORK * worked_ms))
                except (StoreBroken, StoreLost):
                    return  # the shard has ended
                except (StoreError, OSError) as error:
                    if not self._stopped:
                        log.warning("encrypting stored messages anew goes on in a minute: %s", error)
                        await self._rest(_TRY_AGAIN_MS)
        finally:
            self._running = False

    async def _step(self) -> None:
        progress, generation = self._progress, self._generation()
        if progress is None or progress.generation != generation:
            # Asked for where batches are written: what is being written now may still be sealed as before.
            newest = await self._runtime.write(lambda: self._store.newest)
            progress = Progress(generation=generation, upto=newest)
            self._told_ms = self._clock.now_ms()
        read = partial(self._store.outdated, progress.after, progress.upto, _BITE_ROWS, _BITE_BYTES)
        found = await self._shard.read(read)
        if found.messages and not self._stopped:
            await self._replace(found.messages)
        if self._stopped:
            return  # whether it was written or not, it is looked at again
        self._progress = progress = msgspec.structs.replace(
            progress,
            after=progress.after if found.last is None else found.last,
            looked_at=progress.looked_at + found.seen,
            resealed=progress.resealed + len(found.messages),
            unreadable=progress.unreadable + found.unreadable,
            done=found.last is None,
        )
        self._tell(progress)
        if progress.done or self._clock.now_ms() >= self._kept_ms + _KEEP_EVERY_MS:
            self._kept_ms = self._clock.now_ms()
            await self._runtime.write(partial(self._keep, progress))

    async def _replace(self, messages: list[EntryRow]) -> None:
        """Each content by itself, in an ordinary commit: it is encrypted on its way to the disk."""
        free = (await self._shard.read(self._shard.store.status)).free_bytes
        if free is not None and free <= SCARCE_BYTES:
            raise StoreFull(f"it needs more than {SCARCE_BYTES >> 20} MB of free space where the data lives")
        changes = self._shard.changes
        for row in messages:
            assert row.content is not None
            changes.replace(row, row.content, row.version)
        await self._shard.settled()

    def _tell(self, progress: Progress) -> None:
        now_ms = self._clock.now_ms()
        if progress.done:
            if progress.unreadable:
                log.warning(
                    "%d stored messages cannot be opened: their key is disabled, or not in the keyring; "
                    "is it the one that belongs to the data?", progress.unreadable,
                )  # fmt: skip
            if progress.resealed:
                log.info("%d stored messages are encrypted anew", progress.resealed)
        elif now_ms >= self._told_ms + _TELL_EVERY_MS:
            self._told_ms = now_ms
            log.info("encrypting stored messages anew: %d%%, %d so far", progress.percent, progress.resealed)

    def _rest(self, ms: int) -> Promise[None]:
        later: Promise[None] = Promise()
        self._runtime.at(self._clock.now_ms() + ms, lambda: later.resolve(None))
        return later
