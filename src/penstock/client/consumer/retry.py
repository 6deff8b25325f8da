"""What follows a failure: another attempt after a pause, or the dead-letter queue.

A pause is a visibility timeout: the queue keeps the message hidden and delivers it again, to any worker.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from penstock.backoff import backoff
from penstock.client.codec import DecodeError

VISIBILITY_S_MAX: Final = 43_200  # SQS: a message is hidden for at most twelve hours from its receive on


class Retry(Exception):
    """Raised by a handler to have the message delivered again later.

    It is an attempt like any other: the receive count grows, and ``attempts_max`` counts.

        raise Retry("the printer is busy", after=30)
    """

    def __init__(self, reason: str = "", *, after: float | None = None) -> None:
        """Say why and when.

        :param reason: The reason, for logs and reports. Empty by default: then nothing is reported.
        :param after: Seconds until the next attempt, up to 43,200; None (the default): as the policy says.
        :raises ValueError: ``after`` is out of range.
        """
        super().__init__(reason or "the handler asked for another attempt")
        if after is not None and not 0 <= after <= VISIBILITY_S_MAX:
            raise ValueError(
                f"invalid value {after} for after: expected seconds from 0 to {VISIBILITY_S_MAX}"
            )
        self.after = after
        self.is_silent = not reason  # there is nothing to report


class GiveUp(Exception):
    """Raised by a handler if further attempts are useless. The message goes to the dead-letter queue at once.

    For example:

        raise GiveUp("there is no such customer")
    """

    def __init__(self, reason: str = "") -> None:
        """Say why.

        :param reason: The reason, for logs and reports. Empty by default.
        """
        super().__init__(reason or "the handler gave up")


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


class _GiveUpAtOnce:
    def __repr__(self) -> str:
        return "GIVE_UP"


GIVE_UP: Final = _GiveUpAtOnce()
"""A value for ``by_type`` of a policy: further attempts are useless."""


@dataclass(frozen=True)
class RetryPolicy:
    """What follows a failure of a handler.

        RetryPolicy(by_type={ValueError: GIVE_UP, TimeoutError: Constant(30)}, attempts_max=8)

    :param backoff: The pause after each attempt; :class:`Exponential` with its defaults by default.
    :param by_type: Another pause, or ``GIVE_UP``, for some exceptions; the nearest base class counts. Empty by
        default. A :class:`DecodeError` is given up unless it is named here.
    :param attempts_max: How many attempts there are before the message is given up; None (the default): only the
        ``maxReceiveCount`` of the queue decides.
    :raises ValueError: ``attempts_max`` is less than 1.
    """

    backoff: Backoff = field(default_factory=Exponential)
    by_type: Mapping[type[BaseException], Backoff | _GiveUpAtOnce] = field(default_factory=dict)
    attempts_max: int | None = None

    def __post_init__(self) -> None:
        if self.attempts_max is not None and self.attempts_max < 1:
            raise ValueError(
                f"invalid value {self.attempts_max} for attempts_max: expected 1 or more, or None"
            )

    def pause_s(self, error: BaseException, attempt: int, chance: float) -> float | None:
        """Say how long to wait after a failure.

        :param error: The error of the handler.
        :param attempt: The number of the attempt, 1 for the first.
        :param chance: A random number from 0 to 1, for the jitter.
        :returns: Seconds until the next attempt, or None to give up.
        """
        if isinstance(error, GiveUp) or (self.attempts_max is not None and attempt >= self.attempts_max):
            return None
        if isinstance(error, Retry) and error.after is not None:
            return error.after
        pauses = self._backoff_for(error)
        return None if isinstance(pauses, _GiveUpAtOnce) else spread(pauses, attempt, chance)

    def _backoff_for(self, error: BaseException) -> Backoff | _GiveUpAtOnce:
        for kind in type(error).__mro__:
            if kind in self.by_type:
                return self.by_type[kind]
            if kind is DecodeError:
                return GIVE_UP  # the same body cannot be read at the next attempt either
        return self.backoff


def spread(pauses: Backoff, attempt: int, chance: float) -> float:
    """The pause of a backoff, with its jitter. What a function of the user returns is bounded."""
    seconds = pauses(attempt)
    seconds -= seconds * getattr(pauses, "jitter", 0.0) * chance
    return min(max(0.0, seconds), VISIBILITY_S_MAX) if math.isfinite(seconds) else VISIBILITY_S_MAX


def visibility_s(pause_s: float, held_s: float) -> int:
    """The visibility timeout for a pause, of a message that was received ``held_s`` ago.

    SQS: whole seconds, and twelve hours in all."""
    return max(0, min(math.ceil(pause_s), VISIBILITY_S_MAX - math.ceil(held_s) - 1))
