"""A worker process: the server of some shards, as the supervisor commands.

It is started as ``python -m penstock.server.workers.worker DESCRIPTOR`` with its assignment on standard input.
Signals to stop or reload are ignored: service managers send them to all processes of a service, and the supervisor
coordinates.
"""

from __future__ import annotations

import asyncio
import logging
import pickle
import signal
import socket
import sys

import uvloop

from penstock.errors import StoreError
from penstock.promise import start
from penstock.server.compose import Parts
from penstock.server.lifecycle import (
    Reloads,
    StartError,
    TemporaryStartError,
    compose,
    load,
    outcome,
    prepare_process,
)
from penstock.server.logs import set_up_logs
from penstock.server.workers.control import Control
from penstock.server.workers.messages import (
    Assignment,
    Close,
    Command,
    Failed,
    Opened,
    Prepared,
    Quiet,
    Ready,
    Release,
    Released,
    Reload,
    Retire,
    Stop,
    Take,
    Workers,
    WorkerState,
)

log = logging.getLogger("penstock.workers")

# A replaced worker: clients that use a connection again do so within this time, and long polls end within the other.
_RETIRE_IDLE_S = 5.0
_RETIRE_GRACE_S = 25.0


class WorkerServer:
    def __init__(self, assignment: Assignment, control: Control) -> None:
        self._assignment = assignment
        self._config = prepare_process(assignment.config)
        self._control = control
        self._steps: asyncio.Queue[Command] = asyncio.Queue()  # done one after the other
        self._sockets = [
            [socket.socket(fileno=descriptor) for descriptor in sockets] for sockets in assignment.listening
        ]
        self._reloads = Reloads()
        self._states: list[WorkerState] = []
        self._store_failed = False
        self._parts: Parts

    async def run(self) -> int:
        """Until the supervisor asks it to end; the exit code."""
        self._control.start(self._on_command)
        try:
            self._parts = compose(lambda: Parts(self._config, self._on_store_failure))
        except StartError as error:
            return self._failed(error)
        self._show_health()
        if self._assignment.at_once:
            self._accept()
        self._control.report(Prepared())
        try:
            return await self._follow_commands()
        except StartError as error:
            return self._failed(error)
        finally:
            self._reloads.stop()
            self._parts.close()

    def _on_command(self, command: Command) -> None:
        match command:
            case Workers(states):
                self._know(states)
            case Reload():
                self._reloads.request()
            case _:
                self._steps.put_nowait(command)

    def _know(self, states: list[WorkerState]) -> None:
        self._states = states

    def _show_health(self) -> None:
        """The page of every worker speaks for all."""
        number, workers = self._assignment.number, self._assignment.workers
        health = self._parts.health
        health.show("worker", lambda: f"{number} of {workers}")
        health.show("workers", lambda: f"{sum(each.ready for each in self._states)} of {workers} ready")

    def _accept(self) -> None:
        tls = self._parts.security.tls
        for sockets in self._sockets:
            self._parts.listener.accept(sockets, None if tls is None else tls.context)
        self._sockets = []

    async def _follow_commands(self) -> int:
        while True:
            match await self._steps.get():
                case Take():
                    await self._take()
                case Release():
                    await self._release()
                case Retire():
                    await self._parts.listener.retire(_RETIRE_IDLE_S, _RETIRE_GRACE_S)
                    return 0
                case Stop():
                    self._parts.wind_down()
                    await self._parts.listener.close(self._config.stop_timeout)
                    self._control.report(Quiet())
                case Close():
                    if self._store_failed:
                        return 1  # the state of the disk is unknown: writing more would only hide that
                    await outcome(start(self._parts.unload()))
                    return 0

    async def _take(self) -> None:
        await load(self._config, self._parts)
        self._control.report(Opened())
        self._accept()
        self._reloads.start(self._parts)
        found, encryption = self._parts.broker.recovery, self._parts.security.encryption
        self._control.report(Ready(found.queues, found.messages, found.bytes, encryption.status))

    async def _release(self) -> None:
        self._parts.listener.close_sockets()
        self._control.report(Released())

    def _failed(self, error: StartError) -> int:
        self._control.report(Failed(str(error), temporary=isinstance(error, TemporaryStartError)))
        return 1

    def _on_store_failure(self, error: StoreError) -> None:
        if not self._store_failed:
            self._store_failed = True
            text = f"stopped because the store can no longer be trusted: {error}"
            self._control.report(Failed(text, store=True))


def main() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    control = Control(int(sys.argv[1]))
    assignment: Assignment = pickle.load(sys.stdin.buffer)
    config = assignment.config
    set_up_logs(config.log_level, config.log_format, worker=assignment.number)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        sys.exit(runner.run(WorkerServer(assignment, control).run()))


if __name__ == "__main__":
    main()
