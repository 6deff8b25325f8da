"""How old a signature may be, and how far the client's clock may be ahead of ours.

Times are compared as the text that is signed, ``20260101T123456Z``: later times sort after earlier ones, so nothing
that a client sent has to be converted.
"""

from __future__ import annotations

import re
import time

from penstock.auth.errors import IncompleteSignature, InvalidSignature
from penstock.auth.sigv4.parse import printable

SKEW_S = 300

_STAMP = re.compile(rb"[0-9]{4}[01][0-9][0-3][0-9]T[0-2][0-9][0-5][0-9][0-5][0-9]Z")
_MONTHS = b"Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
_HTTP_DATE = re.compile(rb"[A-Z][a-z]{2}, (\d\d) (%b) (\d{4}) (\d\d):(\d\d):(\d\d) GMT" % b"|".join(_MONTHS))


class ClockSkew:
    """The bounds are computed once a second, not for each request."""

    __slots__ = ("_earliest", "_latest", "accepted", "second")

    def __init__(self) -> None:
        self.second = -1
        self.accepted: bytes | None = None  # the stamp that passed last, within this second
        self._earliest = self._latest = b""

    def check(self, stamp: bytes, now_s: float, lifetime_s: int | None = None) -> None:
        """``lifetime_s`` is how long a presigned URL says it is valid. Raises AuthenticationError."""
        second = int(now_s)
        if second != self.second:
            self.second, self.accepted = second, None
            self._earliest, self._latest = to_stamp(second - SKEW_S), to_stamp(second + SKEW_S)
        elif stamp == self.accepted and lifetime_s is None:
            return
        earliest = self._earliest if lifetime_s is None else to_stamp(second - lifetime_s)
        if not _STAMP.fullmatch(stamp):
            got = f"Got '{printable(stamp)}'. See http://en.wikipedia.org/wiki/ISO_8601"
            raise IncompleteSignature(f"Date must be in ISO-8601 'basic format'. {got}")
        if stamp < earliest:
            past = f"{to_stamp(second).decode()} - {_span(SKEW_S if lifetime_s is None else lifetime_s)}"
            bound = f"{stamp.decode()} is now earlier than {earliest.decode()}"
            raise InvalidSignature(f"Signature expired: {bound} ({past}.)")
        if stamp > self._latest:
            ahead = f"{to_stamp(second).decode()} + {_span(SKEW_S)}"
            bound = f"{stamp.decode()} is still later than {self._latest.decode()}"
            raise InvalidSignature(f"Signature not yet current: {bound} ({ahead}.)")
        if lifetime_s is None:
            self.accepted = stamp


def to_stamp(second: int) -> bytes:
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(second)).encode()


def from_date_header(value: bytes) -> bytes:
    """The stamp for a Date header in the form of HTTP. Any other value is returned: it may be a stamp itself."""
    parts = _HTTP_DATE.fullmatch(value)
    if parts is None:
        return value
    day, month, year, hours, minutes, seconds = parts.groups()
    return b"%b%02d%bT%b%b%bZ" % (year, _MONTHS.index(month) + 1, day, hours, minutes, seconds)


def _span(seconds: int) -> str:
    return f"{seconds} sec" if seconds % 60 else f"{seconds // 60} min"
