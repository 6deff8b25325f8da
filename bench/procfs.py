"""What a process and all its children use, from /proc."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def family(pid: int) -> Iterator[int]:
    """The process and its living descendants."""
    yield pid
    for thread in Path(f"/proc/{pid}/task").iterdir():
        try:
            children = (thread / "children").read_text().split()
        except FileNotFoundError:  # the thread ended meanwhile
            continue
        for child in children:
            yield from family(int(child))


def cpu_seconds(pid: int) -> float:
    """User and system time of all threads and processes, those that have ended included."""
    return sum(_own_seconds(each) + _ended_children_seconds(each) for each in family(pid))


def _own_seconds(pid: int) -> float:
    """By the process's own clock, which counts nanoseconds: /proc counts in steps of 10 ms."""
    return time.clock_gettime((~pid << 3) | 2)  # clock_getcpuclockid(3)


def _ended_children_seconds(pid: int) -> float:
    return sum(map(int, _stat(pid)[13:15])) / _TICKS


def memory_mb(pid: int) -> float:
    """Resident memory. What processes of one family share is counted in each."""
    return sum(_status_mb(each, "VmRSS") for each in family(pid))


def peak_mb(pid: int) -> float:
    return _status_mb(pid, "VmHWM")


def _stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()


def _status_mb(pid: int, name: str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"process {pid} has no {name}: it has ended")
