"""How long to wait after a failed attempt: of a handler, and of requests of producers and receivers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from penstock.backoff import backoff
from penstock.client.limits import VISIBILITY_S_MAX

Backoff = Callable[[int], float]
"""Seconds to wait after this attempt; the first is 1. A function of your own is one, too."""


@dataclass(frozen=True)
class Constant:
    """A backoff with the same pause after every attempt.

        app = Worker(retry=RetryPolicy(backoff=Constant(30)))

    :param seconds: The pause.
    """

    seconds: float

    def __call__(self, attempt: int) -> float:
        """Return the pause after an attempt.

        :param attempt: The number of the attempt, 1 for the first.
        :returns: Seconds.
        """
        return self.seconds


@dataclass(frozen=True)
class Exponential:
    """A backoff in which each pause is longer than the one before.

        RetryPolicy(backoff=Exponential(first_s=5, longest_s=600))

    :param first_s: The pause after the first attempt; 1 second by default.
    :param factor: How many times longer each pause is than the one before; 2 by default.
    :param longest_s: The longest pause; 900 seconds by default.
    :param jitter: The part of a pause that is random, from 0 to 1; 0.5 by default. So messages that failed together
        do not come back together.
    :raises ValueError: A value is out of range.
    """

    first_s: float = 1.0
    factor: float = 2.0
    longest_s: float = 900.0
    jitter: float = 0.5

    def __post_init__(self) -> None:
        if self.first_s < 0 or self.factor < 1 or self.longest_s < self.first_s or not 0 <= self.jitter <= 1:
            raise ValueError(
                f"invalid {self}: expected 0 <= first_s <= longest_s, factor >= 1, jitter from 0 to 1"
            )

    def __call__(self, attempt: int) -> float:
        """Return the pause after an attempt, before its jitter.

        :param attempt: The number of the attempt, 1 for the first.
        :returns: Seconds.
        """
        return backoff(attempt, self.first_s, self.longest_s, factor=self.factor)


def spread(pauses: Backoff, attempt: int, chance: float) -> float:
    """The pause of a backoff, with its jitter. What a function of the user returns is bounded."""
    seconds = pauses(attempt)
    seconds -= seconds * getattr(pauses, "jitter", 0.0) * chance
    return min(max(0.0, seconds), VISIBILITY_S_MAX) if math.isfinite(seconds) else VISIBILITY_S_MAX
