"""No input of CloudWatch causes an internal error, in any protocol."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from monitoring.alarms import arn, put_alarm
from monitoring.world import MonitoringWorld
from penstock.services.cloudwatch import ACTIONS
from penstock.wire.cbor import encode
from support.generated import examples
from support.http_requests import FORM, PlainRequest, form_parameters, json_request

TARGET = "GraniteServiceVersion20100801"
AWKWARD = st.sampled_from(
    [
        "", "a", "c", "d", "App", "m", "AWS/SQS", "QueueName", "Sum", "p99", "TM(:)", "PR(1:0)", "\x00", "é",
        "x" * 2000, "ALARM", "OK", "ALARM(a) AND", "NOT NOT TRUE", "m1", "m1 + m2", "SEARCH('{', 'x')",
        "FILL(m1, m1)", "{}", "[]", '{"widgets":[{"type":"text","properties":{"markdown":1}}]}', arn("a"),
        arn("q", "sqs"), "https://x/",
        "arn:aws:penstock:::webhook/http://x", "GreaterThanThreshold", "breaching", "MetricAlarm",
        "TimestampAscending", "W1tdLDEsIiJd", "NaN", "-Infinity", "PT3H", "${MAX} ${PROP('Dim.x')}", "+0130",
        None, 0, 1, -1, 60, 300, 2**63, 10**400, 1.5, 1e300, 1_700_000_000, True,
    ]
)  # fmt: skip
INNER = [
    "Id", "MetricStat", "Expression", "Metric", "Namespace", "MetricName", "Dimensions", "Name", "Value", "Values",
    "Counts", "Period", "Stat", "Unit", "Key", "StatisticValues", "Timestamp", "ReturnData", "Label", "SampleCount",
]  # fmt: skip
MEMBERS = sorted({name for row in ACTIONS.values() for name in row.request.__struct_fields__})
VALUES = st.recursive(
    AWKWARD,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(INNER), inner, max_size=5),
    max_leaves=10,
)
REQUESTS = st.dictionaries(st.sampled_from(MEMBERS), VALUES, max_size=7)
USUAL: dict[str, Any] = {
    "Namespace": "App", "MetricName": "m", "Statistic": "Sum", "Period": 60, "EvaluationPeriods": 1, "Threshold": 1,
    "ComparisonOperator": "GreaterThanThreshold", "AlarmName": "a", "AlarmNames": ["a"], "ResourceARN": arn("a"),
    "DashboardName": "d", "StateValue": "OK", "StateReason": "", "StartTime": 1_700_000_000,
    "EndTime": 1_700_000_600, "Statistics": ["Sum"],
}  # fmt: skip


@pytest.fixture(scope="module")
def world() -> Iterator[MonitoringWorld]:
    with MonitoringWorld() as made:
        cw = made.client()
        put_alarm(cw, "a")
        cw.put_composite_alarm(AlarmName="c", AlarmRule="ALARM(a)")
        yield made


def requests(action: str, members: dict[str, Any]) -> Iterator[PlainRequest]:
    yield json_request(f"{TARGET}.{action}", json.dumps(members).encode())
    try:
        body = encode(members)
    except (ValueError, OverflowError):
        return  # a number that CBOR does not have
    path = f"/service/{TARGET}/operation/{action}".encode()
    yield PlainRequest(b"POST", path, {b"smithy-protocol": b"rpc-v2-cbor"}, body)


@pytest.mark.parametrize("action", sorted(ACTIONS))
@settings(
    max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(members=REQUESTS, usual=st.booleans())
def test_no_input_is_an_internal_error(
    world: MonitoringWorld, action: str, members: dict[str, Any], usual: bool
) -> None:
    if usual:
        known = ACTIONS[action].request.__struct_fields__
        members = {**{key: value for key, value in USUAL.items() if key in known}, **members}
    for request in requests(action, members):
        response = world.answer(request)
        assert response.status < 500, (action, members, response.body)
    form = urlencode(
        [("Action", action), ("Version", "2010-08-01"), *form_parameters(members)], errors="replace"
    )
    response = world.answer(PlainRequest(headers={b"content-type": FORM}, body=form.encode()))
    assert response.status < 500, (action, form, response.body)
    world.advance(61_000)  # alarms that were made are looked at
