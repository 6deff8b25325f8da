"""GetMetricData: metrics and expressions, each with a result, in pages.

A page is computed as a whole, so that nothing is kept between pages. The token says which result comes next and from
which time on.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import msgspec

from penstock.errors import ExpressionInvalid
from penstock.limits import SECOND
from penstock.metrics.expressions import CallPart, NumberPart, Part, TextPart, parts_of
from penstock.metrics.functions import Environment, TimeSeries, compute
from penstock.metrics.search import Search, parse_search
from penstock.metrics.series import LEVELS, Level, MetricKey
from penstock.monitoring.alarm_records import AlarmQuery, MetricStat
from penstock.monitoring.evaluation import one_unit
from penstock.monitoring.reading import KeysQuestion, StatQuery, UnitPoints
from penstock.services.cloudwatch.faults import cloudwatch_fault, validation_error
from penstock.services.cloudwatch.labels import default_labels, label_of, timezone_offset_s
from penstock.services.cloudwatch.limits import (
    LISTED_AGE_S,
    MAX_DATAPOINTS,
    QUERIES_MAX,
    SEARCHED_METRICS_MAX,
)
from penstock.services.cloudwatch.periods import check_period, check_statistic, check_times, rounded_start
from penstock.services.cloudwatch.queries import parsed_expressions, read_queries
from penstock.services.cloudwatch.resources import CloudWatch
from penstock.services.cloudwatch.structs import (
    SCAN_ORDERS,
    GetMetricDataRequest,
    GetMetricDataResult,
    MetricDataMessage,
    MetricDataResult,
)
from penstock.services.cloudwatch.validation import CONSTRAINTS, read_token, write_token
from penstock.turns import LongWork, Steps, in_pieces
from penstock.wire.service import Call

_POINTS_MAX = 2_000_000  # that all metrics of a request could have
_QUERIES_PER_READ = 50
_KEYS_PER_READ = 1000
_SEARCHED_KEYS_MAX = 20_000
_COMPARED_MAX = 500_000  # words of searches with metrics
_COMPARED_PER_STEP = 300
_POINTS_PER_STEP = 2000
_DEFAULT_PERIOD_S = 300


class Result(NamedTuple):
    id: str
    label: str
    series: TimeSeries
    messages: list[MetricDataMessage] | None = None


async def get_metric_data(cw: CloudWatch, request: GetMetricDataRequest, call: Call) -> GetMetricDataResult:
    account = call.space.account
    async with cw.broker.turns.alone(account, is_gone=lambda: call.gone) as work:
        try:
            return await _answer(cw, request, call, work)
        finally:
            call.count_work(work.seconds)


async def _answer(
    cw: CloudWatch, request: GetMetricDataRequest, call: Call, work: LongWork
) -> GetMetricDataResult:
    await work.do(CONSTRAINTS.steps(request))
    assert request.StartTime is not None and request.EndTime is not None
    check_times(request.StartTime, request.EndTime)
    given = request.MetricDataQueries or []
    queries = await work.do(read_queries("MetricDataQueries", given, call.space.account))
    expressions = await work.do(parsed_expressions(queries))
    offset_s = timezone_offset_s(None if request.LabelOptions is None else request.LabelOptions.Timezone)
    asked = [call.space, given, request.StartTime, request.EndTime, request.ScanBy]
    after = read_token(request.NextToken, asked)
    reading = _Reading(cw, call, request.StartTime, request.EndTime, work)
    await reading.find(queries, expressions)
    results = await work.do(reading.results(queries, expressions, offset_s))
    most = request.MaxDatapoints or MAX_DATAPOINTS
    ascending = request.ScanBy == SCAN_ORDERS[1]
    page, following = await work.do(_page(results, after, most, ascending=ascending))
    return GetMetricDataResult(
        MetricDataResults=page,
        Messages=[],
        NextToken=None if following is None else write_token(asked, following),
    )


class _Search(NamedTuple):
    """One SEARCH of an expression."""

    text: str
    statistic: str
    period_s: int | None


class _Reading:
    """Reads everything that a request needs, then computes."""

    def __init__(self, cw: CloudWatch, call: Call, start: float, end: float, work: LongWork) -> None:
        self._cw = cw
        self._work = work
        self._call = call
        self._start = start
        self._end_s = math.ceil(end)
        self._now_s = cw.monitoring.wall_ms() / SECOND
        self._levels: Sequence[Level] = LEVELS  # that everything has which is read
        self._points_left = _POINTS_MAX
        self._found: dict[str, TimeSeries] = {}  # by the id of the query
        self._keys: list[MetricKey] | None = None  # that searches look at, read once
        self._compares_left = _COMPARED_MAX
        self._searched: dict[CallPart, list[tuple[MetricStat, TimeSeries]]] = {}
        # Of metrics that have several, by the identity of their series.
        self._units: dict[int, list[str]] = {}
        self._stats: dict[int, MetricStat] = {}  # what a series is of, by its identity

    def _messages(self, series: TimeSeries) -> list[MetricDataMessage] | None:
        units = self._units.get(id(series))
        if units is None:
            return None
        listed = ", ".join(sorted(units, key=lambda unit: (unit == "None", unit)))
        return [MetricDataMessage(Code="MultipleUnits", Value=f"Multiple units returned: '[{listed}]'")]

    async def find(self, queries: Sequence[AlarmQuery], expressions: Mapping[str, Part]) -> None:
        """Raises Fault or Unreachable."""
        stats = [query.stat for query in queries if query.stat is not None]
        ids = [query.id for query in queries if query.stat is not None]
        period_s = min((stat.period_s for stat in stats), default=_DEFAULT_PERIOD_S)
        searched: dict[CallPart, list[MetricStat]] = {}
        for call in await self._work.do(_searches(expressions)):
            searched[call] = await self._search(_read_search(call), period_s)
        # All begin at the same time, because expressions compare values by their times.
        all_stats = chain(stats, *searched.values())
        self._levels = self._cw.monitoring.reader.levels({stat.metric.namespace for stat in all_stats})
        for id, series in zip(ids, await self._series(stats, default_labels(stats)), strict=True):
            self._found[id] = series
        for call, found in searched.items():
            labelled = await self._series(found, _search_labels(found))
            self._searched[call] = list(zip(found, labelled, strict=True))

    async def _search(self, search: _Search, period_s: int) -> list[MetricStat]:
        wanted = parse_search(search.text)
        if self._keys is None:
            self._keys = await self._listed()
        self._compares_left -= len(self._keys) * wanted.words
        if self._compares_left < 0:
            raise validation_error(
                "The request searches too much for so many metrics: use fewer searches, or fewer words in them."
            )
        keys = await self._work.do(_matching(self._keys, wanted))
        return [
            MetricStat(key, search.period_s or period_s, search.statistic)
            for key in keys[:SEARCHED_METRICS_MAX]
        ]

    async def _listed(self) -> list[MetricKey]:
        """The metrics of the account, in order. Raises Unreachable."""
        keys: list[MetricKey] = []
        question = KeysQuestion(
            self._call.space, None, None, [], int(self._now_s) - LISTED_AGE_S, None, _KEYS_PER_READ
        )
        while len(keys) < _SEARCHED_KEYS_MAX:
            page = await self._cw.monitoring.reader.keys(question)
            keys += [each.metric for each in page]
            if len(page) < _KEYS_PER_READ:
                break
            question = msgspec.structs.replace(question, after=keys[-1])
        return keys

    async def _series(self, stats: Sequence[MetricStat], labels: Sequence[str]) -> list[TimeSeries]:
        queries = [self._stat_query(stat) for stat in stats]
        found: list[TimeSeries] = []
        for at in range(0, len(queries), _QUERIES_PER_READ):
            answers = await self._cw.monitoring.reader.read(queries[at : at + _QUERIES_PER_READ])
            found += await self._work.do(self._all(stats[at:], answers, labels[at:]))
        return found

    def _all(
        self, stats: Sequence[MetricStat], answers: Sequence[list[UnitPoints]], labels: Sequence[str]
    ) -> Steps[list[TimeSeries]]:
        found: list[TimeSeries] = []
        for stat, units, label in zip(stats, answers, labels, strict=False):
            found.append(self._one(stat, units, label))
            yield
        return found

    def _stat_query(self, stat: MetricStat) -> StatQuery:
        start_s = rounded_start(self._start, stat.period_s, self._now_s, self._levels)
        self._points_left -= (self._end_s - start_s) // stat.period_s + 1
        if self._points_left < 0:
            raise validation_error(
                "The request asks for too many datapoints: ask for a shorter time, longer periods or fewer metrics."
            )
        space = self._call.space
        return StatQuery(
            space, stat.metric, start_s, self._end_s, stat.period_s, (stat.statistic,), stat.unit
        )

    def _one(self, stat: MetricStat, units: list[UnitPoints], label: str) -> TimeSeries:
        chosen = one_unit(units)
        series = TimeSeries.of({} if chosen is None else chosen.values(), stat.period_s, label)
        self._stats[id(series)] = stat
        if len(units) > 1:
            self._units[id(series)] = [each.unit for each in units]
        return series

    # -- computing -------------------------------------------------------------------------------------------

    def results(
        self, queries: Sequence[AlarmQuery], expressions: Mapping[str, Part], offset_s: int
    ) -> Steps[list[Result]]:
        """Raises Fault."""
        periods = [series.period_s for series in self._found.values()]
        period_s = min(periods, default=_DEFAULT_PERIOD_S)
        by_id = {query.id: query for query in queries}
        searches = {call: [series for _, series in found] for call, found in self._searched.items()}
        given = Environment(
            0, self._end_s, period_s, self._found, [(id, self._found[id]) for id in self._found], searches
        )
        for id, part in expressions.items():
            given.period_s = by_id[id].period_s or period_s
            given.start_s = rounded_start(self._start, given.period_s, self._now_s, self._levels)
            given.values[id] = yield from self._compute(id, part, given)
            yield  # without values nothing else pauses
        results: list[Result] = []
        for query in queries:
            if query.returns is not False:
                results += yield from self._results_of(query, given.values[query.id], offset_s)
        if len(results) > QUERIES_MAX:
            raise validation_error(
                f"The request has more than {QUERIES_MAX} results: search for fewer metrics."
            )
        return results

    def _compute(self, id: str, part: Part, given: Environment) -> Steps[TimeSeries | list[TimeSeries]]:
        try:
            value = yield from compute(part, given)
            if isinstance(value, float | str):
                raise ExpressionInvalid("the result is not a time series: use TIME_SERIES, for example")
        except ExpressionInvalid as error:
            raise validation_error(f"Error in expression '{id}': {error}.") from None
        return msgspec.structs.replace(value, label=id) if isinstance(value, TimeSeries) else value

    def _results_of(
        self, query: AlarmQuery, value: TimeSeries | list[TimeSeries], offset_s: int
    ) -> Steps[list[Result]]:
        parts = value if isinstance(value, list) else [value]
        many = len(parts) > 1
        results: list[Result] = []
        for series in parts:
            stat = self._stats.get(id(series))
            label = yield from label_of(query.label, series, stat, offset_s, is_one_of_many=many)
            results.append(Result(query.id, label, series, self._messages(series)))
        return results


def _searches(expressions: Mapping[str, Part]) -> Steps[list[CallPart]]:
    """Finds every SEARCH, each once."""
    found: dict[CallPart, None] = {}
    for part in expressions.values():
        calls = [each for each in parts_of(part) if isinstance(each, CallPart)]
        found |= {call: None for call in calls if call.function == "SEARCH"}
        yield
    return list(found)


def _matching(keys: Sequence[MetricKey], wanted: Search) -> Steps[list[MetricKey]]:
    found: list[MetricKey] = []
    for piece in in_pieces(keys, max(1, _COMPARED_PER_STEP // wanted.words)):
        found += [key for key in piece if wanted.matches(key)]
        yield
    return found


def _read_search(call: CallPart) -> _Search:
    """Raises Fault."""
    match call.arguments:
        case (TextPart(text), TextPart(statistic)):
            period_s = None
        case (TextPart(text), TextPart(statistic), NumberPart(period)) if period == int(period):
            period_s = int(period)
            check_period(period_s, "SEARCH")
        case _:
            raise validation_error("Error in expression: SEARCH takes a search, a statistic and a period.")
    check_statistic(statistic, "SEARCH")
    return _Search(text, statistic, period_s)


def _search_labels(stats: Sequence[MetricStat]) -> list[str]:
    """What differs between the metrics: values of dimensions, else names."""
    labels = []
    shared = len({stat.metric.name for stat in stats}) == 1
    for stat in stats:
        values = [value for _, value in stat.metric.dimensions]
        labels.append(" ".join(values if shared and values else [stat.metric.name, *values]))
    return labels


# -- pages ---------------------------------------------------------------------------------------------------


def _page(
    results: Sequence[Result], after: str | None, points_max: int, *, ascending: bool
) -> Steps[tuple[list[MetricDataResult], str | None]]:
    """Results with at most this many points, and where the next page begins: a number and a time."""
    first, from_s = _place(after)
    left = points_max
    page: list[MetricDataResult] = []
    for number, result in enumerate(results[first:], first):
        series = result.series
        begin, end = 0, len(series)  # what is to be shown
        if number == first and from_s is not None:
            begin = bisect_left(series.times, from_s) if ascending else begin
            end = end if ascending else bisect_right(series.times, from_s)
        taken = min(left, end - begin)
        shown = range(begin, begin + taken) if ascending else range(end - 1, end - 1 - taken, -1)
        following = None
        if taken < end - begin:
            following = f"{number} {series.times[begin + taken if ascending else end - 1 - taken]}"
        left -= taken
        page.append(
            MetricDataResult(
                Id=result.id,
                Label=result.label,
                Timestamps=[],
                Values=[],
                StatusCode="Complete" if following is None else "PartialData",
                Messages=result.messages,
            )
        )
        for piece in in_pieces(shown, _POINTS_PER_STEP):
            page[-1].Timestamps += [float(series.times[at]) for at in piece]
            page[-1].Values += [series.values[at] for at in piece]
            yield
        if following is not None:
            return page, following
    return page, None


def _place(after: str | None) -> tuple[int, int | None]:
    """Raises Fault."""
    if after is None:
        return 0, None
    try:
        number, at_s = map(int, after.split())
    except ValueError:
        raise cloudwatch_fault("InvalidNextToken", "The next token is invalid.") from None
    return max(0, number), at_s
