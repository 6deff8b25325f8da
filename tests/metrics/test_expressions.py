"""Metric math: the grammar, each function, and that no text does anything but compute or be refused."""

from __future__ import annotations

import math
from datetime import date as Date
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import ExpressionInvalid
from penstock.metrics.expressions import (
    EXPRESSION_LENGTH_MAX,
    CallPart,
    TextPart,
    ids_of,
    in_order,
    parse_expression,
)
from penstock.metrics.functions import FUNCTIONS, STEPS_MAX, Environment, TimeSeries, compute
from penstock.turns import finished
from support.rows import every_row

START_S = 1_765_977_600  # 2025-12-17 13:20, a Wednesday
MISSING = None
EPOCH = Date(1970, 1, 1)


def series(*values: float | None, label: str = "", period_s: int = 60) -> TimeSeries:
    found = {START_S + at * period_s: float(each) for at, each in enumerate(values) if each is not None}
    return TimeSeries.of(found, period_s, label)


M1 = series(1, 2, 3, None, 5, label="m1")
M2 = series(10, None, 30, 40, 0, label="m2")
EMPTY = series(label="empty")
SEARCH = CallPart("SEARCH", (TextPart("{AWS/SQS,QueueName}"), TextPart("Sum")))


def environment(**values: TimeSeries | list[TimeSeries]) -> Environment:
    given: dict[str, Any] = {"m1": M1, "m2": M2, "empty": EMPTY, "all": [M1, M2], **values}
    return Environment(START_S, START_S + 300, 60, given, [("m1", M1), ("m2", M2)], {SEARCH: [M1, EMPTY, M2]})


def shown(value: Any) -> Any:
    """A series as its values, with None where there is none."""
    if isinstance(value, list):
        return [shown(each) for each in value]
    if isinstance(value, TimeSeries):
        found = dict(value.points())
        return [found.get(START_S + at * 60) for at in range(5)]
    return value


def result(text: str, **values: TimeSeries | list[TimeSeries]) -> Any:
    return shown(finished(compute(parse_expression(text), environment(**values))))


@every_row(
    ("text", "value"),
    [
        ("1 + 2 * 3", 7.0),
        ("(1 + 2) * 3", 9.0),
        ("2 ^ 3 ^ 2", 512.0),
        ("-2 ^ 2", -4.0),
        ("8 - 3 - 2", 3.0),
        ("8 / 4 / 2", 1.0),
        ("1.5e3", 1500.0),
        (".5 + 1.", 1.5),
        ("1 < 2", 1.0),
        ("2 <= 1", 0.0),
        ("1 == 1 AND 2 != 2", 0.0),
        ("0 || 3", 1.0),
        ("1 && 0 OR 1", 1.0),
        ("- - 3", 3.0),
        ("+3", 3.0),
        ("ABS(-3)", 3.0),
        ("CEIL(1.2) + FLOOR(1.8)", 3.0),
        ("LOG10(100)", 2.0),
        ("SUM(m1)", 11.0),
        ("AVG(m1)", 2.75),
        ("MIN(m1)", 1.0),
        ("MAX(m1)", 5.0),
        ("STDDEV(m2)", math.sqrt(((10 - 20) ** 2 + 10**2 + 20**2 + 20**2) / 4)),
        ("DATAPOINT_COUNT(m1)", 4.0),
        ("METRIC_COUNT(METRICS())", 2.0),
        ("PERIOD(m1)", 60.0),
        ("IF(1, 2, 3)", 2.0),
        ("IF(0, 2, 3)", 3.0),
    ],
)
def test_numbers(text: str, value: float) -> None:
    assert result(text) == pytest.approx(value)


N = MISSING


