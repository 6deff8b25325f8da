"""Values as the admin API shows them: times, and the tokens that name the next page."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec

from penstock.clock import Clock, wall_offset
from penstock.limits import SECOND
from penstock.services.admin.faults import invalid

T = TypeVar("T")


def wall_time(wall_ms: int) -> str:
    """2026-11-16T18:00:00.123Z"""
    at = datetime.fromtimestamp(wall_ms // SECOND, UTC).replace(microsecond=wall_ms % SECOND * 1000)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def decided_time(now_ms: int, clock: Clock) -> str:
    """A time by the clock that decides, which differs from the wall clock where that was set."""
    return wall_time(now_ms + wall_offset(clock))


def enqueued_time(enqueued_ms: int, sent_ms: int, clock: Clock) -> str:
    """When a message came into its queue. The two clocks are read one after the other and differ by milliseconds: a
    message is not shown as enqueued before it was sent."""
    shown_ms = enqueued_ms + wall_offset(clock)
    return wall_time(sent_ms if shown_ms < sent_ms < shown_ms + SECOND else shown_ms)


def seconds(ms: int) -> float:
    return ms / SECOND


def limit_of(limit: int | None, default: int, most: int) -> int:
    """The size of a page. Raises Fault."""
    if limit is not None and not 1 <= limit <= most:
        raise invalid("limit", f"an integer from 1 to {most}")
    return default if limit is None else limit


def choice_of(value: str | None, parameter: str, choices: tuple[str, ...]) -> str:
    """One of the choices, the first by default. Raises Fault."""
    if value is None:
        return choices[0]
    if value not in choices:
        raise invalid(parameter, f"one of {', '.join(choices)}")
    return value


def page_token(end: Any) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(end)).decode()


def read_page_token(text: str, kind: type[T]) -> T:
    """Raises Fault."""
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(text.encode()), type=kind)
    except (ValueError, RecursionError):
        raise invalid("after", "the value of next in an answer to the same request") from None
