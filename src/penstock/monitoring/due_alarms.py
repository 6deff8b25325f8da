"""Which alarms of a shard wait to be evaluated. Accounts take turns, so that many or expensive alarms of one account
delay only its own.

Deficit round robin: at its turn an account may do some work, about as much as the loop can spare at a time. What it
does not use it saves for an alarm that takes more. So all accounts get the same share, whatever their alarms take.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.metrics.series import LEVELS, MINUTE_S
from penstock.monitoring.alarm_records import Alarm, AlarmConfig
from penstock.monitoring.limits import ALARM_STEPS_MAX

WORK_PER_TURN = 4_000
"""How many values are read or computed in a turn, which takes some milliseconds."""

_ALARM_WORK = 40  # of each, besides its values


class DueAlarms:
    def __init__(self) -> None:
        self._accounts: dict[str, _AccountAlarms] = {}  # the next one first

    def add(self, alarms: Iterable[Alarm]) -> None:
        """An alarm that waits already keeps its place."""
        for alarm in alarms:
            account = self._accounts.setdefault(alarm.space.account, _AccountAlarms())
            account.waiting[alarm.space.region, alarm.name] = alarm

    def take(self) -> list[Alarm]:
        """The next ones, all of one account; empty if none waits."""
        while self._accounts:
            name = next(iter(self._accounts))
            account = self._accounts.pop(name)
            taken = account.take()
            if account.waiting:
                self._accounts[name] = account
            if taken:
                return taken
        return []

    def drop(self, account: str) -> None:
        """Forget the waiting alarms of an account."""
        self._accounts.pop(account, None)

    def clear(self) -> None:
        self._accounts.clear()


class _AccountAlarms:
    def __init__(self) -> None:
        self.waiting: dict[tuple[str, str], Alarm] = {}  # by region and name
        self._saved = 0

    def take(self) -> list[Alarm]:
        self._saved += WORK_PER_TURN
        taken: list[Alarm] = []
        for alarm in self.waiting.values():
            work = work_of(alarm.config)
            if work > self._saved:
                break
            self._saved -= work
            taken.append(alarm)
        for alarm in taken:
            del self.waiting[alarm.space.region, alarm.name]
        return taken


def work_of(config: AlarmConfig) -> int:
    """About how many values are read and computed to evaluate an alarm."""
    rule = config.rule
    assert rule is not None
    metrics = 1 if config.stat is not None else sum(query.stat is not None for query in config.queries)
    read = rule.range_s // MINUTE_S if rule.period_s >= MINUTE_S else min(rule.range_s, LEVELS[0].kept_s)
    # Expressions have no more parts than letters, and each may compute a value of each period.
    letters = sum(len(query.expression or "") for query in config.queries)
    computed = min(ALARM_STEPS_MAX, letters * (rule.range_s // rule.period_s))
    return _ALARM_WORK + metrics * read + computed
