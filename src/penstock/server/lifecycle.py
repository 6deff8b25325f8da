"""Starts, runs and stops a server: listen, load, declare queues, serve, stop.

It listens first, so that health checks are answered during the start; other requests get 503 until it is ready.
A stop accepts no new connections, answers long polls with no messages, finishes running requests, closes the store.
A second signal exits at once: what was acknowledged is on disk in either case.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, TypeVar

import uvloop

from penstock.auth.encryption.root_key import RootKeyUnavailable
from penstock.errors import PenstockError, StoreAway, StoreError, StoreRefused
from penstock.promise import outcome, run_detached, start
from penstock.server.compose import EarlyParts, Parts
from penstock.server.logs import set_up_logs
from penstock.server.periodic import EVERY_S
from penstock.server.security import SETUP_ERRORS
from penstock.server.settings.address import Address
from penstock.server.settings.config import Config
from penstock.server.settings.declared import DeclarationError
from penstock.server.settings.load import load_again
from penstock.server.startup_report import Recovered, Report, banner, startup_report, warning_in
from penstock.server.systemd import ServiceManager
from penstock.server.terminal import Terminal

T = TypeVar("T")
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)

# The commit thread may wait one switch interval each time it needs the interpreter while the event loop is busy. The
# default of 5 ms would be most of a commit's time.
_SWITCH_INTERVAL_S = 0.0005

# A request leaves no garbage cycles, and message entries are not tracked: a rare collection loses nothing, and a
# frequent one costs milliseconds when there are many long-lived objects.
_GC_THRESHOLDS = (50_000, 20, 50)

# Descriptors besides connections: the data file with its log and locks, listening sockets, audit log.
_OTHER_DESCRIPTORS = 64

log = logging.getLogger("penstock")


class StartError(Exception):
    """One line for the operator: why the server did not start."""


class TemporaryStartError(StartError):
    """The same start may succeed later: something it needs was not available in time."""


class ServerFailed(Exception):
    """One line for the operator: why the server stopped."""


def run(config: Config, terminal: Terminal) -> None:
    """Serve until asked to stop. Raises StartError or ServerFailed."""
    human = set_up_logs(config.log_level, config.log_format)
    config = prepare_process(config)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(config, human, terminal))


def prepare_process(config: Config) -> Config:
    """Prepares the process for the loop of a server. Returns the settings with the number of connections that the
    system allows."""
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    gc.set_threshold(*_GC_THRESHOLDS)
    return within_descriptor_limit(config)


def within_descriptor_limit(config: Config) -> Config:
    return replace(config, max_connections=_raise_descriptor_limit(config.max_connections))


def _raise_descriptor_limit(connections_max: int) -> int:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections_max + _OTHER_DESCRIPTORS
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY:
        return connections_max
    return min(connections_max, soft - _OTHER_DESCRIPTORS)


async def _serve(config: Config, human: bool, terminal: Terminal) -> None:
    stop, manager = _StopRequest(), ServiceManager()
    stop.watch_signals()
    loop = asyncio.get_running_loop()
    reloads = Reloads(manager)
    terminal.on_hangup_signal(stop.request, reloads.request)
    loop.add_signal_handler(signal.SIGUSR2, log.error, "a rolling restart needs several processes")
    early = compose(lambda: EarlyParts(config))
    try:
        addresses = await _listen(config, early)
        await open_metrics_port(early)
        started = time.perf_counter()
        opening = Parts.open(
            early, stop.fail, load_config=lambda: within_descriptor_limit(load_again(config))
        )
        parts = await start_step(config, opening)
        try:
            await start_step(config, parts.load())
            forget_start()
            recovered = Recovered(*parts.broker.recovery, time.perf_counter() - started)
            reloads.start(parts)
            encryption, durability = parts.security.encryption.status, parts.site.guarantees
            announce(startup_report(config, addresses, recovered, encryption, durability), human, config)
            manager.ready("ready")
            manager.watch()
            await stop.requested.wait()
            manager.stopping()
            await _stop(parts, stop)
        finally:
            reloads.stop()
            parts.close()
    finally:
        early.close()


def compose(make: Callable[[], T]) -> T:
    """Make the parts of a server. Raises StartError."""
    try:
        return make()
    except RootKeyUnavailable as error:
        raise TemporaryStartError(str(error)) from None
    except (StoreRefused, *SETUP_ERRORS) as error:
        raise StartError(str(error)) from None


class _StopRequest:
    """A request to stop, set by a signal or by a store that can no longer be trusted."""

    def __init__(self) -> None:
        self.requested = asyncio.Event()
        self.failure: StoreError | None = None

    def watch_signals(self) -> None:
        for number in _STOP_SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, self.request)

    def fail(self, error: StoreError) -> None:
        self.failure = self.failure or error
        self.requested.set()

    def request(self) -> None:
        if self.requested.is_set():
            os._exit(1)  # the second signal
        self.requested.set()


class Reloads:
    """Reloads changed files once a second, and everything on request (SIGHUP).

    A timer instead of a task: one look takes one turn of the loop, however busy the loop is.
    """

    def __init__(self, manager: ServiceManager | None = None) -> None:
        self._manager = manager
        self._parts: Parts | None = None  # until the server has started
        self._requested = False
        self._timer: asyncio.TimerHandle | None = None

    def start(self, parts: Parts) -> None:
        self._parts = parts
        self._wait(parts)
        if self._requested:
            run_detached(self._reload(parts))

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = self._parts = None

    def request(self) -> None:
        self._requested = True
        if self._parts is not None:  # otherwise the reload follows the start
            run_detached(self._reload(self._parts))

    async def _reload(self, parts: Parts) -> None:
        if self._manager is not None:
            self._manager.reloading()
        try:
            await parts.reloading.run()
        finally:
            if self._manager is not None:
                self._manager.ready("ready")

    def _wait(self, parts: Parts) -> None:
        self._timer = asyncio.get_running_loop().call_later(EVERY_S, self._look, parts)

    def _look(self, parts: Parts) -> None:
        self._wait(parts)
        parts.early.look_around()


async def _listen(config: Config, parts: EarlyParts) -> list[Address]:
    """Returns the addresses with the ports that were opened."""
    tls = parts.security.tls.context if parts.security.tls is not None else None
    opened: list[Address] = []
    for address in config.addresses:
        with listen_errors(address):
            port = await parts.listener.listen(address.host, address.port, tls)
        opened.append(Address(address.host, port))
    return opened


async def open_metrics_port(parts: EarlyParts, *, shared: bool = False) -> None:
    """Raises StartError."""
    wanted = parts.config.metrics_listen
    if wanted is not None:
        with listen_errors(wanted):
            address = await parts.open_metrics_port(shared=shared)
        log.info("metrics are at http://%s/metrics", address)


@contextmanager
def listen_errors(address: Address) -> Iterator[None]:
    """Raises StartError for an OSError."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno == errno.EADDRINUSE:
            reason = "another process listens there; stop it, or choose another port with --port"
        elif error.errno == errno.EACCES:
            reason += "; ports below 1024 need root or CAP_NET_BIND_SERVICE"
        raise StartError(f"cannot listen on {address}: {reason}") from None


