"""What happened to the alarms of a shard within two weeks. Bounded per alarm and in bytes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from penstock.broker.shard import Shard
from penstock.limits import DAY
from penstock.monitoring.alarm_records import HISTORY, HistoryItem, alarms_home
from penstock.names import Space

_KEPT_MS = 14 * DAY
ITEMS_PER_ALARM = 500
BYTES_MAX = 8 * 1024 * 1024  # of one shard


class AlarmHistory:
    def __init__(self, shard: Shard, bytes_max: int = BYTES_MAX) -> None:
        self._shard = shard
        self._bytes_max = bytes_max
        self._records = shard.table(HISTORY, self._undone)
        self._bytes = 0
        self._by_alarm: dict[tuple[Space, str], deque[str]] = {}  # keys, oldest first
        self._index()

    def _index(self) -> None:
        self._by_alarm.clear()
        items = sorted(self._records, key=lambda each: (each[1].at_ms, each[0]))
        for key, item in items:
            self._by_alarm.setdefault((item.space, item.alarm), deque()).append(key)
        self._bytes = sum(item.cost for _, item in items)

    def _undone(self, key: str, item: HistoryItem | None) -> None:
        self._index()

    def add(self, item: HistoryItem) -> None:
        """Part of the open commit."""
        # Numbers of a shard only grow, so that items of the same time stay in order.
        key = alarms_home(item.space).key(f"{item.at_ms:013d}-{self._shard.next_number():020d}")
        self._records.put(key, item)
        keys = self._by_alarm.setdefault((item.space, item.alarm), deque())
        keys.append(key)
        self._bytes += item.cost
        if len(keys) > ITEMS_PER_ALARM:
            self._remove(keys[0], item.space, item.alarm)
        if self._bytes > self._bytes_max:
            self._forget_oldest()

    def of(self, space: Space, alarm: str | None = None) -> Iterator[tuple[str, HistoryItem]]:
        """Of one alarm or of all of a space, each with its key; keys are in order of time."""
        names = (
            [(space, alarm)] if alarm is not None else [each for each in self._by_alarm if each[0] == space]
        )
        for name in names:
            for key in self._by_alarm.get(name, ()):
                item = self._records.get(key)
                if item is not None:
                    yield key, item

    def forget_old(self, wall_ms: int) -> None:
        """Part of the open commit, if there are any."""
        for (space, alarm), keys in list(self._by_alarm.items()):
            while (
                keys and (item := self._records.get(keys[0])) is not None and item.at_ms <= wall_ms - _KEPT_MS
            ):
                self._remove(keys[0], space, alarm)

    def _forget_oldest(self) -> None:
        """A tenth at once: looking for the oldest takes a while."""
        for key, item in sorted(self._records, key=lambda each: (each[1].at_ms, each[0])):
            if self._bytes <= self._bytes_max * 9 // 10:
                return
            self._remove(key, item.space, item.alarm)

    def _remove(self, key: str, space: Space, alarm: str) -> None:
        item = self._records.get(key)
        assert item is not None
        self._bytes -= item.cost
        self._records.remove(key)
        keys = self._by_alarm[space, alarm]
        keys.remove(key)
        if not keys:
            del self._by_alarm[space, alarm]
