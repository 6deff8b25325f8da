"""The attributes of subscriptions: what can be set, what is shown, and the texts for what cannot be set."""

from __future__ import annotations

import json
from typing import Any

import pytest

from services.sns.world import ACCOUNT, SnsWorld, queue_arn

TARGET = queue_arn("dead")
REDRIVE = f'{{ "deadLetterTargetArn": "{TARGET}" }}'


def change(sns: SnsWorld, arn: str, name: str, value: str | None) -> None:
    given = {} if value is None else {"AttributeValue": value}
    sns("SetSubscriptionAttributes", SubscriptionArn=arn, AttributeName=name, **given)


def refused(sns: SnsWorld, arn: str, name: str, value: str) -> str:
    code, text = sns.refused(
        "SetSubscriptionAttributes", SubscriptionArn=arn, AttributeName=name, AttributeValue=value
    )
    assert code == "InvalidParameter"
    return text.removeprefix("Invalid parameter: ")


def test_a_new_subscription(sns: SnsWorld) -> None:
    topic = sns.make()
    arn = sns.subscribe_to(topic)
    assert sns.of_subscription(arn) == {
        "SubscriptionArn": arn,
        "TopicArn": topic,
        "Owner": ACCOUNT,
        "SubscriptionPrincipal": f"arn:aws:iam::{ACCOUNT}:root",
        "Protocol": "sqs",
        "Endpoint": queue_arn("any"),
        "RawMessageDelivery": "false",
        "PendingConfirmation": "false",
        "ConfirmationWasAuthenticated": "true",
    }


def test_a_subscription_of_http_has_a_delivery_policy(sns: SnsWorld) -> None:
    topic = sns.make()
    arn = sns.subscribe_to(topic, "http", "http://a.test/")
    effective = json.loads(sns.of_subscription(arn)["EffectiveDeliveryPolicy"])
    assert effective["healthyRetryPolicy"]["numRetries"] == 3
    sns.set(topic, "DeliveryPolicy", '{"http":{"defaultThrottlePolicy":{"maxReceivesPerSecond":7}}}')
    effective = json.loads(sns.of_subscription(arn)["EffectiveDeliveryPolicy"])
    assert effective["throttlePolicy"] == {"maxReceivesPerSecond": 7}


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("RawMessageDelivery", "TRUE", "true"),
        ("FilterPolicy", '{ "b": [1.50, "x"],\n"a": [null] }', '{"b":[1.50,"x"],"a":[null]}'),
        ("RedrivePolicy", REDRIVE, REDRIVE),
    ],
)
def test_what_is_set_is_shown(sns: SnsWorld, name: str, value: str, shown: str) -> None:
    arn = sns.subscribe_to(sns.make())
    change(sns, arn, name, value)
    assert sns.of_subscription(arn)[name] == shown


def test_a_delivery_policy_is_shown_with_all_parts(sns: SnsWorld) -> None:
    arn = sns.subscribe_to(sns.make(), "http", "http://a.test/")
    policy = {"healthyRetryPolicy": {"minDelayTarget": 1, "maxDelayTarget": 2, "numRetries": 4}}
    change(sns, arn, "DeliveryPolicy", json.dumps(policy))
    assert sns.of_subscription(arn)["DeliveryPolicy"] == (
        '{"healthyRetryPolicy":{"minDelayTarget":1,"maxDelayTarget":2,"numRetries":4,"numMaxDelayRetries":0,'
        '"numNoDelayRetries":0,"numMinDelayRetries":0,"backoffFunction":"linear"},"sicklyRetryPolicy":null,'
        '"throttlePolicy":null,"requestPolicy":null,"guaranteed":false}'
    )
    change(sns, arn, "DeliveryPolicy", "")
    assert "DeliveryPolicy" not in sns.of_subscription(arn)


@pytest.mark.parametrize(
    ("name", "value", "nothing"),
    [
        ("FilterPolicy", '{"a":["b"]}', ""),
        ("FilterPolicy", '{"a":["b"]}', " { } "),
        ("RedrivePolicy", REDRIVE, None),
        ("RedrivePolicy", REDRIVE, ""),
        ("RedrivePolicy", REDRIVE, "{}"),
    ],
)
def test_policies_are_removed(sns: SnsWorld, name: str, value: str, nothing: str | None) -> None:
    arn = sns.subscribe_to(sns.make())
    before = sns.of_subscription(arn)
    change(sns, arn, name, value)
    assert sns.of_subscription(arn) != before
    change(sns, arn, name, nothing)
    assert sns.of_subscription(arn) == before


