"""A server process: the server of some shards, as the supervisor commands.

It is started as ``python -m penstock.server.processes.server_process DESCRIPTOR`` with its assignment on standard
input. Signals to stop or reload are ignored: service managers send them to all processes of a service, and the
supervisor coordinates.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import msgspec
import uvloop

from penstock.errors import StoreError
from penstock.promise import outcome, start
from penstock.server.cluster import ClusterPlace
from penstock.server.compose import EarlyParts, Parts
from penstock.server.lifecycle import (
    Reloads,
    StartError,
    TemporaryStartError,
    compose,
    forget_start,
    open_metrics_port,
    prepare_process,
    start_step,
    within_descriptor_limit,
)
from penstock.server.logs import set_up_logs
from penstock.server.periodic import EVERY_S
from penstock.server.processes.messages import (
    Alive,
    Assignment,
    Close,
    Command,
    Failed,
    Prepared,
    Processes,
    ProcessState,
    Quiet,
    Ready,
    Release,
    Released,
    Reload,
    ReloadAll,
    Report,
    Retire,
    Serving,
    Stop,
    Take,
)
from penstock.server.processes.owners import ProcessOwners, owned_by
from penstock.server.processes.usage import SharedUsage
from penstock.server.settings.config import Config
from penstock.server.settings.load import load_again
from penstock.server.throttle import SharedThrottle

log = logging.getLogger("penstock.processes")

# A replaced process: clients that use a connection again do so within this time, and long polls end within the other.
_RETIRE_IDLE_S = 5.0
_RETIRE_GRACE_S = 25.0

_OTHERS = "other processes are starting"
_ACCEPTED = "accepted"

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Command).decode


class Control:
    """The process's end of the connection to its supervisor.

    Read by a thread: a process whose event loop is busy learns of the supervisor's death, too, and exits at once, so
    that a server that is started next finds no file locked. What was acknowledged is on disk."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)

    def start(self, on_command: Callable[[Command], None]) -> None:
        """``on_command`` is called on the event loop, in order."""
        arguments = (asyncio.get_running_loop(), on_command)
        threading.Thread(target=self._read, args=arguments, name="supervisor", daemon=True).start()

    def _read(self, loop: asyncio.AbstractEventLoop, on_command: Callable[[Command], None]) -> None:
        with suppress(OSError), self._socket.makefile("rb") as lines:
            for line in lines:
                loop.call_soon_threadsafe(on_command, _decode(line))
        log.error("exiting: the supervisor has ended")
        os._exit(1)

    def report(self, report: Report, flags: int = 0) -> None:
        with suppress(OSError):  # the supervisor is gone, which the thread finds, too
            self._socket.sendall(_encode(report) + b"\n", flags)

    def report_alive(self, sends: str) -> None:
        """Report that the process is alive. The report is left out while a supervisor that is stopped has not read
        the last ones: the event loop does not wait."""
        self.report(Alive(sends), socket.MSG_DONTWAIT)