@every_row(
    ("text", "values"),
    [
        ("m1", [1, 2, 3, N, 5]),
        ("m1 + m2", [11, 2, 33, 40, 5]),
        ("m1 * 2", [2, 4, 6, N, 10]),
        ("10 - m1", [9, 8, 7, N, 5]),
        ("m1 / m2", [0.1, N, 0.1, 0, N]),  # division by zero gives no value
        ("m2 > m1", [1, 0, 1, 1, 0]),
        ("-m1", [-1, -2, -3, N, -5]),
        ("m1 ^ 2", [1, 4, 9, N, 25]),
        ("m1 / AVG(m1)", [1 / 2.75, 2 / 2.75, 3 / 2.75, N, 5 / 2.75]),
        ("SUM(METRICS())", [11, 2, 33, 40, 5]),
        ("SUM([m1, m2])", [11, 2, 33, 40, 5]),
        ("AVG(METRICS())", [5.5, 2, 16.5, 40, 2.5]),
        ("MAX([m1, m2])", [10, 2, 30, 40, 5]),
        ('SUM(METRICS("1"))', [1, 2, 3, N, 5]),
        ("DATAPOINT_COUNT(METRICS())", [2, 1, 2, 1, 2]),
        ("DIFF(m1)", [N, 1, 1, N, 2]),
        ("DIFF_TIME(m1)", [N, 60, 60, N, 120]),
        ("RATE(m1)", [N, 1 / 60, 1 / 60, N, 2 / 120]),
        ("RUNNING_SUM(m1)", [1, 3, 6, N, 11]),
        ("FILL(m1, 0)", [1, 2, 3, 0, 5]),
        ("FILL(m1, REPEAT)", [1, 2, 3, 3, 5]),
        ("FILL(m1, LINEAR)", [1, 2, 3, 4, 5]),
        ("FILL(m1, m2)", [1, 2, 3, 40, 5]),
        ("FILL(empty, 7)", [7, 7, 7, 7, 7]),
        ("FILL(empty, REPEAT)", [N, N, N, N, N]),
        ("TIME_SERIES(4)", [4, 4, 4, 4, 4]),
        ("MINUTE(m1)", [20, 21, 22, 23, 24]),
        ("HOUR(m1)", [13] * 5),
        ("DAY(m1)", [3] * 5),
        ("DATE(m1)", [17] * 5),
        ("MONTH(m1)", [12] * 5),
        ("YEAR(m1)", [2025] * 5),
        ("EPOCH(m1)", [START_S + at * 60 for at in range(5)]),
        ("FIRST(METRICS())", [1, 2, 3, N, 5]),
        ("LAST(METRICS())", [10, N, 30, 40, 0]),
        ("SLICE(METRICS(), 1)", [10, N, 30, 40, 0]),
        ("ABS(0 - m1)", [1, 2, 3, N, 5]),
        ("LOG10(m2)", [1, N, math.log10(30), math.log10(40), N]),
        ("IF(m1 > 2, m1, 0)", [0, 0, 3, N, 5]),
        ("IF(m1 > 2, m1)", [N, N, 3, N, 5]),
        ("IF(m1 > 2 AND m2 > 2, 1, 0)", [0, 0, 1, 0, 0]),
    ],
)  # fmt: skip
def test_time_series(text: str, values: list[float | None]) -> None:
    found = result(text)
    assert [each is None for each in found] == [each is None for each in values]
    assert [each for each in found if each is not None] == pytest.approx(
        [each for each in values if each is not None]
    )


def test_if_with_gaps_as_in_the_user_guide() -> None:
    given = {"m": series(1, 1, 0, 0, N), "a": series(30, N, 0, 0, 30), "b": series(0, 0, 20, N, 20)}
    assert result("IF(m, a, b)", **given) == [30, 0, 20, N, N]
    assert result("IF(m, 5, b)", **given) == [5, 5, 20, N, N]
    assert result("IF(m, a, 5)", **given) == [30, 0, 5, 5, N]


def test_lists() -> None:
    assert result("METRICS() * 2") == [[2, 4, 6, N, 10], [20, N, 60, 80, 0]]
    assert result("1 / METRICS()")[0] == [1, 0.5, 1 / 3, N, 0.2]
    assert result("SORT(METRICS(), MAX, DESC)") == [shown(M2), shown(M1)]
    assert result("SORT(METRICS(), SUM, ASC, 1)") == [shown(M1)]
    assert result("SLICE(METRICS(), 0, 1)") == [shown(M1)]
    assert result("REMOVE_EMPTY(SEARCH('{AWS/SQS,QueueName}', 'Sum'))") == [shown(M1), shown(M2)]
    assert result("FILL(METRICS(), 0)") == [[1, 2, 3, 0, 5], [10, 0, 30, 40, 0]]
    assert result("DIFF(METRICS())")[1] == [N, N, 20, 10, -40]


def test_backlog_per_worker() -> None:
    assert result("FILL(visible, 0) / workers", visible=series(100, N, 50, N, 8), workers=series(4, 4, 2, 2, 0)) == [
        25, 0, 25, 0, N,
    ]  # fmt: skip


@every_row(
    "text",
    [
        "", " ", "1 +", "* 2", "(1", "1)", "m1 m2", "SUM(m1", "SUM(m1,)", "[m1", "SUM(", "1 2", "'open", "m1 & m2",
        "m1 = 2", "NOPE(m1)", "nope", "SUM()", "SUM(m1, m2)", "SUM('x')", "PERIOD(1)", "'x' + 1", "IF(0, 2)", "AND",
        "METRICS() + METRICS()", "IF(METRICS(), 1, 2)", "FILL(m1)", "FILL(m1, 'x')", "SORT(METRICS(), STDDEV, ASC)",
        "SLICE(METRICS(), 9)", "FIRST(m1)", "FIRST(METRICS(), 1)", "METRICS(1)", "m1 AND", "ABS('x')", "1 / 0",
        "10 ^ 400", "SUM([1])", "LOG(0)", "ANOMALY_DETECTION_BAND(m1, 2)", "REPEAT", "(" * 100 + "1" + ")" * 100,
        "-" * 100 + "1", "1 +" * EXPRESSION_LENGTH_MAX, "1" + "+1" * 600,
    ],
)  # fmt: skip
def test_a_wrong_expression(text: str) -> None:
    with pytest.raises(ExpressionInvalid):
        result(text)


