"""The topics of one shard with their subscriptions: found, changed, confirmed and listed.

A topic and all its subscriptions live in one shard, so that a publication is decided in one commit, however many
subscribers it has."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from penstock.broker.handover import SentFor
from penstock.broker.parts import Part, PartList
from penstock.errors import DedupFull, QuotaReached
from penstock.names import Home, Space
from penstock.promise import Promise
from penstock.publishing.archive_sizes import ArchiveSizes
from penstock.publishing.arn_lists import ArnLists
from penstock.publishing.confirming import Confirming
from penstock.publishing.deliveries import Deliveries
from penstock.publishing.errors import SubscriptionMissing, TokenUnknown, TopicMissing
from penstock.publishing.live_topic import LiveTopic
from penstock.publishing.publisher import Published, Publisher
from penstock.publishing.replay import Replays
from penstock.publishing.stored_bytes import StoredBytes
from penstock.publishing.topic_queue import TopicQueues
from penstock.publishing.unconfirmed import Unconfirmed
from penstock.topics.names import SubscriptionName, TopicName
from penstock.topics.publication import Publication
from penstock.topics.records import SUBSCRIPTIONS, TOPICS, Subscription, SubscriptionState, Topic
from penstock.topics.tokens import read_token
from penstock.turns import Steps, finished

if TYPE_CHECKING:
    from penstock.broker.partition import Partition
    from penstock.publishing.publishing import Publishing


_FILTER = "FilterPolicy"
_DELETED_AT_ONCE = 20  # subscriptions


class SubscriptionCounts(NamedTuple):
    confirmed: int
    pending: int
    deleted: int


class _OfTopic:
    """The subscriptions of one topic. ``version`` changes with each of them."""

    def __init__(self) -> None:
        self.version = 0
        self.arns: list[str] = []  # in order
        self.endpoints: dict[tuple[str, str], SubscriptionName] = {}  # of those that were not deleted
        self.states: Counter[SubscriptionState] = Counter()
        self.filters = 0  # how many have one

    def enter(self, subscription: Subscription) -> None:
        self.version += 1
        insort(self.arns, subscription.name.arn)
        self.states[subscription.state] += 1
        self.filters += _FILTER in subscription.attributes
        if subscription.state is not SubscriptionState.DELETED:
            self.endpoints[subscription.protocol, subscription.endpoint] = subscription.name

    def leave(self, subscription: Subscription) -> None:
        self.version += 1
        del self.arns[bisect_left(self.arns, subscription.name.arn)]
        self.states[subscription.state] -= 1
        self.filters -= _FILTER in subscription.attributes
        place = subscription.protocol, subscription.endpoint
        if self.endpoints.get(place) == subscription.name:
            del self.endpoints[place]


_NO_SUBSCRIPTIONS = _OfTopic()


class PublishAnswer(msgspec.Struct, frozen=True):
    message_id: str = ""
    refused: str = ""  # why the topic does not take the message
    can_repeat: bool = False  # it may take it later


class ShardTopics(Part):
    """What services, and other parts of the server, ask about topics. What changes something joins the open commit:
    await :meth:`settled` before you answer."""

    def __init__(self, partition: Partition, publishing: Publishing) -> None:
        self._shard = partition.shard
        self._may_publish = publishing.may_publish
        self._topics = partition.shard.table(TOPICS, self._topic_undone)
        self._subscriptions = partition.shard.table(SUBSCRIPTIONS, self._subscription_undone)
        self._turns = publishing.turns
        self._compiled: dict[TopicName, LiveTopic] = {}
        self._of_topic: dict[TopicName, _OfTopic] = {}
        self._entered: dict[str, Subscription] = {}  # as they are counted and listed, by the id
        self._being_compiled: dict[TopicName, Promise[None]] = {}
        self._arns: ArnLists[tuple[Space, bool]] = (
            ArnLists()
        )  # of topics, by account, region and whether it is FIFO
        self._owned: ArnLists[Space] = ArnLists()  # of subscriptions
        self._unconfirmed: set[SubscriptionName] = set()
        self._bytes = StoredBytes()
        for key, topic in sorted(self._topics, key=itemgetter(0)):
            self._note_topic(key, topic)
        for key, subscription in sorted(self._subscriptions, key=itemgetter(0)):
            self._bytes.note(key, subscription)
            self._enter(subscription)
        self.queues = TopicQueues(partition)
        self.publisher = Publisher(partition, publishing, self)
        self.deliveries: Deliveries = self.publisher.deliveries
        self._confirming = Confirming(partition, self.publisher)
        self.replays = Replays(partition, self, self.publisher, self._turns)

    # -- looking -------------------------------------------------------------------------------------------------

    def get(self, name: TopicName) -> Topic | None:
        return self._topics.get(name.home.key(name.arn))

    def find(self, name: TopicName) -> Topic:
        """Raises TopicMissing."""
        topic = self.get(name)
        if topic is None:
            raise TopicMissing
        return topic

    def get_subscription(self, name: SubscriptionName) -> Subscription | None:
        return self._subscriptions.get(name.topic.home.key(name.arn))

    def find_subscription(self, name: SubscriptionName) -> Subscription:
        """Raises SubscriptionMissing."""
        subscription = self.get_subscription(name)
        if subscription is None:
            raise SubscriptionMissing
        return subscription

    def subscription_to(self, topic: TopicName, protocol: str, endpoint: str) -> Subscription | None:
        """The pending or confirmed subscription of an endpoint."""
        name = self._topic_of(topic).endpoints.get((protocol, endpoint))
        return None if name is None else self.get_subscription(name)

    def subscriptions_of(self, topic: TopicName, after: str, most: int) -> list[Subscription]:
        """The first subscriptions beyond an ARN, in order of their ARNs."""
        arns = self._topic_of(topic).arns
        begin = bisect_right(arns, after) if after else 0
        key = topic.home.key
        found = (self._subscriptions.get(key(arn)) for arn in arns[begin : begin + most])
        return [each for each in found if each is not None]

    def counts(self, topic: TopicName) -> SubscriptionCounts:
        states = self._topic_of(topic).states
        return SubscriptionCounts(
            states[SubscriptionState.CONFIRMED],
            states[SubscriptionState.PENDING],
            states[SubscriptionState.DELETED],
        )

    def unconfirmed(self) -> list[SubscriptionName]:
        """The subscriptions that wait for a confirmation, or were ended by a link."""
        return list(self._unconfirmed)

    def filters_of(self, topic: TopicName) -> int:
        """How many subscriptions of a topic have a filter policy."""
        return self._topic_of(topic).filters

    def stored_bytes(self, account: str) -> int:
        """How much the topics and subscriptions of an account take in this shard."""
        return self._bytes.of(account)

    def names(self, space: Space, after: str, most: int) -> list[str]:
        """The first ARNs of topics beyond one, in order."""
        return sorted(
            arn for is_fifo in (False, True) for arn in self._arns.beyond((space, is_fifo), after, most)
        )[:most]

    def all_names(self) -> list[TopicName]:
        return [topic.name for _, topic in self._topics]

    def fifo_names(self) -> list[TopicName]:
        """All FIFO topics of this shard."""
        return [topic.name for _, topic in self._topics if topic.name.is_fifo]

    def count_topics(self, space: Space, *, fifo: bool) -> int:
        """How many topics an account has in this shard."""
        return self._arns.count((space, fifo))

    def owned_by(self, space: Space, after: str, most: int) -> list[Subscription]:
        """The first subscriptions of an account beyond an ARN, in order of their ARNs."""
        names = map(SubscriptionName.of_arn, self._owned.beyond(space, after, most))
        found = (None if name is None else self.get_subscription(name) for name in names)
        return [each for each in found if each is not None]

    def replay_status(self, name: SubscriptionName) -> str | None:
        """How far the replay of a subscription is; None if it has none."""
        return self.replays.status(name)

    def route_of(self, name: SubscriptionName) -> tuple[Topic, Subscription] | None:
        """A subscription with its topic, as they are now."""
        topic, subscription = self.get(name.topic), self.get_subscription(name)
        return None if topic is None or subscription is None else (topic, subscription)

    async def live(self, name: TopicName) -> LiveTopic:
        """The topic as publications need it. Its filters are compiled when the first message is published. Raises
        TopicMissing."""
        while (live := self._compiled.get(name)) is None:
            being_compiled = self._being_compiled.get(name)
            if being_compiled is not None:  # once for all who publish meanwhile
                await being_compiled
                continue
            live = LiveTopic(self.find(name))
            records = self._topic_of(name)
            version = records.version
            self._being_compiled[name] = Promise()
            try:
                await self._turns.run(self._compile(live, list(records.arns)), name.account)
            except Exception:
                self._being_compiled.pop(name).resolve(None)
                raise
            # The first subscription, and a refused commit, put others in the place of these records.
            is_same = self._topic_of(name) is records and records.version == version
            if is_same and self.get(name) is live.topic:
                self._compiled[name] = live
            # Not in a finally clause: a broker that the garbage collector frees begins nothing new.
            self._being_compiled.pop(name).resolve(None)
        return live

    def is_current(self, live: LiveTopic) -> bool:
        """Whether this is how publications see the topic now."""
        return self._compiled.get(live.topic.name) is live

    def _compile(self, live: LiveTopic, arns: list[str]) -> Steps[None]:
        key = live.topic.name.home.key
        for arn in arns:
            subscription = self._subscriptions.get(key(arn))
            if subscription is not None:
                live.put(subscription)
            yield

    def subscription_of_token(self, token: str) -> SubscriptionName:
        """The subscription that a token confirms. Raises TokenUnknown, or SubscriptionMissing if it was removed."""
        read = read_token(self._shard.secret, token)
        if read is None or read.valid_until_ms < self._shard.clock.wall_ms():
            raise TokenUnknown
        subscription = self._entered.get(read.subscription_id)
        if subscription is None:
            raise SubscriptionMissing
        return subscription.name

    # -- changing, with the open commit ----------------------------------------------------------------------------

    def put_topic(self, topic: Topic) -> None:
        self._check()
        self._topics.put(topic.key, topic)
        self._note_topic(topic.key, topic)
        live = self._compiled.get(topic.name)
        if live is not None:
            live.topic = topic
            live.version += 1
        self.queues.configure(topic)

    async def delete_topic(self, name: TopicName) -> None:
        """Delete a topic, with its subscriptions and its archive. Many subscriptions are deleted before it, some with
        each commit."""
        await self._turns.run(self._deletion(name), name.account)

    def _deletion(self, name: TopicName) -> Steps[None]:
        while True:
            self._check()
            # Those at the end are the cheapest to take out of the list.
            arns = self._topic_of(name).arns[-_DELETED_AT_ONCE:]
            for arn in reversed(arns):
                self._remove(SubscriptionName(name, arn.rpartition(":")[2]))
            if not self._topic_of(name).arns:
                break
            yield
        key = name.home.key(name.arn)
        if self._topics.get(key) is None:  # another request was faster
            return
        self._topics.remove(key)
        self._note_topic(key, None)
        self._of_topic.pop(name, None)
        self._compiled.pop(name, None)
        self.queues.delete(name)
        self.publisher.recent.forget(name)
        self.publisher.metrics.forget(name)

    def clear(self, account: str) -> None:
        for name in [topic.name for _, topic in self._topics if topic.name.account == account]:
            finished(self._deletion(name))

    def put_subscription(self, subscription: Subscription) -> None:
        """The attributes of the subscription are valid."""
        self._check()
        before = self._subscriptions.get(subscription.key)
        if before is not None:
            self._leave(before)
        self._enter(subscription)
        self._subscriptions.put(subscription.key, subscription)
        self._bytes.note(subscription.key, subscription)
        self.replays.changed(before, subscription)
        live = self._unused(subscription.name.topic)
        if live is not None:
            live.put(subscription)

    def remove_subscription(self, name: SubscriptionName) -> None:
        self._check()
        self._remove(name)

    def send_confirmation(self, subscription: Subscription) -> None:
        """Ask the endpoint for a confirmation, with a new token."""
        self._confirming.subscribed(self.find(subscription.name.topic), subscription)

    def send_unsubscribed(self, subscription: Subscription) -> None:
        """Tell the endpoint that its subscription has ended, with a token that restores it."""
        self._confirming.unsubscribed(self.find(subscription.name.topic), subscription)

    async def settled(self) -> None:
        """Wait until everything decided so far is durable."""
        await self._shard.settled()

    async def publish(
        self, topic: Topic, publications: Sequence[Publication], base_url: str
    ) -> list[Published]:
        """Publish valid messages. This returns when they are durable: in queues of this shard, on their way to those
        of others, and as jobs for all other subscribers. Raises TopicMissing, DedupFull or StoreError."""
        return await self.publisher.publish(topic.name, publications, base_url)

    async def publish_for(
        self, name: TopicName, publication: Publication, source: SentFor, base_url: str
    ) -> PublishAnswer:
        """Publish a message of another service of the server, if the policy of the topic allows it."""
        topic = self.get(name)
        if topic is None:
            return PublishAnswer(refused="the topic does not exist")
        if self._may_publish is not None and not self._may_publish(topic, source):
            return PublishAnswer(refused="the policy of the topic denies it")
        if name.is_fifo and publication.group is None:
            return PublishAnswer(refused="the topic is a FIFO topic, and the message has no group")
        try:
            (published,) = await self.publish(topic, [publication], base_url)
        except TopicMissing:
            return PublishAnswer(refused="the topic does not exist")
        except (DedupFull, QuotaReached) as error:
            return PublishAnswer(
                refused=f"the topic takes no messages: {type(error).__name__}", can_repeat=True
            )
        return PublishAnswer(published.message_id)

    def _remove(self, name: SubscriptionName) -> None:
        before = self.get_subscription(name)
        if before is None:
            return
        self._subscriptions.remove(before.key)
        self._bytes.note(before.key, None)
        self.replays.removed(name)
        self._leave(before)
        live = self._unused(name.topic)
        if live is not None:
            live.remove(name.id)

    def _unused(self, name: TopicName) -> LiveTopic | None:
        """The compiled topic, if it can be changed now. One whose filters are being looked at is thrown away."""
        live = self._compiled.get(name)
        if live is not None and live.matching:
            del self._compiled[name]
            return None
        return live

    def _topic_of(self, name: TopicName) -> _OfTopic:
        return self._of_topic.get(name, _NO_SUBSCRIPTIONS)

    def _enter(self, subscription: Subscription) -> None:
        name = subscription.name
        self._of_topic.setdefault(name.topic, _OfTopic()).enter(subscription)
        if subscription.state is not SubscriptionState.CONFIRMED:
            self._unconfirmed.add(name)
        self._entered[name.id] = subscription
        self._owned.note(name.arn, Space(subscription.owner, name.topic.region))

    def _leave(self, subscription: Subscription) -> None:
        name = subscription.name
        self._of_topic[name.topic].leave(subscription)
        self._unconfirmed.discard(name)
        self._owned.note(name.arn, None)
        del self._entered[name.id]

    def _note_topic(self, key: str, topic: Topic | None) -> None:
        """A topic is this from now on; None: it is gone."""
        self._bytes.note(key, topic)
        whose = None if topic is None else (topic.name.space, topic.name.is_fifo)
        self._arns.note(Home.rest_of_key(key), whose)

    def _check(self) -> None:
        """Raises NotOwned or StoreError if nothing can be stored now."""
        self._shard.check_not_ended()
        self._shard.check_owned()
        self._shard.check_sends()

    # -- refused commits -------------------------------------------------------------------------------------------

    def _topic_undone(self, key: str, before: Topic | None) -> None:
        """The commit that changed a topic was refused: what memory knows of it is read again."""
        arn = Home.rest_of_key(key)
        name = TopicName.of_arn(arn)
        assert name is not None, "keys are ARNs"
        self._compiled.pop(name, None)
        self._note_topic(key, before)

    def _subscription_undone(self, key: str, before: Subscription | None) -> None:
        name = SubscriptionName.of_arn(Home.rest_of_key(key))
        assert name is not None, "keys are ARNs"
        self._compiled.pop(name.topic, None)
        self._bytes.note(key, before)
        entered = self._entered.get(name.id)
        if entered is not None:
            self._leave(entered)
        if before is not None:
            self._enter(before)


class ShardPublishing(PartList):
    """The topics of one shard, and the jobs by which their messages get to subscribers."""

    def __init__(self, partition: Partition, publishing: Publishing) -> None:
        topics = ShardTopics(partition, publishing)
        unconfirmed = Unconfirmed(partition, topics)
        sizes = ArchiveSizes(partition, topics, topics.publisher.metrics)
        jobs = topics.publisher.queue_jobs, topics.deliveries, topics.replays
        super().__init__([topics, *jobs, unconfirmed, sizes])
