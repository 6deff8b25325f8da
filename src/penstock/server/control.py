"""What the admin API may ask of the process that serves it, and have it do."""

from __future__ import annotations

import asyncio
import os
import time
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from penstock.clock import real_utc
from penstock.errors import StoreError, StoreRefused
from penstock.server.audit.search import EventFilter, newest_events, parse_time
from penstock.server.backup import back_up, back_up_to, check_can_back_up
from penstock.server.settings.config import Config
from penstock.services.admin.faults import admin_fault, invalid
from penstock.services.admin.server import ServerFacts
from penstock.services.admin.structs import (
    AuditEventInfo,
    BackupFile,
    ListAuditEventsRequest,
    Refused,
    ReloadResult,
)

if TYPE_CHECKING:
    from penstock.server.compose import Parts
    from penstock.testing.controlled_time import ControlledTime

T = TypeVar("T")

_PIECE_BYTES = 256 * 1024
_BACKUPS_MAX = 4


class ProcessControl:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.account = parts.config.space.account
        self._started_s = time.monotonic()
        self._backups = BackupThreads()
        self._log_reader = ThreadPoolExecutor(1, "penstock-audit-reader")  # one at a time: logs can be large

    @property
    def test_time(self) -> ControlledTime | None:
        return self._parts.controlled_time

    async def start_over(self) -> None:
        await self._parts.start_over()

    def facts(self) -> ServerFacts:
        parts = self._parts
        config = parts.config
        return ServerFacts(
            time.monotonic() - self._started_s,
            "memory" if config.memory else "sqlite" if config.store is None else "postgres",
            parts.site.guarantees,
            parts.listener.open_connections,
            config.advertise and str(config.advertise),
            parts.security.encryption.status,
            parts.early.disk_space.shown() or None,
        )

    async def reload(self) -> ReloadResult:
        report = await self._parts.reloading.requested()
        refused = [Refused(what=what, why=why) for what, why in report.refused]
        return ReloadResult(reloaded=report.reloaded, unchanged=report.unchanged, refused=refused)

    async def audit_events(self, chosen: ListAuditEventsRequest, events_max: int) -> list[AuditEventInfo]:
        audit = self._parts.security.audit
        if audit is None:
            raise admin_fault("NotPossible", "The server has no audit log: set credentials or audit.")
        now, times = real_utc(), {}
        for member in ("since", "until"):
            try:
                text = getattr(chosen, member)
                times[member] = None if text is None else parse_time(text, now)
            except (ValueError, OverflowError):
                raise invalid(member, "a time such as 2026-01-31T12:00Z or 15m") from None
        wanted = EventFilter(
            principal=chosen.principal, action=chosen.action, queue=chosen.queue, denied=bool(chosen.denied), **times
        )  # fmt: skip
        loop = asyncio.get_running_loop()
        try:
            found = await loop.run_in_executor(
                self._log_reader, newest_events, audit.path, wanted, events_max
            )
        except OSError as error:
            raise admin_fault("NotPossible", f"The audit log cannot be read: {error.strerror}.") from None
        return [AuditEventInfo(**event._asdict()) for event in found]

    async def metrics(self) -> bytes:
        return await self._parts.metrics_page.text(open_metrics=False)

    async def backup(self) -> BackupStream:
        config = self._parts.config
        try:
            check_can_back_up(config)
        except StoreRefused as error:
            raise admin_fault("NotPossible", f"{error}.") from None
        return BackupStream(config, self._backups)

    async def backup_to(self, name: str) -> BackupFile:
        config = self._parts.config
        if config.backup_directory is None:
            text = "The server has no directory for backups: set backup_directory, or leave path out."
            raise admin_fault("NotPossible", text)
        path = config.backup_directory / name
        self._backups.reserve()
        try:
            contents = await self._backups.run(partial(_back_up_once, config, path))
        except (StoreRefused, StoreError) as error:
            raise admin_fault("NotPossible", f"The backup was not made: {error}.") from None
        finally:
            self._backups.release()
        return BackupFile(
            path=str(path), bytes=contents[0], shards=contents[1], queues=contents[2], messages=contents[3]
        )


def _back_up_once(config: Config, path: Path) -> tuple[int, int, int, int]:
    """Makes the backup. Runs in a thread of its own."""
    if path.exists():
        raise StoreRefused(f"{path} exists: give another name")
    contents = back_up_to(config, path)
    return path.stat().st_size, contents.shards, contents.queues, contents.messages


class BackupThreads:
    """Threads for a few backups at a time, each with one that writes and one that reads. They are not those of the
    loop: backups that wait for slow clients would keep everything else from them, even each other's readers."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(2 * _BACKUPS_MAX, "penstock-backup")
        self._reserved = 0

    def reserve(self) -> None:
        """Reserve a place for one backup. Raises Fault if there are too many."""
        if self._reserved >= _BACKUPS_MAX:
            text = (
                f"{_BACKUPS_MAX} backups are being made, and no more at a time: try again when one has ended."
            )
            raise admin_fault("NotPossible", text)
        self._reserved += 1

    def release(self) -> None:
        self._reserved -= 1

    def run(self, function: Callable[[], T]) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._threads, function)


class BackupStream:
    """A backup on its way to a client. A thread writes it into a pipe, as fast as the client reads.

    If the backup fails, so does the stream: the client gets an incomplete response, and an archive without its end.
    """

    def __init__(self, config: Config, threads: BackupThreads) -> None:
        """Raises Fault if too many are under way."""
        threads.reserve()
        self._config = config
        self._threads = threads
        # A response that no client is there for any more is dropped without being closed.
        self._release = weakref.finalize(self, threads.release)
        self._pipe: int | None = None  # the end to read from, once it has begun
        self._writing: asyncio.Future[None]
        self._reading: asyncio.Future[bytes] | None = None

    def __aiter__(self) -> BackupStream:
        return self

    async def __anext__(self) -> bytes:
        if self._pipe is None:
            self._pipe, write_end = os.pipe()
            self._writing = self._threads.run(partial(self._write, write_end))
        self._reading = self._threads.run(partial(os.read, self._pipe, _PIECE_BYTES))
        piece = await asyncio.shield(self._reading)
        if not piece:
            await asyncio.shield(self._writing)
            raise StopAsyncIteration
        return piece

    async def aclose(self) -> None:
        """The client has it all, or has disconnected: then the thread cannot write on, and ends."""
        if self._pipe is not None:
            if self._reading is not None:
                await asyncio.wait({self._reading})  # a descriptor is not closed while a thread reads it
            pipe, self._pipe = self._pipe, None
            os.close(pipe)
            await asyncio.wait({self._writing})
            self._writing.exception()  # it may have failed because of this
        self._release()

    def _write(self, descriptor: int) -> None:
        with os.fdopen(descriptor, "wb") as file:
            back_up(self._config, file, scratch=self._config.backup_directory)
