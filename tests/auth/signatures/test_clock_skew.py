"""What is remembered of one date must not let another pass."""

from __future__ import annotations

import pytest

from penstock.auth.errors import AuthenticationError
from penstock.auth.sigv4.clock_skew import ClockSkew, to_stamp
from support.rows import every_row

NOW_S = 1_750_000_000


@every_row("stamp", [b"", b"bad", to_stamp(NOW_S - 301), to_stamp(NOW_S + 301)])
@every_row("before", [b"bad", to_stamp(NOW_S)])
def test_an_invalid_or_old_date_is_refused_each_time(before: bytes, stamp: bytes) -> None:
    clock_skew = ClockSkew()
    try:
        clock_skew.check(before, NOW_S)
    except AuthenticationError:
        assert before == b"bad"
    for _ in range(2):
        with pytest.raises(AuthenticationError):
            clock_skew.check(stamp, NOW_S + 0.5)


def test_an_accepted_date_expires() -> None:
    clock_skew, stamp = ClockSkew(), to_stamp(NOW_S)
    clock_skew.check(stamp, NOW_S)
    clock_skew.check(stamp, NOW_S + 300)
    with pytest.raises(AuthenticationError):
        clock_skew.check(stamp, NOW_S + 301)