async def start_step(config: Config, step: Coroutine[Any, None, T]) -> T:
    """A step of the start that opens the store, its shards, or creates queues. Raises StartError."""
    try:
        return await outcome(start(step))
    except DeclarationError as error:
        raise StartError(f"cannot create the declared queues and topics: {error} ({config.file})") from None
    except StoreAway as error:
        raise TemporaryStartError(str(error)) from None
    except PenstockError as error:
        raise StartError(str(error) or type(error).__name__) from None


def forget_start() -> None:
    # Modules and tables live as long as the process: the collector need not visit them again.
    gc.collect()
    gc.freeze()


def announce(report: Report, human: bool, config: Config) -> None:
    if human:
        sys.stderr.write(banner(report))
        sys.stderr.flush()
    else:
        log.info("ready", extra=report)
        if (warning := warning_in(report)) is not None:
            log.warning("%s", warning)
    for text in config.warnings:
        log.warning("%s", text)
    if config.print_ready:
        with suppress(OSError):  # standard output may be closed
            sys.stdout.write("Ready.\n")
            sys.stdout.flush()


async def _stop(parts: Parts, stop: _StopRequest) -> None:
    log.info("stopping")
    if parts.node is not None and stop.failure is None:
        await parts.node.membership.drain(parts.config.stop_timeout)
    parts.wind_down()
    await parts.listener.close(parts.config.stop_timeout)
    if stop.failure is not None:
        # The state of the disk is unknown: writing more would only hide that.
        raise ServerFailed(f"stopped because the store can no longer be trusted: {stop.failure}")
    await outcome(start(parts.unload()))
    log.info("stopped")
