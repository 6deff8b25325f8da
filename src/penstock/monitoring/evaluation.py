"""Looks at the alarms of a shard: those with periods of a minute or more once a minute, others every ten seconds.

Each look is at the periods before the last full minute, or the last full ten seconds, of the wall clock, a few
seconds later, when the metrics of queues for that time are there. Alarms that are due wait for the turn of their
account (:mod:`penstock.monitoring.due_alarms`), and the loop has its turn after each.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from penstock.broker.parts import Part
from penstock.broker.runtime import Timer
from penstock.broker.shard import Shard
from penstock.errors import ExpressionInvalid, PenstockError, StoreError
from penstock.limits import SECOND
from penstock.metrics.alarms import AlarmPoint, AlarmRule, judge, reason_data
from penstock.metrics.expressions import Part as ExpressionPart
from penstock.metrics.expressions import in_order, parse_expression
from penstock.metrics.functions import Environment, TimeSeries, compute
from penstock.metrics.series import MINUTE_S
from penstock.monitoring.alarm_history import AlarmHistory
from penstock.monitoring.alarm_records import Alarm, AlarmQuery, MetricStat
from penstock.monitoring.alarm_table import AlarmTable
from penstock.monitoring.due_alarms import DueAlarms
from penstock.monitoring.reading import MetricReader, StatQuery, UnitPoints
from penstock.names import Space
from penstock.promise import run_detached
from penstock.turns import Steps, Turns

log = logging.getLogger("penstock.monitoring")

TICK_S = 10
_DELAY_MS = 5 * SECOND  # after the full ten seconds
_FORGET_EVERY_S = 3600


class _Asked(NamedTuple):
    """What an alarm looks at, by the id of the query."""

    alarm: Alarm
    end_s: int
    queries: list[tuple[str, StatQuery]]


class Evaluation(Part):
    def __init__(
        self,
        shard: Shard,
        alarms: AlarmTable,
        history: AlarmHistory,
        reader: MetricReader,
        turns: Turns,
    ) -> None:
        self._shard = shard
        self._alarms = alarms
        self._history = history
        self._reader = reader
        self._turns = turns
        self._due = DueAlarms()
        self._silent: dict[int, StoreError] = {}  # shards that did not answer in this minute
        self._end_s = 0  # of the last look; 0: there was no alarm
        self._working = False
        self._timer: Timer | None = None
        self._stopped = False

    def start(self) -> None:
        if len(self._alarms):
            self.watch()

    def stop(self) -> None:
        self._stopped = True
        self._due.clear()
        if self._timer is not None:
            self._timer.cancel()

    def watch(self) -> None:
        """The shard has an alarm. Without any it has no timer."""
        if self._timer is not None or self._stopped:
            return
        clock = self._shard.clock
        tick_ms = TICK_S * SECOND
        wait_ms = tick_ms - (clock.wall_ms() - _DELAY_MS) % tick_ms
        self._timer = self._shard.runtime.at(clock.now_ms() + wait_ms, self._tick)

    def _tick(self) -> None:
        self._timer = None
        if self._stopped:
            return
        if len(self._alarms):
            self.watch()  # also while alarms are being evaluated: the next ones must not be late because of them
            run_detached(self._look())
        else:
            self._end_s = 0

    async def _look(self) -> None:
        wall_ms = self._shard.clock.wall_ms()
        end_s = wall_ms // SECOND // TICK_S * TICK_S
        # A look may be so late that there was none at the full minute.
        before_s, self._end_s = self._end_s or end_s - TICK_S, end_s
        is_minute = end_s // MINUTE_S > before_s // MINUTE_S
        if is_minute:
            self._silent.clear()
        for alarms in self._alarms.by_space():
            self._due.add([alarm for alarm in alarms if _is_due(alarm, is_minute=is_minute)])
            await self._shard.turn()
        if self._stopped:
            return
        self._alarms.follow_all()
        await self._alarms.end_all_waits()
        if self._stopped:
            return
        if end_s // _FORGET_EVERY_S > before_s // _FORGET_EVERY_S:
            self._history.forget_old(wall_ms)
        if not self._working:
            self._working = True
            try:
                await self._work()
            finally:
                self._working = False

    async def _work(self) -> None:
        """Evaluate what is due, until nothing is."""
        failures: dict[str, PenstockError] = {}  # by account
        while not self._stopped and (taken := self._due.take()):
            account = taken[0].space.account
            try:
                unread = await self._evaluate(taken)
                if unread is not None:
                    failures[account] = unread
                await self._shard.settled()
            except StoreError as error:  # nothing can be decided in this shard
                failures[account] = error
                self._due.clear()
            except PenstockError as error:
                failures[account] = error
                self._due.drop(account)
            await self._shard.turn()
        for account, failure in failures.items():
            if not self._stopped:
                log.warning(
                    "some alarms of account %s could not be evaluated and stay as they are: %s",
                    account,
                    failure,
                )

    async def _evaluate(self, alarms: Sequence[Alarm]) -> StoreError | None:
        """Everything that these alarms look at is read at once. Returns why some of it could not be read: the alarms
        about it stay as they are. Raises StoreError if the states of alarms cannot be stored."""
        asked = [
            _Asked(alarm, end_s, _queries(alarm, end_s))
            for alarm, end_s in zip(alarms, map(self._end_of, alarms), strict=True)
        ]
        readable, unread = self._answering(asked)
        try:
            read = await self._read(readable)
        except StoreError:
            # Which shard it is takes one more question. All alarms about it wait then, and no others.
            self._silent |= await self._reader.silent(set[int]().union(*map(self._shards_of, readable)))
            readable, unread = self._answering(asked)
            try:
                read = await self._read(readable)
            except StoreError as error:
                return error
        answers = iter(read)
        for alarm, end_s, queries in readable:
            found = {id: next(answers) for id, _ in queries}
            await self._shard.turn()
            try:
                points = await self._points(alarm, found, end_s)
                present = self._alarms.get(alarm.space, alarm.name)
                if present is None or present.config != alarm.config or self._shard.released:
                    continue  # it was changed meanwhile
                self._judge(present, points, end_s)
                self._alarms.follow(alarm.space)  # not waited for: other accounts have their turn
            except PenstockError:
                raise
            except Exception as error:
                # One alarm must not keep the others from being evaluated, which may be of other accounts.
                log.error("the alarm %s cannot be evaluated: %s", alarm.name, type(error).__name__)
        return unread

    def _answering(self, asked: Iterable[_Asked]) -> tuple[list[_Asked], StoreError | None]:
        """Returns those that ask only shards that answer, and the error of another shard if there is one."""
        found: list[_Asked] = []
        unread: StoreError | None = None
        for each in asked:
            silent = self._shards_of(each) & self._silent.keys()
            if silent:
                unread = self._silent[min(silent)]
            else:
                found.append(each)
        return found, unread

    def _shards_of(self, asked: _Asked) -> set[int]:
        return {shard for _, query in asked.queries for shard in self._reader.shards_of(query)}

    async def _read(self, asked: Iterable[_Asked]) -> list[list[UnitPoints]]:
        return await self._reader.read([query for each in asked for _, query in each.queries])

    def _end_of(self, alarm: Alarm) -> int:
        """The end of the evaluated range. An alarm that had to wait is evaluated for now, not for when it was due."""
        rule = alarm.config.rule
        assert rule is not None
        return self._end_s - self._end_s % (MINUTE_S if rule.period_s >= MINUTE_S else TICK_S)

    async def _points(self, alarm: Alarm, found: dict[str, list[UnitPoints]], end_s: int) -> list[AlarmPoint]:
        rule = alarm.config.rule
        assert rule is not None
        try:
            return await self._turns.run(_points(alarm, rule, found, end_s), alarm.space.account)
        except ExpressionInvalid as error:
            log.warning("the alarm %s cannot be evaluated: %s", alarm.name, error)
            return []

    def _judge(self, alarm: Alarm, points: list[AlarmPoint], end_s: int) -> None:
        config, rule = alarm.config, alarm.config.rule
        assert rule is not None
        judgement = judge(rule, points, alarm.status.state, end_s)
        if judgement.state == alarm.status.state:
            return
        statistic, unit = (None, None) if config.stat is None else (config.stat.statistic, config.stat.unit)
        data = reason_data(rule, judgement, self._shard.clock.wall_ms(), statistic, unit)
        self._alarms.set_state(alarm, judgement.state, judgement.reason, msgspec.json.encode(data).decode())


def _is_due(alarm: Alarm, *, is_minute: bool) -> bool:
    rule = alarm.config.rule
    return rule is not None and (is_minute or rule.period_s < MINUTE_S)


def _queries(alarm: Alarm, end_s: int) -> list[tuple[str, StatQuery]]:
    """What an alarm looks at, by the id of the query; the metric of a plain alarm has the id ``""``."""
    config, rule = alarm.config, alarm.config.rule
    assert rule is not None
    stats = (
        [("", config.stat)] if config.stat is not None else [(each.id, each.stat) for each in config.queries]
    )
    return [(id, _stat_query(alarm.space, stat, rule, end_s)) for id, stat in stats if stat is not None]


def _stat_query(space: Space, stat: MetricStat, rule: AlarmRule, end_s: int) -> StatQuery:
    return StatQuery(
        space,
        stat.metric,
        end_s - rule.range_s,
        end_s,
        stat.period_s,
        (stat.statistic, "SampleCount"),
        stat.unit,
    )


def _points(
    alarm: Alarm, rule: AlarmRule, found: dict[str, list[UnitPoints]], end_s: int
) -> Steps[list[AlarmPoint]]:
    """Raises ExpressionInvalid."""
    if alarm.config.stat is not None:
        chosen = one_unit(found[""])
        if chosen is None:
            return []
        samples = chosen.values(1)
        return [AlarmPoint(at_s, value, samples.get(at_s)) for at_s, value in chosen.values().items()]
    series = yield from _computed(alarm.config.queries, found, end_s - rule.range_s, end_s, rule.period_s)
    return [AlarmPoint(at_s, value) for at_s, value in series.points()]


def one_unit(units: Iterable[UnitPoints]) -> UnitPoints | None:
    """CloudWatch: without a unit, one of those that there are. Here the one with the latest value."""
    return max(units, key=lambda each: each.times[-1], default=None)


def _computed(
    queries: Sequence[AlarmQuery], found: dict[str, list[UnitPoints]], start_s: int, end_s: int, period_s: int
) -> Steps[TimeSeries]:
    """The query whose result is compared with the threshold. Raises ExpressionInvalid."""
    metrics: dict[str, TimeSeries] = {}
    for query in queries:
        if query.stat is not None:
            chosen = one_unit(found[query.id])
            values = {} if chosen is None else chosen.values()
            metrics[query.id] = TimeSeries.of(values, query.stat.period_s, query.id)
            yield
    given = Environment(start_s, end_s, period_s, metrics, list(metrics.items()))
    expressions: dict[str, ExpressionPart] = {}
    for query in queries:
        if query.expression:
            expressions[query.id] = parse_expression(query.expression)
            yield
    for id in (yield from in_order(expressions, frozenset(metrics))):
        value = yield from compute(expressions[id], given)
        if isinstance(value, float | str):
            raise ExpressionInvalid(f"the result of {id} is not a time series")
        given.values[id] = value
    (result,) = [given.values[query.id] for query in queries if query.returns is not False]
    if isinstance(result, list):
        if len(result) != 1:
            raise ExpressionInvalid("the result is a list of time series: expected one")
        result = result[0]
    return result
