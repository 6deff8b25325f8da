"""The supervisor: opens the port, starts the processes, restarts those that die or hang, replaces and stops them.

It serves nothing and reads no message, so that it has no reason to fail. Processes that find it gone stop at once.

A rolling restart (SIGUSR2) replaces the processes one after the other by new processes, which run the program as it
is installed then. The old process closes its shards and the new one opens them; requests for them wait meanwhile, at
any process. The old one passes on what its open connections still ask, and exits when they are closed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import signal
import time
from collections import defaultdict, deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from penstock.server.lifecycle import ServerFailed, StartError, TemporaryStartError
from penstock.server.logs import set_log_level
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
from penstock.server.processes.supervised import PROCESS_COMMAND, SupervisedProcess
from penstock.server.processes.usage import shared_memory, usage_bytes
from penstock.server.reload import adopt
from penstock.server.settings.config import Config, ConfigError
from penstock.server.settings.load import load_again
from penstock.server.systemd import ServiceManager
from penstock.server.throttle import SHARED_BYTES

log = logging.getLogger("penstock.processes")

_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_CLOSE_S = 30.0  # to write the last commits and close the files


class CrashLimits(msgspec.Struct, frozen=True, kw_only=True):
    """A process that hangs is killed, and one that dies is restarted; if it dies too often, the server stops."""

    silence_max: int = 30  # looks in a row without a report: a slow disk may keep a process waiting for ten
    look_every_s: float = EVERY_S
    deaths_max: int = 10
    within_s: float = 30.0
    pause_s: float = 0.5  # before another start if it died before it was ready


class Supervisor:
    def __init__(
        self,
        config: Config,
        directory: Path,
        listening: Sequence[list[list[int]]],
        on_ready: Callable[[list[Ready]], None],
        *,
        command: Sequence[str] = PROCESS_COMMAND,
        crashes: CrashLimits | None = None,
        manager: ServiceManager | None = None,
    ) -> None:
        """``config``: of one process, with the number of shards. ``directory``: for the sockets between processes,
        private. ``listening``: the descriptors of each process."""
        self._config = config
        self._directory = directory
        self._listening = listening
        self._on_ready = on_ready
        self._command = command
        self._crashes = crashes or CrashLimits()
        self._manager = manager or ServiceManager({})
        self._numbers = range(1, len(listening) + 1)
        self._current: dict[int, SupervisedProcess] = {}  # by number: owns the shards, or will
        self._successors: dict[int, SupervisedProcess] = {}  # by number: prepared, in a rolling restart
        self._running: dict[SupervisedProcess, asyncio.Task[None]] = {}
        self._rates = shared_memory(SHARED_BYTES)
        self._usage = shared_memory(usage_bytes(len(listening)))
        self._key = secrets.token_bytes(16)
        self._deaths: dict[int, deque[float]] = defaultdict(deque)
        self._started = 0
        self._announced = False
        self._ending = asyncio.Event()
        self._failure: StartError | ServerFailed | None = None
        self._rolling: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Runs the processes until a signal asks to stop. Raises StartError or ServerFailed."""
        self._watch_signals()
        for number in self._numbers:
            self._current[number] = self._start(number, at_once=True)
        self._look_for_hung()
        await self._ending.wait()
        await self._stop()
        if self._failure is not None:
            raise self._failure

    def _watch_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in _STOP_SIGNALS:
            loop.add_signal_handler(number, self.request_stop)
        loop.add_signal_handler(signal.SIGUSR2, self._on_restart_signal)

    def request_stop(self) -> None:
        if self._ending.is_set():  # the second signal
            for process in self._running:
                process.kill()
            os._exit(1)
        self._ending.set()

    def request_reload(self) -> None:
        """Every process reads settings and files again. Those that are started from now on get the same settings."""
        self._manager.reloading()
        try:
            wanted = load_again(self._config).share(len(self._numbers), self._config.shards)
        except ConfigError:
            pass  # the processes log why, and keep the present settings
        else:
            self._config = replace(adopt(self._config, wanted).config, queues=wanted.queues)
            set_log_level(self._config.log_level)
        self._tell_all(Reload())
        self._manager.ready("ready")

    def _on_restart_signal(self) -> None:
        if self._config.memory:
            log.error("no rolling restart: with memory, a process that ends loses its messages")
        elif self._rolling is not None and not self._rolling.done():
            log.warning("ignoring SIGUSR2: a rolling restart is under way")
        elif self._announced and not self._ending.is_set():
            self._rolling = asyncio.get_running_loop().create_task(self._replace_all())

    # Processes, and what they report.

    def _start(self, number: int, *, at_once: bool = False) -> SupervisedProcess:
        self._started += 1
        assignment = Assignment(
            config=self._config, number=number, processes=len(self._numbers), shards=self._config.shards,
            # Never used again: nothing that was meant for a process that has died reaches its successor.
            address=str(self._directory / f"{number}.{self._started}"),
            listening=self._listening[number - 1], rates=self._rates, usage=self._usage, key=self._key,
            at_once=at_once,
        )  # fmt: skip
        process = SupervisedProcess(assignment, self._command)
        self._running[process] = asyncio.get_running_loop().create_task(self._follow(process))
        return process

    async def _follow(self, process: SupervisedProcess) -> None:
        try:
            await process.run(self._on_report)
        finally:
            self._on_end(process)

    def _on_end(self, process: SupervisedProcess) -> None:
        del self._running[process]
        Path(process.address).unlink(missing_ok=True)
        if self._current.get(process.number) is process and not self._ending.is_set():
            self._on_death(process)

    def _on_report(self, process: SupervisedProcess, report: Report) -> None:
        match report:
            case Prepared():
                self._broadcast()
                # Otherwise its predecessor has to release first.
                if self._current.get(process.number) is process:
                    process.send(Take())
            case Ready():
                self._broadcast()
                if self._announced:
                    log.info("process %d is ready again", process.number)
            case Serving():
                if not (self._announced or self._ending.is_set()) and all(
                    each.serving for each in self._current.values()
                ):
                    self._announced = True
                    self._on_ready([each.ready for each in self._current.values() if each.ready])
            case Alive(sends):
                if sends != process.sends:
                    process.sends = sends
                    self._broadcast()
            case ReloadAll():
                self.request_reload()
            case Failed():
                self._on_failure(process, report)

    def _broadcast(self) -> None:
        """Tell all processes who serves which shards, and how each is."""
        current = [self._current[number] for number in self._numbers]
        states = [
            ProcessState(each.address if each.is_open else None, each.ready is not None, each.sends)
            for each in current
        ]
        self._tell_all(Processes(states))

    def _tell_all(self, command: Command) -> None:
        for process in self._running:
            process.send(command)

    # Failures.

    def _on_failure(self, process: SupervisedProcess, report: Failed) -> None:
        if report.store:
            self._fail(ServerFailed(report.text))
        elif not self._announced:
            self._fail((TemporaryStartError if report.temporary else StartError)(report.text))
        else:
            log.error("process %d cannot start: %s", process.number, report.text)

    def _look_for_hung(self) -> None:
        """Look once a second for processes that hang. A stop has limits of its own."""
        if self._ending.is_set():
            return
        limits = self._crashes
        asyncio.get_running_loop().call_later(limits.look_every_s, self._look_for_hung)
        for process in self._running:
            if process.heartbeat.is_lost(limits.silence_max):
                silence_s = limits.silence_max * limits.look_every_s
                log.error("killing process %d: no report in %.0f s", process.number, silence_s)
                process.kill()

    def _on_death(self, process: SupervisedProcess) -> None:
        """Handle the end of a process that was not asked to end."""
        number, limits, now = process.number, self._crashes, time.monotonic()
        deaths = self._deaths[number]
        deaths.append(now)
        while deaths[0] < now - limits.within_s:
            deaths.popleft()
        self._broadcast()
        if len(deaths) >= limits.deaths_max:
            self._fail(
                ServerFailed(
                    f"stopped because process {number} died {len(deaths)} times within {limits.within_s:.0f} seconds"
                    f", the last time with {process.how_it_ended}: the log says what it did before"
                )
            )
            return
        log.error("process %d ended with %s: restarting it", number, process.how_it_ended)
        if number not in self._successors:
            pause_s = 0 if process.ready is not None else limits.pause_s
            asyncio.get_running_loop().call_later(pause_s, self._restart, number)

    def _restart(self, number: int) -> None:
        if not self._ending.is_set():
            self._current[number] = self._start(number)

    def _fail(self, error: StartError | ServerFailed) -> None:
        self._failure = self._failure or error
        self._ending.set()

    # Rolling restart.

    async def _replace_all(self) -> None:
        log.info("rolling restart started")
        for number in self._numbers:
            if not await self._replace(number):
                return
        log.info("rolling restart completed")

    async def _replace(self, number: int) -> bool:
        old = self._current[number]
        successor = self._successors[number] = self._start(number)
        prepared = await successor.until(Prepared)
        if prepared:
            old.is_open = False
            self._broadcast()  # requests for its shards wait from now on, wherever they are
            old.send(Release())
            if not await _all([old.until(Released)], _CLOSE_S):
                old.kill()
                await old.ended()  # that closes its files, too
        del self._successors[number]
        if not prepared:
            log.error(
                "rolling restart stopped: the successor of process %d ended with %s, the others are not replaced",
                number, successor.how_it_ended,
            )  # fmt: skip
            if old.exit_code is not None:
                self._restart(number)
            return False
        self._current[number] = successor
        if successor.exit_code is not None:
            self._restart(number)
        successor.send(Take())
        served = await successor.until(Ready)  # if it dies, it is restarted like every process
        old.send(Retire())
        await old.ended()
        return served and not self._ending.is_set()

    # Stop.

    async def _stop(self) -> None:
        # A start that is refused says so in one line.
        level = logging.INFO if self._announced else logging.DEBUG
        log.log(level, "stopping")
        self._manager.stopping()
        if self._rolling is not None:
            self._rolling.cancel()
        self._tell_all(Stop())
        await _all((process.until(Quiet) for process in self._running), self._config.stop_timeout + _CLOSE_S)
        self._tell_all(Close())
        await _all((process.ended() for process in self._running), _CLOSE_S)
        for process in list(self._running):
            log.error("killing process %d: did not exit in %.0f s", process.number, _CLOSE_S)
            process.kill()
        if self._running:
            await asyncio.wait(list(self._running.values()))
        log.log(level, "stopped")


async def _all(waits: Iterable[Coroutine[Any, Any, object]], within_s: float) -> bool:
    with suppress(TimeoutError):
        await asyncio.wait_for(asyncio.gather(*waits), within_s)
        return True
    return False
