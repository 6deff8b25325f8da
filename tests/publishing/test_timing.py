"""Topics at bad moments: what changes, fails or moves in the middle of a publication or a delivery."""

from __future__ import annotations

import json
from collections.abc import Iterator, Set
from typing import Any

import pytest

from penstock.errors import NotOwned, StoreError
from penstock.limits import MINUTE, SECOND
from penstock.promise import Promise
from penstock.publishing import publisher
from penstock.publishing.http_delivery import HttpAnswer
from penstock.store.changes import Changes
from penstock.store.port import Mark
from publishing.world import PublishingWorld, publication
from support.pausing_turns import PausingTurns
from support.world import name_of

BASE_URL = "http://localhost:9324"
HOOK = "https://hooks.example.com/a"


class SlowWorld(PublishingWorld):
    """Filters are compiled and asked in several turns."""

    def open_shard(self, index: int) -> None:
        self.publishing.turns = PausingTurns(self.runtime.soon)
        super().open_shard(index)


@pytest.fixture
def world() -> Iterator[SlowWorld]:
    with SlowWorld() as made:
        yield made


def test_a_topic_that_gets_its_first_subscriber_during_a_publication_knows_it(world: SlowWorld) -> None:
    topic, (short, *_) = world.topic(), world.queues()
    topics = world.topics(topic)
    world.start(topics.publish(topics.find(topic), [publication("perhaps")], BASE_URL))
    world.subscribe(topic, short)
    world.publish(topic, "surely")
    assert world.texts(short)[-1:] == ["surely"]


@pytest.mark.parametrize("steps", range(8))
def test_a_refused_unsubscribe_during_a_publication_ends_nothing(world: SlowWorld, steps: int) -> None:
    topic, (short, *_) = world.topic(), world.queues()
    subscription = world.subscribe(topic, short)
    world.crash()  # nothing is compiled any more
    topics = world.topics(topic)
    world.stores[topic.home.shard(world.shards)].refusals.append(StoreError("refused by the test"))
    topics.remove_subscription(subscription.name)
    removed = world.start(topics.settled())
    for _ in range(steps):
        world.runtime.step()
    world.start(topics.publish(topics.find(topic), [publication("perhaps")], BASE_URL))
    world.run()
    assert removed.failed
    world.publish(topic, "surely")
    assert world.texts(short)[-1:] == ["surely"]


@pytest.mark.parametrize("steps", range(0, 40, 2))
def test_a_signature_is_of_the_version_that_the_message_shows(world: SlowWorld, steps: int) -> None:
    topic, (short, *_) = world.topic(), world.queues()
    world.subscribe(topic, short)
    world.publish(topic, "before")
    topics = world.topics(topic)
    published = world.start(topics.publish(topics.find(topic), [publication("x")], BASE_URL))
    for _ in range(steps):
        world.runtime.step()
    topics.put_topic(topics.find(topic).with_attribute("SignatureVersion", "2"))
    world.run()
    published.result()
    _, body = world.taken(short)
    envelope = json.loads(body)
    names = ("Message", "MessageId", "Timestamp", "TopicArn", "Type")
    signed = "".join(f"{name}\n{envelope[name]}\n" for name in names)
    assert envelope["Signature"] == world.publishing.signer.sign(signed, envelope["SignatureVersion"])


@pytest.mark.parametrize("refused", range(4))
def test_a_message_that_takes_several_commits_is_answered_when_all_are_made(
    refused: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher, "_OF_BATCH_MAX", 1)
    monkeypatch.setattr(publisher, "_OF_BATCH_MIN", 1)
    monkeypatch.setattr(publisher, "_QUEUES_MAX", 1)
    with SlowWorld(
        choose=lambda choices: choices - 1
    ) as world:  # each commit is written before the next turn
        topic = world.topic()
        home = topic.home.shard(world.shards)
        names = [world.name(f"many{number}-", home) for number in range(4)]
        for short in names:
            world.create(short)
            world.subscribe(topic, short, RawMessageDelivery="true")
        world.publish(topic, "before")
        topics, store = world.topics(topic), world.stores[home]
        append, commits = store.append, 0

        def refuse_one(changes: Changes, mark: Mark) -> Set[int]:
            nonlocal commits
            commits += 1
            if commits == refused + 1:
                raise StoreError("refused by the test")
            return append(changes, mark)

        store.append = refuse_one  # type: ignore[method-assign]
        published = world.start(topics.publish(topics.find(topic), [publication("x")], BASE_URL))
        world.run()
        store.append = append  # type: ignore[method-assign]
        assert commits >= 4, "they were made together"
        there = [world.taken(short) for short in names]
        assert sum("x" in texts for texts in there) == 3
        assert published.failed


