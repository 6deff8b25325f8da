"""A warning before a disk is full: in the log when it begins and once an hour, and on the health page.

A full disk refuses sends. Until then there is time to make room, or to find out why a queue grows.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from penstock.server.settings.config import Config
from penstock.server.startup_report import format_bytes

log = logging.getLogger("penstock.server")

_MIB = 1024 * 1024
_PART, _LEAST, _MOST = 10, 128 * _MIB, 10 * 1024 * _MIB  # a tenth of the disk, within these bounds
_CHECK_S, _REPEAT_S = 60.0, 3600.0


class Disk(NamedTuple):
    size: int
    free: int


def disk_of(path: Path) -> Disk:
    found = os.statvfs(path)
    return Disk(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)


class DiskSpace:
    def __init__(
        self, directories: Sequence[Path], warn_below: int, look: Callable[[Path], Disk] = disk_of
    ) -> None:
        """``warn_below``: bytes; 0: as the size of the disk suggests."""
        self.warn_below = warn_below
        self._directories = directories
        self._look = look
        self._check_at_s = self._repeat_at_s = 0.0
        self._was_low = False

    def check(self, now_s: float) -> None:
        """Warn before the disk is full. Call it often: it checks the disk once a minute."""
        if now_s < self._check_at_s:
            return
        self._check_at_s = now_s + _CHECK_S
        low = self.shown()
        if low and (not self._was_low or now_s >= self._repeat_at_s):
            log.warning("the disk is nearly full: %s; sends are refused when it is", low)
            self._repeat_at_s = now_s + _REPEAT_S
        elif self._was_low and not low:
            log.info("the disk has enough free space again")
        self._was_low = bool(low)

    def shown(self) -> str:
        """The disks with too little free space; empty if there are none."""
        low = []
        for directory in self._directories:
            try:
                size, free = self._look(directory)
            except OSError:
                continue  # there is nothing yet, or the store says what is wrong
            if free < (self.warn_below or min(max(size // _PART, _LEAST), _MOST, size // 4)):
                low.append(f"{format_bytes(free)} of {format_bytes(size)} are free")
        return ", ".join(dict.fromkeys(low))


def watched_directories(config: Config) -> list[Path]:
    """Where the server writes what grows."""
    found = [] if config.memory or config.store is not None else [config.data]
    return found if config.audit_file is None else [*found, config.audit_file.parent]
