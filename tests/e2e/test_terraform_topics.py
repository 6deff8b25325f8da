"""What Terraform's AWS provider does with topics, step by step through botocore; and Terraform itself, if it is here.

The provider creates a topic with few attributes, and sets the others one by one. It repeats for two minutes what is
refused as an invalid parameter. What it reads afterwards must equal what it wrote: an attribute that is not there
equals an empty text or 0, policies are compared by what they mean, other documents as JSON.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from e2e.test_terraform_replay import NEEDS_TERRAFORM, Resource, Terraform, meaning
from support.process import ServerProcess

_PROTOCOLS = ("Application", "Firehose", "HTTP", "Lambda", "SQS")
_RATES = {f"{protocol}SuccessFeedbackSampleRate": "0" for protocol in _PROTOCOLS}  # sent for every topic
_AT_CREATION = ("FifoTopic", "FifoThroughputScope")
_POLICIES = ("DeliveryPolicy", "ArchivePolicy", "FilterPolicy", "RedrivePolicy")
_ROLE = "arn:aws:iam::111122223333:role/log"


def differ(wanted: dict[str, str], read: dict[str, str]) -> list[str]:
    """The names of the attributes in which a plan shows a change."""
    return [name for name, value in wanted.items() if not equal(name, read.get(name, ""), value)]


def equal(name: str, read: str, wanted: str) -> bool:
    if name.endswith("Rate"):
        return int(read or 0) == int(wanted or 0)
    if name == "Policy":
        return bool(meaning(read) == meaning(wanted))
    if name in _POLICIES:
        return bool(document(read) == document(wanted))
    return read == wanted


def document(text: str) -> Any:
    """Returns JSON without members that are null or false, which the provider leaves out."""
    found = json.loads(text or "{}")
    return {key: value for key, value in found.items() if value is not None and value is not False}


class TopicResource:
    """One aws_sns_topic."""

    def __init__(self, sns: Any, name: str, **attributes: str) -> None:
        self._sns = sns
        self.name = name
        self.wanted = {**_RATES, **attributes}
        self.tags = {"team": "shop", "managed by": "terraform"}

    def create(self) -> None:
        given = {name: self.wanted[name] for name in _AT_CREATION if name in self.wanted}
        tags = [{"Key": key, "Value": value} for key, value in self.tags.items()]
        self.arn: str = self._sns.create_topic(Name=self.name, Attributes=given, Tags=tags)["TopicArn"]
        self.change(**{name: value for name, value in self.wanted.items() if name not in given})

    def change(self, **attributes: str) -> None:
        for name, value in attributes.items():
            self._sns.set_topic_attributes(TopicArn=self.arn, AttributeName=name, AttributeValue=value)
        self.wanted |= attributes

    def attributes(self) -> dict[str, str]:
        attributes: dict[str, str] = self._sns.get_topic_attributes(TopicArn=self.arn)["Attributes"]
        return attributes

    def differences(self) -> list[str]:
        """A plan: read it all, and compare with what is wanted."""
        read = self.attributes()
        assert (read["TopicArn"], read["Owner"]) == (self.arn, self.arn.split(":")[4])
        wrong = differ(self.wanted, read)
        tags = self._sns.list_tags_for_resource(ResourceArn=self.arn)["Tags"]
        return wrong if {tag["Key"]: tag["Value"] for tag in tags} == self.tags else [*wrong, "tags"]

    def destroy(self) -> None:
        self._sns.delete_topic(TopicArn=self.arn)
        with pytest.raises(self._sns.exceptions.NotFoundException):
            self.attributes()


class SubscriptionResource:
    """One aws_sns_topic_subscription."""

    def __init__(self, sns: Any, topic: str, protocol: str, endpoint: str, **attributes: str) -> None:
        self._sns = sns
        self._given = {"TopicArn": topic, "Protocol": protocol, "Endpoint": endpoint}
        self.wanted = attributes

    def create(self) -> None:
        made = self._sns.subscribe(**self._given, Attributes=self.wanted, ReturnSubscriptionArn=True)
        self.arn: str = made["SubscriptionArn"]
        waits = self._given["Protocol"] in ("http", "https", "email")
        assert self.attributes()["PendingConfirmation"] == ("true" if waits else "false")

    def change(self, **attributes: str) -> None:
        """The scope of the body comes first, and that of the attributes last: each fits the policy at its time."""
        scope = attributes.get("FilterPolicyScope", "")
        first = [("FilterPolicyScope", scope)] if scope == "MessageBody" else []
        last = [("FilterPolicyScope", scope)] if scope == "MessageAttributes" else []
        others = [(name, value) for name, value in attributes.items() if name != "FilterPolicyScope"]
        for name, value in (*first, *others, *last):
            self._set(name, value)
        self.wanted |= attributes

    def _set(self, name: str, value: str) -> None:
        if name == "FilterPolicy" and not value:
            value = "{}"
        given = {} if name == "RedrivePolicy" and not value else {"AttributeValue": value}
        self._sns.set_subscription_attributes(SubscriptionArn=self.arn, AttributeName=name, **given)

    def attributes(self) -> dict[str, str]:
        answer = self._sns.get_subscription_attributes(SubscriptionArn=self.arn)
        attributes: dict[str, str] = answer["Attributes"]
        return attributes

    def differences(self) -> list[str]:
        pages = self._sns.get_paginator("list_subscriptions_by_topic").paginate(
            TopicArn=self._given["TopicArn"]
        )
        listed = [each for page in pages for each in page["Subscriptions"]]
        assert self._given["Endpoint"] in [each["Endpoint"] for each in listed]
        read = self.attributes()
        return differ(self._given | self.wanted, read)

    def destroy(self) -> None:
        self._sns.unsubscribe(SubscriptionArn=self.arn)
        with pytest.raises(self._sns.exceptions.NotFoundException):
            self.attributes()


def retries(**more: Any) -> dict[str, Any]:
    delays = {"minDelayTarget": 5, "maxDelayTarget": 20, "backoffFunction": "linear"}
    numbers = {f"num{name}Retries": 0 for name in ("NoDelay", "MinDelay", "MaxDelay")}
    return {**delays, **numbers, "numRetries": 3, **more}


def delivery_policy() -> str:
    http = {
        "defaultHealthyRetryPolicy": retries(),
        "disableSubscriptionOverrides": False,
        "defaultThrottlePolicy": {"maxReceivesPerSecond": 1},
    }
    return json.dumps({"http": http})


def policy_of(arn: str, *actions: str) -> str:
    statement = {
        "Sid": "events",
        "Effect": "Allow",
        "Principal": {"Service": "events.amazonaws.com"},
        "Action": actions[0] if len(actions) == 1 else list(actions),
        "Resource": arn,
    }
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]}, indent=2)


_FIFO = {"FifoTopic": "true"}
_STATUS = {
    f"{protocol}{which}": value
    for protocol in _PROTOCOLS
    for which, value in (
        ("SuccessFeedbackRoleArn", _ROLE), ("FailureFeedbackRoleArn", _ROLE), ("SuccessFeedbackSampleRate", "80"),
    )
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "attributes"),
    [
        ("plain", {}),
        ("named", {"DisplayName": "Größe"}),
        ("encrypted", {"KmsMasterKeyId": "alias/aws/sns", "SignatureVersion": "2"}),
        ("traced", {"TracingConfig": "Active"}),
        ("retried", {"DeliveryPolicy": delivery_policy()}),
        ("logged", _STATUS),
        ("a.fifo", _FIFO),
        ("b.fifo", _FIFO | {"ContentBasedDeduplication": "true", "FifoThroughputScope": "MessageGroup"}),
        ("c.fifo", _FIFO | {"FifoThroughputScope": "Topic"}),
    ],
)
def test_a_topic_is_read_as_it_was_written(sns: Any, name: str, attributes: dict[str, str]) -> None:
    topic = TopicResource(sns, name, **attributes)
    topic.create()
    assert topic.differences() == []
    topic.create()  # once more, as if the state had been lost
    assert topic.differences() == []
    topic.destroy()


def test_a_topic_with_an_archive(sns: Any) -> None:
    """It is deleted after its archive has ended, for which people write an empty document."""
    topic = TopicResource(sns, "a.fifo", **_FIFO, ArchivePolicy='{"MessageRetentionPeriod":30}')
    topic.create()
    assert topic.differences() == []
    assert topic.attributes()["BeginningArchiveTime"]
    with pytest.raises(sns.exceptions.InvalidStateException):
        sns.delete_topic(TopicArn=topic.arn)
    topic.change(ArchivePolicy="{}")
    assert topic.differences() == []
    assert topic.attributes().keys().isdisjoint({"ArchivePolicy", "BeginningArchiveTime"})
    topic.destroy()


def test_attributes_are_taken_away_with_an_empty_text(sns: Any) -> None:
    given = {"DeliveryPolicy": delivery_policy(), "KmsMasterKeyId": "alias/aws/sns", "DisplayName": "News"}
    topic = TopicResource(sns, "news", **given, **_STATUS)
    topic.create()
    topic.change(**dict.fromkeys([*given, *_STATUS], "") | _RATES)
    assert topic.differences() == []
    assert topic.attributes().keys().isdisjoint({"DeliveryPolicy", "KmsMasterKeyId"})


@pytest.mark.parametrize("actions", [("sns:Publish",), ("SNS:Publish", "SNS:Subscribe", "SNS:Receive")])
def test_a_policy_is_read_as_it_was_written(sns: Any, actions: tuple[str, ...]) -> None:
    """A resource of its own holds it. At its end that writes the default policy back, with an action more."""
    topic = TopicResource(sns, "news")
    topic.create()
    default = json.loads(topic.attributes()["Policy"])
    topic.change(Policy=policy_of(topic.arn, *actions))
    assert topic.differences() == []
    default["Statement"][0]["Action"].append("SNS:Receive")
    topic.change(Policy=json.dumps(default, indent=2))
    assert topic.differences() == []


def test_tags_are_changed(sns: Any) -> None:
    topic = TopicResource(sns, "news")
    topic.create()
    sns.untag_resource(ResourceArn=topic.arn, TagKeys=["managed by"])
    sns.tag_resource(ResourceArn=topic.arn, Tags=[{"Key": "team", "Value": ""}])
    topic.tags = {"team": ""}
    assert topic.differences() == []


_FLAT = {"FilterPolicy": '{"kind":["sport"],"price":[{"numeric":["\\u003e",1.5]}]}'}  # as Go writes JSON
_NESTED = {"FilterPolicy": '{"user":{"name":["a"]}}'}
_BODY = {"FilterPolicyScope": "MessageBody"}


@pytest.fixture
def queues(sqs: Any) -> dict[str, str]:
    """The ARNs of queues with these names."""
    made = {name: Resource(sqs, name) for name in ("readers", "dead")}
    made |= {name: Resource(sqs, name, FifoQueue="true") for name in ("readers.fifo",)}
    for queue in made.values():
        queue.create()
    return {name: queue.arn for name, queue in made.items()}


@pytest.mark.parametrize(
    ("protocol", "endpoint", "attributes"),
    [
        ("sqs", "readers", {}),
        ("sqs", "readers", {"RawMessageDelivery": "true"}),
        ("sqs", "readers", _FLAT),
        ("sqs", "readers", _FLAT | _BODY),
        ("sqs", "readers", _NESTED | _BODY),
        ("sqs", "readers", {"RedrivePolicy": "dead"}),
        ("sms", "+15551234567", {}),
    ],
)
def test_a_subscription_is_read_as_it_was_written(
    sns: Any, queues: dict[str, str], protocol: str, endpoint: str, attributes: dict[str, str]
) -> None:
    topic = TopicResource(sns, "news")
    topic.create()
    if "RedrivePolicy" in attributes:
        attributes = {"RedrivePolicy": json.dumps({"deadLetterTargetArn": queues["dead"]})}
    endpoint = queues.get(endpoint, endpoint)
    subscription = SubscriptionResource(sns, topic.arn, protocol, endpoint, **attributes)
    subscription.create()
    assert subscription.differences() == []
    made = subscription.arn
    subscription.create()  # once more, as if the state had been lost
    assert subscription.arn == made
    subscription.destroy()
    topic.destroy()


def test_a_subscription_of_a_fifo_topic(sns: Any, queues: dict[str, str]) -> None:
    topic = TopicResource(sns, "news.fifo", **_FIFO)
    topic.create()
    subscription = SubscriptionResource(sns, topic.arn, "sqs", queues["readers.fifo"])
    subscription.create()
    assert subscription.differences() == []


def test_a_subscription_that_nobody_confirms(sns: Any) -> None:
    """The provider does not wait for it, and takes the error of Unsubscribe for its end."""
    topic = TopicResource(sns, "news")
    topic.create()
    policy = json.dumps(
        {"healthyRetryPolicy": retries(numRetries=7), "throttlePolicy": {"maxReceivesPerSecond": 5}}
    )
    subscription = SubscriptionResource(
        sns, topic.arn, "http", "http://127.0.0.1:1/hook", DeliveryPolicy=policy
    )
    subscription.create()
    assert subscription.differences() == []
    subscription.change(DeliveryPolicy="")
    assert "DeliveryPolicy" not in subscription.attributes()
    with pytest.raises(
        sns.exceptions.InvalidParameterException,
        match="Cannot unsubscribe a subscription that is pending confirmation",
    ):
        sns.unsubscribe(SubscriptionArn=subscription.arn)


def test_a_subscription_is_changed(sns: Any, queues: dict[str, str]) -> None:
    topic = TopicResource(sns, "news")
    topic.create()
    redrive = {"RedrivePolicy": json.dumps({"deadLetterTargetArn": queues["dead"]})}
    subscription = SubscriptionResource(sns, topic.arn, "sqs", queues["readers"])
    subscription.create()
    subscription.change(**_NESTED, **_BODY, RawMessageDelivery="true")
    assert subscription.differences() == []
    subscription.change(**_FLAT, **redrive, FilterPolicyScope="MessageAttributes")
    assert subscription.differences() == []
    subscription.change(FilterPolicy="", RedrivePolicy="", RawMessageDelivery="false")
    del subscription.wanted["FilterPolicyScope"]  # the provider takes what it reads
    assert subscription.differences() == []
    assert subscription.attributes().keys().isdisjoint({"FilterPolicy", "FilterPolicyScope", "RedrivePolicy"})


def test_a_topic_is_found_by_its_name(sns: Any) -> None:
    """The data source looks through all pages."""
    for number in range(101):
        sns.create_topic(Name=f"other-{number}")
    wanted = sns.create_topic(Name="wanted")["TopicArn"]
    pages = sns.get_paginator("list_topics").paginate()
    listed = [topic["TopicArn"] for page in pages for topic in page["Topics"]]
    assert [arn for arn in listed if arn.endswith(":wanted")] == [wanted]


def test_preferences_of_text_messages_are_taken_away_with_empty_texts(sns: Any) -> None:
    sns.set_sms_attributes(attributes={"DefaultSMSType": "Transactional", "MonthlySpendLimit": "1"})
    read = sns.get_sms_attributes()["attributes"]
    assert (read["DefaultSMSType"], read["MonthlySpendLimit"]) == ("Transactional", "1")
    names = (
        "DefaultSMSType", "DefaultSenderID", "DeliveryStatusIAMRole", "DeliveryStatusSuccessSamplingRate",
        "MonthlySpendLimit", "UsageReportS3Bucket",
    )  # fmt: skip
    sns.set_sms_attributes(attributes=dict.fromkeys(names, ""))
    assert "DefaultSMSType" not in sns.get_sms_attributes()["attributes"]


# -- Terraform itself ----------------------------------------------------------------------------------------

RESOURCES = """
locals {
  retries = {
    minDelayTarget = 5, maxDelayTarget = 20, numRetries = 3, backoffFunction = "linear"
    numNoDelayRetries = 0, numMinDelayRetries = 0, numMaxDelayRetries = 0
  }
  http = { defaultHealthyRetryPolicy = local.retries, disableSubscriptionOverrides = false }
}

