"""Subscribers that do not get their messages: what is remembered of them, and for how long."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import pytest

from penstock.broker.questions import ShardQuestion
from penstock.limits import SECOND
from penstock.publishing.failed_attempts import FailedAttempts
from penstock.publishing.failing import FailingSubscription, FailingSubscriptionsQuestion
from penstock.publishing.http_delivery import HttpAnswer
from penstock.publishing.summaries import TopicSummariesQuestion
from penstock.publishing.waiting import WaitingDeliveriesQuestion
from penstock.topics.records import Subscription
from publishing.world import PublishingWorld
from support.world import name_of

T = TypeVar("T")

ACCOUNT = name_of("any").account
HOOK, OTHER = "https://hooks.example.com/a", "https://hooks.example.com/b"
DOWN, GONE = HttpAnswer(500, "Internal Server Error"), HttpAnswer(404, "Not Found")


@pytest.fixture
def world() -> Iterator[PublishingWorld]:
    with PublishingWorld() as made:
        yield made


def ask(world: PublishingWorld, question: ShardQuestion[T]) -> T:
    return world.do(world.broker.ask(question))


def failing(world: PublishingWorld, **of: object) -> list[FailingSubscription]:
    return ask(world, FailingSubscriptionsQuestion(ACCOUNT, 100, **of))  # type: ignore[arg-type]


def only(world: PublishingWorld, subscription: Subscription) -> FailingSubscription:
    (found,) = failing(world, subscription=subscription.name)
    return found


def test_a_failed_attempt_is_remembered_until_one_succeeds(world: PublishingWorld) -> None:
    topic = world.topic()
    subscription = world.subscribe(topic, HOOK, "https")
    world.endpoints.answers[HOOK] = [DOWN, DOWN]
    begun_ms = world.clock.wall_ms()
    world.publish(topic, "one")
    world.advance(10 * SECOND)
    attempt = only(world, subscription).attempt
    assert attempt is not None
    assert (attempt.reason, attempt.number) == ("500 Internal Server Error", 1)
    world.advance(15 * SECOND)
    attempt = only(world, subscription).attempt
    assert attempt is not None and attempt.number == 2
    assert attempt.at_ms - attempt.since_ms == 20 * SECOND and attempt.since_ms - begun_ms < SECOND
    world.advance(20 * SECOND)
    assert failing(world) == []


def test_an_endpoint_that_refuses_has_not_got_the_message(world: PublishingWorld) -> None:
    """It counts as delivered, and is not tried again."""
    topic = world.topic()
    subscription = world.subscribe(topic, HOOK, "https")
    world.endpoints.answers[HOOK] = [GONE]
    world.publish(topic, "one")
    world.advance(SECOND)
    attempt = only(world, subscription).attempt
    assert attempt is not None and attempt.reason == "404 Not Found, which counts as delivered"
    world.publish(topic, "two")
    world.advance(SECOND)
    assert failing(world) == []


def test_a_queue_that_is_missing(world: PublishingWorld) -> None:
    topic, other = world.topic(), world.topic("other")
    lost = world.subscribe(topic, "missing")
    world.subscribe(other, "missing")
    for name in (topic, topic, other):
        world.publish(name, "text")
    world.advance(SECOND)
    found = only(world, lost)
    assert found.attempt is None and found.failure is not None
    assert (found.failure.reason, found.failure.count, found.failure.went_to) == ("QueueMissing", 2, "")
    assert [each.topic for each in failing(world, topic=other)] == [other.arn]
    arns = [each.subscription for each in failing(world)]
    assert len(arns) == 2 and arns == sorted(arns)
    assert [each.subscription for each in failing(world, after=arns[0])] == arns[1:]
    assert ask(world, FailingSubscriptionsQuestion("111111111111", 100)) == []
    summaries = ask(world, TopicSummariesQuestion(topic.space, 10))
    assert [(each.name.name, each.failing) for each in summaries] == [("news", 1), ("other", 1)]
    topics = world.topics(topic)
    topics.remove_subscription(lost.name)
    world.do(topics.settled())
    assert failing(world, topic=topic) == []


def test_what_waits_for_one_subscription_and_how_much_for_a_topic(world: PublishingWorld) -> None:
    """Both endpoints are at one host, so that their messages are in one group."""
    topic = world.topic()
    first, second = (world.subscribe(topic, url, "https") for url in (HOOK, OTHER))
    world.endpoints.answers = {HOOK: [DOWN] * 10, OTHER: [DOWN] * 10}
    for text in ("one", "two", "three"):
        world.publish(topic, text)
    world.advance(SECOND)
    for subscription in (first, second):
        arn = subscription.name.arn
        found = ask(world, WaitingDeliveriesQuestion(10, topic=topic, subscription=arn))
        assert [each.subscription for each in found] == [arn] * 3
        (begun,) = ask(world, WaitingDeliveriesQuestion(1, topic=topic, subscription=arn))
        rest = ask(world, WaitingDeliveriesQuestion(10, begun.place, topic=topic, subscription=arn))
        assert [begun, *rest] == found
    (summary,) = ask(world, TopicSummariesQuestion(topic.space, 10))
    assert summary.waiting == 6


def test_only_some_subscriptions_are_remembered() -> None:
    attempts = FailedAttempts()
    for number in range(1500):
        attempts.failed(f"arn:{number}", "x" * 1000, 1, number)
    assert len(attempts.subscriptions) == 1000
    assert attempts.of("arn:0") is None
    last = attempts.of("arn:1499")
    assert last is not None and len(last.reason) == 300


def test_a_queue_that_takes_messages_again_is_not_failing_any_more(world: PublishingWorld) -> None:
    topic = world.topic()
    subscription = world.subscribe(topic, "late")
    world.publish(topic, "lost")
    world.advance(SECOND)
    question = FailingSubscriptionsQuestion(topic.account, 10)
    assert [each.subscription for each in world.do(world.broker.ask(question))] == [subscription.name.arn]
    world.create("late")
    world.publish(topic, "taken")
    world.advance(SECOND)
    assert world.do(world.broker.ask(question)) == []
    (shown,) = world.do(
        world.broker.ask(FailingSubscriptionsQuestion(topic.account, 10, subscription=subscription.name))
    )
    assert shown.failure is not None
    assert shown.failure.count == 1
