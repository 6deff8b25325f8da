"""The server processes of a running server, as the system shows them."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from support.process import ServerProcess


def processes_of(server: ServerProcess) -> dict[int, int]:
    """The process ids of the supervisor's children, by process: in the order of their start."""
    return dict(enumerate(children_of(server.process.pid), start=1))


def children_of(parent: int) -> list[int]:
    """Process ids, in the order of their start."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        if int(fields[1]) == parent and fields[0] != "Z":
            found.append((int(fields[19]), int(stat.parent.name)))
    return [pid for _, pid in sorted(found)]


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