resource "aws_sns_topic" "plain" {
  name = "plain"
}

resource "aws_sns_topic" "news" {
  name                              = "news"
  display_name                      = "News"
  kms_master_key_id                 = "alias/aws/sns"
  signature_version                 = 2
  tracing_config                    = "Active"
  http_success_feedback_role_arn    = "arn:aws:iam::111122223333:role/log"
  http_success_feedback_sample_rate = 80
  delivery_policy                   = jsonencode({ http = local.http })
  tags                              = { team = "shop" }
}

resource "aws_sns_topic" "events" {
  name                        = "events.fifo"
  fifo_topic                  = true
  content_based_deduplication = true
  fifo_throughput_scope       = "MessageGroup"
  archive_policy              = jsonencode({ MessageRetentionPeriod = 30 })
}

resource "aws_sns_topic_policy" "news" {
  arn = aws_sns_topic.news.arn
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Sid       = "events"
      Effect    = "Allow"
      Principal = { Service = "events.amazonaws.com" }
      Action    = "sns:Publish"
      Resource  = aws_sns_topic.news.arn
    }]
  })
}

resource "aws_sqs_queue" "readers" {
  name = "readers"
}

resource "aws_sqs_queue" "dead" {
  name = "readers-dead"
}

resource "aws_sns_topic_subscription" "readers" {
  topic_arn            = aws_sns_topic.news.arn
  protocol             = "sqs"
  endpoint             = aws_sqs_queue.readers.arn
  raw_message_delivery = true
  filter_policy_scope  = "MessageBody"
  filter_policy        = jsonencode({ user = { name = ["a"] }, price = [{ numeric = [">", 1.5] }] })
  redrive_policy       = jsonencode({ deadLetterTargetArn = aws_sqs_queue.dead.arn })
}

