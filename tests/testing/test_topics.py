"""Topics in a test: made, published to, and asserted about, with the real server."""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.client import SyncClient
from penstock.testing import Broker, HttpSubscriber
from support.texts import says


@pytest.fixture(scope="module")
def started() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def broker(started: Broker) -> Iterator[Broker]:
    yield started
    started.reset()


@pytest.fixture
def client(broker: Broker) -> Iterator[SyncClient]:
    with broker.client() as client:
        yield client


@pytest.fixture
def subscriber(broker: Broker) -> Iterator[HttpSubscriber]:
    with broker.http_subscriber() as subscriber:
        yield subscriber


# -- queues ----------------------------------------------------------------------------------------------------------


def test_a_queue_gets_what_its_filter_chooses(broker: Broker) -> None:
    topic = broker.topic("orders")
    topic.subscribe("kitchen", filter_policy={"drink": ["latte", {"prefix": "tea-"}]})
    topic.subscribe("office")
    latte = topic.publish({"table": 7}, subject="new", attributes={"drink": "latte"})
    water = topic.publish("one water", attributes={"drink": "water"})
    assert {each.rpartition(":")[2] for each in latte.chosen} == {"kitchen", "office"}
    assert (latte.subject, latte.attributes) == ("new", {"drink": "latte"})
    assert broker.assert_delivered("orders", "kitchen", {"table": 7}, count=1) == [latte]
    assert broker.assert_delivered("orders", "office", count=2) == [latte, water]
    (found,) = broker.assert_filtered_out("orders", "kitchen", attributes={"drink": "water"}, count=1)
    (why,) = found.filtered_out.values()
    says(why, "drink", '"latte"', '"water"')
    broker.assert_delivered("orders", "kitchen", "one water", count=0)
    broker.assert_filtered_out("orders", "office", count=0)
    broker.assert_published("orders", count=2)


def test_filters_of_bodies_are_explained_too(broker: Broker) -> None:
    topic = broker.topic("orders")
    topic.subscribe(
        "kitchen", filter_policy={"table": [{"numeric": [">", 5]}]}, filter_policy_scope="MessageBody"
    )
    topic.publish({"table": 7})
    topic.publish({"table": 3})
    topic.publish("no JSON")
    broker.assert_delivered("orders", "kitchen", {"table": 7}, count=1)
    three, text = broker.assert_filtered_out("orders", "kitchen", count=2)
    says(next(iter(three.filtered_out.values())), "table", "3", "MessageBody")
    says(next(iter(text.filtered_out.values())), "JSON")


def test_raw_messages_are_known_by_their_content(broker: Broker, client: SyncClient) -> None:
    topic = broker.topic("orders")
    topic.subscribe("kitchen", raw_message_delivery=True, filter_policy={"drink": ["tea"]})
    client.send_message("kitchen", "cup")  # not from the topic
    for drink in ("tea", "latte", "tea"):
        topic.publish("cup", attributes={"drink": drink})
    broker.assert_delivered("orders", "kitchen", "cup", count=2)
    broker.assert_delivered("orders", "kitchen", attributes={"drink": "latte"}, count=0)
    broker.assert_filtered_out("orders", "kitchen", "cup", count=1)


def test_the_message_may_be_gone_and_come_from_any_client(broker: Broker, client: SyncClient) -> None:
    broker.topic("orders").subscribe("kitchen")
    sns = broker.boto3_client("sns")
    sns.publish(TopicArn=client.create_topic("orders"), Message='{"drink": "latte"}')
    sns.close()
    (message,) = client.receive_message("kitchen")
    client.delete_message("kitchen", message.receipt_handle)
    broker.assert_empty("kitchen")
    broker.assert_delivered("orders", "kitchen", {"drink": "latte"}, count=1)


def test_a_structured_message_has_a_text_for_queues(broker: Broker, client: SyncClient) -> None:
    topic = broker.topic("orders")
    topic.subscribe("kitchen", raw_message_delivery=True)
    message = json.dumps({"default": "long", "sqs": "short"})
    client.publish(topic.arn, message, message_structure="json")
    (found,) = broker.assert_delivered("orders", "kitchen", count=1)
    assert (found.text_for("sqs"), found.text_for("email")) == ("short", "long")


