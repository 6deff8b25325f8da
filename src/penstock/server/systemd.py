"""What systemd learns of a service of Type=notify: that it is ready, reloads or stops, and that it is alive.

The protocol of sd_notify: lines of text to a datagram socket, whose path is in the environment. Without it nothing is
sent. The supervisor of several processes speaks for all of them.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import MutableMapping
from contextlib import suppress

_SOCKET, _WATCHDOG, _WATCHDOG_PID = "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"


class ServiceManager:
    def __init__(self, environment: MutableMapping[str, str] = os.environ) -> None:
        """Takes the variables away: they are not for processes that this one starts."""
        path = environment.pop(_SOCKET, "")
        self._address = f"\0{path[1:]}" if path.startswith("@") else path
        interval_us = environment.pop(_WATCHDOG, "")
        for_this_process = environment.pop(_WATCHDOG_PID, str(os.getpid())) == str(os.getpid())
        self._watchdog_s = int(interval_us) / 1e6 / 2 if interval_us.isdigit() and for_this_process else 0.0

    def ready(self, status: str) -> None:
        self._send(f"READY=1\nSTATUS={status}")

    def reloading(self) -> None:
        """Report that the server reloads. ``ready`` has to follow."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        self._send("STOPPING=1\nSTATUS=stopping")

    def watch(self) -> None:
        """Say from now on, twice within the time that systemd allows, that the event loop runs."""
        if self._address and self._watchdog_s:
            self._send("WATCHDOG=1")
            asyncio.get_running_loop().call_later(self._watchdog_s, self.watch)

    def _send(self, message: str) -> None:
        if not self._address:
            return
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as connection:
            connection.setblocking(False)
            connection.sendto(message.encode(), self._address)