resource "aws_sns_topic_subscription" "hook" {
  topic_arn       = aws_sns_topic.news.arn
  protocol        = "http"
  endpoint        = "http://127.0.0.1:1/hook"
  delivery_policy = jsonencode({ healthyRetryPolicy = local.retries })
}

resource "aws_sns_platform_application" "app" {
  name                = "app"
  platform            = "GCM"
  platform_credential = "key"
}

resource "aws_sns_sms_preferences" "texts" {
  default_sms_type = "Transactional"
}

data "aws_sns_topic" "news" {
  name       = "news"
  depends_on = [aws_sns_topic.news]
}
"""
_LESS = (  # lines of RESOURCES that are taken out
    "kms_master_key_id ", "http_success", "delivery_policy ", "filter_policy", "redrive_policy ",
)  # fmt: skip


def changed(resources: str) -> str:
    """Returns the resources with a smaller number of attributes, and without an archive."""
    lines = [line for line in resources.splitlines() if not line.strip().startswith(_LESS)]
    return (
        "\n".join(lines)
        .replace('"News"', '"Other"')
        .replace("jsonencode({ MessageRetentionPeriod = 30 })", '"{}"')
    )


@NEEDS_TERRAFORM
def test_terraform_applies_changes_imports_and_destroys_topics(
    server: ServerProcess, sns: Any, account: str, tmp_path: Path
) -> None:
    """Takes minutes, nearly all of them the provider's own pauses between its reads of queues."""
    terraform = Terraform(tmp_path, server, account, RESOURCES)
    terraform.apply()
    terraform.import_again("aws_sns_topic.news", f"arn:aws:sns:us-east-1:{account}:news")
    terraform.write(changed(RESOURCES))
    terraform.apply()
    terraform.destroy()
    assert sns.list_topics()["Topics"] == []
    assert sns.list_platform_applications()["PlatformApplications"] == []
