"""Times as the admin API shows them."""

from __future__ import annotations

import pytest

from penstock.services.admin.shown import enqueued_time


class Clocks:
    def __init__(self, now_ms: int, wall_ms: int) -> None:
        self._now_ms, self._wall_ms = now_ms, wall_ms

    def now_ms(self) -> int:
        return self._now_ms

    def wall_ms(self) -> int:
        return self._wall_ms


@pytest.mark.parametrize(
    "enqueued_ms, sent_ms, shown",
    [
        (4563, 4564, "04.564"),  # the clock that decides was read before the one that is shown
        (4564, 4564, "04.564"),
        (9000, 4564, "09.000"),  # a message that came from another queue
        (4564, 9000, "04.564"),  # the wall clock was set
    ],
)
def test_no_message_is_enqueued_a_moment_before_it_was_sent(
    enqueued_ms: int, sent_ms: int, shown: str
) -> None:
    assert enqueued_time(enqueued_ms, sent_ms, Clocks(10_000, 10_001)) == f"1970-01-01T00:00:{shown}Z"
