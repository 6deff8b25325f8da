"""ARNs in order, by whose they are: lists of an account are read from them without a look at those of others."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Hashable
from typing import Generic, TypeVar

W = TypeVar("W", bound=Hashable)


class ArnLists(Generic[W]):
    """It does not matter how often an ARN is noted."""

    def __init__(self) -> None:
        self._whose: dict[str, W] = {}
        self._lists: dict[W, list[str]] = {}

    def note(self, arn: str, whose: W | None) -> None:
        """An ARN belongs here from now on; None: it is gone."""
        before = self._whose.get(arn)
        if before == whose:
            return
        if before is not None:
            del self._whose[arn]
            listed = self._lists[before]
            del listed[bisect_left(listed, arn)]
            if not listed:
                del self._lists[before]
        if whose is not None:
            self._whose[arn] = whose
            insort(self._lists.setdefault(whose, []), arn)

    def beyond(self, whose: W, after: str, most: int) -> list[str]:
        """The first ARNs beyond one, in order."""
        listed = self._lists.get(whose, [])
        begin = bisect_right(listed, after) if after else 0
        return listed[begin : begin + most]

    def count(self, whose: W) -> int:
        return len(self._lists.get(whose, ()))
