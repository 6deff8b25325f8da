"""The worker's end of the connection to its supervisor.

Read by a thread: a worker whose event loop is busy learns of the supervisor's death, too, and exits at once, so
that a server that is started next finds no file locked. What was acknowledged is on disk.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress

import msgspec

from penstock.server.workers.messages import Command, Report

log = logging.getLogger("penstock.workers")

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Command).decode


class Control:
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
        log.error("the supervisor is gone: exiting")
        os._exit(1)

    def report(self, report: Report) -> None:
        with suppress(OSError):  # the supervisor is gone, which the thread finds, too
            self._socket.sendall(_encode(report) + b"\n")
