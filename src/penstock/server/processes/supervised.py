"""A server process as its supervisor sees it: started, spoken to, and followed until it ends."""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import signal
import socket
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec

from penstock.server.processes.messages import Alive, Assignment, Command, Ready, Report, Serving

# -P: a directory "penstock" where the server is started must not take the place of the installed package.
PROCESS_COMMAND = (sys.executable, "-P", "-m", "penstock.server.processes.server_process")

log = logging.getLogger("penstock.processes")

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Report).decode


class Heartbeat:
    """Tells whether a process hangs, from its reports and the looks of its supervisor, once a second.

    Silence is counted in looks and not on a clock: a process on a machine that was suspended, and its supervisor with
    it, still has the time to report."""

    def __init__(self) -> None:
        self._silence: int | None = None  # looks since the last report; None: it has not reported yet

    def heard(self) -> None:
        self._silence = 0

    def is_lost(self, looks_max: int) -> bool:
        """Whether this many looks in a row found no report. This call is a look, too."""
        if self._silence is None:  # it may take long to load
            return False
        self._silence += 1
        return self._silence > looks_max


class SupervisedProcess:
    def __init__(self, assignment: Assignment, command: Sequence[str] = PROCESS_COMMAND) -> None:
        self.number = assignment.number
        self.address = assignment.address
        self.is_open = False  # others may pass requests on to it
        self.ready: Ready | None = None
        self.serving = False
        self.sends = "accepted"
        self.heartbeat = Heartbeat()
        self.exit_code: int | None = None  # negative: the signal that ended it
        self.pid: int | None = None
        self._assignment = assignment
        self._command = command
        self._ours, self._its = socket.socketpair()
        self._commands: list[bytes] = []  # until it can be written to
        self._writer: asyncio.StreamWriter | None = None
        self._reported: dict[type[Report] | None, asyncio.Event] = defaultdict(asyncio.Event)
        self._seen: set[type[Report]] = set()

    async def run(self, on_report: Callable[[SupervisedProcess, Report], None]) -> None:
        """Start it and pass on its reports until it has ended."""
        process = await asyncio.create_subprocess_exec(
            *self._command, str(self._its.fileno()),
            stdin=asyncio.subprocess.PIPE, pass_fds=[self._its.fileno(), *self._assignment.descriptors],
            # A Ctrl-C in the terminal reaches the supervisor only, which stops the processes in order.
            process_group=0,
        )  # fmt: skip
        self._its.close()
        self.pid = process.pid
        assert process.stdin is not None
        process.stdin.write(pickle.dumps(self._assignment))
        process.stdin.close()
        reader, self._writer = await asyncio.open_connection(sock=self._ours)
        self._writer.writelines(self._commands)
        try:
            while line := await reader.readline():
                report = _decode(line)
                self._note(report)
                on_report(self, report)
        except ConnectionError:
            pass  # it has ended
        except msgspec.MsgspecError:
            log.error("process %d is of another version: restart the server", self.number)
            self.kill()
        self._writer.close()
        self.exit_code = await process.wait()
        self.is_open = False
        for event in [*self._reported.values(), self._reported[None]]:
            event.set()

    def _note(self, report: Report) -> None:
        if isinstance(report, Ready):
            self.ready, self.is_open = report, True
        if isinstance(report, Serving):
            self.serving = True
        if isinstance(report, Alive):
            self.heartbeat.heard()
        self._seen.add(type(report))
        self._reported[type(report)].set()

    def send(self, command: Command) -> None:
        line = _encode(command) + b"\n"
        if self._writer is None:
            self._commands.append(line)
        elif not self._writer.is_closing():
            self._writer.write(line)

    async def until(self, kind: type[Report]) -> bool:
        """Wait until it reports this; False if it ends without."""
        if self.exit_code is None:
            await self._reported[kind].wait()
        return kind in self._seen

    async def ended(self) -> None:
        await self._reported[None].wait()

    def kill(self) -> None:
        if self.pid is not None and self.exit_code is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    @property
    def how_it_ended(self) -> str:
        code = self.exit_code or 0
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
