"""Encrypts anew, in the background, what is stored under an older version of a key, under another, or under none.

Rule 1: it goes through all messages once for each generation of the keyring, in order of seq, in small bites.
Rule 2: it rests longer than it works: commits and reads come first.
Rule 3: how far it came is kept, so that a restart goes on from there. It may be behind, never ahead.
Rule 4: what cannot be opened is counted and left as it is.
Rule 5: it takes space, and waits while that is scarce: the last of it is for what clients do.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import msgspec

from penstock.broker.runtime import Runtime
from penstock.clock import Clock
from penstock.errors import StoreBroken, StoreError, StoreFull, StoreLost
from penstock.limits import MINUTE, SECOND
from penstock.promise import Promise, run_detached
from penstock.store.port import SCARCE_BYTES, Resealed

log = logging.getLogger("penstock.broker")

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


class Resealer(Protocol):
    """What it needs of a store that encrypts."""

    @property
    def newest(self) -> int: ...

    def resealed(self, after: int, upto: int, rows_max: int, bytes_max: int) -> Resealed: ...

    def rewrite(self, contents: Sequence[tuple[int, bytes]]) -> None: ...

    def free_bytes(self) -> int | None: ...


class Resealing:
    def __init__(
        self,
        store: Resealer,
        runtime: Runtime,
        clock: Clock,
        generation: Callable[[], int],
        progress: Progress | None,
        keep: Callable[[Progress], None],
        on_fatal: Callable[[StoreError], None],
    ) -> None:
        """``generation`` is the keyring's; ``progress`` what was kept last; ``keep`` blocks, and runs in a thread."""
        self._store = store
        self._runtime = runtime
        self._clock = clock
        self._generation = generation
        self._progress = progress
        self._keep = keep
        self._on_fatal = on_fatal
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
                except (StoreBroken, StoreLost) as error:
                    self._on_fatal(error)
                    return
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
        read = partial(self._store.resealed, progress.after, progress.upto, _BITE_ROWS, _BITE_BYTES)
        bite = await self._runtime.read(read)
        if bite.contents and not self._stopped:
            await self._runtime.write(partial(self._rewrite, bite.contents))
        if self._stopped:
            return  # whether it was written or not, it is looked at again
        self._progress = progress = msgspec.structs.replace(
            progress,
            after=progress.after if bite.last is None else bite.last,
            looked_at=progress.looked_at + bite.looked_at,
            resealed=progress.resealed + len(bite.contents),
            unreadable=progress.unreadable + bite.unreadable,
            done=bite.last is None,
        )
        self._tell(progress)
        if progress.done or self._clock.now_ms() >= self._kept_ms + _KEEP_EVERY_MS:
            self._kept_ms = self._clock.now_ms()
            await self._runtime.write(partial(self._keep, progress))

    def _rewrite(self, contents: Sequence[tuple[int, bytes]]) -> None:
        free = self._store.free_bytes()
        if free is not None and free <= SCARCE_BYTES:
            raise StoreFull(f"it needs more than {SCARCE_BYTES >> 20} MB of free space where the data lives")
        self._store.rewrite(contents)

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
