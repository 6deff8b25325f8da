"""Topics and queues: who gets a message, in what form, and what becomes of what a queue does not take."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime

import pytest

from penstock.broker.handover import SentFor
from penstock.broker.live_queue import LiveQueue
from penstock.errors import NotOwned, QuotaReached, StoreFull
from penstock.limits import HOUR, MINUTE, SECOND
from penstock.publishing.errors import TopicMissing
from penstock.queues.messages import Attribute
from penstock.topics.publication import Notice
from penstock.topics.records import SubscriptionState
from publishing.world import PublishingWorld, publication
from support.world import name_of

MESSAGE_BYTES = 256 * 1024


@pytest.fixture
def world() -> Iterator[PublishingWorld]:
    with PublishingWorld() as made:
        yield made


def test_queues_of_all_shards_get_an_envelope_with_their_own_link(world: PublishingWorld) -> None:
    topic, queues = world.topic(), world.queues()
    subscriptions = {short: world.subscribe(topic, short) for short in queues}
    published = world.publish(topic, "Ünïcode ✓", subject="Hello", attributes={"kind": "order"})
    for short in queues:
        (received,) = world.receive(short)
        envelope = json.loads(received.content.body)
        assert envelope["MessageId"] == published.message_id
        assert envelope["Message"] == "Ünïcode ✓"
        assert envelope["Subject"] == "Hello"
        assert envelope["MessageAttributes"] == {"kind": {"Type": "String", "Value": "order"}}
        assert envelope["UnsubscribeURL"].endswith(f"SubscriptionArn={subscriptions[short].name.arn}")
        assert received.content.attributes is None
        assert received.content.bytes_sent == len(received.content.body.encode())


def test_the_content_for_many_queues_of_another_shard_is_stored_once(world: PublishingWorld) -> None:
    topic = world.topic()
    away = (topic.home.shard(world.shards) + 1) % world.shards
    names = [world.name(f"many{number}-", away) for number in range(20)]
    for short in names:
        world.create(short)
        world.subscribe(topic, short)
    home = world.broker.partition(topic.home.shard(world.shards)).shard
    sizes: list[int] = []
    home.watch(lambda commit: sizes.append(commit.changes.bytes))
    world.publish(topic, "x" * 10_000)
    assert 10_000 < sum(sizes) < 12_000
    assert [world.texts(short) for short in names] == [["x" * 10_000]] * 20


def test_a_large_message_for_1000_queues_of_other_shards_is_stored_once_for_each_shard(
    world: PublishingWorld,
) -> None:
    topic = world.topic()
    home = topic.home.shard(world.shards)
    for number in range(1000):
        away = (home + 1 + number % 2) % world.shards
        world.subscribe(topic, world.name(f"many{number}-", away), RawMessageDelivery="true")
    sizes: list[int] = []
    world.broker.partition(home).shard.watch(lambda commit: sizes.append(commit.changes.bytes))
    world.publish(topic, "x" * MESSAGE_BYTES)
    assert 2 * MESSAGE_BYTES < sum(sizes) < 2.01 * MESSAGE_BYTES


@pytest.mark.parametrize(("shards", "steps"), [(1, 0), (1, 12), (3, 5), (3, 25)])
def test_a_large_message_for_many_queues_of_a_shard_arrives_in_several_commits(
    shards: int, steps: int
) -> None:
    """The server crashes this many steps after the answer."""
    with PublishingWorld(shards=shards) as world:
        topic = world.topic()
        home = topic.home.shard(shards)
        names = [world.name(f"many{number}-", home) for number in range(50)]
        for short in names:
            world.create(short)
            world.subscribe(topic, short, RawMessageDelivery="true")
        missing = world.subscribe(topic, world.name("missing", home), RawMessageDelivery="true")
        sizes: list[int] = []
        world.broker.partition(home).shard.watch(lambda commit: sizes.append(commit.changes.bytes))
        topics = world.topics(topic)
        message = publication("x" * MESSAGE_BYTES)
        published = world.start(topics.publish(topics.find(topic), [message], "http://localhost"))
        while not published.done:
            world.runtime.step()
        for _ in range(steps):
            world.runtime.step()
        assert sum(sizes) < 50 * MESSAGE_BYTES, "it crashes before all has arrived"
        world.crash()
        world.advance(SECOND)
        assert all(list(map(len, world.taken(short))) == [MESSAGE_BYTES] for short in names)
        assert 4 * 1024 * 1024 <= max(sizes) < 4.5 * 1024 * 1024
        failure = world.topics(topic).publisher.undelivered.failure(missing.name.arn)
        assert failure is not None
        assert failure.reason == "QueueMissing"


def test_many_fifo_queues_of_a_shard_keep_the_order_of_large_and_small_messages() -> None:
    with PublishingWorld(shards=1) as world:
        topic = world.topic("news.fifo")
        names = [f"many{number}.fifo" for number in range(20)]
        for short in names:
            world.create(short)
            world.subscribe(topic, short, RawMessageDelivery="true")
        topics = world.topics(topic)
        large = publication("1" * MESSAGE_BYTES, group="g", dedup_id="1")
        small = publication("2", group="g", dedup_id="2")
        world.do(topics.publish(topics.find(topic), [large, small], "http://localhost"))
        assert all([body[0] for body in world.taken(short)] == ["1", "2"] for short in names)


def test_raw_delivery_has_the_attributes_of_the_message(world: PublishingWorld) -> None:
    topic, (short, *_) = world.topic(), world.queues()
    world.subscribe(topic, short, RawMessageDelivery="true")
    attributes = {"n": Attribute("Number", "1.50"), "b": Attribute("Binary", b"\xff\x00")}
    world.publish(topic, "plain", subject="gone", attributes=attributes)
    (received,) = world.receive(short)
    assert received.content.body == "plain"
    assert received.content.attributes == attributes


def test_a_queue_gets_the_text_of_its_protocol(world: PublishingWorld) -> None:
    topic, (first, *_) = world.topic(), world.queues()
    world.subscribe(topic, first)
    world.publish(topic, '{"default":"d","sqs":"s"}', by_protocol={"default": "d", "sqs": "s"})
    world.publish(topic, '{"default":"d"}', by_protocol={"default": "d"})
    assert world.texts(first) == ["s", "d"]


def test_a_filter_holds_messages_back(world: PublishingWorld) -> None:
    topic, (some, all_, body) = world.topic(), world.queues()
    world.subscribe(topic, some, FilterPolicy='{"kind":["order"]}')
    world.subscribe(topic, all_)
    world.subscribe(
        topic, body, FilterPolicy='{"total":[{"numeric":[">",10]}]}', FilterPolicyScope="MessageBody"
    )
    world.publish(topic, '{"total": 11}', attributes={"kind": "order"})
    world.publish(topic, '{"total": 9}', attributes={"kind": "bill"})
    world.publish(topic, "no JSON")
    assert world.texts(some) == ['{"total": 11}']
    assert len(world.texts(all_)) == 3
    assert world.texts(body) == ['{"total": 11}']
    counted = world.metrics(topic)
    assert counted["NumberOfMessagesPublished"] == 3
    assert counted["NumberOfNotificationsDelivered"] == 5
    assert counted["NumberOfNotificationsFilteredOut"] == 2
    assert counted["NumberOfNotificationsFilteredOut-MessageAttributes"] == 1
    assert counted["NumberOfNotificationsFilteredOut-MessageBody"] == 1
    assert counted["NumberOfNotificationsFilteredOut-NoMessageAttributes"] == 1
    assert counted["NumberOfNotificationsFilteredOut-InvalidMessageBody"] == 1


def test_a_changed_filter_applies_to_the_next_message(world: PublishingWorld) -> None:
    topic, (short, *_) = world.topic(), world.queues()
    subscription = world.subscribe(topic, short, FilterPolicy='{"kind":["order"]}')
    world.publish(topic, "1", attributes={"kind": "bill"})
    topics = world.topics(topic)
    topics.put_subscription(subscription.with_attribute("FilterPolicy", '{"kind":["bill"]}'))
    world.publish(topic, "2", attributes={"kind": "bill"})
    topics.put_subscription(subscription.with_attribute("FilterPolicy", ""))
    world.publish(topic, "3")
    topics.remove_subscription(subscription.name)
    world.publish(topic, "4")
    assert world.texts(short) == ["2", "3"]


def test_pending_and_deleted_subscriptions_get_nothing(world: PublishingWorld) -> None:
    topic, (first, second, _) = world.topic(), world.queues()
    world.subscribe(topic, first, state=SubscriptionState.PENDING)
    world.subscribe(topic, second, state=SubscriptionState.DELETED)
    world.publish(topic, "x")
    assert world.texts(first) == world.texts(second) == []
    assert tuple(world.topics(topic).counts(topic)) == (0, 1, 1)


@pytest.mark.parametrize("where", ["here", "elsewhere"])
@pytest.mark.parametrize("is_raw", ["true", "false"])
def test_what_a_missing_queue_does_not_get_goes_to_the_dead_letter_queue(
    world: PublishingWorld, where: str, is_raw: str
) -> None:
    topic = world.topic()
    shard = (topic.home.shard(world.shards) + (where == "elsewhere")) % world.shards
    missing, dead = world.name("missing", shard), world.name("dead", shard)
    world.create(dead)
    policy = json.dumps({"deadLetterTargetArn": name_of(dead).arn})
    subscription = world.subscribe(topic, missing, RedrivePolicy=policy, RawMessageDelivery=is_raw)
    world.publish(topic, "x", attributes={"k": "v"}, group="g")
    world.advance(SECOND)
    (received,) = world.receive(dead)
    if is_raw == "true":
        assert received.content.body == "x"
        assert received.content.attributes == {"k": Attribute("String", "v")}
    else:
        assert json.loads(received.content.body)["UnsubscribeURL"].endswith(subscription.name.arn)
    assert received.group == "g"
    counted = world.metrics(topic)
    assert counted["NumberOfNotificationsFailed"] == 1
    assert counted["NumberOfNotificationsRedrivenToDlq"] == 1
    failure = world.topics(topic).publisher.undelivered.failure(subscription.name.arn)
    assert failure is not None
    assert (failure.reason, failure.went_to) == ("QueueMissing", name_of(dead).arn)


def test_a_message_without_a_dead_letter_queue_is_counted_and_remembered(world: PublishingWorld) -> None:
    topic = world.topic()
    subscription = world.subscribe(topic, "missing")
    world.publish(topic, "x")
    world.publish(topic, "y")
    world.advance(SECOND)
    assert world.metrics(topic)["NumberOfNotificationsFailed"] == 2
    failure = world.topics(topic).publisher.undelivered.failure(subscription.name.arn)
    assert failure is not None
    assert (failure.reason, failure.count, failure.went_to) == ("QueueMissing", 2, "")


def test_what_nobody_gets_is_counted_at_once(world: PublishingWorld) -> None:
    topic, (short, *_) = world.topic(), world.queues()
    world.subscribe(topic, short, FilterPolicy='{"kind":["order"]}')
    world.publish(topic, "x")
    counted = world.metrics(topic)
    assert counted["NumberOfMessagesPublished"] == 1
    assert counted["NumberOfNotificationsFilteredOut-NoMessageAttributes"] == 1
    assert len(world.topics(topic).publisher.recent.of(topic)) == 1


@pytest.mark.parametrize("step", [1, 2, 3, 5, 8])
def test_a_signature_has_the_version_that_its_envelope_names(step: int) -> None:
    """The version changes at some step of the publication."""
    with PublishingWorld(shards=1) as world:
        topic = world.topic()
        world.create("q")
        world.subscribe(topic, "q")
        topics = world.topics(topic)
        published = world.start(topics.publish(topics.find(topic), [publication("x")], "http://x"))
        for _ in range(step):
            if not published.done:
                world.runtime.step()
        topics.put_topic(topics.find(topic).with_attribute("SignatureVersion", "2"))
        world.advance(SECOND)
        (envelope,) = map(json.loads, world.taken("q"))
        named = envelope["SignatureVersion"]
        at_ms = round(datetime.fromisoformat(envelope["Timestamp"]).timestamp() * SECOND)
        notice = Notice(
            message_id=envelope["MessageId"], topic_arn=topic.arn, subscription_arn="", text="x",
            published_ms=at_ms, base_url="http://x",
        )  # fmt: skip
        signed = world.publishing.signer.signed(notice, named)
        assert envelope["Signature"] == signed.signature


def test_the_policy_of_a_queue_is_asked_wherever_the_queue_is() -> None:
    allowed: set[str] = set()
    with PublishingWorld(may_deliver=lambda queue, sent_for: queue.name.name in allowed) as world:
        topic, queues = world.topic(), world.queues()
        for short in queues:
            world.subscribe(topic, short)
        world.publish(topic, "refused")
        allowed.update(queues)
        world.publish(topic, "taken")
        world.advance(SECOND)
        assert [world.texts(short) for short in queues] == [["taken"]] * len(queues)
        assert world.metrics(topic)["NumberOfNotificationsFailed"] == len(queues)


@pytest.mark.parametrize("where", ["here", "elsewhere"])
def test_a_full_queue_is_tried_again_with_pauses_wherever_it_is(where: str) -> None:
    tries: list[int] = []

    def may_deliver(queue: LiveQueue, sent_for: SentFor) -> bool:
        tries.append(made.clock.now_ms())
        if is_full:
            raise QuotaReached("messages", 0)
        return True

    with PublishingWorld(may_deliver=may_deliver) as made:
        topic, is_full = made.topic(), True
        short = made.name("full", (topic.home.shard(made.shards) + (where == "elsewhere")) % made.shards)
        made.create(short)
        made.subscribe(topic, short)
        made.publish(topic, "x")
        made.advance(HOUR)
        # SNS: three tries at once, two a second apart, ten with growing pauses, then one every twenty seconds.
        assert tries[4] - tries[0] < SECOND <= tries[5] - tries[4]
        assert 18 * SECOND < tries[-1] - tries[-2] < 21 * SECOND
        assert 170 < len(tries) < 200
        is_full = False
        made.advance(21 * SECOND)
        assert made.texts(short) == ["x"]


@pytest.mark.parametrize("where", ["here", "elsewhere"])
def test_a_full_dead_letter_queue_is_tried_again_until_the_message_is_lost(where: str) -> None:
    tries: list[int] = []

    def may_deliver(queue: LiveQueue, sent_for: SentFor) -> bool:
        tries.append(made.clock.now_ms())
        raise QuotaReached("messages", 0)

    with PublishingWorld(may_deliver=may_deliver) as made:
        topic = made.topic()
        dead = made.name("dead", (topic.home.shard(made.shards) + (where == "elsewhere")) % made.shards)
        made.create(dead)
        policy = json.dumps({"deadLetterTargetArn": name_of(dead).arn})
        subscription = made.subscribe(topic, "missing", RedrivePolicy=policy)
        made.publish(topic, "x")
        made.advance(HOUR)
        assert len(tries) == 60
        assert tries[-1] - tries[-2] > 19 * SECOND
        failure = made.topics(topic).publisher.undelivered.failure(subscription.name.arn)
        assert failure is not None and failure.went_to == ""


def test_a_refused_commit_publishes_nothing(world: PublishingWorld) -> None:
    topic, queues = world.topic(), world.queues()
    for short in queues:
        world.subscribe(topic, short)
    home = topic.home.shard(world.shards)
    world.stores[home].refusals.append(StoreFull("full"))
    topics = world.topics(topic)
    publishing = world.start(topics.publish(topics.find(topic), [publication("lost")], "http://x"))
    world.advance(2 * MINUTE)
    assert publishing.failed
    world.publish(topic, "kept")
    assert [world.texts(short) for short in queues] == [["kept"]] * 3


def test_topics_and_subscriptions_survive_a_crash(world: PublishingWorld) -> None:
    topic, queues = world.topic(DisplayName="News"), world.queues()
    for short in queues:
        world.subscribe(topic, short, FilterPolicy='{"a":["b"]}')
    world.crash()
    assert world.topics(topic).find(topic).attributes == {"DisplayName": "News"}
    world.publish(topic, "x", attributes={"a": "b"})
    assert [world.texts(short) for short in queues] == [["x"]] * 3


def test_an_unknown_topic_takes_nothing(world: PublishingWorld) -> None:
    topic = world.topic()
    topics = world.topics(topic)
    found = topics.find(topic)
    world.do(topics.delete_topic(topic))
    with pytest.raises(TopicMissing):
        world.do(topics.publish(found, [publication("x")], "http://x"))


def test_a_deleted_topic_takes_its_subscriptions_along(world: PublishingWorld) -> None:
    topic, (short, *_) = world.topic(), world.queues()
    subscription = world.subscribe(topic, short)
    topics = world.topics(topic)
    world.do(topics.delete_topic(topic))
    world.do(topics.settled())
    assert topics.get_subscription(subscription.name) is None
    world.topic()
    world.publish(topic, "x")
    assert world.texts(short) == []


def test_a_shard_that_was_given_back_publishes_nothing(world: PublishingWorld) -> None:
    topic = world.topic()
    topics = world.topics(topic)
    world.close_shard(topic.home.shard(world.shards))
    with pytest.raises(NotOwned):
        world.topics(topic)
    with pytest.raises(NotOwned):
        world.do(topics.publish(topics.find(topic), [publication("x")], "http://x"))


def test_clearing_an_account_deletes_its_topics(world: PublishingWorld) -> None:
    topic, (short, *_) = world.topic(), world.queues()
    subscription = world.subscribe(topic, short)
    world.do(world.broker.clear("111111111111"))
    assert world.topics(topic).get(topic) is not None
    world.do(world.broker.clear(topic.account))
    assert world.topics(topic).get(topic) is None
    assert world.topics(topic).get_subscription(subscription.name) is None