def test_a_fifo_topic_drops_duplicates(broker: Broker) -> None:
    topic = broker.topic("orders.fifo")
    topic.subscribe("kitchen.fifo")
    first = topic.publish("latte", group="g", dedup_id="d")
    assert topic.publish("latte", group="g", dedup_id="d") == first
    broker.assert_delivered("orders.fifo", "kitchen.fifo", group="g", count=1)
    broker.clock.advance(minutes=5)
    topic.publish("latte", group="g", dedup_id="d")
    broker.assert_delivered("orders.fifo", "kitchen.fifo", count=2)


def test_a_failure_shows_what_was_published_and_what_became_of_it(broker: Broker, client: SyncClient) -> None:
    topic = broker.topic("orders")
    topic.publish("early")
    topic.subscribe("kitchen", filter_policy={"drink": ["latte"]})
    topic.publish("late", attributes={"drink": "water"})
    with pytest.raises(AssertionError) as error:
        broker.assert_delivered("orders", "kitchen")
    says(str(error.value), "at least 1 message", "delivered by orders to kitchen", "found 0", "'early'", "'late'",
         "not subscribed", "filtered out", "drink", 'queue "kitchen"')  # fmt: skip
    with pytest.raises(AssertionError) as error:
        broker.assert_filtered_out("orders", "kitchen", "early")
    says(str(error.value), "filtered out of kitchen", "'early'", "found 0")
    with pytest.raises(AssertionError) as error:
        broker.assert_published("orders", count=3)
    says(str(error.value), "3 messages", "published to orders", "found 2", "'late'")


def test_a_policy_that_denies_a_delivery_shows(broker: Broker, client: SyncClient) -> None:
    topic = broker.topic("orders")
    client.create_queue("kitchen")
    topic.subscribe("kitchen")
    arn = client.get_queue_attributes("kitchen")["QueueArn"]
    client.delete_queue("kitchen")
    client.create_queue("other")
    message = topic.publish("lost")
    assert message.chosen == (arn,)
    client.create_queue("kitchen")
    with pytest.raises(AssertionError) as error:
        broker.assert_delivered("orders", "kitchen")
    says(str(error.value), "not delivered", "'lost'")


def test_what_does_not_exist_is_named(broker: Broker) -> None:
    broker.topic("orders")
    with pytest.raises(AssertionError, match='no topic "order"; there are: orders'):
        broker.assert_published("order")
    with pytest.raises(AssertionError, match='no queue "kitchen"'):
        broker.assert_delivered("orders", "kitchen")
    with pytest.raises(AssertionError, match="HttpSubscriber"):
        broker.assert_delivered("orders", "http://127.0.0.1:1/")
    assert broker.publications("orders") == []


def test_a_reset_forgets_topics(broker: Broker) -> None:
    broker.topic("orders").publish("x")
    broker.reset()
    with pytest.raises(AssertionError, match="there are: none"):
        broker.publications("orders")


def test_few_publications_are_remembered() -> None:
    from penstock.testing.known_publications import KnownPublication, KnownPublications
    from penstock.topics.names import TopicName
    from penstock.topics.publication import Publication

    name = TopicName("1" * 12, "us-east-1", "orders")

    def kept(most: int, bytes_max: int) -> list[str]:
        known = KnownPublications(most, bytes_max)
        for number in range(5):
            known._add(KnownPublication(name, str(number), Publication(message="x" * 10), (), ()))
        return [each.id for each in known.of_topic("orders")]

    assert kept(3, 1000) == ["2", "3", "4"]
    assert kept(100, 25) == ["3", "4"]


# -- subscribers over HTTP -------------------------------------------------------------------------------------------


def test_a_subscriber_confirms_and_gets_messages(broker: Broker, subscriber: HttpSubscriber) -> None:
    topic = broker.topic("orders")
    topic.subscribe(subscriber, filter_policy={"drink": ["latte"]})
    topic.publish("one latte", subject="new", attributes={"drink": "latte"})
    topic.publish("one water", attributes={"drink": "water"})
    (webhook,) = subscriber.wait_for()
    assert webhook.notification is not None
    assert (webhook.body, webhook.notification.subject) == ("one latte", "new")
    broker.assert_delivered("orders", subscriber, "one latte", count=1)
    broker.assert_filtered_out("orders", subscriber, "one water", count=1)
    assert [each.kind for each in subscriber.confirmations] == ["SubscriptionConfirmation"]