def test_a_publication_at_a_shard_that_moves_is_passed_on_or_made(world: SlowWorld) -> None:
    topic, queues = world.topic(), world.queues()
    for short in queues:
        world.subscribe(topic, short)
    outcomes = []
    for number in range(30):
        topics = world.topics(topic)
        published = world.start(topics.publish(topics.find(topic), [publication(str(number))], BASE_URL))
        for _ in range(number):
            world.runtime.step()
        world.reopen(topic.home.shard(world.shards))
        outcomes.append(published)
    world.advance(MINUTE)
    made = [str(number) for number, published in enumerate(outcomes) if not published.failed]
    for published in outcomes:
        if published.failed:
            with pytest.raises((NotOwned, StoreError)):
                published.result()
    assert 0 < len(made) < len(outcomes)
    assert [sorted(world.texts(short), key=int) for short in queues] == [made] * 3


def test_what_is_on_its_way_to_a_queue_that_is_deleted_becomes_a_dead_letter(world: SlowWorld) -> None:
    topic = world.topic()
    shard = (topic.home.shard(world.shards) + 1) % world.shards
    short, dead = world.name("gone", shard), world.name("dead", shard)
    world.create(short)
    world.create(dead)
    policy = json.dumps({"deadLetterTargetArn": name_of(dead).arn})
    world.subscribe(topic, short, RedrivePolicy=policy)
    world.close_shard(shard)
    world.publish(topic, "x")
    world.open_shard(shard)
    world.drop(short)
    world.advance(6 * SECOND)
    assert world.texts(dead) == ["x"]


def test_what_waits_for_an_endpoint_ends_with_its_subscription(world: SlowWorld) -> None:
    topic = world.topic()
    world.create("dead")
    policy = json.dumps({"deadLetterTargetArn": name_of("dead").arn})
    subscription = world.subscribe(topic, HOOK, "https", RedrivePolicy=policy)
    hanging: Promise[HttpAnswer] = Promise()
    world.endpoints.answers[HOOK] = [hanging, *[HttpAnswer(503, "Service Unavailable")] * 9]
    for text in ("hangs", "fails", "fails too"):
        world.publish(topic, text)
    topics = world.topics(topic)
    topics.remove_subscription(subscription.name)
    world.do(topics.settled())
    tries = len(world.endpoints.posted)
    hanging.resolve(HttpAnswer(0, "no answer"))
    world.advance(10 * MINUTE)
    assert len(world.endpoints.posted) == tries
    assert world.taken("dead") == []
    assert not any(jobs.unfinished for jobs in _http_jobs(world, topic.home.shard(world.shards)))


def test_an_endpoint_gets_messages_again_soon_after_a_crash(world: SlowWorld) -> None:
    """What was under way takes up all its places until it becomes visible."""
    topic = world.topic()
    world.subscribe(topic, HOOK, "https", RawMessageDelivery="true")
    world.endpoints.answers[HOOK] = [Promise() for _ in range(4)]
    for text in ("1", "2", "3", "4", "5"):
        world.publish(topic, text)
    assert len(world.endpoints.posted) == 4
    world.crash()
    world.endpoints.posted.clear()
    world.advance(20 * SECOND)
    assert sorted(message.body for _, message in world.endpoints.posted) == [b"1", b"2", b"3", b"4", b"5"]


def _http_jobs(world: SlowWorld, shard: int) -> list[Any]:
    partition = world.broker.partition(shard)
    return [
        each
        for jobs in partition.parts.job_queues
        if jobs.kind.name == "topic-http"
        for each in jobs.consumers
    ]
