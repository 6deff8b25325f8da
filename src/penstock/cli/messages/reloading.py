"""Starts a command again when source files change: ``penstock worker --reload``, for development."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType

log = logging.getLogger("penstock.worker")

_LOOK_EVERY_S = 0.5
_STOP_S_MAX = 60.0
_LEFT_OUT = {"__pycache__", "node_modules", "site-packages", "venv"}


def run_reloading(arguments: Sequence[str], folder: Path) -> int:
    """``python -m penstock ARGUMENTS``, again and again until a signal. Returns the exit code of the last one."""
    signals: list[int] = []

    def on_signal(number: int, frame: FrameType | None) -> None:
        signals.append(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    files = dict(source_files(folder))
    while True:
        # In a group of its own: a terminal would send it SIGINT, too, and the second one means hurry.
        child = subprocess.Popen([sys.executable, "-m", "penstock", *arguments], process_group=0)
        changed = None
        has_ended = False
        while changed is None and not signals:
            time.sleep(_LOOK_EVERY_S)
            if child.poll() is not None and not has_ended:
                log.error("the worker ended: waiting for a change", extra={"exit_code": child.returncode})
                has_ended = True
            before, files = files, dict(source_files(folder))
            changed = first_change(before, files)
        code = _end(child, signals)
        if signals:
            return code
        log.info("a file changed: starting again", extra={"file": changed})


def source_files(folder: Path) -> Iterator[tuple[str, int]]:
    """Python files below the folder, each with the time of its last change."""
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return  # removed meanwhile
    for entry in entries:
        if entry.name.startswith(".") or entry.name in _LEFT_OUT:
            continue
        try:
            if entry.is_dir(follow_symlinks=False):
                yield from source_files(Path(entry.path))
            elif entry.name.endswith(".py"):
                yield entry.path, entry.stat().st_mtime_ns
        except FileNotFoundError:
            continue


def first_change(before: dict[str, int], now: dict[str, int]) -> str | None:
    """A file that was added, changed or removed."""
    return next((file for file in before.keys() | now.keys() if before.get(file) != now.get(file)), None)


def _end(child: subprocess.Popen[bytes], signals: list[int]) -> int:
    """Pass signals on until it has ended."""
    child.send_signal(signals[0] if signals else signal.SIGTERM)
    passed, end = len(signals), time.monotonic() + _STOP_S_MAX
    while child.poll() is None:
        if len(signals) > passed:
            child.send_signal(signals[-1])
            passed = len(signals)
        if time.monotonic() > end:
            child.kill()
        time.sleep(0.05)
    return child.returncode
