"""FIFO topics: order, numbers and deduplication, across shards and restarts; the archive and its replay."""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256

import msgspec
import pytest

from penstock.errors import QuotaReached
from penstock.limits import DAY, HOUR, MINUTE, SECOND
from penstock.topics.names import TopicName
from publishing.deliveries_world import Counted
from publishing.world import PublishingWorld, publication
from support.world import ROOMY, name_of

FIFO = "orders.fifo"


@pytest.fixture
def world() -> Iterator[PublishingWorld]:
    with PublishingWorld() as made:
        yield made


def topic_of(world: PublishingWorld, **attributes: str) -> TopicName:
    return world.topic(FIFO, **{"ContentBasedDeduplication": "true", **attributes})


def test_the_order_of_a_group_is_kept_in_every_queue(world: PublishingWorld) -> None:
    topic, queues = topic_of(world), world.queues(".fifo")
    for short in queues:
        world.subscribe(topic, short, RawMessageDelivery="true")
    texts = [str(number) for number in range(30)]
    numbers = [world.publish(topic, text, group="g").sequence for text in texts]
    assert numbers == sorted(numbers, key=str)
    assert {len(number or "") for number in numbers} == {20}
    for short in queues:
        assert world.taken(short) == texts


def test_a_duplicate_is_answered_as_the_first_message_and_delivered_once(world: PublishingWorld) -> None:
    topic, queues = topic_of(world), world.queues(".fifo")
    for short in queues:
        world.subscribe(topic, short)
    first = world.publish(topic, "x", group="g")
    assert world.publish(topic, "x", group="other") == first
    assert world.publish(topic, "y", group="g") != first
    world.crash()
    assert world.publish(topic, "x", group="g") == first
    world.advance(5 * MINUTE + SECOND)
    assert world.publish(topic, "x", group="g") != first
    for short in queues:
        assert world.texts(short).count("x") == 2


def test_a_topic_may_deduplicate_each_group_by_itself(world: PublishingWorld) -> None:
    topic, (short, *_) = topic_of(world, FifoThroughputScope="MessageGroup"), world.queues()
    world.subscribe(topic, short)
    first = world.publish(topic, "x", group="a")
    assert world.publish(topic, "x", group="b") != first
    assert world.publish(topic, "x", group="a") == first
    assert world.texts(short) == ["x", "x"]


def test_fifo_queues_get_the_group_and_the_id_and_standard_queues_neither(world: PublishingWorld) -> None:
    topic = topic_of(world)
    world.create("q.fifo")
    world.create("q")
    world.subscribe(topic, "q.fifo")
    world.subscribe(topic, "q")
    published = world.publish(topic, "x", group="g")
    (fifo,), (standard,) = world.receive("q.fifo"), world.receive("q")
    assert (fifo.group, fifo.content.dedup_id) == ("g", sha256(b"x").hexdigest())
    assert (standard.group, standard.content.dedup_id) == (None, None)
    envelope = json.loads(fifo.content.body)
    assert envelope["SequenceNumber"] == published.sequence
    assert "Signature" not in envelope


def test_a_message_that_every_filter_held_back_still_counts_for_duplicates(world: PublishingWorld) -> None:
    topic, (short, *_) = topic_of(world), world.queues(".fifo")
    world.subscribe(topic, short, FilterPolicy='{"a":["b"]}')
    first = world.publish(topic, "x", group="g", attributes={"a": "c"})
    assert world.publish(topic, "x", group="g", attributes={"a": "b"}) == first
    assert world.texts(short) == []


def test_a_new_topic_of_the_same_name_remembers_nothing(world: PublishingWorld) -> None:
    topic = topic_of(world)
    first = world.publish(topic, "x", group="g")
    topics = world.topics(topic)
    world.do(topics.delete_topic(topic))
    world.do(topics.settled())
    topic_of(world)
    assert world.publish(topic, "x", group="g") != first


def test_a_batch_keeps_its_order_and_drops_duplicates(world: PublishingWorld) -> None:
    topic, (short, *_) = topic_of(world), world.queues(".fifo")
    world.subscribe(topic, short)
    batch = [publication(text, group="g") for text in ("a", "b", "a", "c")]
    first, second, third, fourth = world.publish_all(topic, *batch)
    assert first == third
    assert len({first, second, fourth}) == 3
    assert world.texts(short) == ["a", "b", "c"]


def replay_policy(world: PublishingWorld, from_ms: int, until_ms: int | None = None) -> str:
    from penstock.topics.envelopes import timestamp

    policy = {"PointType": "Timestamp", "StartingPoint": timestamp(from_ms)}
    if until_ms is not None:
        policy["EndingPoint"] = timestamp(until_ms)
    return json.dumps(policy)