class ServerProcess:
    def __init__(self, assignment: Assignment, control: Control) -> None:
        """Raises StartError."""
        self._assignment = assignment
        self._config = prepare_process(assignment.config)
        self._control = control
        self._steps: asyncio.Queue[Command] = asyncio.Queue()  # done one after the other
        self._sockets = [
            [socket.socket(fileno=descriptor) for descriptor in sockets] for sockets in assignment.listening
        ]
        self._owners = ProcessOwners(assignment.shards, assignment.processes)
        self._usage = SharedUsage(assignment.usage, assignment.number, assignment.processes)
        self._states: list[ProcessState] = []
        self._reloads = Reloads()
        self._serving = False  # all processes were ready once
        self._retiring: Parts | None = None  # those of a process that is being replaced
        self._store_failed = False
        self._early = compose(lambda: EarlyParts(self._config, self._place()))

    async def run(self) -> int:
        """Serves until the supervisor asks it to end. Returns the exit code. Raises StartError."""
        self._control.start(self._on_command)
        try:
            self._show_health()
            if self._assignment.at_once:
                self._accept()
            parts = await start_step(self._config, self._open())
            try:
                self._control.report(Prepared())
                return await self._follow_commands(parts)
            finally:
                self._reloads.stop()
                parts.close()
        finally:
            self._early.close()

    async def _open(self) -> Parts:
        return await Parts.open(
            self._early,
            self._on_store_failure,
            load_config=self._settings,
            reload_others=lambda: self._control.report(ReloadAll()),
        )

    def _place(self) -> ClusterPlace:
        assignment = self._assignment
        throttle = partial(SharedThrottle, descriptor=assignment.rates, key=assignment.key)
        return ClusterPlace(
            assignment.address, self._owners, throttle=throttle, usage=self._usage, process=assignment.number
        )

    def _settings(self) -> Config:
        """Reads the current settings of this process. Raises ConfigError."""
        assignment = self._assignment
        loaded = load_again(assignment.config)
        return within_descriptor_limit(loaded.share(assignment.processes, assignment.shards))

    def _accept(self) -> None:
        tls = self._early.security.tls
        for sockets in self._sockets:
            self._early.listener.accept(sockets, None if tls is None else tls.context)
        self._sockets = []

    def _on_store_failure(self, error: StoreError) -> None:
        if not self._store_failed:
            self._store_failed = True
            text = f"stopped because the store can no longer be trusted: {error}"
            self._control.report(Failed(text, store=True))

    # Commands.

    def _on_command(self, command: Command) -> None:
        match command:
            case Processes(states):
                self._know(states)
            case Reload():
                self._reloads.request()
            case _:
                self._steps.put_nowait(command)
                if self._retiring is not None:
                    self._retiring.wind_down()  # all stop: no time for what is idle

    async def _follow_commands(self, parts: Parts) -> int:
        while True:
            match await self._steps.get():
                case Take():
                    await self._take(parts)
                case Release():
                    await self._release(parts)
                case Retire():
                    self._retiring = parts
                    await parts.listener.retire(_RETIRE_IDLE_S, _RETIRE_GRACE_S)
                    return await self._close(parts)
                case Stop():
                    parts.wind_down()
                    await parts.listener.close(parts.config.stop_timeout)
                    self._control.report(Quiet())
                case Close():
                    return await self._close(parts)

    async def _take(self, parts: Parts) -> None:
        assignment, started = self._assignment, time.perf_counter()
        self._usage.clear()
        own = owned_by(assignment.number, assignment.processes, assignment.shards)
        await start_step(self._config, parts.open_shards(own))
        await start_step(self._config, parts.declare())
        forget_start()
        if assignment.number == 1:  # it shows what all processes measure
            await open_metrics_port(self._early, shared=True)
        self._accept()
        self._reloads.start(parts)
        parts.health.show("sends", partial(self._sends_of_all, parts))
        self._report_alive(parts)
        found, seconds = parts.broker.recovery, time.perf_counter() - started
        status = parts.security.encryption.status
        self._control.report(Ready(found.queues, found.messages, found.bytes, seconds, status))

    async def _release(self, parts: Parts) -> None:
        """Give the shards back. The connections stay: what they ask for is passed on to the successor."""
        parts.listener.close_sockets()
        if self._early.metrics_port is not None:
            self._early.metrics_port.close()
        closing = [start(parts.shards.close(index)) for index in list(parts.broker.owned)]
        for each in closing:
            await outcome(each)
        self._control.report(Released())

    async def _close(self, parts: Parts) -> int:
        if self._store_failed:
            return 1  # the state of the disk is unknown: writing more would only hide that
        assert parts.links is not None
        await parts.links.close()
        await outcome(start(parts.unload()))
        return 0

    # Health: the page of every process speaks for all.

    def _show_health(self) -> None:
        number, processes = self._assignment.number, self._assignment.processes
        health = self._early.health
        health.facts["process"] = f"{number} of {processes}"
        health.show("processes", self._processes_state)
        if self._assignment.at_once:
            health.expect(_OTHERS)

    def _know(self, states: list[ProcessState]) -> None:
        self._states = states
        self._owners.know(states)
        if not self._serving and all(each.ready for each in states):
            self._serving = True
            if self._assignment.at_once:
                self._early.health.done(_OTHERS)
            self._control.report(Serving())

    def _processes_state(self) -> str:
        ready, processes = sum(each.ready for each in self._states), self._assignment.processes
        return f"all {processes} ready" if ready == processes else f"{ready} of {processes} ready"

    def _report_alive(self, parts: Parts) -> None:
        """The others learn when sends are refused here, as with a full disk."""
        asyncio.get_running_loop().call_later(EVERY_S, self._report_alive, parts)
        self._control.report_alive(parts.send_state())

    def _sends_of_all(self, parts: Parts) -> str:
        states = [parts.send_state(), *(each.sends for each in self._states)]
        return next((state for state in states if state != _ACCEPTED), _ACCEPTED)


async def run(assignment: Assignment, control: Control) -> int:
    """Returns the exit code."""
    try:
        return await ServerProcess(assignment, control).run()
    except StartError as error:
        control.report(Failed(str(error), temporary=isinstance(error, TemporaryStartError)))
        return 1


def main() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    control = Control(int(sys.argv[1]))
    assignment: Assignment = pickle.load(sys.stdin.buffer)
    config = assignment.config
    set_up_logs(config.log_level, config.log_format, process=assignment.number)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        sys.exit(runner.run(run(assignment, control)))


if __name__ == "__main__":
    main()
