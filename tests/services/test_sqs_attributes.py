"""Queue attributes: ranges, names, policies, how they are shown and removed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.rows import every_row

ALWAYS = {
    "ApproximateNumberOfMessages": "4",
    "ApproximateNumberOfMessagesDelayed": "1",
    "ApproximateNumberOfMessagesNotVisible": "2",
    "CreatedTimestamp": "1700000000",
    "DelaySeconds": "0",
    "LastModifiedTimestamp": "1700000001",
    "MaximumMessageSize": "1048576",
    "MessageRetentionPeriod": "345600",
    "QueueArn": "arn:aws:sqs:eu-west-1:123456789012:a",
    "ReceiveMessageWaitTimeSeconds": "0",
    "SqsManagedSseEnabled": "true",
    "VisibilityTimeout": "30",
}
FIFO = {
    "FifoQueue": "true",
    "ContentBasedDeduplication": "false",
    "DeduplicationScope": "queue",
    "FifoThroughputLimit": "perQueue",
}


def set_(sqs: Any, queue: str = "a", **attributes: str) -> Any:
    return sqs("SetQueueAttributes", QueueUrl=queue, Attributes=attributes)


def test_all_on_a_fresh_queue_is_exactly_the_twelve_and_four_more_on_fifo(sqs: Any) -> None:
    sqs.make("a")
    sqs.make("a.fifo")
    assert sqs.attributes("a") == ALWAYS
    assert sqs.attributes("a.fifo") == {**ALWAYS, **FIFO, "QueueArn": ALWAYS["QueueArn"] + ".fifo"}


def test_get_attributes_by_name(sqs: Any) -> None:
    sqs.make("a")
    assert sqs("GetQueueAttributes", QueueUrl="a").raw == b"{}"
    reply = sqs("GetQueueAttributes", QueueUrl="a", AttributeNames=["DelaySeconds", "FifoQueue", "Policy"])
    assert reply.body == {"Attributes": {"DelaySeconds": "0"}}
    assert sqs("GetQueueAttributes", QueueUrl="a", AttributeNames=["RedrivePolicy"]).raw == b"{}"
    for unknown in ("Foobar", "", "delayseconds"):
        reply = sqs("GetQueueAttributes", QueueUrl="a", AttributeNames=["All", unknown])
        assert reply.error == ("InvalidAttributeName", f"Unknown Attribute {unknown}.")


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("DelaySeconds", 0, 900),
        ("MaximumMessageSize", 1024, 1048576),
        ("MessageRetentionPeriod", 60, 1209600),
        ("ReceiveMessageWaitTimeSeconds", 0, 20),
        ("VisibilityTimeout", 0, 43200),
    ],
)
def test_integers_have_ranges_on_create_and_set(sqs: Any, name: str, low: int, high: int) -> None:
    sqs.make("a")
    for value in (str(low), str(high)):
        assert set_(sqs, **{name: value}).raw == b""
        assert sqs.attributes("a")[name] == value
    for value in (str(low - 1), str(high + 1), "", "x", "1.0", " 60", "٦٠", "9" * 5000):
        expected = ("InvalidAttributeValue", f"Invalid value for the parameter {name}.")
        assert set_(sqs, **{name: value}).error == expected
        assert sqs("CreateQueue", QueueName="b", Attributes={name: value}).error == expected


@every_row(
    ("queue", "name", "value", "code", "message"),
    [
        ("a", "Foo", "1", "InvalidAttributeName", "Unknown Attribute Foo."),
        ("a", "QueueArn", "x", "InvalidAttributeName", "Unknown Attribute QueueArn."),
        ("a", "All", "x", "InvalidAttributeName", "Unknown Attribute All."),
        ("a", "FifoQueue", "true", "InvalidAttributeName", "Unknown Attribute FifoQueue."),
        ("a", "FifoQueue", "false", "InvalidAttributeName", "Unknown Attribute FifoQueue."),
        (
            "a",
            "ContentBasedDeduplication",
            "true",
            "InvalidAttributeName",
            "Unknown Attribute ContentBasedDeduplication.",
        ),
        (
            "a",
            "DeduplicationScope",
            "queue",
            "InvalidAttributeName",
            "You can specify the DeduplicationScope only when FifoQueue is set to true.",
        ),
        (
            "a",
            "FifoThroughputLimit",
            "perQueue",
            "InvalidAttributeName",
            "You can specify the FifoThroughputLimit only when FifoQueue is set to true.",
        ),
        (
            "a.fifo",
            "FifoQueue",
            "false",
            "InvalidAttributeValue",
            "Invalid value for the parameter FifoQueue. Reason: Modifying queue type is not supported.",
        ),
        (
            "a.fifo",
            "DeduplicationScope",
            "Queue",
            "InvalidAttributeValue",
            "Invalid value for the parameter DeduplicationScope.",
        ),
        (
            "a.fifo",
            "ContentBasedDeduplication",
            "yes",
            "InvalidAttributeValue",
            "Invalid value for the parameter ContentBasedDeduplication.",
        ),
        (
            "a.fifo",
            "FifoThroughputLimit",
            "perMessageGroupId",
            "InvalidAttributeValue",
            "The perMessageGroupId value is allowed only when the value for DeduplicationScope is messageGroup",
        ),
        ("a", "Policy", "{}", "InvalidAttributeValue", "Invalid value for the parameter Policy."),
        (
            "a",
            "SqsManagedSseEnabled",
            "1",
            "InvalidAttributeValue",
            "Invalid value for the parameter SqsManagedSseEnabled.",
        ),
    ],
)  # fmt: skip
def test_set_refuses(sqs: Any, queue: str, name: str, value: str, code: str, message: str) -> None:
    sqs.make("a")
    sqs.make("a.fifo")
    before = sqs.attributes(queue)
    assert set_(sqs, queue, **{name: value}).error == (code, message)
    assert sqs.attributes(queue) == before


def test_set_needs_an_attribute(sqs: Any) -> None:
    sqs.make("a")
    expected = ("MissingParameter", "The request must contain the parameter Attribute.Name.")
    assert set_(sqs).error == expected
    assert sqs("SetQueueAttributes", QueueUrl="a").error == expected


def test_fifo_queue_true_on_a_fifo_queue_changes_nothing(sqs: Any) -> None:
    sqs.make("a.fifo")
    assert set_(sqs, "a.fifo", FifoQueue="true").status == 200


def test_a_later_dedup_scope_is_shown_but_the_first_one_stays(sqs: Any) -> None:
    sqs.make("a.fifo", DeduplicationScope="messageGroup", FifoThroughputLimit="perMessageGroupId")
    assert set_(sqs, "a.fifo", DeduplicationScope="queue", FifoThroughputLimit="perQueue").status == 200
    assert sqs.attributes("a.fifo")["DeduplicationScope"] == "queue"
    (queue,) = sqs.broker.queues.values()
    assert queue.settings.dedup_scope == "messageGroup"


def test_booleans_come_in_any_case_and_go_out_lower(sqs: Any) -> None:
    sqs.make("a.fifo", ContentBasedDeduplication="True", SqsManagedSseEnabled="FALSE")
    shown = sqs.attributes("a.fifo")
    assert (shown["ContentBasedDeduplication"], shown["SqsManagedSseEnabled"]) == ("true", "false")


def test_one_kind_of_encryption_at_a_time(sqs: Any) -> None:
    sqs.make("a")
    assert set_(sqs, KmsMasterKeyId="testKeyId", KmsDataKeyReusePeriodSeconds="60").status == 200
    shown = sqs.attributes("a")
    assert (shown["KmsMasterKeyId"], shown["KmsDataKeyReusePeriodSeconds"]) == ("testKeyId", "60")
    assert shown["SqsManagedSseEnabled"] == "false"
    assert set_(sqs, KmsMasterKeyId="k", SqsManagedSseEnabled="true").error == (
        "InvalidAttributeName",
        "You can use one type of server-side encryption (SSE) at one time. "
        "You can either enable KMS SSE or SQS SSE.",
    )
    assert set_(sqs, KmsMasterKeyId="", KmsDataKeyReusePeriodSeconds="300").status == 200
    shown = sqs.attributes("a")
    assert "KmsMasterKeyId" not in shown and "KmsDataKeyReusePeriodSeconds" not in shown
    assert shown["SqsManagedSseEnabled"] == "false"


def test_a_policy_is_shown_byte_for_byte_and_removed_by_an_empty_value(sqs: Any) -> None:
    sqs.make("a")
    policy = (
        '{ "Version":"2012-10-17",  "Statement":[{"Effect":"Allow","Principal":"*",'
        '"Action":"sqs:SendMessage","Resource":"$sqs_queue_arn"}]}'
    )
    assert set_(sqs, Policy=policy).status == 200
    assert sqs.attributes("a")["Policy"] == policy
    assert set_(sqs, Policy="").status == 200
    assert "Policy" not in sqs.attributes("a")


@every_row(
    "policy",
    [
        "x",
        "[]",
        '"{}"',
        "{}",
        '{"Statement":[]}',
        '{"Version":"2020-01-01","Statement":[{"Effect":"Allow","Action":"*","Resource":"*"}]}',
        '{"Statement":[{"Effect":"Maybe","Action":"*","Resource":"*"}]}',
        '{"Statement":[{"Effect":"Allow","Action":"*"}]}',
        '{"Statement":[{"Effect":"Allow","Resource":"*"}]}',
        '{"Statement":["x"]}',
        '{"Statements":[{"Effect":"Allow","Action":"*","Resource":"*"}]}',
        '{"Statement":' + "[" * 8000,
    ],
)
def test_an_invalid_policy_is_refused(sqs: Any, policy: str) -> None:
    sqs.make("a")
    assert set_(sqs, Policy=policy).error == (
        "InvalidAttributeValue",
        "Invalid value for the parameter Policy.",
    )


# Redrive


def redrive(target: Any, count: Any = 3, **more: Any) -> str:
    return json.dumps({"deadLetterTargetArn": target, "maxReceiveCount": count, **more})


def test_a_redrive_policy_is_shown_canonical_and_removed_by_an_empty_value(sqs: Any, arn: Any) -> None:
    sqs.make("dlq")
    sqs.make("a", RedrivePolicy=redrive(arn("dlq"), "5"))
    assert sqs.attributes("a")["RedrivePolicy"] == (
        f'{{"deadLetterTargetArn":"{arn("dlq")}","maxReceiveCount":5}}'
    )
    assert set_(sqs, RedrivePolicy="").status == 200
    assert "RedrivePolicy" not in sqs.attributes("a")


def test_a_queue_may_be_its_own_dead_letter_queue(sqs: Any, arn: Any) -> None:
    sqs.make("a", RedrivePolicy=redrive(arn("a")))
    assert set_(sqs, RedrivePolicy=redrive(arn("a"), 4)).status == 200


@every_row(
    ("document", "reason"),
    [
        ({}, "Redrive policy does not contain mandatory attribute: maxReceiveCount."),
        ({"deadLetterTargetArn": "x"}, "Redrive policy does not contain mandatory attribute: maxReceiveCount."),
        ({"maxReceiveCount": 1}, "Redrive policy does not contain mandatory attribute: deadLetterTargetArn."),
        (
            {"maxReceiveCount": 1, "deadLetterTargetArn": "DLQ", "foo": 1},
            "Only following attributes are supported: [maxReceiveCount, deadLetterTargetArn].",
        ),
        (
            {"maxReceiveCount": 0, "deadLetterTargetArn": "DLQ"},
            "Invalid value for maxReceiveCount: 0, valid values are from 1 to 1000 both inclusive.",
        ),
        (
            {"maxReceiveCount": 1001, "deadLetterTargetArn": "DLQ"},
            "Invalid value for maxReceiveCount: 1001, valid values are from 1 to 1000 both inclusive.",
        ),
        (
            {"maxReceiveCount": "x", "deadLetterTargetArn": "DLQ"},
            "Invalid value for maxReceiveCount: x, valid values are from 1 to 1000 both inclusive.",
        ),
        (
            {"maxReceiveCount": 1, "deadLetterTargetArn": "dlq"},
            "Dead-letter target ARN should be fully qualified ARN.",
        ),
        (
            {"maxReceiveCount": 1, "deadLetterTargetArn": 5},
            "Dead-letter target ARN should be fully qualified ARN.",
        ),
        (
            {"maxReceiveCount": 1, "deadLetterTargetArn": "arn:aws:sns:eu-west-1:123456789012:dlq"},
            "Only SQS queues are valid resources for deadLetterTargetArn.",
        ),
        (
            {"maxReceiveCount": 1, "deadLetterTargetArn": "arn:aws:sqs:us-east-1:123456789012:dlq"},
            "Dead-letter target must be in same region as the source.",
        ),
        (
            {"maxReceiveCount": 1, "deadLetterTargetArn": "arn:aws:sqs:eu-west-1:999999999999:dlq"},
            "Dead-letter target owner should be same as the source.",
        ),
        (
            {"maxReceiveCount": 1, "deadLetterTargetArn": "arn:aws:sqs:eu-west-1:123456789012:none"},
            "Dead letter target does not exist.",
        ),
        (
            {"maxReceiveCount": 1, "deadLetterTargetArn": "arn:aws:sqs:eu-west-1:123456789012:dlq.fifo"},
            "Dead-letter queue must be same type of queue as the source.",
        ),
    ],
)  # fmt: skip
def test_redrive_refuses_with_the_raw_document(sqs: Any, document: dict[str, Any], reason: str) -> None:
    sqs.make("dlq.fifo")
    sqs.make("a")
    text = json.dumps(document)
    expected = (
        "InvalidParameterValue",
        f"Value {text} for parameter RedrivePolicy is invalid. Reason: {reason}",
    )
    assert set_(sqs, RedrivePolicy=text).error == expected
    assert sqs("CreateQueue", QueueName="b", Attributes={"RedrivePolicy": text}).error == expected


def test_redrive_documents_have_a_size(sqs: Any, arn: Any) -> None:
    sqs.make("dlq")
    sqs.make("a")
    documents = {
        "RedrivePolicy": redrive(arn("dlq")),
        "RedriveAllowPolicy": '{"redrivePermission":"denyAll"}',
    }
    for name, text in documents.items():
        assert set_(sqs, **{name: text.ljust(8193)}).code == "InvalidParameterValue"
        assert name not in sqs.attributes("a")
        assert set_(sqs, **{name: text.ljust(8192)}).status == 200


@pytest.mark.parametrize("text", ["x", "[]", '"{\\"maxReceiveCount\\":1}"', "[" * 100_000])
def test_redrive_that_is_no_object_also_encoded_twice_is_refused(sqs: Any, text: str) -> None:
    sqs.make("a")
    assert set_(sqs, RedrivePolicy=text).error == (
        "InvalidParameterValue",
        "Invalid value for the parameter RedrivePolicy. Reason: Redrive policy is not a valid JSON map.",
    )


@pytest.mark.parametrize(
    ("allow", "accepted"),
    [
        ({"redrivePermission": "allowAll"}, True),
        ({"redrivePermission": "denyAll"}, False),
        ({"redrivePermission": "byQueue", "sourceQueueArns": ["arn:aws:sqs:eu-west-1:123456789012:a"]}, True),
        ({"redrivePermission": "byQueue", "sourceQueueArns": ["arn:aws:sqs:eu-west-1:123456789012:b"]}, False),
    ],
)  # fmt: skip
def test_a_dead_letter_queue_allows_its_sources(
    sqs: Any, arn: Any, allow: dict[str, Any], accepted: bool
) -> None:
    sqs.make("dlq", RedriveAllowPolicy=json.dumps(allow))
    assert json.loads(sqs.attributes("dlq")["RedriveAllowPolicy"]) == allow
    sqs.make("a")
    reply = set_(sqs, RedrivePolicy=redrive(arn("dlq")))
    assert reply.status == (200 if accepted else 400)
    if not accepted:
        assert reply.code == "InvalidParameterValue"
    assert set_(sqs, "dlq", RedriveAllowPolicy="").status == 200
    assert set_(sqs, RedrivePolicy=redrive(arn("dlq"))).status == 200


FORMAT = "Amazon SQS can't create the redrive allow policy, as it’s in an unsupported format."
CANNOT = "Amazon SQS can't create the redrive allow policy. "


@pytest.mark.parametrize(
    "text", ["x", "[]", "{}", '{"redrivePermission":"some"}', '{"redrivePermission":"allowAll","x":1}']
)
def test_redrive_allow_of_unknown_form_is_refused(sqs: Any, text: str) -> None:
    sqs.make("a")
    assert set_(sqs, RedriveAllowPolicy=text).error == (
        "InvalidParameterValue",
        f"Invalid value for the parameter RedriveAllowPolicy. Reason: {FORMAT}",
    )


@pytest.mark.parametrize(
    ("permission", "sources", "reason"),
    [
        (
            "byQueue",
            0,
            "When you specify the byQueue permission type, "
            "you must also specify one or more sourceQueueArns values.",
        ),
        (
            "denyAll",
            1,
            "To specify one or more source queue ARNs, you must set redrivePermission to byQueue.",
        ),
        ("byQueue", 11, "The maximum number of source queue ARNs you can specify is 10."),
    ],
)
def test_redrive_allow_needs_sources_that_fit(
    sqs: Any, arn: Any, permission: str, sources: int, reason: str
) -> None:
    sqs.make("a")
    arns = [arn(f"s{number}") for number in range(sources)]
    text = json.dumps({"redrivePermission": permission, "sourceQueueArns": arns})
    assert set_(sqs, RedriveAllowPolicy=text).error == (
        "InvalidParameterValue",
        f"Value {text} for parameter RedriveAllowPolicy is invalid. Reason: {CANNOT}{reason}",
    )
