"""The SNS API of a running server, as clients use it: boto3, and people who follow links."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.conftest import ON_SHARDS
from support.endpoints import Endpoint


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint() as made:
        yield made


def queue_arn(sqs: Any, name: str) -> str:
    url = sqs.create_queue(QueueName=name)["QueueUrl"]
    found: str = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    return found


def received(sqs: Any, name: str) -> list[dict[str, Any]]:
    url = sqs.get_queue_url(QueueName=name)["QueueUrl"]
    found: list[dict[str, Any]] = sqs.receive_message(
        QueueUrl=url, WaitTimeSeconds=5, MaxNumberOfMessages=10, MessageAttributeNames=["All"]
    ).get("Messages", [])
    return found


@ON_SHARDS
def test_fan_out_as_kombu_does_it(sns: Any, sqs: Any) -> None:
    """Each start declares the topic and the subscriptions again."""
    tags = [{"Key": "ManagedBy", "Value": "Celery/Kombu"}]
    for _ in range(2):
        topic = sns.create_topic(Name="exchange", Attributes={"FifoTopic": "false"}, Tags=tags)["TopicArn"]
        for name in ("one", "two", "three"):
            sns.subscribe(
                TopicArn=topic, Protocol="sqs", Endpoint=queue_arn(sqs, name),
                Attributes={"RawMessageDelivery": "true"}, ReturnSubscriptionArn=True,
            )  # fmt: skip
    listed = [
        each["Endpoint"].rpartition(":")[2]
        for page in sns.get_paginator("list_subscriptions_by_topic").paginate(TopicArn=topic)
        for each in page["Subscriptions"]
    ]
    assert sorted(listed) == ["one", "three", "two"]
    attributes = {"content-type": {"DataType": "String", "StringValue": "application/json"}}
    answer = sns.publish(TopicArn=topic, Message='{"task": 1}', MessageAttributes=attributes)
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 200
    for name in ("one", "two", "three"):
        (message,) = received(sqs, name)
        assert message["Body"] == '{"task": 1}'
        assert message["MessageAttributes"]["content-type"]["StringValue"] == "application/json"


@ON_SHARDS
def test_pages_of_topics_of_all_shards(sns: Any) -> None:
    arns = {sns.create_topic(Name=f"topic-{number}")["TopicArn"] for number in range(120)}
    pages = list(sns.get_paginator("list_topics").paginate())
    assert [len(page["Topics"]) for page in pages] == [100, 20]
    assert {topic["TopicArn"] for page in pages for topic in page["Topics"]} == arns


def test_a_topic_from_its_creation_to_its_end(sns: Any, sqs: Any) -> None:
    topic = sns.create_topic(Name="orders.fifo", Attributes={"FifoTopic": "true"})["TopicArn"]
    for name, value in (("ContentBasedDeduplication", "true"), ("DisplayName", "Orders & more")):
        sns.set_topic_attributes(TopicArn=topic, AttributeName=name, AttributeValue=value)
    sns.tag_resource(ResourceArn=topic, Tags=[{"Key": "team", "Value": "a"}])
    shown = sns.get_topic_attributes(TopicArn=topic)["Attributes"]
    assert (shown["ContentBasedDeduplication"], shown["DisplayName"]) == ("true", "Orders & more")
    arn = sns.subscribe(
        TopicArn=topic, Protocol="sqs", Endpoint=queue_arn(sqs, "orders"), ReturnSubscriptionArn=True,
        Attributes={"FilterPolicyScope": "MessageBody", "FilterPolicy": '{"kind": ["new"]}'},
    )["SubscriptionArn"]  # fmt: skip
    entries = [
        {"Id": kind, "Message": json.dumps({"kind": kind}), "MessageGroupId": "g"} for kind in ("new", "old")
    ]
    sent = sns.publish_batch(TopicArn=topic, PublishBatchRequestEntries=entries)
    assert [each["Id"] for each in sent["Successful"]] == ["new", "old"]
    (message,) = received(sqs, "orders")
    assert json.loads(message["Body"])["Message"] == '{"kind": "new"}'
    sns.set_subscription_attributes(SubscriptionArn=arn, AttributeName="FilterPolicy", AttributeValue="{}")
    assert "FilterPolicy" not in sns.get_subscription_attributes(SubscriptionArn=arn)["Attributes"]
    sns.unsubscribe(SubscriptionArn=arn)
    with pytest.raises(sns.exceptions.NotFoundException):
        sns.get_subscription_attributes(SubscriptionArn=arn)
    sns.delete_topic(TopicArn=topic)
    with pytest.raises(sns.exceptions.NotFoundException):
        sns.get_topic_attributes(TopicArn=topic)


@ON_SHARDS
def test_links_that_people_follow(sns: Any, endpoint: Endpoint) -> None:
    topic = sns.create_topic(Name="news")["TopicArn"]
    sns.subscribe(TopicArn=topic, Protocol="http", Endpoint=endpoint.url)
    asked = endpoint.next("SubscriptionConfirmation")
    with urllib.request.urlopen(asked["SubscribeURL"]) as answer:
        assert b"<SubscriptionArn>" in answer.read()
    sns.publish(TopicArn=topic, Message="hello", Subject="s")
    told = endpoint.next("Notification")
    assert (told["Message"], told["Subject"]) == ("hello", "s")
    with urllib.request.urlopen(told["UnsubscribeURL"]) as answer:
        assert answer.status == 200
    endpoint.next("UnsubscribeConfirmation")
    (listed,) = sns.list_subscriptions()["Subscriptions"]
    assert listed["SubscriptionArn"] == "Deleted"


def test_errors_as_clients_see_them(sns: Any) -> None:
    topic = sns.create_topic(Name="a.fifo", Attributes={"FifoTopic": "true"})["TopicArn"]
    with pytest.raises(
        sns.exceptions.InvalidParameterException, match="MessageGroupId parameter is required"
    ):
        sns.publish(TopicArn=topic, Message="m")
    with pytest.raises(sns.exceptions.InvalidParameterValueException, match="must contain non-empty"):
        sns.publish(
            TopicArn=topic, Message="m", MessageAttributes={"a": {"DataType": "String", "StringValue": ""}}
        )
    with pytest.raises(sns.exceptions.BatchEntryIdsNotDistinctException):
        sns.publish_batch(TopicArn=topic, PublishBatchRequestEntries=[{"Id": "x", "Message": "m"}] * 2)
    with pytest.raises(sns.exceptions.EmptyBatchRequestException):
        sns.publish_batch(TopicArn=topic, PublishBatchRequestEntries=[])
