"""What users of other servers asked for: filters at once, batches for everyone, right digests, no late subscriber."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from clients.python.test_boto3 import digest_of
from e2e.conftest import ON_SHARDS
from support.endpoints import Endpoint

RAW = {"RawMessageDelivery": "true"}


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint() as made:
        yield made


def text(value: str) -> dict[str, str]:
    return {"DataType": "String", "StringValue": value}


def number(value: str) -> dict[str, str]:
    return {"DataType": "Number", "StringValue": value}


def new_queue(sqs: Any, name: str, **attributes: str) -> tuple[str, str]:
    """Returns its URL and its ARN."""
    url = sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
    found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
    return url, found["Attributes"]["QueueArn"]


def subscribe(sns: Any, sqs: Any, topic: str, name: str = "readers", **attributes: str) -> str:
    """Returns the URL of a new queue that is subscribed."""
    kind = {"FifoQueue": "true"} if name.endswith(".fifo") else {}
    url, arn = new_queue(sqs, name, **kind)
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn, Attributes=attributes)
    return url


def receive(sqs: Any, url: str, count: int) -> list[dict[str, Any]]:
    """Returns and deletes so many messages. There must not be more of them."""
    got = list[dict[str, Any]]()
    while len(got) < count:
        answer = sqs.receive_message(
            QueueUrl=url, WaitTimeSeconds=10, MaxNumberOfMessages=10, MessageAttributeNames=["All"],
            MessageSystemAttributeNames=["All"],
        )  # fmt: skip
        assert answer.get("Messages"), f"{len(got)} of {count} messages: {got}"
        got += answer["Messages"]
        for message in answer["Messages"]:
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    assert len(got) == count, got
    return got


def bodies(sqs: Any, url: str, count: int) -> list[str]:
    return sorted(message["Body"] for message in receive(sqs, url, count))


def new_topic(sns: Any, name: str = "news", **attributes: str) -> str:
    topic: str = sns.create_topic(Name=name, Attributes=attributes)["TopicArn"]
    return topic


def test_subscribe_applies_its_attributes_at_once(sns: Any, sqs: Any) -> None:
    """The first message after Subscribe is filtered, and delivered raw."""
    topic = new_topic(sns)
    url = subscribe(sns, sqs, topic, FilterPolicy='{"kind": ["sport"]}', **RAW)
    sns.publish(TopicArn=topic, Message="politics", MessageAttributes={"kind": text("politics")})
    sns.publish(TopicArn=topic, Message="no attributes")
    sns.publish(TopicArn=topic, Message="sport", MessageAttributes={"kind": text("sport")})
    assert bodies(sqs, url, 1) == ["sport"]


def test_a_changed_filter_applies_at_once(sns: Any, sqs: Any) -> None:
    topic = new_topic(sns)
    url, arn = new_queue(sqs, "readers")
    subscription = sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn, Attributes=RAW)[
        "SubscriptionArn"
    ]
    sns.publish(TopicArn=topic, Message="before")
    sns.set_subscription_attributes(
        SubscriptionArn=subscription, AttributeName="FilterPolicy", AttributeValue='{"kind": ["sport"]}'
    )
    sns.publish(TopicArn=topic, Message="filtered")
    sns.publish(TopicArn=topic, Message="sport", MessageAttributes={"kind": text("sport")})
    assert bodies(sqs, url, 2) == ["before", "sport"]


def test_a_batch_goes_to_all_protocols_with_their_filters(sns: Any, sqs: Any, endpoint: Endpoint) -> None:
    topic = new_topic(sns)
    everything = subscribe(sns, sqs, topic, "everything", **RAW)
    sport = subscribe(sns, sqs, topic, "sport", FilterPolicy='{"kind": ["sport"]}', **RAW)
    made = sns.subscribe(
        TopicArn=topic,
        Protocol="http",
        Endpoint=endpoint.url,
        Attributes={"FilterPolicy": '{"kind": ["art"]}'},
    )
    assert made["SubscriptionArn"] == "pending confirmation"
    asked = endpoint.next("SubscriptionConfirmation")
    sns.confirm_subscription(TopicArn=topic, Token=asked["Token"])
    sns.subscribe(
        TopicArn=topic,
        Protocol="sms",
        Endpoint="+15551234567",
        Attributes={"FilterPolicy": '{"kind": ["x"]}'},
    )
    entries = [
        {"Id": kind, "Message": kind, "MessageAttributes": {"kind": text(kind)}}
        for kind in ("sport", "art", "politics")
    ]
    sent = sns.publish_batch(TopicArn=topic, PublishBatchRequestEntries=entries)
    ids = {entry["Id"]: entry["MessageId"] for entry in sent["Successful"]}
    assert ids.keys() == {"sport", "art", "politics"}
    assert bodies(sqs, everything, 3) == ["art", "politics", "sport"]
    assert bodies(sqs, sport, 1) == ["sport"]
    posted = endpoint.next("Notification")
    assert (posted["Message"], posted["MessageId"]) == ("art", ids["art"])
    assert endpoint.posted.empty()


_RECORDS = {
    "Records": {"s3": {"object": {"key": [{"prefix": "in/"}]}}, "eventName": [{"prefix": "ObjectCreated:"}]}
}


def record(event: str, key: str) -> dict[str, Any]:
    return {"eventName": event, "s3": {"object": {"key": key}}}


@pytest.mark.parametrize(
    ("policy", "passes", "fails"),
    [
        (
            {"$or": [{"user": {"name": ["ann"]}}, {"price": [{"numeric": [">", 10]}]}]},
            [{"user": {"name": "ann"}}, {"price": 11}, {"user": {"name": "bob"}, "price": 12}],
            [{"user": {"name": "bob"}}, {"price": 10}, {"name": "ann"}, {}],
        ),
        (
            {"user": {"address": {"city": ["Zürich", {"prefix": "B"}]}}},
            [{"user": {"address": {"city": "Zürich"}}}, {"user": {"address": {"city": "Bern"}, "age": 3}}],
            [{"user": {"city": "Zürich"}}, {"address": {"city": "Bern"}}, {"user": {"address": "Bern"}}],
        ),
        (
            _RECORDS,
            [
                {"Records": [record("ObjectCreated:Put", "in/a")]},
                {"Records": [record("ObjectRemoved:Delete", "in/a"), record("ObjectCreated:Put", "in/b")]},
            ],
            [
                {"Records": [record("ObjectCreated:Put", "out/a")]},
                {"Records": [record("ObjectCreated:Put", "out/a"), record("ObjectRemoved:Delete", "in/b")]},
                {"Records": []},
            ],
        ),
    ],
    ids=["$or", "nested", "objects in arrays"],
)
def test_filters_look_into_bodies(
    sns: Any, sqs: Any, policy: dict[str, Any], passes: list[Any], fails: list[Any]
) -> None:
    topic = new_topic(sns)
    policies = {"FilterPolicyScope": "MessageBody", "FilterPolicy": json.dumps(policy)}
    url = subscribe(sns, sqs, topic, **policies, **RAW)
    messages = [json.dumps(each) for each in (*fails, *passes)]
    for message in ("no JSON", '["a list"]', *messages):
        sns.publish(TopicArn=topic, Message=message)
    assert bodies(sqs, url, len(passes)) == sorted(messages[len(fails) :])


def test_numbers_are_compared_as_numbers(sns: Any, sqs: Any) -> None:
    topic = new_topic(sns)
    url = subscribe(
        sns, sqs, topic, FilterPolicy='{"price": [{"numeric": [">=", 9.5, "<", 100]}, 700]}', **RAW
    )
    for value in ("9.50", "10", "1e1", "99.99", "700.0"):
        sns.publish(TopicArn=topic, Message=value, MessageAttributes={"price": number(value)})
    for value in ("9.4", "100", "1e3", "-10"):
        sns.publish(TopicArn=topic, Message=value, MessageAttributes={"price": number(value)})
    sns.publish(TopicArn=topic, Message="text", MessageAttributes={"price": text("10")})
    sns.publish(TopicArn=topic, Message="last", MessageAttributes={"price": number("50")})
    assert bodies(sqs, url, 6) == sorted(["9.50", "10", "1e1", "99.99", "700.0", "last"])


def test_raw_delivery_keeps_attributes_and_their_digest(sns: Any, sqs: Any) -> None:
    attributes: dict[str, dict[str, Any]] = {
        "city": text("Zürich 水"),
        "amount": number("0012.500"),
        "money": {"DataType": "Number.chf", "StringValue": "7"},
        "list": {"DataType": "String.Array", "StringValue": '["a", 1, null]'},
        "blob": {"DataType": "Binary", "BinaryValue": b"\x00\xff\n\x7f"},
    }
    topic = new_topic(sns)
    url = subscribe(sns, sqs, topic, **RAW)
    sns.publish(TopicArn=topic, Message="größer", MessageAttributes=attributes, Subject="lost")
    (got,) = receive(sqs, url, 1)
    assert (got["Body"], got["MessageAttributes"]) == ("größer", attributes)
    assert got["MD5OfBody"] == hashlib.md5("größer".encode()).hexdigest()
    assert got["MD5OfMessageAttributes"] == digest_of(attributes)


@ON_SHARDS
def test_a_fifo_topic_keeps_groups_and_ids_of_duplicates(sns: Any, sqs: Any) -> None:
    topic = new_topic(sns, "steps.fifo", FifoTopic="true")
    url = subscribe(sns, sqs, topic, "readers.fifo", **RAW)
    plain = subscribe(sns, sqs, topic, "readers", **RAW)
    for place in range(6):
        sns.publish(
            TopicArn=topic,
            Message=f"m{place}",
            MessageGroupId=f"g{place % 2}",
            MessageDeduplicationId=f"d{place % 5}",
        )
    got = receive(sqs, url, 5)
    shown = [
        (each["Body"], each["Attributes"]["MessageGroupId"], each["Attributes"]["MessageDeduplicationId"])
        for each in got
    ]
    for group in ("g0", "g1"):
        wanted = [(f"m{place}", group, f"d{place}") for place in range(5) if group == f"g{place % 2}"]
        assert [each for each in shown if each[1] == group] == wanted
    others = receive(sqs, plain, 5)
    assert sorted(each["Body"] for each in others) == ["m0", "m1", "m2", "m3", "m4"]
    assert all({"MessageGroupId", "MessageDeduplicationId"}.isdisjoint(each["Attributes"]) for each in others)


SUBSCRIBERS = 50


@ON_SHARDS
def test_the_last_of_fifty_subscribers_is_not_late(sns: Any, sqs: Any) -> None:
    """All of them wait when a message is published; from the first to the last it takes no second each."""
    topic = new_topic(sns)
    urls = [subscribe(sns, sqs, topic, f"readers-{place}", **RAW) for place in range(SUBSCRIBERS)]
    arrivals = list[float]()

    def wait(url: str) -> None:
        (got,) = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=20)["Messages"]
        arrivals.append(time.monotonic())
        assert got["Body"] == "now"

    with ThreadPoolExecutor(SUBSCRIBERS) as threads:
        waits = [threads.submit(wait, url) for url in urls]
        time.sleep(0.5)  # let the polls reach the server
        published = time.monotonic()
        sns.publish(TopicArn=topic, Message="now")
        for each in waits:
            each.result()
    assert max(arrivals) - published < 3  # one after the other, at 0.1 s each, would take longer


TEXT = 'größer 水 🚰 \u2028 <&> "quoted" \\n\n\t\\ \u007f é e\u0301'


def test_unicode_through_the_envelope(sns: Any, sqs: Any, endpoint: Endpoint) -> None:
    topic = new_topic(sns, DisplayName="Größe")
    url = subscribe(sns, sqs, topic)
    sns.subscribe(TopicArn=topic, Protocol="http", Endpoint=endpoint.url)
    sns.confirm_subscription(TopicArn=topic, Token=endpoint.next("SubscriptionConfirmation")["Token"])
    attributes = {"city": text("Zürich 水"), "quotes": text('"\\')}
    sns.publish(TopicArn=topic, Message=TEXT, Subject="Öl 🚰", MessageAttributes=attributes)
    (got,) = receive(sqs, url, 1)
    for envelope in (json.loads(got["Body"]), endpoint.next("Notification")):
        assert (envelope["Message"], envelope["Subject"]) == (TEXT, "Öl 🚰")
        assert {name: each["Value"] for name, each in envelope["MessageAttributes"].items()} == {
            name: each["StringValue"] for name, each in attributes.items()
        }
    assert "größer 水 🚰" in got["Body"], "readable, and not escaped"
