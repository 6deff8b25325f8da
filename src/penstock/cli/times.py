"""Times of the admin API as people read them: local and relative in a terminal, RFC 3339 elsewhere."""

from __future__ import annotations

from datetime import UTC, datetime

from penstock.cli.arguments import short_age
from penstock.cli.output import Output
from penstock.clock import real_utc


def age_s(time: str) -> float:
    """Returns the age of a time in RFC 3339; it is not negative if the server's clock is ahead."""
    return max(0.0, (real_utc() - datetime.fromisoformat(time)).total_seconds())


def rfc3339(seconds: float) -> str:
    """Formats a time in seconds since 1970 as the admin API does."""
    text = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def shown_age(time: str) -> str:
    return short_age(age_s(time)) or "0s"


def shown_time(time: str, out: Output) -> str:
    """Shows a time in a terminal as "14:03:07 (3m ago)", with the date if it is another day's."""
    if not out.is_terminal:
        return time
    local = datetime.fromisoformat(time).astimezone()
    now = real_utc()
    form = "%H:%M:%S" if local.date() == now.astimezone().date() else "%Y-%m-%d %H:%M:%S"
    seconds = (now - local).total_seconds()
    relative = f"{shown_age(time)} ago" if seconds >= 0 else f"in {short_age(-seconds)}"
    return f"{local.strftime(form)} ({relative})"
