"""The attributes of topics: what can be set, what is shown, and the texts for what cannot be set."""

from __future__ import annotations

import json

import pytest

from penstock.limits import DAY
from penstock.topics.names import TopicName
from penstock.topics.policy import default_policy
from services.sns.world import ACCOUNT, ARN, SnsWorld

NEWS = f"{ARN}:news"
POLICY = (
    '{"Version":"2008-10-17","Id":"__default_policy_ID","Statement":[{"Sid":"__default_statement_ID",'
    '"Effect":"Allow","Principal":{"AWS":"*"},"Action":["SNS:GetTopicAttributes","SNS:SetTopicAttributes",'
    '"SNS:AddPermission","SNS:RemovePermission","SNS:DeleteTopic","SNS:Subscribe","SNS:ListSubscriptionsByTopic",'
    f'"SNS:Publish"],"Resource":"{NEWS}","Condition":{{"StringEquals":{{"AWS:SourceOwner":"{ACCOUNT}"}}}}}}]}}'
)
DELIVERY = (
    '{"http":{"defaultHealthyRetryPolicy":{"minDelayTarget":20,"maxDelayTarget":20,"numRetries":3,'
    '"numMaxDelayRetries":0,"numNoDelayRetries":0,"numMinDelayRetries":0,"backoffFunction":"linear"},'
    '"disableSubscriptionOverrides":false,"defaultRequestPolicy":{"headerContentType":"text/plain; charset=UTF-8"}}}'
)
USUAL = {
    "TopicArn": NEWS,
    "Owner": ACCOUNT,
    "Policy": POLICY,
    "DisplayName": "",
    "EffectiveDeliveryPolicy": DELIVERY,
    "SubscriptionsConfirmed": "0",
    "SubscriptionsPending": "0",
    "SubscriptionsDeleted": "0",
}


def test_a_new_topic(sns: SnsWorld) -> None:
    assert sns.attributes(sns.make()) == USUAL


def test_a_new_fifo_topic(sns: SnsWorld) -> None:
    shown = sns.attributes(sns.make("a.fifo"))
    assert {name: shown[name] for name in shown.keys() - USUAL.keys()} == {
        "FifoTopic": "true",
        "ContentBasedDeduplication": "false",
    }


def test_the_default_policy_is_that_of_aws() -> None:
    assert default_policy(TopicName(ACCOUNT, "eu-west-1", "news")) == POLICY


def test_subscriptions_are_counted(sns: SnsWorld) -> None:
    arn = sns.make()
    sns.subscribe_to(arn)
    sns.subscribe_to(arn, "http", "http://a.test/")
    sns.subscribe_to(arn, "sms", "+1234567")
    ended = sns.subscribe_to(arn, "sms", "+7654321")
    sns.link(f"Action=Unsubscribe&SubscriptionArn={ended}")
    shown = sns.attributes(arn)
    assert [shown[f"Subscriptions{state}"] for state in ("Confirmed", "Pending", "Deleted")] == [
        "2",
        "1",
        "1",
    ]


