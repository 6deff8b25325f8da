"""When a delivery that failed is tried again: phases of pauses, as delivery policies and fixed schedules have them.

After a failed attempt come retries without a pause, then some with the shortest pause, then some whose pauses grow,
then some with the longest pause. Attempts are counted from 1.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from penstock.limits import SECOND

# How far between the shortest and the longest pause the pause of a retry is, from 0 to 1. (number, count): which
# retry of the phase it is, from 0 to count - 1, and how many there are, at least two.
_SHARES: dict[str, Callable[[int, int], float]] = {
    # The pause grows by the same amount each time.
    "linear": lambda number, count: number / (count - 1),
    # What it grows by grows by the same amount each time.
    "arithmetic": lambda number, count: number * (number + 1) / ((count - 1) * count),
    # What it grows by doubles each time.
    "exponential": lambda number, count: (2**number - 1) / (2 ** (count - 1) - 1),
}
GEOMETRIC = "geometric"  # each pause is the same multiple of the one before
FUNCTIONS = (*_SHARES, GEOMETRIC)


class Retries(msgspec.Struct, frozen=True, kw_only=True):
    immediate: int = 0  # retries without a pause
    first: int = 0  # with the shortest pause
    growing: int = 0  # with pauses from the shortest to the longest one
    last: int = 0  # with the longest pause
    shortest_ms: int
    longest_ms: int
    function: str = "linear"  # one of FUNCTIONS

    @property
    def count(self) -> int:
        return self.immediate + self.first + self.growing + self.last

    @property
    def total_ms(self) -> int:
        """How long all pauses together are."""
        at_ends = self.first * self.shortest_ms + self.last * self.longest_ms
        return at_ends + sum(self._growing_ms(number) for number in range(self.growing))

    def _growing_ms(self, number: int) -> int:
        if self.growing == 1:
            return self.shortest_ms
        if self.function == GEOMETRIC:
            ratio: float = (self.longest_ms / self.shortest_ms) ** (number / (self.growing - 1))
            return round(self.shortest_ms * ratio)
        share = _SHARES[self.function](number, self.growing)
        return round(self.shortest_ms + share * (self.longest_ms - self.shortest_ms))


def pause_ms(retries: Retries, attempt: int) -> int | None:
    """Returns the pause after a failed attempt; None if there is no retry any more."""
    number = attempt - 1
    if number < retries.immediate:
        return 0
    number -= retries.immediate
    if number < retries.first:
        return retries.shortest_ms
    number -= retries.first
    if number < retries.growing:
        return retries._growing_ms(number)
    return retries.longest_ms if number < retries.growing + retries.last else None


# SNS: what delivers to a queue or a function is tried 100,015 times over 23 days.
QUEUE_RETRIES = Retries(
    immediate=3, first=2, growing=10, last=100_000,
    shortest_ms=1 * SECOND, longest_ms=20 * SECOND, function="exponential",
)  # fmt: skip

# SNS: email, text messages and push notifications are tried 50 times over six hours.
MAIL_RETRIES = Retries(
    first=2, growing=10, last=38,
    shortest_ms=10 * SECOND, longest_ms=600 * SECOND, function="exponential",
)  # fmt: skip
