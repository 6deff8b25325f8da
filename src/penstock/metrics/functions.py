"""Metric math, what it means: operators and functions over numbers, time series and lists of them.

CloudWatch: a function of one series gives a number, which counts as a constant; the same function of a list works
per time. Between two series a value that only one of them has counts as one of 0 in the other.
"""

from __future__ import annotations

import heapq
import math
import operator
from array import array
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from inspect import Parameter, signature
from itertools import accumulate, groupby, pairwise, repeat

import msgspec

from penstock.errors import ExpressionInvalid
from penstock.metrics.expressions import (
    CallPart,
    ListPart,
    NegativePart,
    NumberPart,
    OperatorPart,
    Part,
    TextPart,
    WordPart,
)
from penstock.turns import Steps, in_pieces

STEPS_MAX = 1_000_000
"""Values that all expressions of a request may compute."""

SERIES_VALUES_MAX = 100_800
"""Values of one series: a page of GetMetricData has no more."""

_LIST_SERIES_MAX = 1000
_PIECE_VALUES = 512

_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86_400
_FIRST_WEEKDAY = 4  # 1970-01-01 was a Thursday; Monday is 1


class TimeSeries(msgspec.Struct):
    """Values, each with the time at which its period begins, in order of time. Numbers in arrays: a hundred thousand
    of them as objects would take milliseconds to be freed."""

    times: range | array[int]
    values: array[float]
    period_s: int
    label: str = ""

    @classmethod
    def of(cls, points: Mapping[int, float], period_s: int, label: str = "") -> TimeSeries:
        """``points``: values by time, in order of time."""
        return cls(array("q", points), array("d", points.values()), period_s, label)

    def points(self) -> Iterator[tuple[int, float]]:
        return zip(self.times, self.values, strict=True)

    def __len__(self) -> int:
        return len(self.values)


Value = float | str | TimeSeries | list[TimeSeries]
Numeric = float | TimeSeries


class Environment:
    """What the expressions of one request are computed from, and how much they have computed."""

    def __init__(
        self,
        start_s: int,
        end_s: int,
        period_s: int,
        values: Mapping[str, TimeSeries | list[TimeSeries]],
        metrics: Sequence[tuple[str, TimeSeries]] = (),
        searches: Mapping[CallPart, list[TimeSeries]] | None = None,
    ) -> None:
        """``values``: by id. ``metrics``: with their ids, for METRICS(). ``searches``: what each SEARCH found."""
        self.start_s = start_s
        self.end_s = end_s
        self.period_s = period_s
        self.values = dict(values)
        self.metrics = metrics
        self.searches = searches or {}
        self._steps_left = STEPS_MAX

    def spend(self, steps: int) -> None:
        self._steps_left -= steps + 1
        if self._steps_left < 0:
            raise ExpressionInvalid(
                "the expressions compute too much: ask for a shorter time or longer periods"
            )

    @property
    def spent(self) -> int:
        return STEPS_MAX - self._steps_left

    def times(self, of: TimeSeries | None = None) -> range:
        """Every time of a series that has no gaps."""
        period_s = self.period_s if of is None else of.period_s
        times = range(self.start_s, self.end_s, max(1, period_s))
        if of is not None and of.values:  # its periods may begin at other times
            shift_s = (of.times[0] - self.start_s) % of.period_s
            times = range(self.start_s + shift_s, self.end_s, of.period_s)
        if len(times) > SERIES_VALUES_MAX:
            raise ExpressionInvalid(
                f"a time series would have more than {SERIES_VALUES_MAX} values: ask for a shorter time or longer "
                "periods"
            )
        self.spend(len(times))
        return times


def compute(part: Part, given: Environment) -> Steps[Value]:
    """Raises ExpressionInvalid."""
    try:
        return (yield from _compute(part, given))
    except OverflowError:
        raise ExpressionInvalid("a value is too large") from None


