"""Work that is done once a second, whatever errors occur: in a thread of its own, or on the event loop."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Protocol

EVERY_S = 1.0
_CLOSE_TIMEOUT_S = 1.0  # work that hangs in a file system does not delay a stop for longer

log = logging.getLogger("penstock")


class Work(Protocol):
    def __call__(self, *, requested: bool) -> object:
        """``requested``: by ``run_now``, not because a second has passed."""


class PeriodicThread:
    def __init__(self, name: str, work: Work) -> None:
        self._name = name
        self._work = work
        self._wake = threading.Event()
        self._requests: list[Future[None]] = []
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def run_now(self) -> Future[None]:
        """Do the work without waiting for the next second. The future is done when the work is, even if it fails."""
        done: Future[None] = Future()
        self._requests.append(done)
        self._wake.set()
        return done

    def close(self) -> None:
        self._closed = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(_CLOSE_TIMEOUT_S)

    def _run(self) -> None:
        while True:
            requested = self._wake.wait(EVERY_S)
            if requested:  # otherwise a request that comes just now would be lost
                self._wake.clear()
            requests, self._requests = self._requests, []
            if not self._closed:
                with logging_errors(self._name):
                    self._work(requested=requested or bool(requests))
            for each in requests:
                each.set_result(None)
            if self._closed:
                return


@contextmanager
def logging_errors(what: str) -> Iterator[None]:
    """Logs unexpected errors, so that the next run is not lost."""
    try:
        yield
    except Exception:
        log.exception("failed to %s; trying again", what)
