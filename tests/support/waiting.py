"""Waiting for another process."""

from __future__ import annotations

import time
from collections.abc import Callable

_PATIENCE_S = 20.0


def until(holds: Callable[[], bool], what: str, within_s: float = _PATIENCE_S) -> None:
    give_up = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < give_up, f"in vain: {what}"
        time.sleep(0.05)
