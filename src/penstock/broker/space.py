"""When the disk is full: no new messages, but what is there can still be received and deleted.

A reserve is set aside while there is space. On a full disk it is given up, which leaves room to write receives and
deletes; sends are refused at once until the reserve could be set aside again.
"""

from __future__ import annotations

import logging

from penstock.broker.runtime import Runtime
from penstock.clock import Clock
from penstock.errors import StoreError, StoreFull
from penstock.limits import SECOND
from penstock.promise import Promise
from penstock.store.port import Store

log = logging.getLogger("penstock.broker")
_LOOK_AGAIN_MS = SECOND
_PAGES_PER_BITE = 256
_BITES_PER_LOOK = 16


class DiskSpace:
    def __init__(self, store: Store, runtime: Runtime, clock: Clock) -> None:
        self._store = store
        self._runtime = runtime
        self._clock = clock
        self.is_full = False

    def check(self) -> None:
        if self.is_full:
            raise StoreFull("no space left where the data lives")

    def full(self) -> None:
        if self.is_full:
            return
        self.is_full = True
        log.error("no space left where the data lives: sends are refused until there is some")
        self._runtime.write(self._store.release_reserve)
        self._wait()

    def start(self) -> None:
        """A start on a disk with no space for the reserve is a start on a full disk."""
        self._runtime.write(self._store.restore_reserve).on_done(self._started)

    def _started(self, outcome: Promise[bool]) -> None:
        if not outcome.result():
            self.full()

    def _wait(self) -> None:
        self._runtime.at(self._clock.now_ms() + _LOOK_AGAIN_MS, self._look)

    def _look(self) -> None:
        self._runtime.write(self._make_room).on_done(self._looked)

    def _make_room(self) -> bool:
        # What was deleted meanwhile left free pages inside the file: give some back to the disk first. In small
        # bites, because each needs a little space itself.
        try:
            for _ in range(_BITES_PER_LOOK):
                if not self._store.tidy(_PAGES_PER_BITE):
                    break
        except StoreError as error:
            log.warning("could not give space back yet: %s", error)
        return self._store.restore_reserve()

    def _looked(self, outcome: Promise[bool]) -> None:
        try:
            self.is_full = not outcome.result()
        except Exception as error:
            log.warning("could not look for free space: %s", error)
        if self.is_full:
            self._wait()
        else:
            log.warning("there is space again: sends are taken")
