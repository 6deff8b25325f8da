"""How many requests a second one caller may make: a steady rate, and a burst on top.

For each caller one number is kept: the time at which what it asked for so far is worked off at the steady rate.
A request is taken if that lies less than a burst ahead (the generic cell rate algorithm, the leaky bucket as a
meter). A caller whose time has passed is as good as unknown, so it need not be remembered; callers that are all
busy at once beyond ``CALLERS_MAX`` share one allowance, so that nobody gains by coming under many names.
"""

from __future__ import annotations

CALLERS_MAX = 100_000
_OTHERS = ""
_LOOK_AGAIN_S = 1.0  # looking at all callers costs milliseconds: not for every newcomer


class Throttle:
    def __init__(self, per_second: float, burst: float, *, callers_max: int = CALLERS_MAX) -> None:
        """``burst`` requests at once are taken from a caller that was at rest; at least one always is."""
        assert per_second > 0, "no rate, no throttle"
        self._interval_s = 1 / per_second
        self._slack_s = (max(burst, 1) - 1) * self._interval_s
        self._callers_max = callers_max
        self._worked_off_s: dict[str, float] = {}
        self._look_again_s = float("-inf")

    def take(self, caller: str, now_s: float) -> bool:
        """Is one more request of this caller within its rate? Only those that are count. Monotonic time."""
        worked_off_s = self._worked_off_s.get(caller)
        if worked_off_s is None and len(self._worked_off_s) >= self._callers_max:
            caller = self._with_room(caller, now_s)
            worked_off_s = self._worked_off_s.get(caller)
        if worked_off_s is None or worked_off_s < now_s:
            worked_off_s = now_s
        if worked_off_s - now_s > self._slack_s:
            return False
        self._worked_off_s[caller] = worked_off_s + self._interval_s
        return True

    def __len__(self) -> int:
        """How many callers are remembered."""
        return len(self._worked_off_s)

    def _with_room(self, caller: str, now_s: float) -> str:
        """Under which name an unknown caller is counted when all places are taken."""
        if now_s >= self._look_again_s:
            self._worked_off_s = {name: at for name, at in self._worked_off_s.items() if at > now_s}
            self._look_again_s = now_s + _LOOK_AGAIN_S
        return caller if len(self._worked_off_s) < self._callers_max else _OTHERS
