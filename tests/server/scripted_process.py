"""A process that serves nothing and answers its supervisor as a server does: ``DESCRIPTOR`` is its connection.

When it has learned that all are ready it creates the file ``learned-NUMBER``. Process 2 reads the named pipe
``go`` first, so that a test decides when it has learned that.
"""

from __future__ import annotations

import pickle
import socket
import sys
from pathlib import Path

import msgspec

from penstock.server.processes.messages import (
    Assignment,
    Close,
    Command,
    Prepared,
    Processes,
    Quiet,
    Ready,
    Report,
    Serving,
    Stop,
    Take,
)


def main(descriptor: int) -> None:
    assignment: Assignment = pickle.load(sys.stdin.buffer)
    directory = Path(assignment.address).parent
    lines = socket.socket(fileno=descriptor).makefile("rwb", buffering=0)

    def report(report: Report) -> None:
        lines.write(msgspec.json.encode(report) + b"\n")

    report(Prepared())
    is_serving = False
    for line in lines:
        match msgspec.json.decode(line, type=Command):
            case Take():
                report(Ready(queues=0, messages=0, size=0, seconds=0.0, encryption=""))
            case Processes(states) if all(state.ready for state in states) and not is_serving:
                is_serving = True
                if assignment.number == 2:
                    with (directory / "go").open("rb", buffering=0) as go:
                        go.read(1)
                (directory / f"learned-{assignment.number}").touch()
                report(Serving())
            case Stop():
                report(Quiet())
            case Close():
                return


if __name__ == "__main__":
    main(int(sys.argv[1]))
