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
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

import uvloop

from penstock.auth.encryption.root_key import RootKeyUnavailable
from penstock.errors import PenstockError, StoreError
from penstock.promise import Promise, start
from penstock.server.compose import Parts
from penstock.server.logs import set_up_logs
from penstock.server.periodic import EVERY_S
from penstock.server.security import SETUP_ERRORS
from penstock.server.settings.address import Address
from penstock.server.settings.config import Config
from penstock.server.settings.queues import DeclaredQueueError
from penstock.server.startup_report import amount, banner, format_bytes, startup_report

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


class StoreFailed(Exception):
    """One line for the operator: why the server stopped."""


def run(config: Config) -> None:
    """Serve until asked to stop. Raises StartError or StoreFailed."""
    human = set_up_logs(config.log_level, config.log_format)
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    gc.set_threshold(*_GC_THRESHOLDS)
    config = replace(config, max_connections=_raise_descriptor_limit(config.max_connections))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(config, human))


def _raise_descriptor_limit(connections_max: int) -> int:
    """Returns the number of connections that the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections_max + _OTHER_DESCRIPTORS
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY:
        return connections_max
    return min(connections_max, soft - _OTHER_DESCRIPTORS)


async def _serve(config: Config, human: bool) -> None:
    stop = _StopRequest()
    stop.watch_signals()
    reloads = _Reloads()
    reloads.watch_signal()
    try:
        parts = Parts(config, stop.fail)
    except RootKeyUnavailable as error:
        raise TemporaryStartError(str(error)) from None
    except SETUP_ERRORS as error:
        raise StartError(str(error)) from None
    try:
        addresses = await _listen(config, parts)
        recovered = await _load(config, parts)
        # Modules and tables live as long as the process: the collector need not visit them again.
        gc.collect()
        gc.freeze()
        reloads.start(parts)
        _announce(startup_report(config, addresses, recovered, parts.security.encryption.status), human)
        if config.print_ready:
            with suppress(OSError):  # standard output may be closed
                sys.stdout.write("Ready.\n")
                sys.stdout.flush()
        await stop.requested.wait()
        await _stop(config, parts, stop)
    finally:
        reloads.stop()
        parts.close()


class _StopRequest:
    """Set by a signal, or by a store that can no longer be trusted."""

    def __init__(self) -> None:
        self.requested = asyncio.Event()
        self.failure: StoreError | None = None

    def watch_signals(self) -> None:
        for number in _STOP_SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, self._on_signal)

    def fail(self, error: StoreError) -> None:
        self.failure = self.failure or error
        self.requested.set()

    def _on_signal(self) -> None:
        if self.requested.is_set():
            os._exit(1)  # the second signal
        self.requested.set()


class _Reloads:
    """Reloads changed files once a second, and all files on SIGHUP.

    A timer instead of a task: one reload takes one turn of the loop, however busy the loop is.
    """

    def __init__(self) -> None:
        self._parts: Parts
        self._requested = False
        self._timer: asyncio.TimerHandle | None = None

    def watch_signal(self) -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._on_signal)

    def start(self, parts: Parts) -> None:
        self._parts = parts
        self._timer = asyncio.get_running_loop().call_later(0 if self._requested else EVERY_S, self._reload)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_signal(self) -> None:
        self._requested = True
        if self._timer is not None:  # otherwise the reload follows the start
            self._timer.cancel()
            self._reload()

    def _reload(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(EVERY_S, self._reload)
        requested, self._requested = self._requested, False
        if requested:
            log.info("reloading certificates, credentials and keys")
        self._parts.reload(requested=requested)


async def _listen(config: Config, parts: Parts) -> list[Address]:
    """Returns the addresses with the ports that were opened."""
    tls = parts.security.tls.context if parts.security.tls is not None else None
    opened: list[Address] = []
    for address in config.addresses:
        try:
            port = await parts.listener.listen(address.host, address.port, tls)
        except OSError as error:
            reason = error.strerror or str(error)
            if error.errno == errno.EADDRINUSE:
                reason = "another process listens there; stop it, or choose another port with --port"
            elif error.errno == errno.EACCES:
                reason += "; ports below 1024 need root or CAP_NET_BIND_SERVICE"
            raise StartError(f"cannot listen on {address}: {reason}") from None
        opened.append(Address(address.host, port))
    return opened


async def _load(config: Config, parts: Parts) -> str:
    """Returns a summary of what was recovered."""
    started = time.perf_counter()
    try:
        await _result(start(parts.load()))
    except DeclaredQueueError as error:
        raise StartError(f"cannot create the declared queues: {error} ({config.file})") from None
    except PenstockError as error:
        raise StartError(str(error) or type(error).__name__) from None
    ms = (time.perf_counter() - started) * 1000
    found = parts.broker.recovery
    what = (amount(found.queues, "queue"), amount(found.messages, "message"), format_bytes(found.bytes))
    return f"{', '.join(what)} in {ms:.0f} ms"


def _announce(report: dict[str, str | list[str]], human: bool) -> None:
    if human:
        sys.stderr.write(banner(report))
        sys.stderr.flush()
    else:
        log.info("ready", extra=report)


async def _stop(config: Config, parts: Parts, stop: _StopRequest) -> None:
    log.info("stopping")
    parts.wind_down()
    await parts.listener.close(config.stop_timeout)
    if stop.failure is not None:
        # The state of the disk is unknown: writing more would only hide that.
        raise StoreFailed(f"stopped because the store can no longer be trusted: {stop.failure}")
    await _result(start(parts.unload()))
    log.info("stopped")


async def _result(promise: Promise[T]) -> T:
    """Wait for a promise of the broker on the event loop."""
    done = asyncio.Event()
    promise.on_done(lambda _: done.set())
    await done.wait()
    return promise.result()
