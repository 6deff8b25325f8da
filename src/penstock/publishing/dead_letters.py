"""Messages that a subscriber does not get: they go to the dead-letter queue of the subscription, or are lost.

Nothing is lost silently: it is counted, logged, and shown with the subscription until the server starts again."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Collection
from typing import TYPE_CHECKING

import msgspec

from penstock.limits import MINUTE
from penstock.publishing.live_topic import dead_letter_queue
from penstock.publishing.namespace import TopicMetrics
from penstock.publishing.queue_jobs import SENDER, QueueJobs, QueueMessage, queue_attributes
from penstock.publishing.reasons import shown_reason
from penstock.queues.messages import Outgoing
from penstock.topics.envelopes import notification
from penstock.topics.names import SubscriptionName
from penstock.topics.publication import Notice
from penstock.topics.records import Subscription

if TYPE_CHECKING:
    from penstock.broker.partition import Partition
    from penstock.publishing.shard_topics import ShardTopics

log = logging.getLogger("penstock.topics")

_REMEMBERED_MAX = 1000  # subscriptions of a shard whose last failure is remembered
_LOG_EVERY_MS = MINUTE
_LOGGED_MAX = 50  # lines about an account of a shard in this time: a topic may have very many subscribers
_ACCOUNTS_MAX = 1000  # whose lines are counted


class LastFailure(msgspec.Struct, frozen=True):
    """The last message that a subscriber did not get."""

    at_ms: int  # by the wall clock
    reason: str
    count: int  # since the server was started
    went_to: str = ""  # the ARN of the dead-letter queue; empty: the message is lost


class Undelivered:
    """What becomes of messages of the topics of one shard that subscribers do not get. All of it joins the open
    commit."""

    def __init__(
        self, partition: Partition, topics: ShardTopics, jobs: QueueJobs, metrics: TopicMetrics
    ) -> None:
        self._shard = partition.shard
        self._topics = topics
        self._jobs = jobs
        self._metrics = metrics
        self._failures: OrderedDict[str, LastFailure] = OrderedDict()
        self._failing: set[str] = set()  # those that got no message since
        self._logged_ms: dict[str, int] = {}
        self._lines: dict[str, tuple[int, int]] = {}  # by account: until when, and how many

    @property
    def subscriptions(self) -> Collection[str]:
        """The ARNs of those that got no message since their last failure, as far as that is remembered."""
        return self._failing

    def succeeded(self, subscription_arn: str) -> None:
        """A subscriber got a message, or has it on its way."""
        self._failing.discard(subscription_arn)

    def failure(self, subscription_arn: str) -> LastFailure | None:
        """The last failure that is remembered."""
        return self._failures.get(subscription_arn)

    def notice(self, notice: Notice, reason: str) -> None:
        """A subscriber that is no queue does not get this."""
        name = SubscriptionName.of_arn(notice.subscription_arn)
        assert name is not None, "a notice has the ARN of its subscription"
        subscription = self._topics.get_subscription(name)
        is_raw = subscription is not None and subscription.is_raw
        message = Outgoing(
            body=notice.text if is_raw else notification(notice),
            sender=SENDER,
            attributes=queue_attributes(notice.attributes) if is_raw and notice.attributes else None,
            trace=notice.trace,
            group=notice.group,
            dedup_id=notice.dedup_id,
        )
        self._to_dead_letters(name, subscription, message, reason)

    def message(self, name: SubscriptionName, message: QueueMessage, reason: str) -> None:
        """The queue of a subscription does not take this."""
        self._to_dead_letters(name, self._topics.get_subscription(name), message.outgoing, reason)

    def lost(self, name: SubscriptionName, reason: str) -> None:
        """The queue of a subscription did not take a message, which cannot be read any more."""
        self._note(name, reason, "")
        self._count(name)

    def _to_dead_letters(
        self, name: SubscriptionName, subscription: Subscription | None, message: Outgoing, reason: str
    ) -> None:
        self._count(name)
        queue = None if subscription is None else dead_letter_queue(subscription)
        if queue is None:
            self._note(name, reason, "")
            return
        letter = QueueMessage.of(name.topic, name.id, queue, message, reason)
        if self._jobs.bury(letter):
            self._note(name, reason, queue.arn)
        else:
            self.redriven(letter, "too many messages wait for dead-letter queues")

    def redriven(self, message: QueueMessage, reason: str | None) -> None:
        """A dead-letter queue took a message, or did not, for this reason."""
        topic = message.topic
        failed = reason is not None
        self._shard.open_commit.when_durable.append(lambda _: self._metrics.redriven(topic, failed=failed))
        if reason is not None:
            self._note(
                SubscriptionName(topic, message.subscription),
                f"{message.reason}; the dead-letter queue did not take it: {reason}",
                "",
            )

    def _count(self, name: SubscriptionName) -> None:
        self._shard.open_commit.when_durable.append(lambda _: self._metrics.failed(name.topic))

    def _note(self, name: SubscriptionName, reason: str, went_to: str) -> None:
        arn = name.arn
        before = self._failures.pop(arn, None)
        count = 1 if before is None else before.count + 1
        self._failures[arn] = LastFailure(self._shard.clock.wall_ms(), reason, count, went_to)
        self._failing.add(arn)
        if len(self._failures) > _REMEMBERED_MAX:
            forgotten, _ = self._failures.popitem(last=False)
            self._failing.discard(forgotten)
            self._logged_ms.pop(forgotten, None)
        now_ms = self._shard.clock.now_ms()
        if went_to or now_ms < self._logged_ms.get(arn, 0) or not self._may_log(name.topic.account, now_ms):
            return
        self._logged_ms[arn] = now_ms + _LOG_EVERY_MS
        log.warning("a message of subscription %s is lost (%d so far): %s", arn, count, shown_reason(reason))

    def _may_log(self, account: str, now_ms: int) -> bool:
        if len(self._lines) > _ACCOUNTS_MAX:
            self._lines = {name: lines for name, lines in self._lines.items() if lines[0] > now_ms}
        until_ms, lines = self._lines.get(account, (0, 0))
        if now_ms >= until_ms:
            until_ms, lines = now_ms + _LOG_EVERY_MS, 0
        if lines == _LOGGED_MAX:
            log.warning("more messages of topics of account %s are lost than the log shows", account)
        self._lines[account] = until_ms, lines + 1
        return lines < _LOGGED_MAX
