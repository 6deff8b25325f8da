"""Rate limit: how many requests a second one caller may send, steadily and in a burst.

The generic cell rate algorithm (the leaky bucket as a meter): one number per caller, the time at which its requests
so far are used up at the steady rate. A request is accepted if that time is less than a burst ahead. A caller whose
time has passed need not be remembered. If more than ``CALLERS_MAX`` are busy at once, the others share one allowance,
so that using many names gains nothing.

A request that computes for long counts as several: for each ``WORK_S`` of computing as one more, from the time at
which it ends. At 1,000 requests a second, 8 s of computing use up 1.6 s of the allowance. Low rates would make the
caller wait for many minutes: it waits at most ``WAIT_MAX`` times as long as it computed.

Several processes of one machine share the numbers in memory that all of them map: a limit holds for them together.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from hashlib import blake2b

CALLERS_MAX = 100_000
_OTHERS = ""
WORK_S = 0.005
WAIT_MAX = 4
_CLEANUP_S = 1.0  # looking at all callers takes milliseconds


def _cost_s(work_s: float, interval_s: float) -> float:
    """How much of a caller's time is used up by computing for the given time."""
    return work_s * min(interval_s / WORK_S, WAIT_MAX)


class Throttle:
    def __init__(self, per_second: float, burst: float, *, callers_max: int = CALLERS_MAX) -> None:
        """``burst`` requests at once are accepted from an idle caller; at least one always is."""
        assert per_second > 0, "a throttle needs a rate"
        self._interval_s = 1 / per_second
        self._slack_s = (max(burst, 1) - 1) * self._interval_s
        self._callers_max = callers_max
        self._used_up_s: dict[str, float] = {}
        self._next_cleanup_s = float("-inf")

    def accept(self, caller: str, now_s: float) -> bool:
        """Whether one more request of this caller is within its rate. Only accepted ones count. The time is
        monotonic."""
        used_up_s = self._used_up_s.get(caller)
        if used_up_s is None and len(self._used_up_s) >= self._callers_max:
            caller = self._name_if_full(caller, now_s)
            used_up_s = self._used_up_s.get(caller)
        if used_up_s is None or used_up_s < now_s:
            used_up_s = now_s
        if used_up_s - now_s > self._slack_s:
            return False
        self._used_up_s[caller] = used_up_s + self._interval_s
        return True

    def wait_s(self, caller: str, now_s: float) -> float:
        """How long until a request of this caller is accepted."""
        used_up_s = self._used_up_s.get(self._counted_as(caller), now_s)
        return max(0.0, used_up_s - now_s - self._slack_s)

    def give_back(self, caller: str) -> None:
        """An accepted request does not count after all."""
        name = self._counted_as(caller)
        if name in self._used_up_s:
            self._used_up_s[name] -= self._interval_s

    def worked(self, caller: str, seconds: float, now_s: float) -> None:
        """Records how long an accepted request has computed when it ends. It may have been forgotten meanwhile."""
        if caller not in self._used_up_s and len(self._used_up_s) >= self._callers_max:
            caller = self._name_if_full(caller, now_s)
        used_up_s = max(self._used_up_s.get(caller, now_s), now_s)
        self._used_up_s[caller] = used_up_s + _cost_s(seconds, self._interval_s)

    def _counted_as(self, caller: str) -> str:
        return caller if caller in self._used_up_s else _OTHERS

    def __len__(self) -> int:
        """How many callers are remembered."""
        return len(self._used_up_s)

    def _name_if_full(self, caller: str, now_s: float) -> str:
        if now_s >= self._next_cleanup_s:
            self._used_up_s = {name: at for name, at in self._used_up_s.items() if at > now_s}
            self._next_cleanup_s = now_s + _CLEANUP_S
        return caller if len(self._used_up_s) < self._callers_max else _OTHERS


_SHARED_CALLERS = 1 << 20
SHARED_BYTES = _SHARED_CALLERS * 8


class SharedThrottle:
    """One allowance per caller for all processes. Callers whose names have the same hash, one in a million, share it.

    Two processes that accept a request of the same caller within the same microsecond may count it once."""

    def __init__(self, per_second: float, burst: float, descriptor: int, key: bytes) -> None:
        """``descriptor``: of ``SHARED_BYTES`` of memory, empty at first. ``key``: secret, so that a caller cannot
        choose to share the allowance of another."""
        assert per_second > 0, "a throttle needs a rate"
        self._interval_s = 1 / per_second
        self._slack_s = (max(burst, 1) - 1) * self._interval_s
        self._key = key
        # Monotonic times are the same in all processes of a machine.
        self._used_up_s = memoryview(mmap.mmap(descriptor, SHARED_BYTES)).cast("d")

    def accept(self, caller: str, now_s: float) -> bool:
        slot = self._slot(caller)
        used_up_s = max(self._used_up_s[slot], now_s)
        if used_up_s - now_s > self._slack_s:
            return False
        self._used_up_s[slot] = used_up_s + self._interval_s
        return True

    def wait_s(self, caller: str, now_s: float) -> float:
        return max(0.0, self._used_up_s[self._slot(caller)] - now_s - self._slack_s)

    def give_back(self, caller: str) -> None:
        self._used_up_s[self._slot(caller)] -= self._interval_s

    def worked(self, caller: str, seconds: float, now_s: float) -> None:
        slot = self._slot(caller)
        self._used_up_s[slot] = max(self._used_up_s[slot], now_s) + _cost_s(seconds, self._interval_s)

    def _slot(self, caller: str) -> int:
        digest = blake2b(caller.encode("utf-8", "surrogatepass"), digest_size=8, key=self._key).digest()
        return int.from_bytes(digest, "big") % _SHARED_CALLERS


MakeThrottle = Callable[[float, float], Throttle | SharedThrottle]
"""(requests per second, burst)"""
