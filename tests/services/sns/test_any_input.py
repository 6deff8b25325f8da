"""No input of SNS causes an internal error, in any protocol."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.services.sns import ACTIONS
from services.sns.world import ARN, SnsWorld, queue_arn
from support.generated import examples
from support.http_requests import FORM, PlainRequest, form_parameters, json_request

NEWS, FIFO = f"{ARN}:news", f"{ARN}:a.fifo"
SUBSCRIPTION = f"{NEWS}:00000000-0000-4000-8000-000000000000"
APPLICATION, ENDPOINT = f"{ARN}:app/GCM/shop", f"{ARN}:endpoint/GCM/shop/00000000-0000-4000-8000-000000000000"
AWKWARD = st.sampled_from(
    [
        "", "a", "a.fifo", "\x00", "é", "x" * 2000, "true", "FALSE", "{}", "[]", "null", "{", '"', "0", "-1", "1e400",
        NEWS, FIFO, SUBSCRIPTION, APPLICATION, ENDPOINT, queue_arn("q"), "arn:aws:sns:::", ":" * 10, "0" * 256,
        "sqs", "http", "https", "email", "sms", "application", "lambda", "http://a.test/", "http://[::1", "https://@",
        "+1234567", "a@b.test", "DisplayName", "Policy", "DeliveryPolicy", "ArchivePolicy", "MaximumMessageSize",
        "FilterPolicy", "FilterPolicyScope", "RedrivePolicy", "ReplayPolicy", "RawMessageDelivery", "MessageBody",
        '{"a":[{"numeric":[">",1]}]}', '{"a":{"b":["c"]}}', '{"$or":[{"a":["b"]},{"c":["d"]}]}',
        '{"deadLetterTargetArn":{}}', '{"MessageRetentionPeriod":1}', '{"MessageRetentionPeriod":"9999999999"}',
        '{"PointType":"Timestamp","StartingPoint":"9999-12-31T23:59:59+23:00"}',
        '{"http":{"defaultThrottlePolicy":[]}}',
        '{"healthyRetryPolicy":{"minDelayTarget":1e400}}', '{"default":"x","sqs":1}', '{"default":"\\ud800"}', "json",
        '{"Statement":{"Effect":"Allow","Action":"SNS:Publish","Principal":"*","Resource":"*"}}',
        '{"Version":[],"Statement":[{"Effect":{},"Action":"x","Resource":"y","Sid":{}}]}', "Publish", "123456789012",
        "String", "Number", "Binary", "aGk=", "W1tdLDEsIiJd", "WyJ0b3BpY3MiLCJ4Il0=", "GCM", "Enabled", "Token",
        "DefaultSMSType", "PlatformCredential", "+12345678", "123456",
        None, 0, 1, -1, 2**63, 10**400, 1.5, True,
    ]
)  # fmt: skip
INNER = [
    "Id", "Message", "Subject", "MessageStructure", "MessageAttributes", "MessageGroupId", "MessageDeduplicationId",
    "DataType", "StringValue", "BinaryValue", "Key", "Value", "a", "DisplayName", "FilterPolicy", "RedrivePolicy",
    "RawMessageDelivery", "FifoTopic", "Token", "PlatformCredential", "MonthlySpendLimit",
]  # fmt: skip
MEMBERS = sorted({name for row in ACTIONS.values() for name in row.request.__struct_fields__})
VALUES = st.recursive(
    AWKWARD,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(INNER), inner, max_size=4),
    max_leaves=8,
)
REQUESTS = st.dictionaries(st.sampled_from(MEMBERS), VALUES, max_size=6)
USUAL: dict[str, Any] = {
    "TopicArn": NEWS, "SubscriptionArn": SUBSCRIPTION, "Name": "news", "Message": "m", "Protocol": "sqs",
    "Endpoint": queue_arn("q"), "ResourceArn": NEWS, "PlatformApplicationArn": APPLICATION, "EndpointArn": ENDPOINT,
    "Platform": "GCM", "Attributes": {}, "PublishBatchRequestEntries": [{"Id": "a", "Message": "m"}], "Label": "l",
    "AWSAccountId": ["123456789012"], "ActionName": ["Publish"], "PhoneNumber": "+12345678", "Token": "t",
    "OneTimePassword": "123456",
}  # fmt: skip


@pytest.fixture(scope="module")
def world() -> Iterator[SnsWorld]:
    with SnsWorld() as made:
        made.create("q")
        yield made


@pytest.mark.parametrize("action", sorted(ACTIONS))
@settings(
    max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(members=REQUESTS, usual=st.booleans(), topic=st.sampled_from([NEWS, FIFO]))
def test_no_input_is_an_internal_error(
    world: SnsWorld, action: str, members: dict[str, Any], usual: bool, topic: str
) -> None:
    world.make()
    world.make("a.fifo")
    if usual:
        known = ACTIONS[action].request.__struct_fields__
        given = {key: value for key, value in USUAL.items() if key in known and key != "PhoneNumber"}
        if "OneTimePassword" in known or action.endswith("SandboxPhoneNumber"):
            given["PhoneNumber"] = USUAL["PhoneNumber"]
        if "TopicArn" in known:
            given["TopicArn"] = topic
        members = {**given, **members}
    response = world.answer(json_request(f"AmazonSNS.{action}", json.dumps(members).encode()))
    assert response.status < 500, (action, members, response.body)
    form = urlencode(
        [("Action", action), ("Version", "2010-03-31"), *form_parameters(members)], errors="replace"
    )
    response = world.answer(PlainRequest(headers={b"content-type": FORM}, body=form.encode()))
    assert response.status < 500, (action, form, response.body)
    _end(world)


def _end(world: SnsWorld) -> None:
    """Topics are made anew, so that no example depends on those before."""
    for topic in world("ListTopics")["Topics"]:
        arn = topic["TopicArn"]
        if arn.endswith(".fifo"):
            world.set(arn, "ArchivePolicy", "{}")
        world("DeleteTopic", TopicArn=arn)
