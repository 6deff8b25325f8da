"""Random lives of topics in two of three shards: with subscribers in all of them, and every fault at any step."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import sha256
from itertools import chain
from typing import Any

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from penstock.broker.broker import Broker
from penstock.broker.handover import SentFor
from penstock.broker.live_queue import LiveQueue
from penstock.broker.outbox import LOG_KIND, OUTBOX
from penstock.errors import PenstockError, QuotaReached
from penstock.limits import HOUR, MINUTE
from penstock.monitoring.monitoring import Monitoring
from penstock.promise import Promise
from penstock.publishing import publisher
from penstock.publishing.http_delivery import HttpAnswer
from penstock.publishing.namespace import NAMESPACE
from penstock.publishing.publisher import Published
from penstock.publishing.publishing import Publishing
from penstock.publishing.shard_topics import ShardTopics
from penstock.publishing.signing import Signer
from penstock.queues.messages import Attribute, Received, decode_content
from penstock.services.cloudwatch import CloudWatchTexts
from penstock.store.port import LAST
from penstock.topics.envelopes import timestamp
from penstock.topics.names import SubscriptionName, TopicName
from penstock.topics.publication import Publication
from penstock.topics.records import Subscription, Topic
from publishing.endpoints import OK, FakeEndpoints
from sim.cluster_history import SHARDS, ClusterHistory, any_node, groups, succeeded
from sim.topics_model import Attempt, Envelope, Message, Mood, Possible, Scope, Settings, Subscriber
from support.cluster import Cluster, Node
from support.pausing_turns import PausingTurns
from support.world import UNMETERED, name_of

BASE_URL = "http://localhost:9324"
_AGAIN_WITHIN_MS = 4 * MINUTE
_NO_ANSWER = HttpAnswer(0, "no answer within 15 seconds")
_UNAVAILABLE = HttpAnswer(503, "Service Unavailable")
_WANTS_X = '{"kind":["x"]}'

any_one = st.integers(0, 1 << 16)
kinds = st.sampled_from(["x", "x", "y", ""])
batches = st.lists(st.tuples(kinds, groups), min_size=1, max_size=3)
some_steps = st.integers(0, 30)
scopes = st.sampled_from([None, None, "MessageAttributes", "MessageBody"])


class QuickSigner(Signer):
    """Signs without a key, so that no life has to make one."""

    def __init__(self, broker: Broker, node: Node) -> None:
        super().__init__(broker)
        self._node = node

    async def ready(self) -> None:
        turn: Promise[None] = Promise()
        self._node.runtime.soon(partial(turn.resolve, None))
        await turn

    def sign(self, text: str, version: str) -> str:
        return sha256(f"{version}\n{text}".encode()).hexdigest()


class TopicsHistory(ClusterHistory):
    """A topic in shard 0 and one in shard 1. Each has subscribers in all shards, two of them in shard 2."""

    limits = msgspec.structs.replace(UNMETERED, delete_pause_ms=0)
    ending = ""  # of the names of the topics
    stems = ("a", "b", "c", "d")  # of the queues, with the ending of their names
    shards = (0, 1, 2, 2)  # of the queues
    urls: tuple[str, ...] = ()  # that subscribe, too
    archive = False

    def new_cluster(self, choose: Callable[[int], int]) -> Cluster:
        self.publishing: dict[int, Publishing] = {}
        self.endpoints = FakeEndpoints()
        self.moods: dict[str, Mood] = {}
        self.messages: dict[str, Message] = {}
        return Cluster(SHARDS, self.limits, choose, self.extend, self.may_deliver)

    def extend(self, node: Node, broker: Broker) -> None:
        Monitoring(broker, CloudWatchTexts(is_secured=False), _no_post, _no_publish, [NAMESPACE])
        signer = QuickSigner(broker, node)
        publishing = Publishing(broker, self.endpoints.made(signer), signer, lambda: BASE_URL)
        publishing.turns = PausingTurns(node.runtime.soon)
        self.publishing[node.index] = publishing

    def begin(self) -> None:
        cluster = self.cluster
        self.queues = [
            cluster.name(
                stem.partition(".")[0], shard, "." + ending if (ending := stem.partition(".")[2]) else ""
            )
            for stem, shard in zip(self.stems, self.shards, strict=True)
        ]
        for queue in self.queues:
            cluster.node(queue).create(queue)
            self.moods[queue] = "takes"
        self.gone: dict[str, Counter[str]] = {queue: Counter() for queue in self.queues}  # with the queue
        self.topics = [self.new_topic(shard) for shard in (0, 1)]
        self.subscribers = [each for topic in self.topics for each in self.new_subscribers(topic)]
        self.hanging: list[Promise[HttpAnswer]] = []
        self.floors = dict.fromkeys(self.topics, 0)  # the greatest number that was answered
        self.dedup_ids: dict[str, list[Message]] = {}

    # -- what is in the shards -------------------------------------------------------------------------------

    def new_topic(self, shard: int) -> TopicName:
        account, region = name_of("any").account, name_of("any").region
        names = (TopicName(account, region, f"news{i}{self.ending}") for i in range(1000))
        name = next(name for name in names if name.home.shard(SHARDS) == shard)
        attributes = {"ArchivePolicy": '{"MessageRetentionPeriod":"30"}'} if self.archive else {}
        topics = self.at(name)
        topics.put_topic(Topic(name=name, created_ms=0, attributes=attributes))
        self.node_of(name).do(topics.settled())
        return name

    def new_subscribers(self, topic: TopicName) -> Iterator[Subscriber]:
        shard = topic.home.shard(SHARDS)
        for number, endpoint in enumerate([*self.queues, *self.urls]):
            is_queue = endpoint in self.queues
            ending = ".fifo" if endpoint.endswith(".fifo") else ""
            dead = self.cluster.name(f"dead{shard}{number}-", (shard + number) % SHARDS, ending)
            self.cluster.node(dead).create(dead)
            name = SubscriptionName(topic, f"{shard}000000{number}-0000-4000-8000-000000000000")
            url = endpoint if is_queue else f"{endpoint}/{shard}"
            subscriber = Subscriber(name, url, is_queue, dead)
            topics = self.at(topic)
            topics.put_subscription(self.subscription(subscriber, Settings()))
            self.node_of(topic).do(topics.settled())
            yield subscriber

    def subscription(self, of: Subscriber, settings: Settings, **more: str) -> Subscription:
        attributes = dict(more)
        if settings.raw:
            attributes["RawMessageDelivery"] = "true"
        if settings.scope is not None:
            attributes |= {"FilterPolicy": _WANTS_X, "FilterPolicyScope": settings.scope}
        if settings.dead_letters:
            attributes["RedrivePolicy"] = json.dumps({"deadLetterTargetArn": name_of(of.dead).arn})
        return Subscription(
            name=of.name,
            protocol="sqs" if of.is_queue else "https",
            endpoint=name_of(of.endpoint).arn if of.is_queue else of.endpoint,
            owner=of.topic.account,
            created_ms=0,
            base_url=BASE_URL,
            attributes=attributes,
        )

    def node_of(self, topic: TopicName) -> Node:
        return self.cluster.nodes[topic.home.shard(SHARDS)]

    def at(self, topic: TopicName) -> ShardTopics:
        return self.publishing[topic.home.shard(SHARDS)].at(topic)

    def may_deliver(self, queue: LiveQueue, sent_for: SentFor) -> bool:
        """The policies of the queues. A quota refuses in the same place."""
        mood = self.moods.get(queue.name.name)
        if mood == "full":
            raise QuotaReached("messages", 0)
        return mood != "denies"

    # -- publishing: it is begun, and ends in later steps --------------------------------------------------------

    @rule(which=st.integers(0, 1), wanted=batches)
    def publish(self, which: int, wanted: list[tuple[str, str]]) -> None:
        topic, messages = self.topics[which], []
        for kind, group in wanted:
            id = f"m{len(self.messages):04}"
            message = Message(
                topic, id, kind, *((group, f"{topic.name} {id}") if topic.is_fifo else (None, None))
            )
            self.messages[id] = message
            messages.append(message)
        self.attempt(messages)

    def attempt(self, messages: list[Message]) -> None:
        topic = messages[0].topic
        node, topics = self.node_of(topic), self.at(topic)
        outcome = node.start(topics.publish(topics.find(topic), [*map(_publication, messages)], BASE_URL))
        now_ms = node.clock.now_ms()
        for place, message in enumerate(messages):
            made = Attempt(outcome, place, now_ms, self.floors[topic], node.life)
            message.attempts.append(made)
            for subscriber in self.subscribers_of(topic):
                message.begin(subscriber)
                if subscriber.is_queue:
                    message.moods.setdefault(subscriber.endpoint, set()).add(self.moods[subscriber.endpoint])
        outcome.on_done(lambda _: self.ended(messages, outcome, node))

    def ended(self, messages: list[Message], outcome: Promise[list[Published]], node: Node) -> None:
        for message in messages:
            for each in message.attempts:
                if each.outcome is outcome:
                    each.ended_ms = node.clock.now_ms()
            if succeeded(outcome) and message.topic.is_fifo:
                floor = max(int(each.sequence or 0) for each in message.answers)
                self.floors[message.topic] = max(self.floors[message.topic], floor)

    def subscribers_of(self, topic: TopicName) -> list[Subscriber]:
        return [each for each in self.subscribers if each.topic == topic]

    # -- subscriptions -----------------------------------------------------------------------------------------

    @rule(which=any_one, raw=st.booleans(), scope=scopes, dead_letters=st.sampled_from([True, True, False]))
    def subscribe(self, which: int, raw: bool, scope: Scope | None, dead_letters: bool) -> None:
        """Begin a subscription, or change it."""
        subscriber = self.subscribers[which % len(self.subscribers)]
        wanted = Settings(raw and not self.archive, scope, dead_letters)
        subscription = self.subscription(subscriber, wanted)
        self.change(subscriber, wanted, lambda topics: topics.put_subscription(subscription))

    @rule(which=any_one)
    def unsubscribe(self, which: int) -> None:
        subscriber = self.subscribers[which % len(self.subscribers)]
        self.change(subscriber, None, lambda topics: topics.remove_subscription(subscriber.name))

    def change(
        self, subscriber: Subscriber, wanted: Settings | None, decide: Callable[[ShardTopics], None]
    ) -> None:
        # If it is not known whether the change was made, both may be.
        self.now_possible(subscriber, subscriber.possible | {wanted})
        if self.settled(subscriber.topic, decide):
            self.now_possible(subscriber, frozenset([wanted]))

    def settled(self, topic: TopicName, decide: Callable[[ShardTopics], None]) -> bool:
        """Whether a change of topics is durable."""
        try:
            topics = self.at(topic)
            decide(topics)
        except PenstockError:
            return False
        settled = self.node_of(topic).start(topics.settled())
        self.run_all()
        return succeeded(settled)

    def now_possible(self, subscriber: Subscriber, possible: Possible) -> None:
        subscriber.possible = possible
        for message in self.messages.values():
            message.changed(subscriber, self.node_of(subscriber.topic).life)

    @rule(
        which=any_one,
        wanted=batches,
        count=some_steps,
        is_new=st.booleans(),
        ends=st.booleans(),
        scope=scopes,
    )
    def change_while_it_is_published(
        self,
        which: int,
        wanted: list[tuple[str, str]],
        count: int,
        is_new: bool,
        ends: bool,
        scope: Scope | None,
    ) -> None:
        """A subscription changes in the middle of a publication, perhaps of the first one after a start."""
        topic = self.subscribers[which % len(self.subscribers)].topic
        shard = topic.home.shard(SHARDS)
        if is_new:
            self.crash(shard)
        self.publish(self.topics.index(topic), wanted)
        self.cluster.steps(count)
        if ends:
            self.unsubscribe(which)
        else:
            self.subscribe(which, False, scope, True)

    @rule(which=st.integers(0, 1), wanted=batches, count=some_steps)
    def crash_while_it_is_published(self, which: int, wanted: list[tuple[str, str]], count: int) -> None:
        self.publish(which, wanted)
        self.cluster.steps(count)
        self.crash(self.topics[which].home.shard(SHARDS))

    # -- queues ------------------------------------------------------------------------------------------------

    @rule(which=st.integers(0, 3), mood=st.sampled_from(["takes", "takes", "full", "denies"]))
    def have_a_mood(self, which: int, mood: Mood) -> None:
        queue = self.queues[which]
        if self.moods[queue] != "missing":
            self.contents(queue)
            self.now_in_a_mood(queue, mood)

    def now_in_a_mood(self, queue: str, mood: Mood) -> None:
        self.moods[queue] = mood
        for subscriber in self.subscribers:
            subscriber.was_refused |= subscriber.endpoint == queue and mood != "takes"
        for message in self.messages.values():
            if queue not in message.arrived:
                message.moods[queue].add(mood)

    def contents(self, queue: str) -> list[str]:
        """The ids of the messages that are in a queue durably: its moods do not concern them any more."""
        node = self.cluster.node(queue)
        if not self.is_there(queue):  # the store has refused to create it, after all
            self.now_in_a_mood(queue, "missing")
            return []
        rows = node.stored(queue)
        contents = node.store.contents([row.seq for row in rows]).values()
        envelopes = [Envelope(decode_content(content).body) for content in contents]
        ids = [envelope.id for envelope in envelopes if not envelope.is_replayed]
        for id in ids:
            self.messages[id].arrived.add(queue)
        return ids

    @rule(which=st.integers(0, 3))
    def drop(self, which: int) -> None:
        """What is in the queue goes with it."""
        queue = self.queues[which]
        node = self.cluster.node(queue)
        self.release()
        self.run_all()
        if name_of(queue) in node.broker.by_name:
            ids = self.contents(queue)
            self.now_in_a_mood(queue, "missing")
            dropping = node.start(node.broker.drop(node.queue(queue)))
            self.run_all()
            if not succeeded(dropping):
                self.crash(node.index)  # only the store knows
            if not self.is_there(queue):
                self.gone[queue].update(ids)
            self.look_for(queue)

    @rule(which=st.integers(0, 3))
    def create(self, which: int) -> None:
        queue = self.queues[which]
        node = self.cluster.node(queue)
        if not self.is_there(queue):
            self.outcome(node.broker.create(name_of(queue), node._settings(queue, None, {}), {}))
        self.look_for(queue)

    def is_there(self, queue: str) -> bool:
        return name_of(queue) in self.cluster.node(queue).broker.by_name

    def look_for(self, queue: str) -> None:
        if self.is_there(queue) and self.moods[queue] == "missing":
            self.now_in_a_mood(queue, "takes")

    # -- faults ------------------------------------------------------------------------------------------------

    @rule(index=any_node)
    def crash(self, index: int) -> None:
        super().crash(index)
        self.restarted(index)

    @rule(index=any_node)
    def stop_and_start(self, index: int) -> None:
        super().stop_and_start(index)
        self.restarted(index)

    @rule(index=any_node)
    def give_back(self, index: int) -> None:
        super().give_back(index)
        self.restarted(index)

    def restarted(self, index: int) -> None:
        for message in self.messages.values():
            if message.topic.home.shard(SHARDS) == index:
                message.restarts += 1

    # -- at the end ----------------------------------------------------------------------------------------------

    def calm_down(self) -> None:
        super().calm_down()
        for queue in self.queues:
            if self.moods[queue] != "missing":
                self.contents(queue)
                self.now_in_a_mood(queue, "takes")
        self.endpoints.answers.clear()
        for hanging in self.hanging:
            if not hanging.done:
                hanging.resolve(_NO_ANSWER)
        self.cluster.advance(2 * HOUR)
        self.run_all()
        for node in self.cluster.nodes:
            assert not node.store.usage(OUTBOX), "messages that never arrive"
            assert not any(node.store.log(LOG_KIND, str(shard), 0, LAST) for shard in range(SHARDS))
            (partition,) = node.broker.partitions
            for jobs in partition.parts.job_queues:
                assert not any(each.unfinished for each in jobs.consumers), f"{jobs.kind.name} that never end"

    def everything_is_there(self) -> None:
        queues = {queue: self.emptied(queue) for queue in self.queues if self.is_there(queue)}
        dead_letters = {each: self.emptied(each.dead) for each in self.subscribers}
        posted = [(url, Envelope(message.body.decode())) for url, message in self.endpoints.posted]
        all_found = [*chain.from_iterable(queues.values()), *chain.from_iterable(dead_letters.values())]
        for envelope in [*(each[0] for each in all_found), *(each[1] for each in posted)]:
            self.messages[envelope.id].note(envelope)
        for message in self.messages.values():
            self.check_identity(message)
        self.check_batches()
        for subscriber in self.subscribers:
            found, dead = queues.get(subscriber.endpoint, []), dead_letters[subscriber]
            mine = [each for each in found if self.messages[each[0].id].topic == subscriber.topic]
            if not subscriber.is_queue:
                mine = [(envelope, None) for url, envelope in posted if url == subscriber.endpoint]
            live = [each for each in mine if not each[0].is_replayed]
            self.check_replays(subscriber, Counter(each[0].id for each in mine if each[0].is_replayed))
            dead = [each for each in dead if not each[0].is_replayed]
            for envelope, received in [*mine, *dead]:
                self.check_form(subscriber, envelope, received)
            gone = self.gone.get(subscriber.endpoint, Counter())
            self.check_all(
                subscriber, Counter(each.id for each, _ in live) + gone, [each.id for each, _ in dead]
            )
            if self.ending:
                self.check_order([each.id for each, _ in live], subscriber.endpoint)
                self.check_order([each.id for each, _ in dead], subscriber.dead)

    def emptied(self, queue: str) -> list[tuple[Envelope, Received | None]]:
        node, found = self.cluster.node(queue), list[tuple[Envelope, Received | None]]()
        while batch := node.receive(queue, visibility_ms=HOUR):
            found += [(Envelope(message.content.body), message) for message in batch]
            node.delete(queue, *batch)
        return found

    def check_identity(self, message: Message) -> None:
        """Each attempt to publish a message has the same answer."""
        if message.is_one:
            assert len(message.identities) <= 1, f"{message.id} was answered with several ids"
        for each in message.attempts:
            if (answer := each.answer) is not None and message.topic.is_fifo and message.is_one:
                first = min(other.floor for other in message.attempts)
                assert int(answer.sequence or 0) > first, f"{message.id} is numbered before an earlier one"

    def check_batches(self) -> None:
        """SNS: the messages of a batch are published in its order."""
        batches: dict[Promise[list[Published]], list[Message]] = {}
        for message in self.messages.values():
            if message.is_acknowledged and message.topic.is_fifo and len(message.attempts) == 1:
                batches.setdefault(message.attempts[0].outcome, []).append(message)
        for messages in batches.values():
            numbers = [message.sequence for message in messages]
            assert numbers == sorted(numbers, key=lambda each: each or 0), "a batch is out of order"

    def check_form(self, subscriber: Subscriber, envelope: Envelope, received: Received | None) -> None:
        message = self.messages[envelope.id]
        assert envelope.text == message.text, "the text is another one"
        if not envelope.is_replayed:
            assert message.may_be(subscriber, raw=envelope.is_raw), f"{message.id} has the wrong form"
        is_post = received is None
        if received is not None:
            kind = {"kind": Attribute("String", message.kind)} if message.kind else None
            assert received.content.attributes == (kind if envelope.is_raw else None)
        if not envelope.is_raw:
            self.check_envelope(subscriber, message, envelope.fields, is_post)

    def check_envelope(
        self, subscriber: Subscriber, message: Message, fields: dict[str, Any], is_post: bool
    ) -> None:
        link = f"{BASE_URL}/?Action=Unsubscribe&SubscriptionArn={subscriber.name.arn}"
        assert fields["UnsubscribeURL"] == link, f"{message.id} has the link of another subscription"
        id = fields["MessageId"]
        assert ("Signature" in fields) is not message.topic.is_fifo
        if "Signature" in fields:
            signed = (
                f"Message\n{message.text}\nMessageId\n{id}\nTimestamp\n{fields['Timestamp']}\n"
                f"TopicArn\n{message.topic.arn}\nType\nNotification\n"
            )
            text = f"{fields['SignatureVersion']}\n{signed}"
            assert fields["Signature"] == sha256(text.encode()).hexdigest(), "the signature is wrong"

    def check_all(self, subscriber: Subscriber, there: Counter[str], dead: list[str]) -> None:
        """Each message is where it must be, and nowhere else."""
        letters = Counter(dead)
        for message in self.messages.values():
            if message.topic != subscriber.topic:
                continue
            what = f"{message.id} for {subscriber.endpoint}"
            copies, buried = there[message.id], letters[message.id]
            if not message.may_reach(subscriber):
                assert not copies + buried, f"{what} was not wanted"
                continue
            if message.is_one:
                most = 1 if subscriber.is_queue else copies
                assert copies <= most and buried <= 1, f"{what} is there twice"
                assert not subscriber.is_queue or copies + buried <= 1, (
                    f"{what} is there twice: a dead letter too"
                )
            if buried:
                assert message.may_be_refused(subscriber), (
                    f"{what} is a dead letter, and its queue took messages"
                )
                assert message.may_have_dead_letters(subscriber), f"{what} is a dead letter of nobody"
            if message.must_reach(subscriber) and not copies + buried:
                self.check_loss(subscriber, message, what)

    def check_loss(self, subscriber: Subscriber, message: Message, what: str) -> None:
        """A message is nowhere."""
        if message.later_window:
            return  # its queue may have got the first message with its deduplication id later than the topic
        since = message.since[subscriber]
        if not subscriber.is_queue:
            # SNS: what waits for an endpoint ends with the subscription.
            assert None in since, f"{what} is lost"
            return
        if message.may_be_refused(subscriber) and not message.always_has_dead_letters(subscriber):
            if not message.restarts and None not in since:
                undelivered = self.at(subscriber.topic).publisher.undelivered
                assert undelivered.failure(subscriber.name.arn), f"{what} is lost silently"
            return
        raise AssertionError(f"{what} is lost")

    def check_replays(self, subscriber: Subscriber, replayed: Counter[str]) -> None:
        assert not replayed, "nothing was replayed"

    def check_order(self, ids: list[str], where: str) -> None:
        """Messages of a group are in the order of their numbers."""
        for topic in self.topics:
            for group in "ab":
                numbers = [
                    message.sequence
                    for id in ids
                    if (message := self.messages[id]).topic == topic
                    and message.group == group
                    and message.is_one
                ]
                known = [number for number in numbers if number is not None]
                assert known == sorted(known), f"{where} is out of order"


def _publication(message: Message) -> Publication:
    return Publication(
        message=message.text,
        attributes={"kind": Attribute("String", message.kind)} if message.kind else None,
        group=message.group,
        dedup_id=message.dedup_id,
    )


class StandardTopicsHistory(TopicsHistory):
    """Also with an HTTP endpoint, and topics whose signatures change."""

    urls = ("https://hooks.example.com",)

    @rule(
        which=st.integers(0, 1), answers=st.lists(st.sampled_from([OK, _UNAVAILABLE]), min_size=1, max_size=5)
    )
    def answer(self, which: int, answers: list[HttpAnswer]) -> None:
        """How the endpoint answers next."""
        self.endpoints.answers.setdefault(f"{self.urls[0]}/{which}", []).extend(answers)

    @rule(which=st.integers(0, 1))
    def hang(self, which: int) -> None:
        hanging: Promise[HttpAnswer] = Promise()
        self.hanging.append(hanging)
        self.endpoints.answers.setdefault(f"{self.urls[0]}/{which}", []).append(hanging)

    @rule(answer=st.sampled_from([OK, _NO_ANSWER]))
    @precondition(lambda self: any(not each.done for each in self.hanging))
    def end_hanging(self, answer: HttpAnswer) -> None:
        next(each for each in self.hanging if not each.done).resolve(answer)

    @rule(which=st.integers(0, 1), wanted=batches, count=some_steps, version=st.sampled_from(["1", "2"]))
    def sign_in_another_way(
        self, which: int, wanted: list[tuple[str, str]], count: int, version: str
    ) -> None:
        """The topic changes in the middle of a publication."""
        self.publish(which, wanted)
        self.cluster.steps(count)
        topic = self.topics[which]

        def decide(topics: ShardTopics) -> None:
            topics.put_topic(topics.find(topic).with_attribute("SignatureVersion", version))

        self.settled(topic, decide)


class CrowdedTopicsHistory(StandardTopicsHistory):
    """Each message takes several commits, as it does with thousands of subscribers."""

    def begin(self) -> None:
        self.patch = pytest.MonkeyPatch()
        limits = (("_QUEUES_MAX", 2), ("_OF_BATCH_MAX", 2), ("_OF_BATCH_MIN", 1), ("_OTHERS_MAX", 0))
        for limit, value in limits:
            self.patch.setattr(publisher, limit, value)
        super().begin()

    def teardown(self) -> None:
        try:
            super().teardown()
        finally:
            self.patch.undo()


class FifoTopicsHistory(TopicsHistory):
    """Also with clients that repeat what they have published. One of the queues is a standard one."""

    ending = ".fifo"
    stems = ("a.fifo", "b.fifo", "c.fifo", "d")

    @rule(which=any_one, count=st.integers(1, 3))
    @precondition(lambda self: self.messages)
    def publish_again(self, which: int, count: int) -> None:
        """A client repeats a request while the topic remembers it."""
        first = list(self.messages.values())[which % len(self.messages)]
        now_ms = self.node_of(first.topic).clock.now_ms()
        same = [
            each
            for each in self.messages.values()
            if each.topic == first.topic and each.id >= first.id
            and now_ms - each.attempts[0].began_ms < _AGAIN_WITHIN_MS
        ]  # fmt: skip
        if same:
            self.attempt(same[:count])

    @rule(which=any_one)
    @precondition(lambda self: self.messages)
    def publish_after_the_window(self, which: int) -> None:
        """A deduplication id is used for another message when the topic has forgotten it."""
        first = list(self.messages.values())[which % len(self.messages)]
        if first.later_window or any(each.ended_ms is None for each in first.attempts):
            return
        last_ms = max(each.ended_ms or 0 for each in first.attempts)
        if self.node_of(first.topic).clock.now_ms() - last_ms <= 5 * MINUTE:
            return
        id = f"m{len(self.messages):04}"
        message = Message(first.topic, id, first.kind, first.group, first.dedup_id, later_window=True)
        first.later_window = True
        self.messages[id] = message
        self.attempt([message])

    @rule()
    def pass_the_window(self) -> None:
        self.cluster.advance(6 * MINUTE)


class ArchiveTopicsHistory(FifoTopicsHistory):
    """Also with replays of what the topics have stored."""

    archive = True

    @rule(which=any_one)
    def replay(self, which: int) -> None:
        subscriber = self.subscribers[which % len(self.subscribers)]
        subscriber.replays += 1
        wanted = Settings()
        policy = json.dumps({"PointType": "Timestamp", "StartingPoint": timestamp(subscriber.replays)})
        subscription = self.subscription(subscriber, wanted, ReplayPolicy=policy)
        self.release()
        self.run_all()
        acknowledged = {
            each
            for each in self.messages.values()
            if each.topic == subscriber.topic and each.is_acknowledged and each.is_one
        }
        self.change(subscriber, wanted, lambda topics: topics.put_subscription(subscription))
        subscriber.last_replay = acknowledged if subscriber.possible == {wanted} else None

    def change(
        self, subscriber: Subscriber, wanted: Settings | None, decide: Callable[[ShardTopics], None]
    ) -> None:
        subscriber.last_replay = None  # it ends with the settings
        super().change(subscriber, wanted, decide)

    def check_replays(self, subscriber: Subscriber, replayed: Counter[str]) -> None:
        for message in self.messages.values():
            copies = replayed[message.id]
            what = f"{message.id} for {subscriber.endpoint}"
            if message.is_one and message.topic == subscriber.topic:
                assert copies <= subscriber.replays, f"{what} was replayed too often"
        status = self.at(subscriber.topic).replay_status(subscriber.name)
        if subscriber.last_replay is None or status != "Completed":
            assert status in (None, "Completed"), f"a replay to {subscriber.endpoint} is {status}"
            return
        if not subscriber.was_refused:
            for message in subscriber.last_replay:
                assert replayed[message.id], f"{message.id} for {subscriber.endpoint} was not replayed"


async def _no_post(account: str, url: str, body: str) -> None:
    raise AssertionError("there are no alarms")


async def _no_publish(topic: str, alarm: str, account: str, subject: str, body: str) -> None:
    raise AssertionError("there are no alarms")
