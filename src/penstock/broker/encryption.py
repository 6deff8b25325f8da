"""Encryption in the broker: a queue is used only while its key can be, and stored messages are re-encrypted.

Re-encryption works in the background on messages that are not encrypted under the newest version of their queue's
key. It goes through all messages once for each generation of the keyring, in order of seq, in small steps, and pauses
longer than it works: commits and reads come first. Its progress is stored, so that a restart continues; it may be
behind, never ahead. Messages that cannot be decrypted are counted and left as they are. It pauses while disk space is
scarce.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

import msgspec

from penstock.broker.shard import Shard
from penstock.errors import KeyMissing, KeyUnavailable, StoreBroken, StoreError, StoreFull, StoreLost
from penstock.limits import MINUTE, SECOND
from penstock.names import Space
from penstock.promise import run_detached
from penstock.store.changes import EntryRow
from penstock.store.port import OutdatedMessages, Store

if TYPE_CHECKING:
    from penstock.broker.live_queue import LiveQueue

log = logging.getLogger("penstock.broker")

SCARCE_BYTES = 32 * 1024 * 1024
"""Re-encryption pauses while less disk space than this is free: the rest is for requests of clients."""

_STEP_ROWS = 500
_STEP_BYTES = 1024 * 1024
_PAUSE_MS_MIN = 5
_PAUSE_PER_WORK = 2
_SAVE_EVERY_MS = 5 * SECOND
_LOG_EVERY_MS = MINUTE
_RETRY_MS = MINUTE


class KeyGuard(Protocol):
    def check(self, space: Space, key: str) -> None:
        """Raises KeyUnavailable if a queue of this account and region that names this key cannot be used."""


class NoGuard:
    """Takes the place of the guard where there is no root key: the keys of queues are only names."""

    @staticmethod
    def check(space: Space, key: str) -> None:
        return


def contents_or_errors(store: Store, seqs: Sequence[int]) -> dict[int, bytes | KeyUnavailable]:
    """The contents of messages, or why one cannot be decrypted. Damaged ones are left out. Blocks."""
    try:
        return dict(store.contents(seqs))
    except KeyUnavailable as error:
        if len(seqs) == 1:
            return {seqs[0]: error}
        return {seq: content for each in seqs for seq, content in contents_or_errors(store, [each]).items()}


def without_key(queues: Iterable[LiveQueue]) -> list[LiveQueue]:
    """Returns the queues that name a key which does not exist. A disabled key exists."""
    found = []
    for queue in queues:
        try:
            queue.check_key()
        except KeyMissing:
            found.append(queue)
        except KeyUnavailable:
            continue
    return found


class ReencryptionProgress(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of one round."""

    generation: int
    upto: int  # messages with a higher seq are newer, and were encrypted under the newest version
    after: int = 0  # messages up to this seq are done
    checked: int = 0
    reencrypted: int = 0
    unreadable: int = 0
    done: bool = False

    @property
    def percent(self) -> int:
        return 100 if self.done else min(99, 100 * self.after // max(1, self.upto))


class ReencryptingStore(Protocol):
    """What re-encryption needs of a store that encrypts."""

    @property
    def newest(self) -> int: ...

    def outdated(self, after: int, upto: int, rows_max: int, bytes_max: int) -> OutdatedMessages: ...


class Reencryption:
    def __init__(
        self,
        store: ReencryptingStore,
        shard: Shard,
        generation: Callable[[], int],
        progress: ReencryptionProgress | None,
        save: Callable[[ReencryptionProgress], None],
    ) -> None:
        """``generation`` is the keyring's; ``progress`` was saved last; ``save`` blocks, and runs in a thread."""
        self._store = store
        self._shard = shard
        self._runtime = shard.runtime
        self._clock = shard.clock
        self._generation = generation
        self._progress = progress
        self._save = save
        self._running = False
        self._stopped = False
        self._saved_ms = self._logged_ms = 0

    def wake(self) -> None:
        """Start if there is work: call this at the start, and when the keyring has changed."""
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
                    await self._shard.pause(max(_PAUSE_MS_MIN, _PAUSE_PER_WORK * worked_ms))
                except (StoreBroken, StoreLost):
                    return  # the shard has ended
                except (StoreError, OSError) as error:
                    if not self._stopped:
                        log.warning("re-encrypting stored messages pauses for a minute: %s", error)
                        await self._shard.pause(_RETRY_MS)
        finally:
            self._running = False

    async def _step(self) -> None:
        progress, generation = self._progress, self._generation()
        if progress is None or progress.generation != generation:
            # Read in the thread that writes: the batch being written may still use the older version.
            newest = await self._runtime.write(lambda: self._store.newest)
            progress = ReencryptionProgress(generation=generation, upto=newest)
            self._logged_ms = self._clock.now_ms()
        read = partial(self._store.outdated, progress.after, progress.upto, _STEP_ROWS, _STEP_BYTES)
        found = await self._shard.read(read)
        if found.messages and not self._stopped:
            await self._replace(found.messages)
        if self._stopped:
            return  # whether it was written or not, it is checked again
        self._progress = progress = msgspec.structs.replace(
            progress,
            after=progress.after if found.last is None else found.last,
            checked=progress.checked + found.checked,
            reencrypted=progress.reencrypted + len(found.messages),
            unreadable=progress.unreadable + found.unreadable,
            done=found.last is None,
        )
        self._log(progress)
        if progress.done or self._clock.now_ms() >= self._saved_ms + _SAVE_EVERY_MS:
            self._saved_ms = self._clock.now_ms()
            await self._runtime.write(partial(self._save, progress))

    async def _replace(self, messages: list[EntryRow]) -> None:
        """Write the contents in an ordinary commit: the store encrypts them."""
        free = (await self._shard.read(self._shard.store.status)).free_bytes
        if free is not None and free <= SCARCE_BYTES:
            raise StoreFull(f"it needs more than {SCARCE_BYTES >> 20} MB of free disk space")
        changes = self._shard.changes
        for row in messages:
            assert row.content is not None
            changes.replace(row, row.content, row.version)
        await self._shard.settled()

    def _log(self, progress: ReencryptionProgress) -> None:
        now_ms = self._clock.now_ms()
        if progress.done:
            if progress.unreadable:
                log.warning(
                    "%d stored messages cannot be decrypted: their key is disabled, or not in the keyring; "
                    "does the keyring belong to the data?", progress.unreadable,
                )  # fmt: skip
            if progress.reencrypted:
                log.info("%d stored messages were re-encrypted", progress.reencrypted)
        elif now_ms >= self._logged_ms + _LOG_EVERY_MS:
            self._logged_ms = now_ms
            log.info("re-encrypting stored messages: %d%%, %d so far", progress.percent, progress.reencrypted)
