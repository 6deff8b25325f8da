"""Topics through the client of boto3. SNS speaks the Query protocol with every version."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest

from clients.python.test_boto3 import EVERY_TYPE, arn_of, new_queue, receive


def new_topic(sns: Any, **attributes: str) -> str:
    name = f"boto3-{uuid.uuid4()}{'.fifo' if 'FifoTopic' in attributes else ''}"
    return str(sns.create_topic(Name=name, Attributes=attributes)["TopicArn"])


def subscribe(sns: Any, sqs: Any, topic: str, **attributes: str) -> tuple[str, str]:
    """Returns the URL of a new queue, and the ARN of its subscription."""
    url = new_queue(sqs, **({"FifoQueue": "true"} if topic.endswith(".fifo") else {}))
    made = sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn_of(sqs, url), Attributes=attributes)
    return url, made["SubscriptionArn"]


def receive_all(sqs: Any, url: str, count: int) -> list[dict[str, Any]]:
    """Returns and deletes so many messages. They arrive soon after they were published, and not all at once."""
    got = list[dict[str, Any]]()
    while len(got) < count and (more := receive(sqs, url)):
        got += more
        for message in more:
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    assert len(got) == count
    return got


def test_a_topic_is_created_found_and_changed(sns: Any) -> None:
    topic = new_topic(sns, DisplayName="Größe")
    name = topic.rpartition(":")[2]
    assert sns.create_topic(Name=name)["TopicArn"] == topic
    assert sns.list_topics()["Topics"] == [{"TopicArn": topic}]
    sns.set_topic_attributes(TopicArn=topic, AttributeName="DisplayName", AttributeValue="Wasser")
    shown = sns.get_topic_attributes(TopicArn=topic)["Attributes"]
    assert (shown["TopicArn"], shown["DisplayName"]) == (topic, "Wasser")
    assert json.loads(shown["Policy"])["Statement"][0]["Resource"] == topic
    sns.tag_resource(ResourceArn=topic, Tags=[{"Key": "team", "Value": "water"}, {"Key": "a", "Value": ""}])
    sns.untag_resource(ResourceArn=topic, TagKeys=["a"])
    assert sns.list_tags_for_resource(ResourceArn=topic)["Tags"] == [{"Key": "team", "Value": "water"}]
    sns.delete_topic(TopicArn=topic)
    sns.delete_topic(TopicArn=topic)
    assert sns.list_topics()["Topics"] == []


def test_topics_and_subscriptions_are_listed_by_pages(sns: Any) -> None:
    topics = {sns.create_topic(Name=f"t{number}")["TopicArn"] for number in range(205)}
    pages = [page["Topics"] for page in sns.get_paginator("list_topics").paginate()]
    assert [len(page) for page in pages] == [100, 100, 5]
    assert {each["TopicArn"] for page in pages for each in page} == topics
    topic = min(topics)
    account = topic.split(":")[4]
    made = {
        sns.subscribe(
            TopicArn=topic, Protocol="sqs", Endpoint=f"arn:aws:sqs:us-east-1:{account}:q{number}",
            ReturnSubscriptionArn=True,
        )["SubscriptionArn"]
        for number in range(101)
    }  # fmt: skip
    for call, members in (("list_subscriptions", {}), ("list_subscriptions_by_topic", {"TopicArn": topic})):
        pages = [page["Subscriptions"] for page in sns.get_paginator(call).paginate(**members)]
        assert [len(page) for page in pages] == [100, 1]
        assert {each["SubscriptionArn"] for page in pages for each in page} == made


def test_a_queue_gets_what_its_filter_lets_through(sns: Any, sqs: Any) -> None:
    topic = new_topic(sns)
    url, subscription = subscribe(sns, sqs, topic, FilterPolicy='{"city": ["Zürich"]}')
    everything, _ = subscribe(sns, sqs, topic, RawMessageDelivery="true")
    text = 'größer 水 🚰 <&>\n\t"quoted"'
    sns.publish(TopicArn=topic, Message="not for Zürich", Subject="s")
    sent = sns.publish(TopicArn=topic, Message=text, Subject="Öl", MessageAttributes=EVERY_TYPE)
    (got,) = receive(sqs, url)
    envelope = json.loads(got["Body"])
    shown = [envelope[name] for name in ("Type", "MessageId", "TopicArn", "Subject", "Message")]
    assert shown == ["Notification", sent["MessageId"], topic, "Öl", text]
    assert envelope["MessageAttributes"]["city"] == {"Type": "String", "Value": "Zürich"}
    assert envelope["MessageAttributes"]["blob"] == {"Type": "Binary", "Value": "AP8Kfw=="}
    assert "MessageAttributes" not in got
    plain = {message["Body"]: message for message in receive_all(sqs, everything, 2)}
    assert plain.keys() == {"not for Zürich", text}
    assert plain[text]["MessageAttributes"] == EVERY_TYPE

    sns.set_subscription_attributes(
        SubscriptionArn=subscription, AttributeName="FilterPolicy", AttributeValue="{}"
    )
    shown = sns.get_subscription_attributes(SubscriptionArn=subscription)["Attributes"]
    assert "FilterPolicy" not in shown
    assert (shown["PendingConfirmation"], shown["RawMessageDelivery"]) == ("false", "false")
    sns.unsubscribe(SubscriptionArn=subscription)
    listed = sns.list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"]
    assert [each["Endpoint"] for each in listed] == [arn_of(sqs, everything)]
    with pytest.raises(sns.exceptions.NotFoundException):
        sns.get_subscription_attributes(SubscriptionArn=subscription)


def test_each_protocol_has_its_text(sns: Any, sqs: Any) -> None:
    topic = new_topic(sns)
    url, _ = subscribe(sns, sqs, topic, RawMessageDelivery="true")
    for texts in ({"default": "for all", "sqs": "for queues"}, {"default": "for all", "email": "for mails"}):
        sns.publish(TopicArn=topic, Message=json.dumps(texts), MessageStructure="json")
    assert {message["Body"] for message in receive_all(sqs, url, 2)} == {"for queues", "for all"}


def test_a_batch_says_which_entries_failed(sns: Any, sqs: Any) -> None:
    topic = new_topic(sns)
    url, _ = subscribe(sns, sqs, topic, RawMessageDelivery="true")
    sent = sns.publish_batch(
        TopicArn=topic,
        PublishBatchRequestEntries=[
            {"Id": "good", "Message": "one", "MessageAttributes": EVERY_TYPE},
            {"Id": "bad", "Message": "two", "Subject": "two\nlines"},
        ],
    )
    assert [entry["Id"] for entry in sent["Successful"]] == ["good"]
    (failed,) = sent["Failed"]
    assert (failed["Id"], failed["Code"], failed["SenderFault"]) == ("bad", "InvalidParameter", True)
    (got,) = receive(sqs, url)
    assert (got["Body"], got["MessageAttributes"]) == ("one", EVERY_TYPE)


def test_fifo_keeps_order_and_drops_duplicates(sns: Any, sqs: Any) -> None:
    topic = new_topic(sns, FifoTopic="true", ContentBasedDeduplication="true")
    url, _ = subscribe(sns, sqs, topic, RawMessageDelivery="true")
    bodies = [f"m{number}" for number in range(5)]
    sent = [sns.publish(TopicArn=topic, Message=body, MessageGroupId="g") for body in [*bodies, "m0"]]
    assert sent[-1]["MessageId"] == sent[0]["MessageId"]
    assert sent[-1]["SequenceNumber"] == sent[0]["SequenceNumber"]
    entries = [{"Id": body, "Message": body, "MessageGroupId": "g"} for body in ("m4", "m5", "m6")]
    batch = sns.publish_batch(TopicArn=topic, PublishBatchRequestEntries=entries)
    numbers = [int(answer["SequenceNumber"]) for answer in (*sent[:5], *batch["Successful"][1:])]
    assert numbers == sorted(set(numbers))
    got = receive_all(sqs, url, 7)
    assert [message["Body"] for message in got] == [*bodies, "m5", "m6"]
    assert {message["Attributes"]["MessageGroupId"] for message in got} == {"g"}
    assert receive(sqs, url, wait=1) == []


def test_permissions_are_statements_of_the_policy(sns: Any) -> None:
    topic = new_topic(sns)
    sns.add_permission(TopicArn=topic, Label="friends", AWSAccountId=["111122223333"], ActionName=["Publish"])
    statements = json.loads(sns.get_topic_attributes(TopicArn=topic)["Attributes"]["Policy"])["Statement"]
    assert [each["Sid"] for each in statements] == ["__default_statement_ID", "friends"]
    sns.remove_permission(TopicArn=topic, Label="friends")
    statements = json.loads(sns.get_topic_attributes(TopicArn=topic)["Attributes"]["Policy"])["Statement"]
    assert [each["Sid"] for each in statements] == ["__default_statement_ID"]


def test_errors_have_their_types(sns: Any) -> None:
    topic = new_topic(sns)
    with pytest.raises(sns.exceptions.NotFoundException) as missing:
        sns.publish(TopicArn=f"{topic}-nowhere", Message="x")
    error, metadata = missing.value.response["Error"], missing.value.response["ResponseMetadata"]
    assert (error["Code"], error["Message"]) == ("NotFound", "Topic does not exist")
    assert (error["Type"], metadata["HTTPStatusCode"]) == ("Sender", 404)
    with pytest.raises(sns.exceptions.InvalidParameterException):
        sns.create_topic(Name="not a name")
    with pytest.raises(sns.exceptions.InvalidParameterException):
        sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint="no-arn")
    with pytest.raises(sns.exceptions.InvalidParameterValueException):
        attributes = {"n": {"DataType": "Number", "StringValue": "one"}}
        sns.publish(TopicArn=topic, Message="x", MessageAttributes=attributes)
    with pytest.raises(sns.exceptions.BatchEntryIdsNotDistinctException):
        sns.publish_batch(TopicArn=topic, PublishBatchRequestEntries=[{"Id": "same", "Message": "x"}] * 2)
    with pytest.raises(sns.exceptions.TooManyEntriesInBatchRequestException):
        entries = [{"Id": str(number), "Message": "x"} for number in range(11)]
        sns.publish_batch(TopicArn=topic, PublishBatchRequestEntries=entries)
    with pytest.raises(sns.exceptions.ResourceNotFoundException):
        sns.tag_resource(ResourceArn=f"{topic}-nowhere", Tags=[{"Key": "a", "Value": "b"}])
