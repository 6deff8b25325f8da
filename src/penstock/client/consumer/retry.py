"""What follows a failure: another attempt after a pause, or the dead-letter queue.

A pause is a visibility timeout: the queue keeps the message hidden and delivers it again, to any worker.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from penstock.client.backoffs import Backoff as Backoff
from penstock.client.backoffs import Constant as Constant
from penstock.client.backoffs import Exponential as Exponential
from penstock.client.backoffs import spread
from penstock.client.codec import DecodeError
from penstock.client.limits import VISIBILITY_S_MAX


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


class _GiveUpAtOnce:
    def __repr__(self) -> str:
        return "GIVE_UP"


GIVE_UP: Final = _GiveUpAtOnce()
"""A value for ``by_type`` of a policy: further attempts are useless."""


@dataclass(frozen=True)
class RetryPolicy:
    """The rules for retrying a failed handler.

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


def visibility_s(pause_s: float, held_s: float) -> int:
    """The visibility timeout for a pause, of a message that was received ``held_s`` ago.

    SQS: whole seconds, and twelve hours in all."""
    return max(0, min(math.ceil(pause_s), VISIBILITY_S_MAX - math.ceil(held_s) - 1))
