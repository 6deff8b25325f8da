"""The thread that writes the audit log, so that requests do not wait for a slow or full disk.

Lines are collected for a moment and appended together. If the disk refuses them they stay in the buffer and are tried
again every second. When the buffer is full events are lost and counted, and a line with the count is written as soon
as the disk accepts lines again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from penstock.server.audit.file import AuditFile

BUFFER_BYTES_MAX = 16 * 1024 * 1024
_COLLECT_S = 0.2
_RETRY_S = 1.0
_CLOSE_S = 10.0
_CHUNK_BYTES = 256 * 1024

log = logging.getLogger("penstock.audit")


class AuditWriter:
    """``lost_line`` makes the line with the number of lost events."""

    def __init__(
        self, file: AuditFile, lost_line: Callable[[int], bytes], *, buffer_bytes_max: int = BUFFER_BYTES_MAX
    ) -> None:
        self._file = file
        self._lost_line = lost_line
        self._buffer_bytes_max = buffer_bytes_max
        self._changed = threading.Condition()
        self._lines: list[bytes] = []
        self._buffer_bytes = 0  # of lines that are not on disk yet
        self._lost = 0
        self._reopen = False
        self._flushing = 0  # callers that wait for the lines to be written
        self._stopping = threading.Event()
        self.lost_total = 0
        self.failing = False
        self._thread = threading.Thread(target=self._run, name="penstock-audit", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def started(self) -> bool:
        return self._thread.ident is not None

    def put(self, line: bytes) -> None:
        with self._changed:
            if self._buffer_bytes + len(line) > self._buffer_bytes_max:
                self._lose()
                return
            self._lines.append(line)
            self._buffer_bytes += len(line)
            if len(self._lines) == 1:
                self._changed.notify_all()

    @property
    def full(self) -> bool:
        return self._lost > 0

    def reopen(self) -> None:
        with self._changed:
            self._reopen = True
            self._changed.notify_all()

    def flush(self, timeout_s: float) -> bool:
        """Wait until all lines are in the file. Returns whether they are."""
        with self._changed:
            self._flushing += 1
            self._changed.notify_all()
            try:
                return self._changed.wait_for(lambda: not self._buffer_bytes and not self._reopen, timeout_s)
            finally:
                self._flushing -= 1

    def close(self) -> None:
        """Write and sync the remaining lines."""
        with self._changed:
            self._stopping.set()
            self._changed.notify_all()
        self._thread.join(_CLOSE_S)
        if self._buffer_bytes:
            log.error("the last events of the audit log could not be written")

    def _lose(self) -> None:
        if not self._lost:
            log.error(
                "audit events are being lost: the audit log cannot be written fast enough, or not at all"
            )
        self._lost += 1
        self.lost_total += 1

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._lines or self._reopen or self._stopping.is_set())
                self._changed.wait_for(self._has_enough, _COLLECT_S)
            written = self._write()
            if self._stopping.is_set() and (not written or not self._lines):
                break
            if not written:
                self._stopping.wait(_RETRY_S)
        self._end()

    def _has_enough(self) -> bool:
        """Whether waiting for more lines would gain nothing."""
        return bool(self._flushing) or self._buffer_bytes >= _CHUNK_BYTES or self._stopping.is_set()

    def _write(self) -> bool:
        with self._changed:
            chunk = self._chunk()
            lost, reopen = self._lost, self._reopen
        try:
            if reopen:
                self._file.close()
            self._file.append(b"".join(chunk) + (self._lost_line(lost) if lost else b""))
        except Exception as error:  # the thread must survive any error
            self._fail(error)
            return False
        was_failing = self.failing
        with self._changed:
            del self._lines[: len(chunk)]
            self._buffer_bytes -= sum(map(len, chunk))
            self._lost -= lost
            self._reopen = self._reopen and not reopen
            self.failing = False
            self._changed.notify_all()
        if was_failing or lost:
            log.warning("the audit log is written again", extra={"lost": lost})
        return True

    def _fail(self, error: Exception) -> None:
        if not self.failing:
            why = error.strerror if isinstance(error, OSError) else repr(error)
            log.error("the audit log cannot be written: %s; trying again every second", why)
        self.failing = True

    def _chunk(self) -> list[bytes]:
        count = size = 0
        while count < len(self._lines) and size < _CHUNK_BYTES:
            size += len(self._lines[count])
            count += 1
        return self._lines[:count]

    def _end(self) -> None:
        try:
            self._file.close()
        except OSError as error:
            log.error("the audit log could not be synced to disk: %s", error.strerror)
