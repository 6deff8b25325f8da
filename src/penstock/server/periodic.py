"""Looking after things once a second, whatever goes wrong meanwhile, and whatever the event loop does.

What takes a right away must not wait for the loop: callers decide how long its turns are, and the one who keeps it
busy may be the one whose key was withdrawn. So that is done in a thread of its own.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

EVERY_S = 1.0
_FAREWELL_S = 1.0  # a look that hangs in a file system does not hold up the stop for longer

log = logging.getLogger("penstock")


class Lookout:
    def __init__(self, what: str, look: Callable[[bool], object]) -> None:
        """``look`` is told whether it was asked for, or its time had come."""
        self._what = what
        self._look = look
        self._called = threading.Event()
        self._ended = False
        self._thread = threading.Thread(target=self._run, name=f"looks after {what}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def ask(self) -> None:
        """Look now. Does not wait for it."""
        self._called.set()

    def close(self) -> None:
        self._ended = True
        self._called.set()
        if self._thread.is_alive():
            self._thread.join(_FAREWELL_S)

    def _run(self) -> None:
        while True:
            asked = self._called.wait(EVERY_S)
            if asked:  # else whoever asks just now would be overlooked
                self._called.clear()
            if self._ended:
                return
            with alone(self._what):
                self._look(asked)


@contextmanager
def alone(what: str) -> Iterator[None]:
    """Trouble of a kind that nobody foresaw keeps nothing else from being looked after, nor this the next time."""
    try:
        yield
    except Exception:
        log.exception("looking after %s failed; trying again", what)
