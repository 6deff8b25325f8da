"""Waiting for another process."""

from __future__ import annotations

import time
from collections.abc import Callable

_PATIENCE_S = 20.0


def until(holds: Callable[[], bool], what: str) -> None:
    give_up = time.monotonic() + _PATIENCE_S
    while not holds():
        assert time.monotonic() < give_up, f"in vain: {what}"
        time.sleep(0.05)
