"""Metric math, searches of metrics and rules of composite alarms: each text has a meaning or is refused."""

from __future__ import annotations

import math

from fuzz.targets import text_of
from penstock.errors import ExpressionInvalid, RuleInvalid
from penstock.metrics.composite import parse_rule
from penstock.metrics.expressions import CallPart, parse_expression, parts_of
from penstock.metrics.functions import FUNCTIONS, Environment, TimeSeries, compute
from penstock.metrics.search import parse_search
from penstock.metrics.series import MetricKey
from penstock.turns import finished

WORDS = [
    *(f"{name}(".encode() for name in sorted(FUNCTIONS)),
    *(b"m1", b"m2", b"METRICS()", b"REPEAT", b"LINEAR", b"ASC", b" AND ", b" OR ", b"NOT ", b"^", b"1e300"),
    *(b"0.0", b"[", b")"),
    *(b"ALARM(", b"OK(", b"INSUFFICIENT_DATA(", b"TRUE", b"{AWS/SQS,QueueName}", b'MetricName="',
      b"SEARCH('", b"', 'Sum')"),
]  # fmt: skip

_ONE = TimeSeries.of({0: 1.0, 60: 2.0, 180: -3.5}, 60, "m1")
_TWO = TimeSeries.of({0: 0.0, 120: 1e300}, 60, "m2")
_KEY = MetricKey.of("AWS/SQS", "NumberOfMessagesSent", [("QueueName", "orders")])


def seeds() -> list[bytes]:
    return [
        b"FILL(m1, 0) / m2",
        b"IF(m1 > 1 AND m2 < 3, RATE(m1), SUM(METRICS()))",
        b"SORT(REMOVE_EMPTY([m1, m2]), MAX, DESC, 1)",
        b'ALARM("a b") AND NOT (OK(b) OR FALSE)',
        b'{AWS/SQS,QueueName} MetricName="NumberOfMessagesSent" QueueName=("a" OR "b")',
    ]


def check(data: bytes) -> None:
    text = text_of(data)
    try:
        assert parse_rule(text).holds(lambda name: "ALARM") in (True, False)
    except RuleInvalid as error:
        assert str(error)
    try:
        assert parse_search(text).matches(_KEY) in (True, False)
    except ExpressionInvalid as error:
        assert str(error)
    try:
        _check_expression(text)
    except ExpressionInvalid as error:
        assert str(error)


def _check_expression(text: str) -> None:
    part = parse_expression(text)
    searches = {
        each: [_ONE] for each in parts_of(part) if isinstance(each, CallPart) and each.function == "SEARCH"
    }
    given = Environment(0, 240, 60, {"m1": _ONE, "m2": _TWO}, [("m1", _ONE), ("m2", _TWO)], searches)
    value = finished(compute(part, given))
    for each in value if isinstance(value, list) else [value]:
        if isinstance(each, TimeSeries):
            assert all(math.isfinite(number) for number in each.values)
