"""Metric math, what it means: operators and functions over numbers, time series and lists of them.

CloudWatch: a function of one series gives a number, which counts as a constant; the same function of a list works
per time. Between two series a value that only one of them has counts as one of 0 in the other.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import Parameter, signature
from itertools import pairwise

import msgspec

from penstock.clock import iso_time
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

STEPS_MAX = 1_000_000
"""Values that all expressions of a request may compute."""

_SECONDS_OF_DAY = 86_400
_FIRST_WEEKDAY = 4  # 1970-01-01 was a Thursday; Monday is 1


class TimeSeries(msgspec.Struct):
    """Values by the time at which their period begins, in order of time."""

    values: dict[int, float]
    period_s: int
    label: str = ""

    def like(self, values: dict[int, float]) -> TimeSeries:
        return TimeSeries(values, self.period_s, self.label)


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
            shift_s = (next(iter(of.values)) - self.start_s) % of.period_s
            times = range(self.start_s + shift_s, self.end_s, of.period_s)
        self.spend(len(times))
        return times


def compute(part: Part, given: Environment) -> Value:
    """Raises ExpressionInvalid."""
    try:
        return _compute(part, given)
    except OverflowError:
        raise ExpressionInvalid("a value is too large") from None


def _compute(part: Part, given: Environment) -> Value:
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
            return _each(_compute(of, given), given, operator.neg)
        case ListPart(members):
            return _flat([_compute(member, given) for member in members])
        case OperatorPart(symbol, left, right):
            return _operate(symbol, _compute(left, given), _compute(right, given), given)
        case CallPart():
            return _call(part, given)


def _call(call: CallPart, given: Environment) -> Value:
    if call.function == "SEARCH":
        return given.searches[call]
    function = FUNCTIONS.get(call.function)
    if function is None:
        raise ExpressionInvalid(f"the function {call.function} is not supported")
    keywords = KEYWORDS.get(call.function, frozenset())
    arguments = [
        each.name if isinstance(each, WordPart) and each.name in keywords else _compute(each, given)
        for each in call.arguments
    ]
    least, most = _ARGUMENTS[call.function]
    if not least <= len(arguments) <= most:
        counts = str(least) if least == most else f"{least} to {most}"
        raise ExpressionInvalid(f"{call.function} has {len(arguments)} arguments: expected {counts}")
    return function(given, *arguments)


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


def _operate(symbol: str, left: Value, right: Value, given: Environment) -> Value:
    if isinstance(left, str) or isinstance(right, str):
        raise ExpressionInvalid(f"text cannot be used with {symbol}")
    if isinstance(left, list) and isinstance(right, list):
        raise ExpressionInvalid(
            f"two lists of time series cannot be used with {symbol}: apply SUM or AVG first"
        )
    if isinstance(left, list):
        return [_operate_two(symbol, each, right, given) for each in left]  # type: ignore[misc,arg-type]
    if isinstance(right, list):
        return [_operate_two(symbol, left, each, given) for each in right]  # type: ignore[misc]
    return _operate_two(symbol, left, right, given)


def _operate_two(symbol: str, left: Numeric, right: Numeric, given: Environment) -> Numeric:
    apply = _OPERATORS[symbol]
    if isinstance(left, float) and isinstance(right, float):
        result = apply(left, right)
        if result is None or not math.isfinite(result):
            raise ExpressionInvalid(f"{left} {symbol} {right} has no value")
        return result
    shape = left if isinstance(left, TimeSeries) else right
    assert isinstance(shape, TimeSeries)
    times = _all_times([each for each in (left, right) if isinstance(each, TimeSeries)])
    given.spend(len(times))
    values = {at_s: apply(_at(left, at_s), _at(right, at_s)) for at_s in times}
    return shape.like(_finite(values))


def _at(value: Numeric, at_s: int) -> float:
    return value.values.get(at_s, 0.0) if isinstance(value, TimeSeries) else value


def _finite(values: Mapping[int, float | None]) -> dict[int, float]:
    return {at_s: value for at_s, value in values.items() if value is not None and math.isfinite(value)}


def _all_times(series: Sequence[TimeSeries]) -> list[int]:
    return sorted(set[int]().union(*(each.values for each in series)))


def _flat(values: Iterable[Value]) -> list[TimeSeries]:
    found: list[TimeSeries] = []
    for value in values:
        if isinstance(value, list):
            found += value
        else:
            found.append(_series(value, "a list"))
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


def _each(value: Value, given: Environment, apply: Callable[[float], float | None]) -> Value:
    """A function of every single value."""
    match value:
        case float():
            result = apply(value)
            if result is None or not math.isfinite(result):
                raise ExpressionInvalid(f"the function has no value for {value}")
            return result
        case TimeSeries():
            given.spend(len(value.values))
            return value.like(_finite({at_s: apply(each) for at_s, each in value.values.items()}))
        case list():
            return [_each(each, given, apply) for each in value]  # type: ignore[misc]
    raise ExpressionInvalid("text cannot be computed with")


# -- functions -----------------------------------------------------------------------------------------------

Function = Callable[..., Value]


def _of_every(apply: Callable[[float], float | None]) -> Function:
    return lambda given, value: _each(value, given, apply)


def _of_all(name: str, apply: Callable[[list[float]], float]) -> Function:
    """A number of one series; a series of a list."""

    def function(given: Environment, value: Value) -> Value:
        if isinstance(value, float):
            return apply([value])
        if isinstance(value, TimeSeries):
            given.spend(len(value.values))
            return apply(list(value.values.values())) if value.values else value
        lists = _list(value, name)
        times = _all_times(lists)
        given.spend(sum(len(each.values) for each in lists))
        found = {at_s: apply([each.values[at_s] for each in lists if at_s in each.values]) for at_s in times}
        return TimeSeries(found, max((each.period_s for each in lists), default=given.period_s), name)

    return function


def _of_series(name: str, apply: Callable[[Environment, TimeSeries], TimeSeries]) -> Function:
    """A series of one; or of each of a list."""

    def function(given: Environment, value: Value) -> Value:
        if isinstance(value, list):
            return [apply(given, each) for each in value]
        return apply(given, _series(value, name))

    return function


def _differences(change: Callable[[float, int], float]) -> Callable[[Environment, TimeSeries], TimeSeries]:
    """``change``: of the difference of a value to the one before, and of the seconds between them."""

    def apply(given: Environment, series: TimeSeries) -> TimeSeries:
        given.spend(len(series.values))
        points = list(series.values.items())
        return series.like(
            {at: change(value - before, at - earlier) for (earlier, before), (at, value) in pairwise(points)}
        )

    return apply


def _running_sum(given: Environment, series: TimeSeries) -> TimeSeries:
    given.spend(len(series.values))
    total, found = 0.0, dict[int, float]()
    for at_s, value in series.values.items():
        total += value
        found[at_s] = total
    return series.like(_finite(found))


def _of_time(apply: Callable[[int], int]) -> Callable[[Environment, TimeSeries], TimeSeries]:
    return lambda given, series: series.like({at_s: float(apply(at_s)) for at_s in given.times(series)})


def _period(given: Environment, value: Value) -> Value:
    return float(_series(value, "PERIOD").period_s)


def _time_series(given: Environment, value: Value) -> Value:
    number = _number(value, "TIME_SERIES")
    return TimeSeries(dict.fromkeys(given.times(), number), given.period_s, "TIME_SERIES")


def _datapoint_count(given: Environment, value: Value) -> Value:
    if isinstance(value, list):
        times = _all_times(value)
        given.spend(sum(len(each.values) for each in value))
        counts = {at_s: float(sum(at_s in each.values for each in value)) for at_s in times}
        return TimeSeries(counts, max((each.period_s for each in value), default=given.period_s))
    return float(len(_series(value, "DATAPOINT_COUNT").values))


def _fill(given: Environment, value: Value, filler: Value) -> Value:
    if isinstance(value, list):
        return [_fill(given, each, filler) for each in value]  # type: ignore[misc]
    series = _series(value, "FILL")
    times, present = given.times(series), series.values
    match filler:
        case float():
            return series.like({at_s: present.get(at_s, filler) for at_s in times})
        case TimeSeries():
            filled = {at_s: present.get(at_s, filler.values.get(at_s)) for at_s in times}
            return series.like(_finite(filled))
        case "REPEAT":
            last: float | None = None
            repeated: dict[int, float | None] = {}
            for at_s in times:
                last = repeated[at_s] = present.get(at_s, last)
            return series.like(_finite(repeated))
        case "LINEAR":
            return series.like(_interpolated(times, present))
    raise ExpressionInvalid("FILL takes a time series and a number, REPEAT, LINEAR or another time series")


def _interpolated(times: Iterable[int], present: Mapping[int, float]) -> dict[int, float]:
    """On lines between the values; before the first and after the last there are none."""
    points = iter(present.items())
    before, after = None, next(points, None)
    found: dict[int, float] = {}
    for at_s in times:
        while after is not None and after[0] <= at_s:
            before, after = after, next(points, None)
        if before is not None and before[0] == at_s:
            found[at_s] = before[1]
        elif before is not None and after is not None:
            share = (at_s - before[0]) / (after[0] - before[0])
            found[at_s] = before[1] + share * (after[1] - before[1])
    return found


def _if(given: Environment, condition: Value, yes: Value, no: Value | None = None) -> Value:
    """CloudWatch: where the condition is missing there is no value; if it holds, a missing value is 0."""
    if isinstance(condition, float):
        if condition:
            return yes
        if no is None:
            raise ExpressionInvalid("IF needs a third argument if its condition is a number")
        return no
    times = _series(condition, "IF").values
    given.spend(len(times))
    shape = next((each for each in (yes, no) if isinstance(each, TimeSeries)), condition)
    assert isinstance(shape, TimeSeries)
    found: dict[int, float | None] = {}
    for at_s, holds in times.items():
        if holds:
            found[at_s] = _at(_numeric(yes), at_s)
        elif no is not None:
            other = _numeric(no)
            found[at_s] = other.values.get(at_s) if isinstance(other, TimeSeries) else other
    return shape.like(_finite(found))


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


def _mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)


_SORTED_BY: dict[str, Callable[[list[float]], float]] = {
    "AVG": _mean,
    "MIN": min,
    "MAX": max,
    "SUM": math.fsum,
}


def _sort(
    given: Environment, value: Value, by: Value, order: Value = "ASC", limit: Value | None = None
) -> Value:
    function = _SORTED_BY.get(by) if isinstance(by, str) else None
    if function is None or order not in ("ASC", "DESC"):
        raise ExpressionInvalid(
            "SORT takes a list, AVG, MIN, MAX or SUM, ASC or DESC, and optionally a number"
        )
    found = _list(value, "SORT")
    given.spend(sum(len(each.values) for each in found))
    full = [each for each in found if each.values]
    full.sort(key=lambda each: function(list(each.values.values())), reverse=order == "DESC")
    full += [each for each in found if not each.values]
    return full if limit is None else full[: max(0, int(_number(limit, "SORT")))]


def _member(name: str, index: int) -> Function:
    def function(given: Environment, value: Value) -> Value:
        found = _list(value, name)
        if not found:
            raise ExpressionInvalid(f"{name} needs a list that is not empty")
        return found[index]

    return function


def _deviation(values: list[float]) -> float:
    mean = _mean(values)
    return math.sqrt(_mean([(value - mean) ** 2 for value in values]))


def _logarithm(function: Callable[[float], float]) -> Function:
    return _of_every(lambda value: function(value) if value > 0 else None)


def _part_of_date(begin: int, end: int) -> Callable[[int], int]:
    return lambda at_s: int(iso_time(at_s)[begin:end])


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
    "MINUTE": _of_series("MINUTE", _of_time(_part_of_date(14, 16))),
    "HOUR": _of_series("HOUR", _of_time(_part_of_date(11, 13))),
    "DAY": _of_series("DAY", _of_time(lambda at_s: (at_s // _SECONDS_OF_DAY + _FIRST_WEEKDAY - 1) % 7 + 1)),
    "DATE": _of_series("DATE", _of_time(_part_of_date(8, 10))),
    "MONTH": _of_series("MONTH", _of_time(_part_of_date(5, 7))),
    "YEAR": _of_series("YEAR", _of_time(_part_of_date(0, 4))),
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