ROLE = f"arn:aws:iam::{ACCOUNT}:role/logs"


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("DisplayName", "x" * 100, "x" * 100),
        ("DisplayName", "tabs\tand Ünicode", "tabs\tand Ünicode"),
        ("KmsMasterKeyId", "alias/aws/sns", "alias/aws/sns"),
        ("SignatureVersion", "2", "2"),
        ("TracingConfig", "PassThrough", "PassThrough"),
        ("HTTPSuccessFeedbackRoleArn", ROLE, ROLE),
        ("SQSFailureFeedbackRoleArn", ROLE, ROLE),
        ("LambdaSuccessFeedbackSampleRate", "100", "100"),
        ("FirehoseSuccessFeedbackSampleRate", "0", "0"),
        ("ApplicationSuccessFeedbackSampleRate", "007", "7"),
        ("MaximumMessageSize", "1048576", "1048576"),
        (
            "DeliveryPolicy",
            '{"http": {"defaultThrottlePolicy": {"maxReceivesPerSecond": 7}, "defaultHealthyRetryPolicy": null}}',
            '{"http":{"disableSubscriptionOverrides":false,"defaultThrottlePolicy":{"maxReceivesPerSecond":7}}}',
        ),
        (
            "Policy",
            '{ "Statement": {"Effect": "Deny", "Action": ["sns:publish"], "Principal": "*", "Resource": "*"},\n'
            '"Version": "2012-10-17"}',
            '{"Statement":{"Effect":"Deny","Action":["sns:publish"],"Principal":"*","Resource":"*"},'
            '"Version":"2012-10-17"}',
        ),
    ],
)
def test_what_is_set_is_shown(sns: SnsWorld, name: str, value: str, shown: str) -> None:
    arn = sns.make()
    sns.set(arn, name, value)
    assert sns.attributes(arn)[name] == shown


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("KmsMasterKeyId", "key"),
        ("DeliveryPolicy", '{"http":{}}'),
        ("HTTPSuccessFeedbackRoleArn", ROLE),
        ("DisplayName", "x"),
    ],
)
def test_an_empty_value_removes_an_attribute(sns: SnsWorld, name: str, value: str) -> None:
    arn = sns.make()
    sns.set(arn, name, value)
    assert sns.attributes(arn) != USUAL
    sns("SetTopicAttributes", TopicArn=arn, AttributeName=name)
    assert sns.attributes(arn) == USUAL


UNKNOWN = "AttributeName"


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("TopicArn", "x", UNKNOWN),
        ("Owner", "x", UNKNOWN),
        ("EffectiveDeliveryPolicy", DELIVERY, UNKNOWN),
        ("SubscriptionsConfirmed", "1", UNKNOWN),
        ("BeginningArchiveTime", "x", UNKNOWN),
        ("displayname", "x", UNKNOWN),
        ("", "x", UNKNOWN),
        ("ContentBasedDeduplication", "true", UNKNOWN),
        ("FifoThroughputScope", "Topic", UNKNOWN),
        ("FifoTopic", "true", UNKNOWN),
        ("ArchivePolicy", "{}", UNKNOWN),
        ("DisplayName", "x" * 101, "DisplayName"),
        ("DisplayName", "a\r\nBcc: b", "DisplayName"),
        ("TracingConfig", "active", "Invalid tracing config value: active"),
        ("TracingConfig", "", "Invalid tracing config value: "),
        ("SignatureVersion", "3", "SignatureVersion: Invalid value [3]. Must be 1 or 2."),
        (
            "MaximumMessageSize",
            "1023",
            "MaximumMessageSize: Invalid value [1023]. Must be between 1024 and 1048576.",
        ),
        (
            "SQSSuccessFeedbackSampleRate",
            "101",
            "SQSSuccessFeedbackSampleRate: Invalid value [101]. Must be between 0 and 100.",
        ),
        (
            "SQSSuccessFeedbackRoleArn",
            "x",
            "SQSSuccessFeedbackRoleArn: Invalid value [x]. Must be the ARN of a role.",
        ),
        (
            "DeliveryPolicy",
            '{"http":{"healthyRetryPolicy":{"minDelayTarget":1}}}',
            "DeliveryPolicy: Unexpected JSON member: http.healthyRetryPolicy.minDelayTarget",
        ),
    ],
)
def test_what_cannot_be_set(sns: SnsWorld, name: str, value: str, text: str) -> None:
    arn = sns.make()
    assert sns.set_refused(arn, name, value) == text
    assert sns.attributes(arn) == USUAL


def test_the_name_of_an_attribute_is_needed(sns: SnsWorld) -> None:
    text = "Invalid parameter: AttributeName Reason: no value for required parameter"
    assert sns.refused("SetTopicAttributes", TopicArn=sns.make()) == ("InvalidParameter", text)