UNKNOWN = "AttributeName"


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("Owner", "x", UNKNOWN),
        ("Unknown", "x", UNKNOWN),
        ("PendingConfirmation", "true", UNKNOWN),
        ("SubscriptionRoleArn", "arn:aws:iam::000000000000:role/x", UNKNOWN),
        ("ReplayPolicy", "{}", UNKNOWN),
        ("DeliveryPolicy", "{}", UNKNOWN),
        ("RawMessageDelivery", "x", "RawMessageDelivery: Invalid value [x]. Must be true or false."),
        ("RawMessageDelivery", "", "RawMessageDelivery: Invalid value []. Must be true or false."),
        (
            "FilterPolicyScope",
            "X",
            "FilterPolicyScope: Invalid value [X]. Please use either MessageBody or MessageAttributes",
        ),
        (
            "RedrivePolicy",
            '{"deadLetterTargetArn":"x"}',
            "RedrivePolicy: deadLetterTargetArn is an invalid arn",
        ),
        (
            "RedrivePolicy",
            '{"deadLetterTargetArn":7}',
            "RedrivePolicy: deadLetterTargetArn is an invalid arn",
        ),
        (
            "RedrivePolicy",
            json.dumps({"deadLetterTargetArn": queue_arn("q", account="1" * 12)}),
            "RedrivePolicy: deadLetterTargetArn is an invalid arn",
        ),
        (
            "RedrivePolicy",
            json.dumps({"deadLetterTargetArn": queue_arn("q", region="us-east-1")}),
            "RedrivePolicy: deadLetterTargetArn is an invalid arn",
        ),
        (
            "RedrivePolicy",
            json.dumps({"deadLetterTargetArn": queue_arn("a b")}),
            "RedrivePolicy: deadLetterTargetArn is an invalid arn",
        ),
        ("RedrivePolicy", "[]", "RedrivePolicy: deadLetterTargetArn is an invalid arn"),
        (
            "RedrivePolicy",
            json.dumps({"deadLetterTargetArn": TARGET, "maxReceiveCount": 3}),
            "RedrivePolicy: invalid JSON. Attribute maxReceiveCount is unknown.",
        ),
        ("RedrivePolicy", " " * 5000, "RedrivePolicy: must be at most 4096 characters long"),
    ],
)
def test_what_cannot_be_set(sns: SnsWorld, name: str, value: str, text: str) -> None:
    arn = sns.subscribe_to(sns.make())
    before = sns.of_subscription(arn)
    assert refused(sns, arn, name, value) == text
    assert sns.of_subscription(arn) == before


@pytest.mark.parametrize("name", ["RedrivePolicy", "FilterPolicy"])
def test_what_is_not_json(sns: SnsWorld, name: str) -> None:
    arn = sns.subscribe_to(sns.make())
    assert refused(sns, arn, name, "{invalid}").startswith(
        f"{name}: failed to parse JSON. Unexpected character ('i' (code 105)): "
        "was expecting double-quote to start field name\n at [Source: REDACTED "
        "(`StreamReadFeature.INCLUDE_SOURCE_IN_LOCATION` disabled); line: 1, column: 2]"
    )


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        ('{"a":"b"}', '"a" must be an object or an array'),
        ('{"a":[]}', "Empty arrays are not allowed"),
        ('{"a":[{"prefix":1}]}', "prefix match pattern must be a string"),
        ('{"a":[{"unknown":"b"}]}', "Unrecognized match type unknown"),
        (
            '{"a":["1"],"b":["1"],"c":["1"],"d":["1"],"e":["1"],"f":["1"]}',
            "Filter policy can not have more than 5 keys",
        ),
    ],
)
def test_filters_that_are_refused(sns: SnsWorld, policy: str, text: str) -> None:
    arn = sns.subscribe_to(sns.make())
    assert refused(sns, arn, "FilterPolicy", policy).startswith(f"FilterPolicy: {text}")


NESTED = '{"a":{"b":["c"]}}'
NOT_NESTED = "Filter policy scope MessageAttributes does not support nested filter policy"


def test_a_scope_is_remembered_and_shown_with_a_filter(sns: SnsWorld) -> None:
    arn = sns.subscribe_to(sns.make())
    change(sns, arn, "FilterPolicyScope", "MessageBody")
    assert "FilterPolicyScope" not in sns.of_subscription(arn)
    change(sns, arn, "FilterPolicy", NESTED)
    assert sns.of_subscription(arn)["FilterPolicyScope"] == "MessageBody"
    assert refused(sns, arn, "FilterPolicyScope", "MessageAttributes") == NOT_NESTED
    change(sns, arn, "FilterPolicy", '{"a":["b"]}')
    change(sns, arn, "FilterPolicyScope", "MessageAttributes")
    assert sns.of_subscription(arn)["FilterPolicyScope"] == "MessageAttributes"
    assert refused(sns, arn, "FilterPolicy", NESTED) == NOT_NESTED


def test_a_filter_without_a_scope_is_about_attributes(sns: SnsWorld) -> None:
    arn = sns.subscribe_to(sns.make(), Attributes={"FilterPolicy": '{"a":["b"]}'})
    assert sns.of_subscription(arn)["FilterPolicyScope"] == "MessageAttributes"


@pytest.mark.parametrize(
    "attributes",
    [
        {"FilterPolicy": NESTED, "FilterPolicyScope": "MessageBody"},
        {"FilterPolicyScope": "MessageBody", "FilterPolicy": NESTED},
    ],
)
def test_the_order_of_attributes_does_not_matter(sns: SnsWorld, attributes: dict[str, str]) -> None:
    arn = sns.subscribe_to(sns.make(), Attributes=attributes)
    assert sns.of_subscription(arn)["FilterPolicy"] == NESTED


