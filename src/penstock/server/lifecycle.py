"""A server's life: listen, load, declare, serve, stop.

It listens first, so that whoever asks for its health is told what it is doing; requests are answered 503 until
it is ready. A stop takes no new connections, ends long polls with an empty answer, answers what is running, and
leaves with the store closed. A second signal leaves at once: what was acknowledged is on disk either way.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
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
from penstock.server import process
from penstock.server.address import Address
from penstock.server.banner import amount, banner, facts, shown_bytes
from penstock.server.compose import Parts
from penstock.server.logs import set_up_logs
from penstock.server.periodic import EVERY_S
from penstock.server.security import SETUP_ERRORS
from penstock.server.settings.config import Config
from penstock.wire.registry import Fault

T = TypeVar("T")
_SIGNALS = (signal.SIGTERM, signal.SIGINT)

log = logging.getLogger("penstock")


class StartError(Exception):
    """One line for the operator: why the server did not start."""


class NotYet(StartError):
    """It may start if it is tried again as it is: something that it needs was not there in time."""


class StoreFailed(Exception):
    """One line for the operator: why the server could not go on."""


class _End:
    """Why and when the server stops: told by a signal, or by a store that cannot be trusted any more."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.failure: StoreError | None = None

    def watch_signals(self) -> None:
        for number in _SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, self._signalled)

    def fail(self, error: StoreError) -> None:
        self.failure = self.failure or error
        self.asked.set()

    def _signalled(self) -> None:
        if self.asked.is_set():
            os._exit(1)  # the second time
        self.asked.set()


class _Upkeep:
    """What a running server looks after: files that change, and an operator who asks to read them again.

    A timer and no task: a look takes one turn of the loop, and callers can make turns long.
    """

    def __init__(self) -> None:
        self._parts: Parts
        self._asked = False
        self._timer: asyncio.TimerHandle | None = None

    def watch_signals(self) -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._signalled)

    def start(self, parts: Parts) -> None:
        self._parts = parts
        self._timer = asyncio.get_running_loop().call_later(0 if self._asked else EVERY_S, self._look)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _signalled(self) -> None:
        self._asked = True
        if self._timer is not None:  # else it is done when the server has started
            self._timer.cancel()
            self._look()

    def _look(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(EVERY_S, self._look)
        asked, self._asked = self._asked, False
        if asked:
            log.info("reading certificates, credentials and keys again")
        self._parts.look(asked=asked)


def run(config: Config) -> None:
    """Serve until told to stop. Raises StartError or StoreFailed."""
    human = set_up_logs(config.log_level, config.log_format)
    config = replace(config, max_connections=process.prepare(config.max_connections))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_live(config, human))


async def _live(config: Config, human: bool) -> None:
    end = _End()
    end.watch_signals()
    upkeep = _Upkeep()
    upkeep.watch_signals()
    try:
        parts = Parts(config, end.fail)
    except RootKeyUnavailable as error:
        raise NotYet(str(error)) from None
    except SETUP_ERRORS as error:
        raise StartError(str(error)) from None
    try:
        addresses = await _listen(config, parts)
        recovered = await _load(parts)
        process.started()
        upkeep.start(parts)
        _announce(facts(config, addresses, recovered, parts.locks.encryption.said), human)
        if config.print_ready:
            _print_ready()
        await end.asked.wait()
        await _stop(config, parts, end)
    finally:
        upkeep.stop()
        parts.close()


def _announce(shown: dict[str, str | list[str]], human: bool) -> None:
    if human:
        sys.stderr.write(banner(shown))
        sys.stderr.flush()
    else:
        log.info("ready", extra=shown)


def _print_ready() -> None:
    """For those who wait for this line in a container's output."""
    with suppress(OSError):  # nobody reads it: no reason to stop
        sys.stdout.write("Ready.\n")
        sys.stdout.flush()


async def _stop(config: Config, parts: Parts, end: _End) -> None:
    log.info("stopping")
    parts.wind_down()
    await parts.listener.close(config.stop_timeout)
    if end.failure is not None:
        # What is on the disk can no longer be known: writing more would only hide that.
        raise StoreFailed(f"stopped, because the store cannot be trusted any more: {end.failure}")
    await _outcome(start(parts.unload()))
    log.info("stopped")


async def _listen(config: Config, parts: Parts) -> list[Address]:
    """Answers the addresses with the ports that were taken where a free one was asked for."""
    tls = parts.locks.tls.context if parts.locks.tls is not None else None
    opened: list[Address] = []
    for address in config.addresses:
        try:
            port = await parts.listener.listen(address.host, address.port, tls)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                hint = "another process listens there; stop it, or choose a port with --port"
                raise StartError(f"cannot listen on {address}: {hint}") from None
            raise StartError(f"cannot listen on {address}: {error.strerror or error}") from None
        opened.append(Address(address.host, port))
    return opened


async def _load(parts: Parts) -> str:
    """Answers what was recovered, in words."""
    begun = time.perf_counter()
    try:
        await _outcome(start(parts.load()))
    except Fault as fault:
        raise StartError(f"cannot make the declared queues: {fault.message}") from None
    except PenstockError as error:
        raise StartError(str(error) or type(error).__name__) from None
    ms = (time.perf_counter() - begun) * 1000
    found = parts.broker.recovery
    what = (amount(found.queues, "queue"), amount(found.messages, "message"), shown_bytes(found.bytes))
    return f"{', '.join(what)} in {ms:.0f} ms"


async def _outcome(later: Promise[T]) -> T:
    """Wait on the event loop for what the broker promised."""
    done = asyncio.Event()
    later.on_done(lambda _: done.set())
    await done.wait()
    return later.result()
