"""No input causes an internal error."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.services.sqs import ACTIONS
from support.generated import examples

AWKWARD = st.sampled_from(
    [
        "", "q", "q.fifo", "\x00", "\ud800", "é", "All", ".*", "x" * 2000, "-1", "0", "30", "1e400", "true",
        "{}", "[]",
        '{"maxReceiveCount":1,"deadLetterTargetArn":"arn:aws:sqs:eu-west-1:123456789012:q"}',
        '{"redrivePermission":"byQueue","sourceQueueArns":[{}]}', '{"redrivePermission":["x"]}',
        '{"Version":[],"Statement":[{"Effect":{},"Action":"x","Resource":"y"}]}',
        '{"Statement":{"Effect":"Allow","Action":"x","Resource":"y","Sid":{}}}',
        "arn:aws:sqs:eu-west-1:123456789012:q", "123456789012", "SendMessage", "String", "Number", "Binary", "aGk=",
        "W1tdLDEsIiJd", "eyJ0YXNrSWQiOiJ0In0=", "http://host/123456789012/q", "Policy", "RedrivePolicy",
        "RedriveAllowPolicy", "FifoQueue", "VisibilityTimeout", "AWSTraceHeader",
        None, 0, 1, -1, 2**63, 10**400, 1.5, True,
    ]
)  # fmt: skip
MEMBERS = sorted({name for row in ACTIONS.values() for name in row.request.__struct_fields__})
ENTRY = ["Id", "MessageBody", "ReceiptHandle", "DataType", "StringValue", "BinaryValue", "DelaySeconds"]
VALUES = st.recursive(
    AWKWARD,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*ENTRY, "Policy", "RedrivePolicy", "a", "AWSTraceHeader"]), inner)
    ),
    max_leaves=8,
)
REQUESTS = st.dictionaries(st.sampled_from(MEMBERS), VALUES, max_size=6)


@pytest.mark.parametrize("action", sorted(ACTIONS))
@settings(
    max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(members=REQUESTS, named=st.booleans())
def test_no_input_is_an_internal_error(sqs: Any, action: str, members: dict[str, Any], named: bool) -> None:
    for name in ("q", "q.fifo"):
        sqs("CreateQueue", QueueName=name, Attributes={"FifoQueue": "true"} if "." in name else {})
    if named:
        members = {**members, "QueueUrl": "q"}
    if not sqs.broker.tasks:
        sqs("StartMessageMoveTask", SourceArn="arn:aws:sqs:eu-west-1:123456789012:q")
    reply = sqs(action, **members)
    assert reply.status < 500, (action, json.dumps(members))
