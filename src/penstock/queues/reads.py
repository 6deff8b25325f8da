"""What a queue wants to have read from the store. The rules only name it; the broker reads and hands back."""

from __future__ import annotations

from typing import NamedTuple


class ReadGroups(NamedTuple):
    """Which groups wait beyond a position, and how many messages of each."""

    after: int
    due_ms_max: int
    rows_max: int


class LaneRead(NamedTuple):
    group: str | None
    after: int
    rows_max: int


class ReadWaiting(NamedTuple):
    """The next messages of some lanes."""

    lanes: list[LaneRead]
    due_ms_max: int


class ReadDelayed(NamedTuple):
    """The delayed messages that come due next."""

    due_ms_min: int
    rows_max: int


class ReadExpired(NamedTuple):
    """Messages past their retention that are not in memory, and when the oldest of the rest was enqueued."""

    after: int
    enqueued_ms_max: int
    rows_max: int


Read = ReadGroups | ReadWaiting | ReadDelayed | ReadExpired
