"""The delivery status of messages for queues, if a topic has a role for it: one record for each queue.

A message may be for very many queues. So records are written in turns, and of those that wait the latest are left out
if there are too many."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from penstock.broker.delivery import Refusal
from penstock.limits import MINUTE, SECOND
from penstock.names import QueueName
from penstock.promise import run_detached
from penstock.publishing.delivery_log import (
    DeliveryAttempt,
    LoggedMessage,
    is_wanted,
    text_md5,
    write_record,
)
from penstock.publishing.live_topic import QUEUES, TopicRoute
from penstock.publishing.queue_jobs import QueueMessage
from penstock.topics.names import SubscriptionName
from penstock.topics.publication import Notice
from penstock.topics.records import Subscription, Topic

if TYPE_CHECKING:
    from penstock.broker.partition import Partition

log = logging.getLogger("penstock.topics")

_WAITING_MAX = 10_000
_PER_TURN = 20
_WARN_EVERY_MS = MINUTE
# The status of the answer of SQS.
_TAKEN, _REFUSED = 200, 400
_HERE, _ON_ITS_WAY = "OK", "Accepted"

Find = Callable[[SubscriptionName], tuple[Topic, Subscription] | None]


class _Envelope(msgspec.Struct):
    MessageId: str
    Message: str
    Timestamp: str


_decode_envelope = msgspec.json.Decoder(_Envelope).decode


def is_logged(topic: Topic) -> bool:
    """Whether a topic wants records of some messages for queues."""
    attributes = topic.attributes
    return "SQSFailureFeedbackRoleArn" in attributes or "SQSSuccessFeedbackRoleArn" in attributes


class QueueLog:
    """Logs what becomes of the messages of the topics of one shard."""

    def __init__(self, partition: Partition, find: Find) -> None:
        """``find``: a subscription with its topic, as they are now."""
        self._partition = partition
        self._shard = partition.shard
        self._find = find
        self._waiting: deque[tuple[Topic, Subscription, LoggedMessage, DeliveryAttempt]] = deque()
        self._is_writing = False
        self._warned_ms = -_WARN_EVERY_MS

    def decided(
        self, topic: Topic, notice: Notice, routes: Sequence[TopicRoute], refusals: Iterable[Refusal]
    ) -> None:
        """A message was decided with the open commit: these queues refuse it, and all others get it."""
        message = LoggedMessage.of(notice)
        reasons = {refusal.target.token: refusal.reason for refusal in refusals}
        self._shard.open_commit.when_durable.append(lambda _: self._add_all(topic, message, routes, reasons))

    def refused(self, name: SubscriptionName, refusal: Refusal) -> None:
        """A queue refuses a message that was on its way to it."""
        text = None if refusal.message is None else refusal.message.body
        self._late(name, text, refusal.reason, 1)

    def attempted(self, message: QueueMessage, reason: str | None, number: int) -> None:
        """A queue that had refused a message took it with the open commit, or did not, for a reason."""
        self._late(
            SubscriptionName(message.topic, message.subscription), message.body or None, reason, number
        )

    def _late(self, name: SubscriptionName, text: str | None, reason: str | None, number: int) -> None:
        found = self._find(name)
        if found is None or not is_logged(found[0]):
            return
        topic, subscription = found
        message = _read(text, is_raw=subscription.is_raw)
        if reason is not None:
            self._add(topic, subscription, message, reason, number)
            return
        self._shard.open_commit.when_durable.append(
            lambda _: self._add(topic, subscription, message, None, number)
        )

    # -- when it is durable --------------------------------------------------------------------------------------

    def _add_all(
        self, topic: Topic, message: LoggedMessage, routes: Sequence[TopicRoute], reasons: dict[str, str]
    ) -> None:
        for route in routes:
            self._add(topic, route.subscription, message, reasons.get(route.subscription.name.arn), 1)

    def _add(
        self,
        topic: Topic,
        subscription: Subscription,
        message: LoggedMessage,
        reason: str | None,
        number: int,
    ) -> None:
        since_ms = self._shard.clock.wall_ms() - message.published_ms if message.published_ms else 0
        status, response = (_TAKEN, self._response(subscription)) if reason is None else (_REFUSED, reason)
        attempt = DeliveryAttempt(number, reason is None, status, response, max(0, since_ms))
        if not is_wanted(topic, QUEUES, attempt, message.id):
            return
        if len(self._waiting) >= _WAITING_MAX:
            self._warn()
            return
        self._waiting.append((topic, subscription, message, attempt))
        if not self._is_writing:
            self._is_writing = True
            run_detached(self._write())

    def _response(self, subscription: Subscription) -> str:
        queue = QueueName.of_arn(subscription.endpoint)
        is_elsewhere = queue is not None and self._partition.delivery.is_elsewhere(queue)
        return _ON_ITS_WAY if is_elsewhere else _HERE

    async def _write(self) -> None:
        while self._waiting:
            for _ in range(min(_PER_TURN, len(self._waiting))):
                write_record(*self._waiting.popleft())
            await self._partition.turn()
        self._is_writing = False

    def _warn(self) -> None:
        now_ms = self._shard.clock.now_ms()
        if now_ms >= self._warned_ms + _WARN_EVERY_MS:
            self._warned_ms = now_ms
            log.warning("more deliveries to queues than can be logged: some have no record")


def _read(text: str | None, *, is_raw: bool) -> LoggedMessage:
    """What is known of a message by what its queue was to get: of a raw one not its id."""
    if text is None:
        return LoggedMessage("", "", 0)
    if is_raw:
        return LoggedMessage("", text_md5(text), 0)
    try:
        envelope = _decode_envelope(text)
        published_ms = round(datetime.fromisoformat(envelope.Timestamp).timestamp() * SECOND)
    except (
        msgspec.MsgspecError,
        ValueError,
        OverflowError,
    ):  # it was sent raw, before the subscription was changed
        return LoggedMessage("", text_md5(text), 0)
    return LoggedMessage(envelope.MessageId, text_md5(envelope.Message), published_ms)