@pytest.mark.parametrize("ending", [".fifo", ""])
def test_an_archive_is_replayed_to_one_subscription(world: PublishingWorld, ending: str) -> None:
    topic = topic_of(world, ArchivePolicy='{"MessageRetentionPeriod":"30"}')
    first, second, _ = world.queues(ending)
    replayed = world.subscribe(topic, first, FilterPolicy='{"n":[{"anything-but":"7"}]}')
    world.subscribe(topic, second)
    begun_ms = world.clock.wall_ms()
    ids = []
    for number in range(250):
        ids.append(world.publish(topic, str(number), group="g", attributes={"n": str(number)}))
        world.advance(10)
    live = world.texts(first)
    world.texts(second)
    world.crash()  # the archive is in the store
    topics = world.topics(topic)
    policy = replay_policy(world, begun_ms + 1000)
    topics.put_subscription(replayed.with_attribute("ReplayPolicy", policy))
    world.do(topics.settled())
    world.advance(SECOND)
    assert topics.replay_status(replayed.name) == "Completed"
    again = [json.loads(body) for body in world.taken(first)]
    assert [envelope["Message"] for envelope in again if envelope.get("Replayed") == "true"] == live[99:]
    assert [envelope["MessageId"] for envelope in again] == [each.message_id for each in ids[100:]]
    assert world.texts(second) == []
    topics.put_subscription(replayed)
    assert topics.replay_status(replayed.name) is None


def test_a_crash_in_a_replay_repeats_nothing(world: PublishingWorld) -> None:
    topic = topic_of(world, ArchivePolicy='{"MessageRetentionPeriod":"1"}')
    short, *_ = world.queues()
    begun_ms = world.clock.wall_ms()
    texts = [str(number) for number in range(350)]
    for text in texts:
        world.publish(topic, text, group="g")
    subscription = world.subscribe(topic, short, ReplayPolicy=replay_policy(world, begun_ms))
    world.crash()
    world.advance(MINUTE)
    assert world.topics(topic).replay_status(subscription.name) == "Completed"
    assert world.texts(short) == texts


def test_the_archive_forgets_what_is_older_than_its_retention(world: PublishingWorld) -> None:
    topic = topic_of(world, ArchivePolicy='{"MessageRetentionPeriod":"1"}')
    short, *_ = world.queues()
    begun_ms = world.clock.wall_ms()
    world.publish(topic, "old", group="g")
    world.advance(DAY - MINUTE)
    world.publish(topic, "new", group="g")
    world.advance(2 * MINUTE)
    world.subscribe(topic, short, ReplayPolicy=replay_policy(world, begun_ms))
    world.advance(MINUTE)
    assert world.texts(short) == ["new"]


def test_archives_are_counted_with_each_message_and_measured_every_hour(
    world: PublishingWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = topic_of(world, ArchivePolicy='{"MessageRetentionPeriod":"1"}')
    world.topic("other.fifo", ContentBasedDeduplication="true")
    counted = Counted(monkeypatch).values
    for text in ("a", "b" * 1000, "a"):  # the last one is a duplicate
        world.publish(topic, text, group="g")
    world.publish(world.topic("other.fifo", ContentBasedDeduplication="true"), "x", group="g")
    assert counted["NumberOfMessagesArchiveProcessing"] == [1, 1]
    assert sum(counted["NumberOfBytesArchiveProcessing"]) > 1000
    assert "ApproximateNumberOfMessagesArchived" not in counted
    world.advance(HOUR)
    world.advance(HOUR)
    assert counted["ApproximateNumberOfMessagesArchived"] == [2, 2]
    assert counted["ApproximateNumberOfBytesArchived"] == [sum(counted["NumberOfBytesArchiveProcessing"])] * 2
    world.advance(DAY)
    assert counted["ApproximateNumberOfMessagesArchived"][-1] == 0
    topics = world.topics(topic)
    topics.put_topic(topics.find(topic).with_attribute("ArchivePolicy", ""))
    world.do(topics.settled())
    measured = len(counted["ApproximateNumberOfMessagesArchived"])
    world.advance(2 * HOUR)
    assert len(counted["ApproximateNumberOfMessagesArchived"]) == measured


def test_a_dead_letter_of_a_fifo_topic_keeps_its_group_and_its_id(world: PublishingWorld) -> None:
    topic = topic_of(world)
    world.create("dead.fifo")
    policy = json.dumps({"deadLetterTargetArn": name_of("dead.fifo").arn})
    world.subscribe(topic, "missing.fifo", RedrivePolicy=policy, RawMessageDelivery="true")
    for text in ("a", "b", "c"):
        world.publish(topic, text, group="g")
    world.advance(SECOND)
    received = world.receive("dead.fifo")
    assert [each.content.body for each in received] == ["a", "b", "c"]
    assert {each.group for each in received} == {"g"}
    assert received[0].content.dedup_id == sha256(b"a").hexdigest()


def test_a_batch_that_the_archive_has_no_room_for_is_not_published_in_part() -> None:
    limits = msgspec.structs.replace(ROOMY, quota_bytes=100_000)
    with PublishingWorld(limits) as world:
        topic = topic_of(world, ArchivePolicy='{"MessageRetentionPeriod":"1"}')
        batch = [publication(f"{number}" * 40_000, group="g") for number in range(3)]
        with pytest.raises(QuotaReached):
            world.publish_all(topic, *batch)
        archive = world.topics(topic).queues.find(topic)
        assert archive is not None
        assert world.do(archive.counts()).visible == 0
        world.publish_all(topic, *batch[:1])
        assert world.do(archive.counts()).visible == 1
