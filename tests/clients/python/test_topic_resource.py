"""Topics through the resources of boto3, whose objects have attributes and collections."""

from __future__ import annotations

import json
from typing import Any

import pytest


def test_a_topic_is_created_found_and_changed(sns_resource: Any) -> None:
    topic = sns_resource.create_topic(Name="news", Tags=[{"Key": "team", "Value": "water"}])
    assert [each.arn for each in sns_resource.topics.all()] == [topic.arn]
    topic.set_attributes(AttributeName="DisplayName", AttributeValue="News")
    topic.reload()
    assert topic.attributes["DisplayName"] == "News"
    topic.add_permission(Label="friends", AWSAccountId=["111122223333"], ActionName=["Publish"])
    topic.remove_permission(Label="friends")
    topic.delete()
    assert list(sns_resource.topics.all()) == []


def test_collections_page_by_themselves(sns_resource: Any) -> None:
    for number in range(101):
        sns_resource.create_topic(Name=f"news-{number}")
    assert len(list(sns_resource.topics.all())) == 101


def test_a_subscription_is_an_object(sns_resource: Any, sqs_resource: Any) -> None:
    topic = sns_resource.create_topic(Name="news")
    queue = sqs_resource.create_queue(QueueName="readers")
    arn = queue.attributes["QueueArn"]
    attributes = {"RawMessageDelivery": "true", "FilterPolicy": json.dumps({"kind": ["sport"]})}
    subscription = topic.subscribe(
        Protocol="sqs", Endpoint=arn, Attributes=attributes, ReturnSubscriptionArn=True
    )
    assert [each.arn for each in topic.subscriptions.all()] == [subscription.arn]
    assert [each.arn for each in sns_resource.subscriptions.all()] == [subscription.arn]
    assert json.loads(subscription.attributes["FilterPolicy"]) == {"kind": ["sport"]}
    for kind in ("sport", "politics"):
        topic.publish(Message=kind, MessageAttributes={"kind": {"DataType": "String", "StringValue": kind}})
    (message,) = queue.receive_messages(WaitTimeSeconds=10, MaxNumberOfMessages=10)
    assert message.body == "sport"
    subscription.set_attributes(AttributeName="RawMessageDelivery", AttributeValue="false")
    subscription.reload()
    assert subscription.attributes["RawMessageDelivery"] == "false"
    subscription.delete()
    assert list(topic.subscriptions.all()) == []


def test_devices_are_applications_and_endpoints(sns_resource: Any) -> None:
    application = sns_resource.create_platform_application(
        Name="app", Platform="GCM", Attributes={"PlatformCredential": "key"}
    )
    endpoint = application.create_platform_endpoint(Token="t0", CustomUserData="user 7")
    assert [each.arn for each in sns_resource.platform_applications.all()] == [application.arn]
    assert [each.arn for each in application.endpoints.all()] == [endpoint.arn]
    assert endpoint.attributes["CustomUserData"] == "user 7"
    assert endpoint.publish(Message="hello")["MessageId"]
    endpoint.delete()
    application.delete()
    assert list(sns_resource.platform_applications.all()) == []


def test_a_missing_topic_has_its_type(sns_resource: Any) -> None:
    topic = sns_resource.create_topic(Name="news")
    topic.delete()
    with pytest.raises(sns_resource.meta.client.exceptions.NotFoundException):
        topic.load()