def statement(**changed: object) -> str:
    parts = {"Effect": "Allow", "Principal": "*", "Action": "SNS:Publish", "Resource": NEWS} | changed
    return json.dumps({"Version": "2012-10-17", "Statement": [parts]})


SCOPE = "Policy statement action out of service scope!"


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        ("", "Policy Error: null"),
        ("x", "Policy Error: null"),
        ("[]", "Policy Error: null"),
        ('{"Statement":[]}', "Policy Error: null"),
        (statement(Effect="Maybe"), "Policy Error: null"),
        (statement(Action="sns:*"), SCOPE),
        (statement(Action="SNS:*"), SCOPE),
        (statement(Action="*"), SCOPE),
        (statement(Action="SNS:Pub*"), SCOPE),
        (statement(Action=["SNS:Publish", "sqs:SendMessage"]), SCOPE),
        (statement(Action="SNS:TagResource"), SCOPE),
        (
            json.dumps(
                {
                    "Statement": {
                        "Effect": "Deny",
                        "Principal": "*",
                        "NotAction": "SNS:Publish",
                        "Resource": "*",
                    }
                }
            ),
            SCOPE,
        ),
        (statement(Principal={"AWS": "nobody"}), "Policy Error: PrincipalNotFound"),
        (
            statement(Resource="x" * 31_000),
            "Policy Error: a policy has at most 30720 bytes and 100 statements",
        ),
        (
            json.dumps({"Statement": [json.loads(statement())["Statement"][0]] * 101}),
            "Policy Error: a policy has at most 30720 bytes and 100 statements",
        ),
    ],
)
def test_policies_that_a_topic_cannot_have(sns: SnsWorld, policy: str, text: str) -> None:
    arn = sns.make()
    assert sns.set_refused(arn, "Policy", policy) == text
    assert sns.attributes(arn)["Policy"] == POLICY


@pytest.mark.parametrize(
    "policy",
    [
        statement(),
        statement(Action=["sns:publish", "SNS:Receive", "SNS:GetTopicAttributes"]),
        statement(Principal={"Service": "s3.amazonaws.com"}),
        statement(Principal={"AWS": ["111122223333", "arn:aws:iam::111122223333:role/x"]}),
        statement(Resource="y" * 25_000),
        POLICY,
    ],
)
def test_policies_that_a_topic_can_have(sns: SnsWorld, policy: str) -> None:
    arn = sns.make()
    sns.set(arn, "Policy", policy)
    assert sns.attributes(arn)["Policy"] == json.dumps(json.loads(policy), separators=(",", ":"))


# -- FIFO topics -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("FifoTopic", "false", "FifoTopic: Modifying topic type is not supported"),
        ("FifoTopic", "x", "FifoTopic: Invalid value [x]. Must be true or false."),
        (
            "ContentBasedDeduplication",
            "x",
            "ContentBasedDeduplication: Invalid value [x]. Must be true or false.",
        ),
        ("FifoThroughputScope", "bad", "Invalid FifoThroughputScope: bad"),
        ("FifoThroughputScope", "topic", "Invalid FifoThroughputScope: topic"),
        (
            "ArchivePolicy",
            '{"MessageRetentionPeriod":366}',
            "ArchivePolicy: MessageRetentionPeriod value is invalid",
        ),
        (
            "ArchivePolicy",
            '{"MessageRetentionPeriod":0}',
            "ArchivePolicy: MessageRetentionPeriod value is invalid",
        ),
        (
            "ArchivePolicy",
            '{"MessageRetentionPeriod":1.5}',
            "ArchivePolicy: MessageRetentionPeriod value is invalid",
        ),
        (
            "ArchivePolicy",
            '{"MessageRetentionPeriod":true}',
            "ArchivePolicy: MessageRetentionPeriod value is invalid",
        ),
        (
            "ArchivePolicy",
            '{"MessageRetentionPeriod":"x"}',
            "ArchivePolicy: MessageRetentionPeriod value is invalid",
        ),
        (
            "ArchivePolicy",
            '{"MessageRetentionPeriod":null}',
            "ArchivePolicy: MessageRetentionPeriod value is invalid",
        ),
        ("ArchivePolicy", "x", "ArchivePolicy: Unable to parse JSON"),
        ("ArchivePolicy", "{", "ArchivePolicy: Unable to parse JSON"),
        ("ArchivePolicy", '{"MessageRetentionPeriod":1}' + " " * 5000, "ArchivePolicy: Unable to parse JSON"),
        ("ArchivePolicy", "[]", "ArchivePolicy: JSON is missing required fields"),
        ("ArchivePolicy", '{"Days":1}', "ArchivePolicy: JSON is missing required fields"),
    ],
)
def test_what_cannot_be_set_on_a_fifo_topic(sns: SnsWorld, name: str, value: str, text: str) -> None:
    assert sns.set_refused(sns.make("a.fifo"), name, value) == text


