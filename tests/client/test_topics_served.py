"""Topics of a real server: every action over both networks, the publisher, consumers and confirmations."""

from __future__ import annotations

import asyncio
import itertools
import json
from typing import Any

import pytest

from client.driver import KEYS, Driver
from penstock.client import (
    ApiError,
    Client,
    Consumer,
    MessageAttribute,
    PublishEntry,
    Publisher,
    SignatureVerifier,
    SyncClient,
    SyncPublisher,
    TopicDoesNotExist,
    read_envelope,
)
from penstock.client.actions import Actions
from penstock.client.api import ApiSession
from penstock.client.consumer.context import MessageContext
from support.process import ServerProcess

_numbers = itertools.count()


def new_name(kind: str = "") -> str:
    return f"topic-{next(_numbers)}{kind}"


def test_the_life_of_a_topic(server: ServerProcess, drive: Driver) -> None:
    async def steps(client: Actions) -> None:
        name = new_name()
        arn = await client.create_topic(name, {"DisplayName": "Orders"}, {"team": "payments"})
        assert arn.endswith(f":{name}") and await client.create_topic(name) == arn
        assert arn in [each async for page in client.list_topic_pages() for each in page.topics]
        await client.set_topic_attributes(name, "DisplayName", "")
        attributes = await client.get_topic_attributes(name)
        assert attributes["TopicArn"] == arn and attributes["DisplayName"] == ""
        await client.tag_topic(name, {"shop": "Vienna"})
        await client.untag_topic(arn, ["team"])
        assert await client.list_topic_tags(name) == {"shop": "Vienna"}
        await client.delete_topic(name)
        await client.delete_topic(arn)
        for gone in (
            client.get_topic_attributes(name),
            client.publish(arn, "x"),
            client.list_topic_tags(arn),
        ):
            with pytest.raises(TopicDoesNotExist):
                await gone

    drive(steps, server.url)


def test_the_life_of_a_subscription(server: ServerProcess, drive: Driver) -> None:
    async def steps(client: Actions) -> None:
        name, queue = new_name(), new_name()
        await client.create_topic(name)
        await client.create_queue(queue)
        arn = await client.subscribe_queue(name, queue, filter_policy={"drink": ["latte"]})
        assert await client.subscribe_queue(name, queue, filter_policy={"drink": ["latte"]}) == arn
        with pytest.raises(ApiError, match="different attributes"):
            await client.subscribe_queue(name, queue, raw_message_delivery=True)
        policy = json.loads((await client.get_queue_attributes(queue, ["Policy"]))["Policy"])
        assert len(policy["Statement"]) == 1
        await client.set_subscription_attributes(arn, "RawMessageDelivery", True)
        found = await client.get_subscription_attributes(arn)
        assert (found["RawMessageDelivery"], json.loads(found["FilterPolicy"])) == (
            "true",
            {"drink": ["latte"]},
        )
        (subscription,) = (await client.list_subscriptions_by_topic(name)).subscriptions
        assert (subscription.subscription_arn, subscription.protocol) == (arn, "sqs")
        assert subscription.is_confirmed and subscription.endpoint.endswith(f":{queue}")
        assert arn in [each.subscription_arn for each in (await client.list_subscriptions()).subscriptions]
        for drink in ("latte", "water"):
            await client.publish(name, drink, message_attributes={"drink": drink, "sizes": [1, "large"]})
        (message,) = await client.receive_message(
            queue, max_number_of_messages=10, message_attribute_names=["All"]
        )
        assert message.body == "latte"
        assert message.message_attributes["sizes"] == MessageAttribute(
            "String.Array", string_value='[1, "large"]'
        )
        await client.unsubscribe(arn)
        with pytest.raises(TopicDoesNotExist):
            await client.get_subscription_attributes(arn)

    drive(steps, server.url)


