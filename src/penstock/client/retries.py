"""When a request is repeated, and after how long.

The rules are those of the standard mode of the AWS SDKs: three attempts, a random wait below an exponential bound,
and a quota, so that an overloaded server is not asked three times as often by everyone.
"""

from __future__ import annotations

from random import random
from typing import NamedTuple

from penstock.backoff import backoff
from penstock.client.errors import ApiError
from penstock.client.http.exchange import ExchangeFailed

_TRANSIENT = frozenset({500, 502, 503, 504})
_QUOTA = 500
_RETRY_COST = 5
_TIMEOUT_COST = 10
_SUCCESS_GAIN = 1


class Retries(NamedTuple):
    """The rules for repeating the requests of a client.

    The outcome of a request is unknown if it was sent and its answer was lost, or was a server error that does not
    say that nothing was done. Repeating such a SendMessage may send the message twice.

        Client(retries=Retries(attempts_max=5, repeats_unknown=False))

    :param attempts_max: How often a request is tried; 3 by default.
    :param backoff_s_max: The longest pause between attempts; 20 seconds by default.
    :param repeats_unknown: Whether a request of unknown outcome is repeated, as the AWS SDKs do; True by default.
        With False, only if doing it twice is the same as once, such as DeleteMessage, a read, or a send with a
        deduplication id.
    :param repeats_connecting: Whether connecting is tried again; True by default. With False, a server that cannot be
        reached is reported at once.
    """

    attempts_max: int = 3
    backoff_s_max: float = 20.0
    repeats_unknown: bool = True
    repeats_connecting: bool = True


class Setback(NamedTuple):
    """Why an attempt failed, as far as it matters for the next one."""

    is_transient: bool
    is_undone: bool  # nothing was changed by it
    is_unsent: bool = False  # there was no connection
    is_timeout: bool = False
    retry_after_s: float = 0
    is_stale: bool = False  # the connection was; a new one is tried at once


def of_failure(failure: ExchangeFailed) -> Setback:
    is_unsent = failure.is_unsent
    return Setback(not failure.is_final, is_unsent, is_unsent, failure.is_timeout, is_stale=failure.is_stale)


def of_refusal(error: ApiError, retry_after: str) -> Setback:
    """Penstock: a 503 with Retry-After says that nothing was done. SQS throttles before it does anything."""
    after_s = float(retry_after) if retry_after.isdecimal() else 0.0
    is_undone = error.is_throttled or (error.status == 503 and bool(retry_after))
    return Setback(error.is_throttled or error.status in _TRANSIENT, is_undone, retry_after_s=after_s)


class RetryQuota:
    """The quota that all requests of a client share."""

    def __init__(self, settings: Retries) -> None:
        self._settings = settings
        self._tokens = _QUOTA

    def succeeded(self) -> None:
        if self._tokens < _QUOTA:
            self._tokens += _SUCCESS_GAIN

    def wait_s(self, setback: Setback, attempt: int, *, is_idempotent: bool) -> float | None:
        """How long to wait before the next attempt; None if there is to be no other."""
        settings = self._settings
        may_repeat = is_idempotent or settings.repeats_unknown or setback.is_undone
        if setback.is_unsent and not settings.repeats_connecting:
            return None
        if attempt >= settings.attempts_max or not setback.is_transient or not may_repeat:
            return None
        cost = _TIMEOUT_COST if setback.is_timeout else _RETRY_COST
        if self._tokens < cost:
            return None
        self._tokens -= cost
        if setback.is_stale:
            return 0
        backoff_s = backoff(attempt, 1.0, settings.backoff_s_max, jitter=1.0, chance=random())
        return max(backoff_s, min(setback.retry_after_s, settings.backoff_s_max))
