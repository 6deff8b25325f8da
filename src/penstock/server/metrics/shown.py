"""Which queues and topics have time series of their own: so many, and which ones.

One that is shown stays: if others took its place, counters would seem to restart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

from penstock.names import QueueName
from penstock.topics.names import TopicName

N = TypeVar("N", QueueName, TopicName)

OTHERS = "*"
"""The name of all others, which no queue and no topic can have."""


class ShownNames(Generic[N]):
    def __init__(self, names_max: int) -> None:
        self._names_max = names_max
        self._shown: set[N] = set()

    def choose(self, found: Mapping[N, bool]) -> set[N]:
        """Chooses those to show: first those that were shown before, then those in use, which are true."""
        self._shown &= found.keys()
        room = self._names_max - len(self._shown)
        if room > 0:
            others = sorted(found.keys() - self._shown, key=lambda name: (not found[name], name))
            self._shown.update(others[:room])
        return self._shown