def _compute(part: Part, given: Environment) -> Steps[Value]:
    match part:
        case NumberPart(value):
            return value
        case TextPart(text):
            return text
        case WordPart(name):
            found = given.values.get(name)
            if found is None:
                raise ExpressionInvalid(f"{name!r} does not exist: expected the id of a metric or expression")
            return found
        case NegativePart(of):
            return (yield from _each((yield from _compute(of, given)), given, operator.neg))
        case ListPart(members):
            values: list[Value] = []
            for member in members:
                values.append((yield from _compute(member, given)))
            return _flat(values)
        case OperatorPart(symbol, left, right):
            one = yield from _compute(left, given)
            other = yield from _compute(right, given)
            return (yield from _operate(symbol, one, other, given))
        case CallPart():
            return (yield from _call(part, given))


def _call(call: CallPart, given: Environment) -> Steps[Value]:
    if call.function == "SEARCH":
        return given.searches[call]
    function = FUNCTIONS.get(call.function)
    if function is None:
        raise ExpressionInvalid(f"the function {call.function} is not supported")
    keywords = KEYWORDS.get(call.function, frozenset())
    arguments: list[Value] = []
    for each in call.arguments:
        is_keyword = isinstance(each, WordPart) and each.name in keywords
        arguments.append(each.name if is_keyword else (yield from _compute(each, given)))  # type: ignore[union-attr]
    least, most = _ARGUMENTS[call.function]
    if not least <= len(arguments) <= most:
        counts = str(least) if least == most else f"{least} to {most}"
        raise ExpressionInvalid(f"{call.function} has {len(arguments)} arguments: expected {counts}")
    result = function(given, *arguments)
    if isinstance(result, Generator):
        return (yield from result)
    yield
    return result


