"""The thread that writes the trail, so that a slow or full disk holds up nobody.

Lines are gathered for a moment and appended together. What the disk does not take is kept and tried again every
second, up to a bound; beyond it events are lost, and counted: once the disk takes lines again, one of them says
how many are missing.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from penstock.server.audit.file import TrailFile

HELD_BYTES_MAX = 16 * 1024 * 1024
_GATHER_S = 0.2
_RETRY_S = 1.0
_CLOSE_S = 10.0
_PORTION_BYTES = 256 * 1024

log = logging.getLogger("penstock.audit")


class TrailWriter:
    """``lost_line`` makes the line that tells how many events are missing."""

    def __init__(
        self, file: TrailFile, lost_line: Callable[[int], bytes], *, held_bytes_max: int = HELD_BYTES_MAX
    ) -> None:
        self._file = file
        self._lost_line = lost_line
        self._held_bytes_max = held_bytes_max
        self._changed = threading.Condition()
        self._lines: list[bytes] = []
        self._held_bytes = 0  # put and not yet on disk
        self._lost = 0
        self._reopen = False
        self._hurry = 0  # how many wait for the lines to be written
        self._stopping = threading.Event()
        self.lost_in_all = 0
        self.failing = False
        self._thread = threading.Thread(target=self._run, name="penstock-audit", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def started(self) -> bool:
        return self._thread.ident is not None

    def put(self, line: bytes) -> None:
        with self._changed:
            if self._held_bytes + len(line) > self._held_bytes_max:
                self._lose()
                return
            self._lines.append(line)
            self._held_bytes += len(line)
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
        """Wait until everything that was put is in the file; answers whether it is."""
        with self._changed:
            self._hurry += 1
            self._changed.notify_all()
            try:
                return self._changed.wait_for(lambda: not self._held_bytes and not self._reopen, timeout_s)
            finally:
                self._hurry -= 1

    def close(self) -> None:
        """Write what is there, and see it on disk."""
        with self._changed:
            self._stopping.set()
            self._changed.notify_all()
        self._thread.join(_CLOSE_S)
        if self._held_bytes:
            log.error("the audit trail is not whole: its last events could not be written")

    def _lose(self) -> None:
        if not self._lost:
            log.error(
                "audit events are being lost: the audit trail is not written fast enough, or not at all"
            )
        self._lost += 1
        self.lost_in_all += 1

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._lines or self._reopen or self._stopping.is_set())
                self._changed.wait_for(self._has_enough, _GATHER_S)
            written = self._write()
            if self._stopping.is_set() and (not written or not self._lines):
                break
            if not written:
                self._stopping.wait(_RETRY_S)
        self._end()

    def _has_enough(self) -> bool:
        """Nothing is gained by gathering more."""
        return bool(self._hurry) or self._held_bytes >= _PORTION_BYTES or self._stopping.is_set()

    def _write(self) -> bool:
        with self._changed:
            portion = self._portion()
            lost, reopen = self._lost, self._reopen
        try:
            if reopen:
                self._file.close()
            self._file.append(b"".join(portion) + (self._lost_line(lost) if lost else b""))
        except Exception as error:  # nobody would notice if the thread were gone
            self._fail(error)
            return False
        was_failing = self.failing
        with self._changed:
            del self._lines[: len(portion)]
            self._held_bytes -= sum(map(len, portion))
            self._lost -= lost
            self._reopen = self._reopen and not reopen
            self.failing = False
            self._changed.notify_all()
        if was_failing or lost:
            log.warning("the audit trail is written again", extra={"lost": lost})
        return True

    def _fail(self, error: Exception) -> None:
        if not self.failing:
            why = error.strerror if isinstance(error, OSError) else repr(error)
            log.error("the audit trail cannot be written: %s; trying again every second", why)
        self.failing = True

    def _portion(self) -> list[bytes]:
        count = size = 0
        while count < len(self._lines) and size < _PORTION_BYTES:
            size += len(self._lines[count])
            count += 1
        return self._lines[:count]

    def _end(self) -> None:
        try:
            self._file.close()
        except OSError as error:
            log.error("the audit trail could not be synced to disk: %s", error.strerror)