def test_expressions_are_computed_behind_those_that_they_refer_to() -> None:
    parts = {id: parse_expression(text) for id, text in {"e1": "e2 + m1", "e2": "e3", "e3": "m1 * 2"}.items()}
    assert finished(in_order(parts, frozenset({"m1"}))) == ["e3", "e2", "e1"]
    assert ids_of(parts["e1"]) == {"e2", "m1"}
    with pytest.raises(ExpressionInvalid, match="circle"):
        finished(in_order({"a": parse_expression("b"), "b": parse_expression("a")}, frozenset()))
    with pytest.raises(ExpressionInvalid, match="'zz'"):
        finished(in_order({"a": parse_expression("zz")}, frozenset()))


def test_what_a_request_computes_is_bounded() -> None:
    many = TimeSeries.of({at: 1.0 for at in range(100_000)}, 60)
    expression = parse_expression(" + ".join(["m1"] * 20))
    with pytest.raises(ExpressionInvalid, match="too much"):
        finished(compute(expression, environment(m1=many)))
    endless = Environment(0, STEPS_MAX * 100, 1, {})
    with pytest.raises(ExpressionInvalid, match="more than 100800 values"):
        finished(compute(parse_expression("TIME_SERIES(1)"), endless))


def test_a_long_chain_of_operators() -> None:
    assert result(" + ".join(["m1"] * 250)) == [250.0, 500.0, 750.0, None, 1250.0]


def test_parts_of_dates_are_those_of_the_calendar() -> None:
    days = [*range(-800_000, 800_000, 1_003), 11_016, 11_017]  # also of a leap year
    for day in days:
        date = EPOCH + timedelta(days=day) if -719_162 <= day < 2_932_896 else None
        if date is not None:
            given = Environment(day * 86_400, day * 86_400 + 60, 60, {})
            found = [
                finished(compute(parse_expression(f"{name}(TIME_SERIES(1))"), given))
                for name in ("YEAR", "MONTH", "DATE", "DAY", "HOUR", "MINUTE")
            ]
            shown_date = [each.values[0] for each in found if isinstance(each, TimeSeries)]
            assert shown_date == [date.year, date.month, date.day, date.isoweekday(), 0, 0], day


OPERATORS = ["+", "-", "*", "/", "^", "<", "<=", "==", "!=", ">=", ">", "AND", "OR"]
_numbers = st.floats(0, 1000, allow_nan=False).map(lambda value: f"{value:.3f}")
_expressions = st.recursive(
    _numbers | st.sampled_from(["m1", "m2", "empty", "METRICS()", "AVG(m1)"]),
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(sorted(FUNCTIONS)), st.lists(inner, max_size=3)).map(
            lambda parts: f"{parts[0]}({', '.join(parts[1])})"
        ),
        st.tuples(inner, st.sampled_from(OPERATORS), inner).map(lambda parts: f"({' '.join(parts)})"),
        st.lists(inner, max_size=3).map(lambda parts: f"[{', '.join(parts)}]"),
        inner.map(lambda part: f"-{part}"),
    ),
    max_leaves=15,
)


def check(text: str) -> None:
    """It is refused, or every value of its result is a number."""
    try:
        value = finished(compute(parse_expression(text), environment()))
    except ExpressionInvalid as error:
        assert str(error)
        return
    for each in value if isinstance(value, list) else [value]:
        if isinstance(each, TimeSeries):
            assert all(math.isfinite(number) for number in each.values), text
            assert list(each.times) == sorted(each.times), "in order of time"
        elif isinstance(each, float):
            assert math.isfinite(each)


@given(_expressions)
def test_every_expression_is_computed_or_refused(text: str) -> None:
    check(text)


@given(st.text(alphabet="m12 +-*/^()[],'\"<>=!&|ANDORSUMETIC.e", max_size=40) | st.text(max_size=30))
def test_every_text_is_computed_or_refused(text: str) -> None:
    check(text)


@given(st.lists(st.sampled_from(["+", "-", "*"]), max_size=8), st.data())
def test_operators_bind_as_in_python(operators: list[str], data: st.DataObject) -> None:
    numbers = data.draw(
        st.lists(st.integers(0, 50), min_size=len(operators) + 1, max_size=len(operators) + 1)
    )
    text = str(numbers[0]) + "".join(
        f" {op} {number}" for op, number in zip(operators, numbers[1:], strict=True)
    )
    assert result(text) == eval(text)
