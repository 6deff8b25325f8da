"""How long to wait before something is tried again: longer each time, up to a bound."""

from __future__ import annotations

_EXPONENT_MAX = 64  # a float overflows, and attempts are not bounded


def backoff(
    attempt: int,
    first: float,
    longest: float,
    *,
    factor: float = 2.0,
    jitter: float = 0.0,
    chance: float = 0.0,
) -> float:
    """The pause after a failed attempt, in the unit of ``first`` and ``longest``. The first attempt is 1.

    ``jitter``: the part of the pause that is random, so that what failed together is not tried again together.
    ``chance``: drawn by the caller, from 0 to 1. At 0 the pause is whole.
    """
    pause = min(longest, first * factor ** min(attempt - 1, _EXPONENT_MAX))
    return pause - pause * jitter * chance
