"""The machine of a run, without which its figures mean nothing."""

from __future__ import annotations

import os
import platform
import statistics
import time
from datetime import UTC, datetime
from pathlib import Path


def described(disk: Path) -> dict[str, str]:
    """``disk`` is a directory on the disk with the data."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "processor": f"{_processor()}, {os.cpu_count()} cores",
        "memory": f"{_memory_gib():.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "fsync": f"{1e6 * fsync_seconds(disk):.0f} µs (median of 200 writes of 4 KiB)",
        "Python": platform.python_version(),
        "load at the start": f"{os.getloadavg()[0]:.2f}",
    }


def fsync_seconds(directory: Path, times: int = 200) -> float:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "fsync-probe"
    took = []
    file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        for _ in range(times):
            begun = time.perf_counter()
            os.write(file, bytes(4096))
            os.fsync(file)
            took.append(time.perf_counter() - begun)
    finally:
        os.close(file)
        path.unlink()
    return statistics.median(took)


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _memory_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
