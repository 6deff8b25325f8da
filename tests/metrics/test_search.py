"""What a SEARCH of metric math finds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import ExpressionInvalid
from penstock.metrics.search import parse_search
from penstock.metrics.series import MetricKey
from support.rows import every_row

SENT_A = MetricKey.of("AWS/SQS", "NumberOfMessagesSent", [("QueueName", "orders")])
SENT_B = MetricKey.of("AWS/SQS", "NumberOfMessagesSent", [("QueueName", "orders-dead")])
AGE_A = MetricKey.of("AWS/SQS", "ApproximateAgeOfOldestMessage", [("QueueName", "orders")])
LATENCY = MetricKey.of("My App", "Latency", [("Host", "a"), ("Stage", "prod")])
BARE = MetricKey.of("My App", "Latency")
METRICS = [SENT_A, SENT_B, AGE_A, LATENCY, BARE]


@every_row(
    ("text", "found"),
    [
        ("{AWS/SQS,QueueName}", [SENT_A, SENT_B, AGE_A]),
        ('{"AWS/SQS", "QueueName"} MetricName="NumberOfMessagesSent"', [SENT_A, SENT_B]),
        ('{AWS/SQS,QueueName} MetricName="NumberOfMessages"', []),
        ("{AWS/SQS,QueueName} MetricName=numberofmessages", [SENT_A, SENT_B]),
        ('{AWS/SQS,QueueName} MetricName="NumberOfMessagesSent" QueueName="orders"', [SENT_A]),
        ('{AWS/SQS,QueueName} "QueueName"=("orders" OR "other")', [SENT_A, AGE_A]),
        ('{AWS/SQS,QueueName} QueueName="orders" AND NOT MetricName="NumberOfMessagesSent"', [AGE_A]),
        ("dead", [SENT_B]),
        ("{AWS/SQS,QueueName} dead OR Oldest", [SENT_B, AGE_A]),
        ("{AWS/SQS,QueueName} (dead OR Oldest) NOT Sent", [AGE_A]),
        ("{My App}", [BARE]),
        ("{My App,Stage,Host}", [LATENCY]),
        ('Namespace="My App"', [LATENCY, BARE]),
        ("{AWS/SQS}", []),
        ('{AWS/SQS,QueueName} Host="a"', []),
    ],
)
def test_a_search(text: str, found: list[MetricKey]) -> None:
    assert [key for key in METRICS if parse_search(text).matches(key)] == found


@every_row("text", ["", "{}", "{,}", "{a} (", "{a} )", "AND", "a =", "= a", '"open', "NOT", "(" * 99])
def test_a_wrong_search(text: str) -> None:
    with pytest.raises(ExpressionInvalid):
        parse_search(text)


@given(st.text(alphabet="{}AWS/, QueueName=\"'()ORND", max_size=60) | st.text(max_size=40))
def test_any_text_is_a_search_or_is_refused(text: str) -> None:
    try:
        matches = parse_search(text).matches
    except ExpressionInvalid:
        return
    assert all(matches(key) in (True, False) for key in METRICS)