def test_a_fifo_topic_stays_one(sns: SnsWorld) -> None:
    arn = sns.make("a.fifo")
    sns.set(arn, "FifoTopic", "TRUE")
    sns.set(arn, "ContentBasedDeduplication", "TRUE")
    assert sns.attributes(arn)["ContentBasedDeduplication"] == "true"


def test_the_scope_of_deduplication_does_not_become_wider_again(sns: SnsWorld) -> None:
    arn = sns.make("a.fifo")
    for scope in ("Topic", "Topic", "MessageGroup", "MessageGroup"):
        sns.set(arn, "FifoThroughputScope", scope)
        assert sns.attributes(arn)["FifoThroughputScope"] == scope
    text = "Modifying FifoThroughputScope from MessageGroup to Topic is not supported"
    assert sns.set_refused(arn, "FifoThroughputScope", "Topic") == text


@pytest.mark.parametrize("nothing", ["{}", ""])  # Terraform sends an empty text
def test_an_archive_begins_and_ends(sns: SnsWorld, nothing: str) -> None:
    arn = sns.make("a.fifo")
    sns.advance(5_645)
    sns.set(arn, "ArchivePolicy", '{ "MessageRetentionPeriod": "2" }')
    shown = sns.attributes(arn)
    assert shown["ArchivePolicy"] == '{ "MessageRetentionPeriod": "2" }'
    began = shown["BeginningArchiveTime"]
    assert began == "2023-11-14T22:13:25.645Z"
    sns.advance(DAY)
    sns.set(arn, "ArchivePolicy", '{"MessageRetentionPeriod":1}')
    assert sns.attributes(arn)["BeginningArchiveTime"] == began, "the archive was not begun again"
    sns.advance(DAY)
    assert sns.attributes(arn)["BeginningArchiveTime"] == "2023-11-15T22:13:25.645Z"
    sns.set(arn, "ArchivePolicy", nothing)
    assert sns.attributes(arn).keys().isdisjoint({"ArchivePolicy", "BeginningArchiveTime"})


# -- large messages ------------------------------------------------------------------------------------------------


def test_only_queues_get_large_messages(sns: SnsWorld) -> None:
    arn = sns.make()
    sns.subscribe_to(arn)
    sns.set(arn, "MaximumMessageSize", "262145")
    code, text = sns.refused("Subscribe", TopicArn=arn, Protocol="sms", Endpoint="+1234567")
    assert (code, text) == (
        "InvalidParameter",
        "Invalid parameter: Protocol Reason: only queues get messages of more than 262144 bytes",
    )
    sns.set(arn, "MaximumMessageSize", "262144")
    sns.subscribe_to(arn, "sms", "+1234567")
    assert sns.set_refused(arn, "MaximumMessageSize", "262145").startswith(
        "MaximumMessageSize: more than 262144"
    )
