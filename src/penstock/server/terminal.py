"""The terminal that a server was started from: closing it ends the server.

SIGHUP has two meanings: the terminal was closed, or reload. It is the first if the process had a terminal at
its start and has lost it. One that was started with nohup ignores the end of its terminal, as nohup promises.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable


class Terminal:
    def __init__(self) -> None:
        """This must be constructed before the handler of SIGHUP is changed."""
        self.ends_server = signal.getsignal(signal.SIGHUP) != signal.SIG_IGN and _has_terminal()

    def on_hangup_signal(self, closed: Callable[[], object], reload: Callable[[], object]) -> None:
        """Call one of them at every SIGHUP, on the event loop."""

        def on_signal() -> None:
            if self.ends_server and not _has_terminal():
                closed()
            else:
                reload()

        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, on_signal)


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True