def test_a_batch_can_succeed_in_part(server: ServerProcess, drive: Driver) -> None:
    async def steps(client: Actions) -> None:
        arn = await client.create_topic(new_name())
        result = await client.publish_batch(arn, ["one", PublishEntry(message="", id="empty"), "two"])
        assert [each.id for each in result.successful] == ["0", "2"]
        (failed,) = result.failed
        assert (failed.id, failed.code, failed.sender_fault) == ("empty", "InvalidParameter", True)
        with pytest.raises(ApiError) as raised:
            await client.publish(arn, "")
        assert raised.value.code == "InvalidParameter" and "Empty message" in raised.value.message

    drive(steps, server.url)


def test_a_fifo_topic_numbers_its_messages(server: ServerProcess, drive: Driver) -> None:
    async def steps(client: Actions) -> None:
        arn = await client.create_topic(new_name(".fifo"), {"FifoTopic": True})
        ids: dict[str, Any] = {"message_group_id": "g", "message_deduplication_id": "d"}
        first = await client.publish(arn, "x", **ids)
        assert await client.publish(arn, "x", **ids) == first
        assert first.sequence_number is not None and len(first.sequence_number) == 20

    drive(steps, server.url)


def test_a_token_confirms(server: ServerProcess, drive: Driver) -> None:
    async def steps(client: Actions) -> None:
        arn = await client.create_topic(new_name())
        with pytest.raises(ApiError, match="Invalid token"):
            await client.confirm_subscription(arn, "x")
        pending = await client.subscribe(arn, "email", "nobody@example.com", return_subscription_arn=False)
        assert pending == "pending confirmation"

    drive(steps, server.url)


def test_commands_can_ask_too(server: ServerProcess) -> None:
    session = ApiSession(server.url, "us-east-1", KEYS)
    arn = session.sns("CreateTopic", Name=new_name(), Tags=[{"Key": "a", "Value": "b"}])["TopicArn"]
    assert session.sns("ListTagsForResource", ResourceArn=arn) == {"Tags": [{"Key": "a", "Value": "b"}]}
    assert session.sns("DeleteTopic", TopicArn=arn) == {}
    session.close()


def test_a_publisher_and_a_consumer_that_checks_signatures(server: ServerProcess) -> None:
    async def story() -> None:
        name, queue, got, done = new_name(), new_name(), list[Any](), asyncio.Event()
        async with Client(endpoint_url=server.url, region="us-east-1", credentials=KEYS) as client:
            await client.create_topic(name, {"SignatureVersion": "2"})
            await client.create_queue(queue)
            await client.subscribe_queue(name, queue)

            async def handle(order: dict[str, int], context: MessageContext) -> None:
                got.append((order["number"], context.message.topic, context.attribute("table")))
                if len(got) == 30:
                    done.set()

            consumer = Consumer(client, queue, handle, envelopes=True, verify_signature=True)
            running = asyncio.create_task(consumer.run())
            async with Publisher(client, name) as publisher:
                values = [{"number": number} for number in range(30)]
                outcomes = await publisher.publish_many(values, attributes={"table": 7})
            assert not [each for each in outcomes if isinstance(each, Exception)]
            await asyncio.wait_for(done.wait(), 30)
            await consumer.stop(10)
            await running
        assert sorted(got) == [(number, name, 7) for number in range(30)]

    asyncio.run(story())


@pytest.mark.parametrize("version", ["1", "2"])
def test_the_signatures_of_the_server_are_valid(server: ServerProcess, version: str) -> None:
    with SyncClient(endpoint_url=server.url, region="us-east-1", credentials=KEYS) as client:
        name, queue = new_name(), new_name()
        arn = client.create_topic(name, {"SignatureVersion": version})
        client.create_queue(queue)
        client.subscribe_queue(name, queue)
        with SyncPublisher(client, name) as publisher:
            publisher.publish("grüße 🐌\n", subject="a \"subject\"")  # fmt: skip
        (message,) = client.receive_message(queue)
    envelope = read_envelope(message.body)
    assert (envelope.signature_version, envelope.topic_arn) == (version, arn)
    SignatureVerifier(trusted=[server.url], topics=[arn]).verify(envelope)
