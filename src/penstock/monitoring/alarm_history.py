"""What happened to the alarms of a shard within two weeks. The history is bounded per alarm and in bytes: when the
space is used up, the oldest items of the account that holds most are forgotten."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator

from penstock.broker.shard import Shard
from penstock.limits import DAY
from penstock.monitoring.alarm_records import HISTORY, HistoryItem, alarms_home
from penstock.names import Space

_KEPT_MS = 14 * DAY
ITEMS_PER_ALARM = 500
BYTES_MAX = 8 * 1024 * 1024  # of one shard


class _AccountItems:
    def __init__(self) -> None:
        self.costs: OrderedDict[str, int] = OrderedDict()  # by key, oldest first
        self.bytes = 0


class AlarmHistory:
    def __init__(self, shard: Shard, bytes_max: int = BYTES_MAX) -> None:
        self._shard = shard
        self._bytes_max = bytes_max
        self._records = shard.table(HISTORY, self._undone)
        self._bytes = 0
        self._by_alarm: dict[tuple[Space, str], deque[str]] = {}  # keys, oldest first
        self._by_account: dict[str, _AccountItems] = {}
        self._is_indexed = False

    def _index(self) -> None:
        if self._is_indexed:
            return
        self._is_indexed = True
        self._by_alarm.clear()
        self._by_account.clear()
        self._bytes = 0
        for key, item in sorted(self._records, key=lambda each: (each[1].at_ms, each[0])):
            self._enter(key, item)

    def _undone(self, key: str, item: HistoryItem | None) -> None:
        self._is_indexed = False

    def _enter(self, key: str, item: HistoryItem) -> None:
        self._by_alarm.setdefault((item.space, item.alarm), deque()).append(key)
        account = self._by_account.setdefault(item.space.account, _AccountItems())
        account.costs[key] = cost = item.cost
        account.bytes += cost
        self._bytes += cost

    def add(self, item: HistoryItem) -> None:
        """Add an item, with the open commit."""
        self._index()
        # Numbers of a shard only grow, so that items of the same time stay in order.
        key = alarms_home(item.space).key(f"{item.at_ms:013d}-{self._shard.next_number():020d}")
        self._records.put(key, item)
        self._enter(key, item)
        keys = self._by_alarm[item.space, item.alarm]
        if len(keys) > ITEMS_PER_ALARM:
            self._remove(keys[0])
        while self._bytes > self._bytes_max:
            self._make_room()

    def of(self, space: Space, alarm: str | None = None) -> Iterator[tuple[str, HistoryItem]]:
        """Yields the items of one alarm or of all of a space with their keys, which are in order of time. Those of
        more than two weeks ago are left out: a shard without alarms does not remove them."""
        self._index()
        since_ms = self._shard.clock.wall_ms() - _KEPT_MS
        names = (
            [(space, alarm)] if alarm is not None else [each for each in self._by_alarm if each[0] == space]
        )
        for name in names:
            for key in self._by_alarm.get(name, ()):
                item = self._records.get(key)
                if item is not None and item.at_ms > since_ms:
                    yield key, item

    def forget_old(self, wall_ms: int) -> None:
        """Remove old items, with the open commit."""
        self._index()
        for keys in list(self._by_alarm.values()):
            while (
                keys and (item := self._records.get(keys[0])) is not None and item.at_ms <= wall_ms - _KEPT_MS
            ):
                self._remove(keys[0])

    def _make_room(self) -> None:
        """The account that holds most holds more than its share, unless there is only one."""
        most = max(self._by_account.values(), key=lambda each: each.bytes)
        share = self._bytes // len(self._by_account)
        while most.costs and most.bytes >= share and self._bytes > self._bytes_max:
            self._remove(next(iter(most.costs)))

    def _remove(self, key: str) -> None:
        item = self._records.get(key)
        assert item is not None
        self._records.remove(key)
        account = self._by_account[item.space.account]
        cost = account.costs.pop(key)
        account.bytes -= cost
        self._bytes -= cost
        if not account.costs:
            del self._by_account[item.space.account]
        keys = self._by_alarm[item.space, item.alarm]
        keys.remove(key)
        if not keys:
            del self._by_alarm[item.space, item.alarm]
