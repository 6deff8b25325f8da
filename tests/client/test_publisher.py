"""A publisher over a client that answers as the test says. How batches are made and repeated is tested with the
producer, which shares that."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

import pytest

from client.test_producer import AT_ONCE, run
from penstock.client import ApiError, EncodeError, MessageAttribute, SyncPublisher, TopicDoesNotExist
from penstock.client.codec import JsonCodec
from penstock.client.publisher import Publisher
from penstock.client.structs import BatchResult, FailedEntry
from penstock.client.topic_structs import PublishedEntry, PublishEntry


class FakeTopic:
    """Refuses messages that begin with ``bad``, and fails as a whole while ``errors`` are left."""

    def __init__(self, *errors: Exception) -> None:
        self.batches: list[list[str]] = []
        self.entries: list[PublishEntry] = []
        self._errors = list(errors)

    def answer(self, entries: Iterable[PublishEntry]) -> BatchResult[PublishedEntry]:
        given = list(entries)
        self.batches.append([entry.message for entry in given])
        self.entries += given
        if self._errors:
            raise self._errors.pop(0)
        result: BatchResult[PublishedEntry] = BatchResult(successful=[], failed=[])
        for place, entry in enumerate(given):
            if entry.message.startswith("bad"):
                result.failed.append(FailedEntry(str(place), "InvalidParameter", sender_fault=True))
            else:
                result.successful.append(PublishedEntry(f"id-{entry.message}", id=str(place)))
        return result

    async def publish_batch(self, topic: str, entries: Iterable[PublishEntry]) -> BatchResult[PublishedEntry]:
        assert topic == "orders" or topic == "orders.fifo"
        await asyncio.sleep(0)
        return self.answer(entries)


def published(publish: Callable[[Publisher], Coroutine[Any, Any, Any]], **settings: Any) -> FakeTopic:
    topic = FakeTopic()

    async def test() -> None:
        async with Publisher(topic, "orders", **settings) as publisher:
            await publish(publisher)

    run(test)
    return topic


def test_messages_of_many_tasks_share_requests() -> None:
    async def publish(publisher: Publisher) -> None:
        found = await asyncio.gather(*(publisher.publish(str(number)) for number in range(25)))
        assert [each.message_id for each in found] == [f"id-{number}" for number in range(25)]

    assert sorted(map(len, published(publish, linger_s=0.3).batches)) == [5, 10, 10]


def test_values_are_encoded_and_options_have_their_names() -> None:
    async def publish(publisher: Publisher) -> None:
        await publisher.publish(
            {"drink": "tea"}, subject="s", group="g", dedup_id="d",
            attributes={
                "n": 1, "l": ["a", 2, True], "b": b"x", "own": MessageAttribute("String.x", string_value="y"),
            },
        )  # fmt: skip
        with pytest.raises(EncodeError):
            await publisher.publish(object())
        with pytest.raises(TypeError, match="flag"):
            await publisher.publish("x", attributes={"flag": True})

    (entry,) = published(publish, codec=JsonCodec(type_attribute="Type")).entries
    assert (entry.message, entry.subject, entry.message_structure) == ('{"drink":"tea"}', "s", None)
    assert (entry.message_group_id, entry.message_deduplication_id) == ("g", "d")
    assert entry.message_attributes == {
        "Type": MessageAttribute("String", string_value="dict"),
        "n": MessageAttribute("Number", string_value="1"),
        "l": MessageAttribute("String.Array", string_value='["a", 2, true]'),
        "b": MessageAttribute("Binary", binary_value=b"x"),
        "own": MessageAttribute("String.x", string_value="y"),
    }


def test_a_structure_has_texts_for_protocols_beside_the_default() -> None:
    async def publish(publisher: Publisher) -> None:
        await publisher.publish({"drink": "tea"}, structure={"email": "Grüße: tea", "sqs": {"short": 1}})

    (entry,) = published(publish).entries
    assert entry.message_structure == "json"
    assert json.loads(entry.message) == {
        "default": '{"drink":"tea"}', "email": "Grüße: tea", "sqs": '{"short":1}'
    }  # fmt: skip


def test_a_message_that_is_too_large_is_refused_before_it_is_sent() -> None:
    async def publish(publisher: Publisher) -> None:
        await publisher.publish("x" * 262_138, attributes={"a": ""})  # with a name of 1 byte, and a type of 6

    with pytest.raises(ValueError, match=r"262145 bytes.*262144"):
        published(publish)

    async def smaller(publisher: Publisher) -> None:
        await publisher.publish("x" * 262_137, attributes={"a": ""})

    assert len(published(smaller).entries) == 1


def test_a_batch_has_no_more_bytes_than_a_message_may_have() -> None:
    async def publish(publisher: Publisher) -> None:
        await asyncio.gather(*(publisher.publish("x" * 40) for _ in range(5)))

    assert [len(batch) for batch in published(publish, message_bytes_max=100, linger_s=0.3).batches] == [
        2,
        2,
        1,
    ]


def test_one_message_that_is_refused_fails_alone() -> None:
    async def publish(publisher: Publisher) -> None:
        outcomes = await publisher.publish_many(["a", "bad", object(), "b"], subject="s")
        assert [getattr(each, "message_id", type(each)) for each in outcomes] == [
            "id-a", ApiError, EncodeError, "id-b"
        ]  # fmt: skip

    assert {entry.subject for entry in published(publish).entries} == {"s"}


def test_a_topic_that_does_not_exist_fails_all_of_a_batch_at_once() -> None:
    topic = FakeTopic(TopicDoesNotExist("NotFound", "Topic does not exist", 404))

    async def test() -> None:
        async with Publisher(topic, "orders", linger_s=0.3) as publisher:
            outcomes = await publisher.publish_many(["a", "b"])
            assert [type(each) for each in outcomes] == [TopicDoesNotExist] * 2

    run(test)
    assert len(topic.batches) == 1


def test_a_request_that_fails_is_repeated_and_groups_keep_their_order() -> None:
    topic = FakeTopic(ApiError("InternalError", "", 500))

    async def test() -> None:
        async with Publisher(topic, "orders.fifo", backoff=AT_ONCE) as publisher:
            for text in ("1", "2", "3"):
                await publisher.submit(text, group="g")

    run(test)
    assert topic.batches == [["1"], ["1"], ["2"], ["3"]]


def test_a_closed_publisher_says_so() -> None:
    async def test() -> None:
        publisher = Publisher(FakeTopic(), "orders")
        await publisher.aclose()
        with pytest.raises(RuntimeError, match="publisher"):
            await publisher.publish("x")

    run(test)


def test_limits_are_checked() -> None:
    with pytest.raises(ValueError, match="requests_max=0"):
        published(lambda publisher: asyncio.sleep(0), requests_max=0)


# -- without asyncio -------------------------------------------------------------------------------------------------


class BlockingTopic(FakeTopic):
    def publish_batch(  # type: ignore[override]
        self, topic: str, entries: Iterable[PublishEntry]
    ) -> BatchResult[PublishedEntry]:
        return self.answer(entries)


def test_the_same_from_threads() -> None:
    topic = BlockingTopic()
    with SyncPublisher(topic, "orders", linger_s=3600) as publisher:
        first = publisher.submit("tea", attributes={"n": 1})
        publisher.flush()
        assert first.result().message_id == "id-tea"
        later = publisher.submit("coffee")
    assert later.result().message_id == "id-coffee"
    assert topic.entries[0].message_attributes == {"n": MessageAttribute("Number", string_value="1")}
    with pytest.raises(RuntimeError, match="publisher"):
        publisher.publish("x")


def test_many_from_threads() -> None:
    with SyncPublisher(BlockingTopic(), "orders") as publisher:
        outcomes = publisher.publish_many(["a", "bad", object()])
        assert publisher.publish("b").message_id == "id-b"
    assert [getattr(each, "message_id", type(each)) for each in outcomes] == ["id-a", ApiError, EncodeError]