@pytest.mark.parametrize("protocol", ["email", "email-json", "sms"])
def test_protocols_without_raw_delivery(sns: SnsWorld, protocol: str) -> None:
    endpoint = "+1234567" if protocol == "sms" else "a@b.test"
    arn = sns.subscribe_to(sns.make(), protocol, endpoint)
    text = f"RawMessageDelivery: Delivery protocol [{protocol}] does not support raw message delivery."
    assert refused(sns, arn, "RawMessageDelivery", "true") == text
    change(sns, arn, "RawMessageDelivery", "false")


def test_a_fifo_subscription_has_a_fifo_dead_letter_queue(sns: SnsWorld) -> None:
    topic = sns.make("a.fifo")
    fifo, standard = sns.subscribe_to(topic, endpoint=queue_arn("q.fifo")), sns.subscribe_to(topic)
    text = "RedrivePolicy: must use a FIFO queue as DLQ for a FIFO Subscription to a FIFO Topic."
    assert refused(sns, fifo, "RedrivePolicy", REDRIVE) == text
    change(sns, fifo, "RedrivePolicy", json.dumps({"deadLetterTargetArn": queue_arn("dead.fifo")}))
    change(sns, standard, "RedrivePolicy", REDRIVE)


# -- replays -------------------------------------------------------------------------------------------------------

BEGAN, NOW = "2023-11-14T22:13:20Z", "2023-11-14T22:13:30Z"


def replay(**members: Any) -> str:
    return json.dumps({"PointType": "Timestamp", "StartingPoint": BEGAN} | members)


def archived(sns: SnsWorld) -> str:
    """A subscription of a topic whose archive was begun ten seconds ago."""
    topic = sns.make("a.fifo", ArchivePolicy='{"MessageRetentionPeriod":7}')
    sns.create("q.fifo")
    sns.advance(10_000)
    return sns.subscribe_to(topic, endpoint=queue_arn("q.fifo"))


@pytest.mark.parametrize(
    "policy", [replay(), replay(StartingPoint=NOW), replay(EndingPoint="2030-01-01T00:00:00.000Z")]
)
def test_a_replay(sns: SnsWorld, policy: str) -> None:
    arn = archived(sns)
    change(sns, arn, "ReplayPolicy", policy)
    shown = sns.of_subscription(arn)
    assert shown["ReplayPolicy"] == policy
    assert shown["ReplayStatus"] in ("Pending", "In progress", "Completed")
    change(sns, arn, "ReplayPolicy", "{}")
    assert sns.of_subscription(arn).keys().isdisjoint({"ReplayPolicy", "ReplayStatus"})


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        ("x", "Unable to parse JSON"),
        ("", "Unable to parse JSON"),
        (" " * 5000, "Unable to parse JSON"),
        ("[]", "JSON is missing required fields"),
        ('{"PointType":"Timestamp"}', "JSON is missing required fields"),
        (replay(Other=1), "JSON is missing required fields"),
        (replay(PointType="Number"), "Invalid PointType"),
        (replay(StartingPoint="x"), "Invalid StartingPoint value"),
        (replay(StartingPoint=7), "Invalid StartingPoint value"),
        (replay(StartingPoint="2023-11-14T22:13:19Z"), "Invalid StartingPoint value"),
        (replay(StartingPoint="2023-11-14T22:13:31Z"), "Invalid StartingPoint value"),
        (replay(EndingPoint="x"), "Invalid EndingPoint value"),
        (replay(EndingPoint="2023-11-14T22:13:19Z"), "Invalid EndingPoint value"),
    ],
)
def test_replays_that_are_refused(sns: SnsWorld, policy: str, text: str) -> None:
    assert refused(sns, archived(sns), "ReplayPolicy", policy) == f"ReplayPolicy: {text}"


def test_without_an_archive_there_is_nothing_to_replay(sns: SnsWorld) -> None:
    arn = sns.subscribe_to(sns.make("a.fifo"))
    assert refused(sns, arn, "ReplayPolicy", replay()) == "ReplayPolicy: Topic does not have an ArchivePolicy"


def test_the_name_of_an_attribute_is_needed(sns: SnsWorld) -> None:
    arn = sns.subscribe_to(sns.make())
    text = "Invalid parameter: AttributeName Reason: no value for required parameter"
    assert sns.refused("SetSubscriptionAttributes", SubscriptionArn=arn) == ("InvalidParameter", text)


def test_a_filter_has_a_bounded_number_of_members(sns: SnsWorld) -> None:
    """Compiling it must not keep the event loop."""
    arn = sns.subscribe_to(sns.make())
    for count, is_taken in ((1997, True), (1998, False)):
        policy = json.dumps({"a": [{"anything-but": [f",[{{{number}" for number in range(count)]}]})
        if is_taken:
            change(sns, arn, "FilterPolicy", policy)
        else:
            assert refused(sns, arn, "FilterPolicy", policy) == "FilterPolicy: Filter policy is too complex"