def test_a_raw_message_over_http(broker: Broker, subscriber: HttpSubscriber) -> None:
    topic = broker.topic("orders")
    topic.subscribe(subscriber, raw_message_delivery=True)
    topic.publish("one latte")
    broker.assert_delivered("orders", subscriber, "one latte", count=1)
    assert [each.is_raw for each in subscriber.notifications] == [True]


def test_a_message_that_fails_is_sent_again_when_time_has_passed(
    broker: Broker, subscriber: HttpSubscriber
) -> None:
    topic = broker.topic("orders")
    topic.subscribe(subscriber)
    broker.clock.freeze()
    subscriber.respond(503, times=2)
    topic.publish("one latte")
    for attempts in (1, 2, 3):
        broker.wait_for_deliveries()
        assert subscriber.attempts == attempts
        broker.clock.advance(seconds=20)
    assert subscriber.attempts == 3
    assert [each.body for each in subscriber.notifications] == ["one latte"]


def test_a_message_that_fails_for_good_goes_to_the_dead_letter_queue(
    broker: Broker, client: SyncClient, subscriber: HttpSubscriber
) -> None:
    client.create_queue("dead")
    arn = client.get_queue_attributes("dead")["QueueArn"]
    topic = broker.topic("orders")
    topic.subscribe(subscriber, attributes={"RedrivePolicy": {"deadLetterTargetArn": arn}})
    subscriber.respond(500)
    topic.publish("one latte")
    for _ in range(3):
        assert broker.messages("dead") == []
        broker.clock.advance(seconds=20)
    assert subscriber.attempts == 4
    assert json.loads(broker.messages("dead")[0].body)["Message"] == "one latte"
    with pytest.raises(AssertionError) as error:
        broker.assert_delivered("orders", subscriber, timeout=0)
    says(str(error.value), "not delivered", subscriber.url, "4 failed")


def test_a_subscriber_that_does_not_answer_does_not_stop_the_clock(broker: Broker) -> None:
    """It may be the program that advances the clock."""
    with broker.http_subscriber() as subscriber:
        broker.topic("orders").subscribe(subscriber)
        answering = threading.Event()
        answer = subscriber.answer

        def wait(headers: dict[str, str], body: bytes) -> int:
            answering.wait(30)
            return answer(headers, body)

        subscriber.answer = wait  # type: ignore[method-assign]
        broker.topic("orders").publish("x")
        with pytest.raises(AssertionError, match="1 delivery under way"):
            broker.wait_for_deliveries(timeout=0)
        begun = time.monotonic()
        broker.clock.advance(seconds=1)
        assert time.monotonic() - begun < 10
        answering.set()
        assert [each.body for each in subscriber.wait_for()] == ["x"]


def test_a_subscriber_may_leave_it_unconfirmed(broker: Broker) -> None:
    with broker.http_subscriber(confirms=False) as subscriber:
        topic = broker.topic("orders")
        topic.subscribe(subscriber)
        message = topic.publish("x")
        assert message.chosen == () and message.filtered_out == {}
        with pytest.raises(AssertionError, match="expected 1 message, found 0 after 0 s"):
            subscriber.wait_for(timeout=0)


def test_a_subscriber_confirms_nothing_of_others(subscriber: HttpSubscriber) -> None:
    def post(body: bytes, **headers: str) -> int:
        request = urllib.request.Request(subscriber.url, body, headers, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            with error:
                return error.code

    confirmation: dict[str, Any] = {
        "Type": "SubscriptionConfirmation", "MessageId": "m", "TopicArn": "arn:aws:sns:us-east-1:123456789012:t",
        "Message": "m", "Timestamp": "2026-01-01T00:00:00.000Z", "Token": "t", "SubscribeURL": "http://127.0.0.1:1/",
        "Signature": "AAAA", "SignatureVersion": "1", "SigningCertURL": "http://127.0.0.1:1/x.pem",
    }  # fmt: skip
    kind = {"x-amz-sns-message-type": "SubscriptionConfirmation"}
    assert post(json.dumps(confirmation).encode(), **kind) == 500
    assert post(b"x") == 400
    assert subscriber.confirmations == []
