"""Topics with very many subscribers: no turn of the event loop takes long for their sake."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from penstock.errors import QuotaReached
from penstock.limits import SECOND
from penstock.publishing.live_topic import LiveTopic
from penstock.publishing.namespace import DELIVERED, FAILED
from penstock.topics.names import SubscriptionName, TopicName
from penstock.topics.records import Subscription
from penstock.turns import Steps
from publishing.world import PublishingWorld, publication
from support.world import ROOMY


@pytest.fixture
def world() -> Iterator[PublishingWorld]:
    with PublishingWorld() as made:
        yield made


def _put_many(world: PublishingWorld, topic: TopicName, count: int, protocol: str, endpoint: str) -> None:
    topics = world.topics(topic)
    for number in range(count):
        id = f"00000000-0000-4000-8000-{number:012d}"
        subscription = Subscription(
            name=SubscriptionName(topic, id),
            protocol=protocol,
            endpoint=endpoint.format(number),
            owner=topic.account,
            created_ms=0,
        )
        topics.put_subscription(subscription)
    world.do(topics.settled())


@pytest.mark.parametrize(
    ("protocol", "endpoint", "count", "least"),
    [("sms", "+1{}", 500, 450), ("sqs", "arn:aws:sqs:eu-west-1:000000000000:missing{}", 3000, 450)],
)
def test_a_publication_for_very_many_takes_several_turns(
    protocol: str, endpoint: str, count: int, least: int
) -> None:
    with PublishingWorld(shards=1) as world:
        topic = world.topic()
        _put_many(world, topic, count, protocol, endpoint)
        turns = world.publishing.turns
        steps: list[int] = []

        async def counted(work: Steps[Any], of: str = "") -> Any:
            steps.append(0)
            while True:
                try:
                    next(work)
                    steps[-1] += 1
                except StopIteration as stop:
                    return stop.value

        turns.run = counted  # type: ignore[assignment,method-assign]
        world.publish(topic, "x")
        world.advance(10 * SECOND)
        assert max(steps) > least, "what is stored for each of them is decided in steps"
        counts = world.metrics(topic)
        assert counts[DELIVERED if protocol == "sms" else FAILED] == count


def test_a_topic_with_very_many_subscriptions_is_deleted_in_steps(world: PublishingWorld) -> None:
    topic = world.topic()
    topics = world.topics(topic)
    _put_many(world, topic, 1000, "sms", "+1{}")
    assert len(topics.owned_by(topic.space, "", 5000)) == 1000
    steps = 0
    for _ in topics._deletion(topic):
        steps += 1
    world.do(topics.settled())
    assert steps > 30
    assert topics.get(topic) is None
    assert topics.owned_by(topic.space, "", 5000) == []
    assert topics.stored_bytes(topic.account) == 0
    world.crash()
    assert world.topics(topic).owned_by(topic.space, "", 5000) == []


def test_those_who_publish_at_a_time_compile_a_topic_once(world: PublishingWorld) -> None:
    topic = world.topic()
    topics = world.topics(topic)
    _put_many(world, topic, 100, "sms", "+1{}")
    made: list[int] = []
    original = topics._compile

    def compile_it(live: LiveTopic, arns: list[str]) -> Steps[None]:
        made.append(1)
        return original(live, arns)

    topics._compile = compile_it  # type: ignore[method-assign]
    pending = [
        world.start(topics.publish(topics.find(topic), [publication("x")], "http://localhost"))
        for _ in range(10)
    ]
    world.advance(SECOND)
    assert all(each.done for each in pending)
    assert len(made) == 1


def test_a_refused_commit_leaves_the_lists_as_they_were(world: PublishingWorld) -> None:
    topic = world.topic()
    topics = world.topics(topic)
    _put_many(world, topic, 3, "sms", "+1{}")
    listed = [each.name for each in topics.owned_by(topic.space, "", 10)]
    first = topics.find_subscription(listed[0])
    topics._subscription_undone(first.key, None)
    assert [each.name for each in topics.owned_by(topic.space, "", 10)] == listed[1:]
    topics._subscription_undone(first.key, first)
    assert [each.name for each in topics.owned_by(topic.space, "", 10)] == listed
    assert sum(topics.counts(topic)) == 3


def test_copies_for_endpoints_count_for_the_quota_before_anything_is_published() -> None:
    limits = msgspec.structs.replace(ROOMY, quota_bytes=1_000_000)
    with PublishingWorld(limits) as world:
        topic, (short, *_) = world.topic(), world.queues()
        world.subscribe(topic, short)
        for number in range(10):
            world.subscribe(topic, f"http://example.com/{number}", "http")
        with pytest.raises(QuotaReached):
            world.publish(topic, "x" * 200_000)
        world.advance(SECOND)
        assert world.texts(short) == []
        assert world.endpoints.posted == []
        world.publish(topic, "x" * 20_000)
        world.advance(SECOND)
        assert len(world.endpoints.posted) == 10