def _collected(
    points: Iterable[tuple[int, float | None]], period_s: int, label: str, width: int = 1
) -> Steps[TimeSeries]:
    """A series of these points; those without a finite value are left out. ``width``: how many values each is
    computed from."""
    times, values = array("q"), array("d")
    for piece in in_pieces(points, max(1, _PIECE_VALUES // width)):
        for at_s, value in piece:
            if value is not None and math.isfinite(value):
                times.append(at_s)
                values.append(value)
        yield
    return TimeSeries(times, values, period_s, label)


def _like(series: TimeSeries, points: Iterable[tuple[int, float | None]]) -> Steps[TimeSeries]:
    return _collected(points, series.period_s, series.label)


# -- operators -----------------------------------------------------------------------------------------------


def _divide(left: float, right: float) -> float | None:
    return left / right if right else None


def _power(left: float, right: float) -> float | None:
    try:
        found = left**right
    except ArithmeticError:
        return None
    return found if isinstance(found, float) and math.isfinite(found) else None


_OPERATORS: dict[str, Callable[[float, float], float | None]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _divide,
    "^": _power,
    "==": lambda left, right: float(left == right),
    "!=": lambda left, right: float(left != right),
    "<": lambda left, right: float(left < right),
    "<=": lambda left, right: float(left <= right),
    ">": lambda left, right: float(left > right),
    ">=": lambda left, right: float(left >= right),
    "AND": lambda left, right: float(bool(left) and bool(right)),
    "OR": lambda left, right: float(bool(left) or bool(right)),
}


def _operate(symbol: str, left: Value, right: Value, given: Environment) -> Steps[Value]:
    if isinstance(left, str) or isinstance(right, str):
        raise ExpressionInvalid(f"text cannot be used with {symbol}")
    if isinstance(left, list) and isinstance(right, list):
        raise ExpressionInvalid(
            f"two lists of time series cannot be used with {symbol}: apply SUM or AVG first"
        )
    if not isinstance(left, list) and not isinstance(right, list):
        return (yield from _operate_two(symbol, left, right, given))
    found: list[TimeSeries] = []
    for one, other in zip(left, repeat(right)) if isinstance(left, list) else zip(repeat(left), right):  # type: ignore[arg-type]
        found.append((yield from _operate_two(symbol, one, other, given)))  # type: ignore[arg-type]
    return found


def _operate_two(symbol: str, left: Numeric, right: Numeric, given: Environment) -> Steps[Numeric]:
    apply = _OPERATORS[symbol]
    if isinstance(left, float) and isinstance(right, float):
        result = apply(left, right)
        if result is None or not math.isfinite(result):
            raise ExpressionInvalid(f"{left} {symbol} {right} has no value")
        return result
    shape = left if isinstance(left, TimeSeries) else right
    assert isinstance(shape, TimeSeries)
    given.spend(max(len(each) for each in (left, right) if isinstance(each, TimeSeries)))
    points = ((at_s, apply(one, other)) for at_s, one, other in _pairs(left, right))
    return (yield from _like(shape, points))


def _pairs(left: Numeric, right: Numeric) -> Iterator[tuple[int, float, float]]:
    """Yields both values at each time of either; what one series does not have counts as 0."""
    if isinstance(left, float):
        assert isinstance(right, TimeSeries)
        return zip(right.times, repeat(left), right.values)
    if isinstance(right, float):
        return zip(left.times, left.values, repeat(right))
    if _are_same(left.times, right.times):
        return zip(left.times, left.values, right.values, strict=True)
    return _merged_pairs(left, right)


def _are_same(times: range | array[int], others: range | array[int]) -> bool:
    if isinstance(times, range) and isinstance(others, range):
        return times == others
    return len(times) == len(others) and array("q", times) == array("q", others)


def _merged_pairs(left: TimeSeries, right: TimeSeries) -> Iterator[tuple[int, float, float]]:
    for at_s, present in _by_time([left, right]):
        one = other = 0.0
        for _, which, value in present:
            if which:
                other = value
            else:
                one = value
        yield at_s, one, other


def _by_time(series: Sequence[TimeSeries]) -> Iterator[tuple[int, list[tuple[int, int, float]]]]:
    """Each time of any of the series, with the values that there are: time, number of the series, value."""
    numbered = [
        zip(each.times, repeat(number), each.values) for number, each in enumerate(series) if each.values
    ]
    for at_s, present in groupby(heapq.merge(*numbered), key=operator.itemgetter(0)):
        yield at_s, list(present)


def _rows(series: Sequence[TimeSeries]) -> Iterator[tuple[int, Sequence[float]]]:
    """Each time of any of the series, with the values that there are."""
    if series and all(_are_same(each.times, series[0].times) for each in series[1:]):
        return zip(series[0].times, zip(*(each.values for each in series), strict=True), strict=True)
    return ((at_s, [value for _, _, value in present]) for at_s, present in _by_time(series))


def _values_at(value: Numeric | None, times: range | array[int]) -> Iterator[float | None]:
    """The value at each of these times, which are in order; None where there is none."""
    if not isinstance(value, TimeSeries):
        return repeat(value)
    return iter(value.values) if _are_same(value.times, times) else _walked(value, times)


def _walked(series: TimeSeries, times: Iterable[int]) -> Iterator[float | None]:
    points = series.points()
    end = math.inf, 0.0
    at_s, value = next(points, end)
    for wanted_s in times:
        while at_s < wanted_s:
            at_s, value = next(points, end)
        yield value if at_s == wanted_s else None


def _flat(values: Iterable[Value]) -> list[TimeSeries]:
    found: list[TimeSeries] = []
    for value in values:
        if isinstance(value, list):
            found += value
        else:
            found.append(_series(value, "a list"))
    if len(found) > _LIST_SERIES_MAX:
        raise ExpressionInvalid(f"a list has more than {_LIST_SERIES_MAX} time series")
    return found


def _series(value: Value, where: str) -> TimeSeries:
    if not isinstance(value, TimeSeries):
        raise ExpressionInvalid(f"{where} takes time series, not {_kind(value)}")
    return value


def _list(value: Value, where: str) -> list[TimeSeries]:
    if not isinstance(value, list):
        raise ExpressionInvalid(f"{where} takes a list of time series, not {_kind(value)}")
    return value


def _number(value: Value, where: str) -> float:
    if not isinstance(value, float):
        raise ExpressionInvalid(f"{where} takes a number, not {_kind(value)}")
    return value


def _kind(value: Value) -> str:
    return {float: "a number", str: "text", TimeSeries: "a time series", list: "a list of time series"}[
        type(value)
    ]


def _each(value: Value, given: Environment, apply: Callable[[float], float | None]) -> Steps[Value]:
    """A function of every single value."""
    match value:
        case float():
            result = apply(value)
            if result is None or not math.isfinite(result):
                raise ExpressionInvalid(f"the function has no value for {value}")
            return result
        case TimeSeries():
            return (yield from _each_of(value, given, apply))
        case list():
            found: list[TimeSeries] = []
            for each in value:
                found.append((yield from _each_of(each, given, apply)))
            return found
    raise ExpressionInvalid("text cannot be computed with")


def _each_of(
    series: TimeSeries, given: Environment, apply: Callable[[float], float | None]
) -> Steps[TimeSeries]:
    given.spend(len(series))
    return _like(series, zip(series.times, map(apply, series.values), strict=True))


# -- functions -----------------------------------------------------------------------------------------------

Function = Callable[..., Value | Steps[Value]]


def _of_every(apply: Callable[[float], float | None]) -> Function:
    return lambda given, value: _each(value, given, apply)


def _of_all(name: str, apply: Callable[[Sequence[float]], float]) -> Function:
    """A number of one series; a series of a list."""

    def function(given: Environment, value: Value) -> Value | Steps[Value]:
        if isinstance(value, float):
            return apply([value])
        if isinstance(value, TimeSeries):
            given.spend(len(value))
            return apply(value.values) if value.values else value
        return _per_time(given, _list(value, name), name, apply)

    return function


def _per_time(
    given: Environment, series: list[TimeSeries], name: str, apply: Callable[[Sequence[float]], float]
) -> Steps[TimeSeries]:
    given.spend(sum(len(each) for each in series))
    period_s = max((each.period_s for each in series), default=given.period_s)
    points = ((at_s, apply(row)) for at_s, row in _rows(series))
    return _collected(points, period_s, name, len(series) or 1)


def _of_series(name: str, apply: Callable[[Environment, TimeSeries], Steps[TimeSeries]]) -> Function:
    """Makes a function of one series work on each series of a list, too."""

    def function(given: Environment, value: Value) -> Steps[Value]:
        if not isinstance(value, list):
            return (yield from apply(given, _series(value, name)))
        found: list[TimeSeries] = []
        for each in value:
            found.append((yield from apply(given, each)))
        return found

    return function


def _differences(
    change: Callable[[float, int], float],
) -> Callable[[Environment, TimeSeries], Steps[TimeSeries]]:
    """``change``: of the difference of a value to the one before, and of the seconds between them."""

    def apply(given: Environment, series: TimeSeries) -> Steps[TimeSeries]:
        given.spend(len(series))
        points = (
            (at, change(value - before, at - earlier))
            for (earlier, before), (at, value) in pairwise(series.points())
        )
        return _like(series, points)

    return apply


def _running_sum(given: Environment, series: TimeSeries) -> Steps[TimeSeries]:
    given.spend(len(series))
    return _like(series, zip(series.times, accumulate(series.values), strict=True))


def _of_time(apply: Callable[[int], int]) -> Callable[[Environment, TimeSeries], Steps[TimeSeries]]:
    return lambda given, series: _like(series, ((at_s, float(apply(at_s))) for at_s in given.times(series)))


def _period(given: Environment, value: Value) -> Value:
    return float(_series(value, "PERIOD").period_s)


def _time_series(given: Environment, value: Value) -> Value:
    number, times = _number(value, "TIME_SERIES"), given.times()
    return TimeSeries(times, array("d", [number]) * len(times), given.period_s, "TIME_SERIES")


def _datapoint_count(given: Environment, value: Value) -> Value | Steps[Value]:
    if isinstance(value, list):
        return _per_time(given, value, "", lambda row: float(len(row)))
    return float(len(_series(value, "DATAPOINT_COUNT")))


def _fill(given: Environment, value: Value, filler: Value) -> Steps[Value]:
    if isinstance(value, list):
        found: list[TimeSeries] = []
        for each in value:
            found.append((yield from _filled(given, each, filler)))
        return found
    return (yield from _filled(given, _series(value, "FILL"), filler))


def _filled(given: Environment, series: TimeSeries, filler: Value) -> Steps[TimeSeries]:
    times = given.times(series)
    match filler:
        case float() | TimeSeries():
            both = zip(times, _values_at(series, times), _values_at(filler, times), strict=False)
            return _like(series, ((at_s, other if value is None else value) for at_s, value, other in both))
        case "REPEAT":
            return _like(series, zip(times, _repeated(_values_at(series, times)), strict=True))
        case "LINEAR":
            return _like(series, _interpolated(times, series))
    raise ExpressionInvalid("FILL takes a time series and a number, REPEAT, LINEAR or another time series")


def _repeated(values: Iterable[float | None]) -> Iterator[float | None]:
    last: float | None = None
    for value in values:
        last = last if value is None else value
        yield last


def _interpolated(times: Iterable[int], series: TimeSeries) -> Iterator[tuple[int, float]]:
    """On lines between the values; before the first and after the last there are none."""
    points = series.points()
    before, after = None, next(points, None)
    for at_s in times:
        while after is not None and after[0] <= at_s:
            before, after = after, next(points, None)
        if before is not None and before[0] == at_s:
            yield at_s, before[1]
        elif before is not None and after is not None:
            share = (at_s - before[0]) / (after[0] - before[0])
            yield at_s, before[1] + share * (after[1] - before[1])


def _if(given: Environment, condition: Value, yes: Value, no: Value | None = None) -> Value | Steps[Value]:
    """CloudWatch: where the condition is missing there is no value; if it holds, a missing value is 0."""
    if isinstance(condition, float):
        if condition:
            return yes
        if no is None:
            raise ExpressionInvalid("IF needs a third argument if its condition is a number")
        return no
    series = _series(condition, "IF")
    given.spend(len(series))
    one, other = _numeric(yes), None if no is None else _numeric(no)
    shape = next((each for each in (one, other) if isinstance(each, TimeSeries)), series)
    points = zip(
        series.points(), _values_at(one, series.times), _values_at(other, series.times), strict=False
    )
    return _like(
        shape,
        ((at_s, (found or 0.0) if holds else otherwise) for (at_s, holds), found, otherwise in points),
    )


def _numeric(value: Value) -> Numeric:
    if not isinstance(value, float | TimeSeries):
        raise ExpressionInvalid(f"IF takes numbers and time series, not {_kind(value)}")
    return value


def _metrics(given: Environment, contains: Value = "") -> Value:
    if not isinstance(contains, str):
        raise ExpressionInvalid("METRICS takes no argument, or a part of the ids in quotes")
    return [series for id, series in given.metrics if contains in id]


def _slice(given: Environment, value: Value, start: Value, end: Value | None = None) -> Value:
    found, first = _list(value, "SLICE"), int(_number(start, "SLICE"))
    if end is not None:
        return found[first : int(_number(end, "SLICE"))]
    if not -len(found) <= first < len(found):
        raise ExpressionInvalid("SLICE: the list has no such member")
    return found[first]


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


_SORTED_BY: dict[str, Callable[[Sequence[float]], float]] = {
    "AVG": _mean,
    "MIN": min,
    "MAX": max,
    "SUM": math.fsum,
}


def _sort(
    given: Environment, value: Value, by: Value, order: Value = "ASC", limit: Value | None = None
) -> Steps[Value]:
    function = _SORTED_BY.get(by) if isinstance(by, str) else None
    if function is None or order not in ("ASC", "DESC"):
        raise ExpressionInvalid(
            "SORT takes a list, AVG, MIN, MAX or SUM, ASC or DESC, and optionally a number"
        )
    found = _list(value, "SORT")
    given.spend(sum(len(each) for each in found))
    keyed: list[tuple[float, TimeSeries]] = []
    for each in found:
        if each.values:
            keyed.append((function(each.values), each))
        yield
    keyed.sort(key=operator.itemgetter(0), reverse=order == "DESC")
    full = [each for _, each in keyed] + [each for each in found if not each.values]
    return full if limit is None else full[: max(0, int(_number(limit, "SORT")))]


def _member(name: str, index: int) -> Function:
    def function(given: Environment, value: Value) -> Value:
        found = _list(value, name)
        if not found:
            raise ExpressionInvalid(f"{name} needs a list that is not empty")
        return found[index]

    return function


def _deviation(values: Sequence[float]) -> float:
    count = len(values)
    deviation = math.dist(values, [_mean(values)] * count) / math.sqrt(count)
    if math.isinf(deviation):
        raise OverflowError
    return deviation


def _logarithm(function: Callable[[float], float]) -> Function:
    return _of_every(lambda value: function(value) if value > 0 else None)


@lru_cache(maxsize=1024)
def _date(day: int) -> tuple[int, int, int]:
    """Year, month and day of the month of a day since 1970, in the Gregorian calendar."""
    # Years are counted from March on, so that the day that a leap year has more is its last.
    era, day_of_era = divmod(day + 719_468, 146_097)  # of 400 years
    year = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year + year // 4 - year // 100)
    month = (5 * day_of_year + 2) // 153
    date = day_of_year - (153 * month + 2) // 5 + 1
    return 400 * era + year + (month >= 10), (month + 2) % 12 + 1, date


def _part_of_date(part: int) -> Callable[[int], int]:
    return lambda at_s: _date(at_s // _DAY_S)[part]


FUNCTIONS: dict[str, Function] = {
    "ABS": _of_every(abs),
    "CEIL": _of_every(lambda value: float(math.ceil(value))),
    "FLOOR": _of_every(lambda value: float(math.floor(value))),
    "LOG": _logarithm(math.log),
    "LOG10": _logarithm(math.log10),
    "AVG": _of_all("AVG", _mean),
    "MAX": _of_all("MAX", max),
    "MIN": _of_all("MIN", min),
    "SUM": _of_all("SUM", math.fsum),
    "STDDEV": _of_all("STDDEV", _deviation),
    "DATAPOINT_COUNT": _datapoint_count,
    "METRIC_COUNT": lambda given, value: float(len(_list(value, "METRIC_COUNT"))),
    "FIRST": _member("FIRST", 0),
    "LAST": _member("LAST", -1),
    "DIFF": _of_series("DIFF", _differences(lambda difference, seconds: difference)),
    "DIFF_TIME": _of_series("DIFF_TIME", _differences(lambda difference, seconds: float(seconds))),
    "RATE": _of_series("RATE", _differences(lambda difference, seconds: difference / seconds)),
    "RUNNING_SUM": _of_series("RUNNING_SUM", _running_sum),
    "EPOCH": _of_series("EPOCH", _of_time(lambda at_s: at_s)),
    "MINUTE": _of_series("MINUTE", _of_time(lambda at_s: at_s // _MINUTE_S % 60)),
    "HOUR": _of_series("HOUR", _of_time(lambda at_s: at_s // _HOUR_S % 24)),
    "DAY": _of_series("DAY", _of_time(lambda at_s: (at_s // _DAY_S + _FIRST_WEEKDAY - 1) % 7 + 1)),
    "DATE": _of_series("DATE", _of_time(_part_of_date(2))),
    "MONTH": _of_series("MONTH", _of_time(_part_of_date(1))),
    "YEAR": _of_series("YEAR", _of_time(_part_of_date(0))),
    "PERIOD": _period,
    "TIME_SERIES": _time_series,
    "FILL": _fill,
    "IF": _if,
    "METRICS": _metrics,
    "SLICE": _slice,
    "SORT": _sort,
    "REMOVE_EMPTY": lambda given, value: [each for each in _list(value, "REMOVE_EMPTY") if each.values],
}

KEYWORDS = {
    "FILL": frozenset(("REPEAT", "LINEAR")),
    "SORT": frozenset(("AVG", "MIN", "MAX", "SUM", "ASC", "DESC")),
}


def _argument_counts(function: Function) -> tuple[int, int]:
    """How many arguments a function has at least and at most, beside the environment."""
    given = list(signature(function).parameters.values())[1:]
    return sum(each.default is Parameter.empty for each in given), len(given)


_ARGUMENTS = {name: _argument_counts(function) for name, function in FUNCTIONS.items()}
