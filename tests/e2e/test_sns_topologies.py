"""The topologies that message buses for .NET make of topics and queues, call by call.

There is a topic for each type of message, and a queue for each service, which gets the messages raw. A service
declares all of it at every start. The server asks policies: a topic may send to a queue only by what the bus wrote.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest

from support.identities import HOME
from support.secured import Secured

REGION = "eu-west-1"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    made = Secured(tmp_path_factory.mktemp("topologies"))
    made.add("bus", "sqs-full-access", "sns-full-access")
    with made.running():
        yield made


@pytest.fixture
def sns(secured: Secured) -> Any:
    return secured.client("bus", "sns")


@pytest.fixture
def sqs(secured: Secured) -> Any:
    return secured.client("bus")


def topic_arn(name: str) -> str:
    return f"arn:aws:sns:{REGION}:{HOME}:{name}"


def queue_arn(name: str) -> str:
    return f"arn:aws:sqs:{REGION}:{HOME}:{name}"


def receive(sqs: Any, name: str, count: int) -> list[dict[str, Any]]:
    """Returns and deletes so many messages."""
    url = sqs.get_queue_url(QueueName=name)["QueueUrl"]
    got = list[dict[str, Any]]()
    while len(got) < count:
        answer = sqs.receive_message(
            QueueUrl=url, WaitTimeSeconds=10, MaxNumberOfMessages=10, MessageAttributeNames=["All"]
        )
        assert answer.get("Messages"), f"{len(got)} of {count} messages in {name}"
        got += answer["Messages"]
        for message in answer["Messages"]:
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    return got


def is_empty(sqs: Any, name: str) -> bool:
    url = sqs.get_queue_url(QueueName=name)["QueueUrl"]
    return "Messages" not in sqs.receive_message(QueueUrl=url, WaitTimeSeconds=1)


# -- NServiceBus -----------------------------------------------------------------------------------------------------


def nservicebus_endpoint(
    sns: Any, sqs: Any, queue: str, events: list[str], condition: dict[str, Any]
) -> None:
    """A start of an endpoint that handles these events."""
    kept = {"MessageRetentionPeriod": "345600", "DelaySeconds": "0"}
    url = sqs.create_queue(QueueName=queue, Attributes=kept)["QueueUrl"]
    for event in events:
        topic = sns.create_topic(Name=event)["TopicArn"]
        if nservicebus_subscription(sns, topic, queue) is None:
            sns.subscribe(
                TopicArn=topic, Protocol="sqs", Endpoint=queue_arn(queue), ReturnSubscriptionArn=True,
                Attributes={"RawMessageDelivery": "true"},
            )  # fmt: skip
    statement = {
        "Effect": "Allow",
        "Principal": {"AWS": "*"},
        "Action": "sqs:SendMessage",
        "Resource": queue_arn(queue),
        "Condition": condition,
    }
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": policy})
    shown = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["Policy", "QueueArn"])["Attributes"]
    assert json.loads(shown["Policy"]) == json.loads(policy)


def nservicebus_subscription(sns: Any, topic: str, queue: str) -> str | None:
    for page in sns.get_paginator("list_subscriptions_by_topic").paginate(TopicArn=topic):
        for each in page["Subscriptions"]:
            if each["Endpoint"] == queue_arn(queue) and each["Protocol"] == "sqs":
                assert sns.get_subscription_attributes(SubscriptionArn=each["SubscriptionArn"])
                return str(each["SubscriptionArn"])
    return None


def nservicebus_publish(sns: Any, event: str, texts: list[str]) -> None:
    """The topic is looked for in all pages of topics."""
    pages = sns.get_paginator("list_topics").paginate()
    listed = [each["TopicArn"] for page in pages for each in page["Topics"]]
    (topic,) = (arn for arn in listed if arn.rpartition(":")[2] == event)
    entries = [
        {
            "Id": str(place),
            "Message": base64.b64encode(text.encode()).decode(),
            "MessageAttributes": {
                "NServiceBus.EnclosedMessageTypes": {"DataType": "String", "StringValue": f"{event}, Sales"},
                "NServiceBus.MessageId": {"DataType": "String", "StringValue": f"{event}-{place}"},
            },
        }
        for place, text in enumerate(texts)
    ]
    assert len(sns.publish_batch(TopicArn=topic, PublishBatchRequestEntries=entries)["Successful"]) == len(
        texts
    )


_BY_TOPICS = {"ArnLike": {"aws:SourceArn": [topic_arn("Sales-OrderPlaced"), topic_arn("Sales-OrderPaid")]}}
_BY_PATTERN = {
    "ArnLike": {"aws:SourceArn": f"arn:aws:sns:*:{HOME}:Sales-*"},
    "StringEquals": {"aws:SourceAccount": HOME},
}


def test_nservicebus(sns: Any, sqs: Any) -> None:
    events = ["Sales-OrderPlaced", "Sales-OrderPaid"]
    for _ in range(2):  # a start, and another one
        nservicebus_endpoint(sns, sqs, "Billing", events, _BY_TOPICS)
        nservicebus_endpoint(sns, sqs, "Shipping", events, _BY_PATTERN)
    nservicebus_publish(sns, "Sales-OrderPlaced", ["größe 1", "größe 2"])
    nservicebus_publish(sns, "Sales-OrderPaid", ["paid"])
    for queue in ("Billing", "Shipping"):
        got = receive(sqs, queue, 3)
        texts = sorted(base64.b64decode(message["Body"]).decode() for message in got)
        assert texts == ["größe 1", "größe 2", "paid"]
        types = {
            message["MessageAttributes"]["NServiceBus.EnclosedMessageTypes"]["StringValue"] for message in got
        }
        assert types == {"Sales-OrderPlaced, Sales", "Sales-OrderPaid, Sales"}

    found = nservicebus_subscription(sns, topic_arn("Sales-OrderPaid"), "Billing")
    sns.unsubscribe(SubscriptionArn=found)
    assert nservicebus_subscription(sns, topic_arn("Sales-OrderPaid"), "Billing") is None
    nservicebus_publish(sns, "Sales-OrderPaid", ["paid again"])
    assert len(receive(sqs, "Shipping", 1)) == 1
    assert is_empty(sqs, "Billing")


def test_topics_that_a_policy_does_not_name_cannot_send(sns: Any, sqs: Any) -> None:
    """The other tests would pass without policies if these were not asked."""
    nservicebus_endpoint(sns, sqs, "Auditing", ["Stock-Counted", "Sales-OrderLost"], _BY_PATTERN)
    nservicebus_publish(sns, "Stock-Counted", ["refused"])
    nservicebus_publish(sns, "Sales-OrderLost", ["allowed"])
    (got,) = receive(sqs, "Auditing", 1)
    assert base64.b64decode(got["Body"]) == b"allowed"
    assert is_empty(sqs, "Auditing")


# -- MassTransit -----------------------------------------------------------------------------------------------------


def masstransit_receive_endpoint(sns: Any, sqs: Any, queue: str, messages: list[str]) -> None:
    """A start of a receive endpoint whose consumers handle these messages, of which some are interfaces of others."""
    fifo = {"FifoQueue": "true"} if queue.endswith(".fifo") else {}
    url = sqs.create_queue(QueueName=queue, Attributes=fifo, tags={"app": "shop"})["QueueUrl"]
    for message in messages:
        kind = {"FifoTopic": "true"} if fifo else {}
        tags = [{"Key": "app", "Value": "shop"}]
        topic = sns.create_topic(Name=message, Attributes=kind, Tags=tags)["TopicArn"]
        assert sns.get_topic_attributes(TopicArn=topic)["Attributes"]["TopicArn"] == topic
        made = sns.subscribe(
            TopicArn=topic,
            Protocol="sqs",
            Endpoint=queue_arn(queue),
            Attributes={"RawMessageDelivery": "true"},
        )
        assert made["SubscriptionArn"].startswith(f"{topic}:")
        masstransit_permission(sqs, url, topic)


def masstransit_permission(sqs: Any, url: str, topic: str) -> None:
    """Adds a statement for a topic to what is there, unless it is there."""
    shown = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    policy = json.loads(shown.get("Policy", '{"Version": "2012-10-17", "Statement": []}'))
    statement = {
        "Sid": topic.rpartition(":")[2].replace("-", "").replace("_", "").replace(".", ""),
        "Effect": "Allow",
        "Principal": {"Service": "sns.amazonaws.com"},
        "Action": ["sqs:SendMessage"],
        "Resource": [shown["QueueArn"]],
        "Condition": {"ArnLike": {"aws:SourceArn": [topic]}},
    }
    if statement["Sid"] not in [each["Sid"] for each in policy["Statement"]]:
        policy["Statement"].append(statement)
        sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": json.dumps(policy)})


def masstransit_publish(sns: Any, message: str, text: str, **more: str) -> None:
    """A message is published to the topics of its type; the bus makes them if they are missing."""
    kind = {"FifoTopic": "true"} if message.endswith(".fifo") else {}
    topic = sns.create_topic(Name=message, Attributes=kind, Tags=[{"Key": "app", "Value": "shop"}])[
        "TopicArn"
    ]
    content = {"DataType": "String", "StringValue": "application/vnd.masstransit+json"}
    sns.publish(
        TopicArn=topic,
        Message=text,
        MessageAttributes={"Content-Type": content, "MT-Activity-Id": content},
        **more,
    )


@pytest.mark.parametrize("suffix", ["", ".fifo"])
def test_masstransit(sns: Any, sqs: Any, suffix: str) -> None:
    placed, order = f"Shop_Contracts-OrderPlaced{suffix}", f"Shop_Contracts-IOrder{suffix}"
    for _ in range(2):  # a start, and another one
        masstransit_receive_endpoint(sns, sqs, f"order-state{suffix}", [placed, order])
        masstransit_receive_endpoint(sns, sqs, f"send-mail{suffix}", [placed])
        sqs.create_queue(
            QueueName=f"send-mail_error{suffix}", Attributes={"FifoQueue": "true"} if suffix else {}
        )
    group = {"MessageGroupId": "order 7".replace(" ", "-")} if suffix else {}
    for place in range(2):
        ids = {"MessageDeduplicationId": str(place)} if suffix else {}
        masstransit_publish(sns, placed, f"placed {place}", **group, **ids)
    masstransit_publish(sns, order, "order", **group, **({"MessageDeduplicationId": "o"} if suffix else {}))
    states = receive(sqs, f"order-state{suffix}", 3)
    assert sorted(message["Body"] for message in states) == ["order", "placed 0", "placed 1"]
    mails = receive(sqs, f"send-mail{suffix}", 2)
    bodies = [message["Body"] for message in mails]
    assert (bodies if suffix else sorted(bodies)) == ["placed 0", "placed 1"]
    content = mails[0]["MessageAttributes"]["Content-Type"]["StringValue"]
    assert content == "application/vnd.masstransit+json"
