"""Syncs the log from time to time, for those who trade the last moments before a power cut for speed.

What a commit wrote is with the operating system at once: a crash of the process costs nothing. A sync that fails is
told by the next append, because what is on the disk is unknown from then on.
"""

from __future__ import annotations

import os
from pathlib import Path
from threading import Event, Thread

from penstock.errors import StoreBroken


class TimedSync:
    def __init__(self, log: Path, every_s: float) -> None:
        self._log = log
        self._fd = os.open(
            log, os.O_RDONLY
        )  # kept: when callers use up all descriptors there is none to be had
        self._every_s = every_s
        self._unsynced = Event()
        self._ended = Event()
        self._failure: OSError | None = None
        self._thread = Thread(target=self._run, name="penstock-sync", daemon=True)
        self._thread.start()

    def check(self) -> None:
        if self._failure is not None:
            raise StoreBroken(f"{self._log} could not be synced: {self._failure}")

    def written(self) -> None:
        """There is something to sync, within the time."""
        self._unsynced.set()

    def close(self) -> None:
        """Closing the store syncs what is left."""
        self._ended.set()
        self._unsynced.set()
        self._thread.join()
        os.close(self._fd)

    def _run(self) -> None:
        while self._unsynced.wait() and not self._ended.wait(self._every_s):
            self._unsynced.clear()  # first: what is written from here on may be too late for this sync
            try:
                os.fsync(self._fd)
            except OSError as error:
                self._failure = error
                return


def sync_file(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
