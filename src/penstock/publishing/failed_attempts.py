"""The last failed attempts to reach endpoints, of as many subscriptions as are remembered."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection

import msgspec

_REMEMBERED_MAX = 1000  # subscriptions of a shard
_REASON_MAX = 300


class FailedAttempt(msgspec.Struct, frozen=True):
    """An attempt to deliver a message that failed."""

    at_ms: int  # by the wall clock
    reason: str
    number: int  # of the attempt, from 1
    since_ms: int  # when the first of the attempts failed between which none succeeded, by the wall clock


class FailedAttempts:
    """Subscriptions whose last attempt failed. One that succeeds is forgotten."""

    def __init__(self) -> None:
        self._last: OrderedDict[str, FailedAttempt] = OrderedDict()

    @property
    def subscriptions(self) -> Collection[str]:
        """Their ARNs."""
        return self._last.keys()

    def of(self, subscription_arn: str) -> FailedAttempt | None:
        """Returns None if the last attempt did not fail, or is forgotten."""
        return self._last.get(subscription_arn)

    def failed(self, subscription_arn: str, reason: str, number: int, now_ms: int) -> None:
        before = self._last.pop(subscription_arn, None)
        since_ms = now_ms if before is None else before.since_ms
        self._last[subscription_arn] = FailedAttempt(now_ms, reason[:_REASON_MAX], number, since_ms)
        if len(self._last) > _REMEMBERED_MAX:
            self._last.popitem(last=False)

    def succeeded(self, subscription_arn: str) -> None:
        self._last.pop(subscription_arn, None)
