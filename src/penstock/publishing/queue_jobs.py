"""Messages of topics for queues that could not take them at once: tried again, or on their way to dead-letter queues.

SNS: a queue that is missing, or whose policy denies the topic, gets no second try: the message goes to the
dead-letter queue of the subscription, or is lost. A queue that takes no messages for the time being is tried again.
Messages of FIFO topics are not tried again, because they would come behind later ones of their group."""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.broker.delivery import Refusal
from penstock.broker.handover import QueueTarget, SentFor
from penstock.broker.internal_queues import Job, JobKind, JobQueues
from penstock.broker.parts import Part
from penstock.errors import DedupFull, JobFailed, QuotaReached, Unreachable
from penstock.limits import DAY, SECOND
from penstock.names import QueueName
from penstock.publishing.deliveries import new_confirmation
from penstock.queues.messages import Attribute, Outgoing
from penstock.topics.envelopes import Confirmation, ConfirmationKind, confirmation
from penstock.topics.names import FIFO_SUFFIX, TopicName
from penstock.topics.records import Subscription, Topic
from penstock.topics.retries import QUEUE_RETRIES, pause_ms

if TYPE_CHECKING:
    from penstock.broker.partition import Partition
    from penstock.publishing.signing import Signer

log = logging.getLogger("penstock.topics")

TOPIC_SERVICE = "sns.amazonaws.com"
SENDER = "AROAPENSTOCKTOPICS00:AWS-CLOUDCAST"
"""The sender of messages of topics, as queues show it."""

_CONFIRMATION_GROUP = "Subscription"  # SNS: of a confirmation in a FIFO queue
_FOR_NOW = frozenset((QuotaReached.__name__, DedupFull.__name__, Unreachable.__name__))

_AGE_MS_MAX = 24 * DAY


class QueueMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message of a topic for one queue. It can be stored."""

    topic: TopicName
    subscription: str  # the id
    queue: QueueName
    body: str
    sender: str
    attributes: dict[str, tuple[str, str]] | None = None  # bytes are in base64
    trace: str | None = None
    group: str | None = None
    dedup_id: str | None = None
    reason: str = ""  # why the queue of the subscription did not take it
    confirmation: Confirmation | None = None  # it is signed when it is sent; then there is no body before
    tries: int = 0  # before its job was added: each time, a queue of another shard answered that it is full
    not_before_ms: int = 0  # by the clock of the broker
    was_counted: bool = False  # as delivered: it was on its way to another shard, whose queue refused it

    @classmethod
    def of(
        cls, topic: TopicName, subscription: str, queue: QueueName, message: Outgoing, reason: str = ""
    ) -> QueueMessage:
        attributes = None if message.attributes is None else text_attributes(message.attributes)
        return cls(
            topic, subscription, queue, message.body, message.sender, attributes, message.trace, message.group,
            message.dedup_id, reason,
        )  # fmt: skip

    @property
    def outgoing(self) -> Outgoing:
        attributes = None if self.attributes is None else queue_attributes(self.attributes)
        return Outgoing(
            body=self.body, sender=self.sender, attributes=attributes, trace=self.trace, group=self.group,
            dedup_id=self.dedup_id,
        )  # fmt: skip


def text_attributes(attributes: dict[str, Attribute]) -> dict[str, tuple[str, str]]:
    """Message attributes with bytes in base64, as envelopes show them."""
    return {
        name: (
            each.type,
            each.value if isinstance(each.value, str) else base64.b64encode(each.value).decode(),
        )
        for name, each in attributes.items()
    }


def queue_attributes(attributes: dict[str, tuple[str, str]]) -> dict[str, Attribute]:
    """Message attributes as queues have them."""
    return {
        name: Attribute(type, base64.b64decode(text) if type.startswith("Binary") else text)
        for name, (type, text) in attributes.items()
    }


REDELIVERIES = JobKind(
    "topic-queues", QueueMessage, pauses_ms=(), visibility_ms=30 * SECOND, ordered=False,
    tries_max=QUEUE_RETRIES.count + 1, age_ms_max=_AGE_MS_MAX,
)  # fmt: skip
# Of a FIFO subscription the messages of a group go to its dead-letter queue in order.
DEAD_LETTERS = JobKind(
    "topic-dead-letters", QueueMessage, pauses_ms=(), visibility_ms=30 * SECOND, tries_max=60,
    age_ms_max=_AGE_MS_MAX,
)  # fmt: skip


def is_temporary(reason: str) -> bool:
    """Whether a queue that refused a message for this reason may take it later."""
    return reason in _FOR_NOW


class QueueJobs(Part):
    """The messages of topics of one shard that wait for queues."""

    def __init__(
        self,
        partition: Partition,
        signer: Signer,
        delivered: Callable[[QueueMessage], None],
        undeliverable: Callable[[QueueMessage, str], None],
        redriven: Callable[[QueueMessage, str | None], None],
        attempted: Callable[[QueueMessage, str | None, int], None],
    ) -> None:
        """``delivered``: a queue took a message that it had refused. ``undeliverable``: it will not take it; the open
        commit decides what becomes of it. ``redriven``: a dead-letter queue took a message, or did not, for a
        reason. ``attempted``: a queue that had refused a message took it, or did not, for a reason, at an attempt of
        this number."""
        self._delivery = partition.delivery
        self._shard = partition.shard
        self._signer = signer
        self._delivered, self._undeliverable, self._redriven = delivered, undeliverable, redriven
        self._attempted = attempted
        self._again = JobQueues(partition, REDELIVERIES, self._send_again, self._give_up_sending)
        self._dead = JobQueues(partition, DEAD_LETTERS, self._bury, self._give_up_burying)
        self._delivery.on_refused(REDELIVERIES.name, self._refused_again)
        self._delivery.on_refused(DEAD_LETTERS.name, self._refused_burying)

    @property
    def job_queues(self) -> Sequence[JobQueues[Any]]:
        return (self._again, self._dead)

    def start(self) -> None:
        self._again.start()
        self._dead.start()

    def stop(self) -> None:
        self._again.stop()
        self._dead.stop()

    # -- new jobs, in the open commit --------------------------------------------------------------------------

    def send(self, message: QueueMessage) -> bool:
        """Deliver this to its queue with a job. Returns False if too many wait."""
        delay_ms = max(0, message.not_before_ms - self._shard.clock.now_ms())
        return self._again.add(message.topic.home, message.topic.space, message.queue.arn, message, delay_ms)

    def bury(self, message: QueueMessage) -> bool:
        """Deliver this to a dead-letter queue with a job. Returns False if too many wait."""
        group = f"{message.subscription}/{message.group or message.dedup_id or ''}"
        return self._dead.add(message.topic.home, message.topic.space, group[:128], message)

    def confirm(
        self,
        kind: ConfirmationKind,
        topic: Topic,
        subscription: Subscription,
        queue: QueueName,
        token: str,
    ) -> None:
        """Ask who reads a queue for a confirmation."""
        confirmation = new_confirmation(kind, topic, subscription, token, self._shard.clock.wall_ms())
        confirmation = msgspec.structs.replace(confirmation, signature_version=topic.signature_version)
        is_fifo = queue.name.endswith(FIFO_SUFFIX)
        self.send(
            QueueMessage(
                topic.name,
                subscription.name.id,
                queue,
                "",
                SENDER,
                group=_CONFIRMATION_GROUP if is_fifo else None,
                dedup_id=confirmation.message_id if is_fifo else None,
                confirmation=confirmation,
            )
        )

    # -- work ----------------------------------------------------------------------------------------------------

    async def _send_again(self, job: Job[QueueMessage]) -> None:
        """Raises JobFailed."""
        number = _tries(job) + 1  # the first attempt was no job

        def taken(message: QueueMessage) -> None:
            self._attempted(message, None, number)
            self._delivered(message)

        refused = await self._deliver(job, REDELIVERIES.name, taken)
        if refused is not None:
            if job.payload.confirmation is None:
                self._attempted(job.payload, refused, number)
            raise _failed(job, refused)

    async def _bury(self, job: Job[QueueMessage]) -> None:
        """Raises JobFailed."""
        wait_ms = job.payload.not_before_ms - self._shard.clock.now_ms()
        if wait_ms > 0:
            await job.confirm()
            job.put_off(wait_ms)
            return
        refused = await self._deliver(job, DEAD_LETTERS.name, lambda message: self._redriven(message, None))
        if refused is not None:
            raise _failed(job, refused)

    async def _deliver(
        self, job: Job[QueueMessage], service: str, taken: Callable[[QueueMessage], None]
    ) -> str | None:
        """``taken``: the queue took the message, with the open commit. Returns the reason if the queue refuses it."""
        message, topic = job.payload, job.payload.topic
        target = QueueTarget(message.queue, _token(message, _tries(job)))
        refused: list[Refusal] = []

        def in_commit(refusals: list[Refusal]) -> None:
            refused.extend(refusals)
            if not refusals:
                job.done()
                if message.confirmation is None:
                    taken(message)

        outgoing = message.outgoing
        if message.confirmation is not None:
            await self._signer.ready()
            signed = self._signer.signed(message.confirmation, message.confirmation.signature_version)
            outgoing = msgspec.structs.replace(outgoing, body=confirmation(signed))
        await job.confirm()
        await self._delivery.deliver(
            outgoing, [target], service, f"the topic {topic.name}", in_commit, job.check_held,
            topic.account, sent_for(topic),
        )  # fmt: skip
        return refused[0].reason if refused else None

    def _give_up_sending(self, job: Job[QueueMessage], reason: str) -> None:
        if job.payload.confirmation is None:
            self._undeliverable(job.payload, reason)

    def _give_up_burying(self, job: Job[QueueMessage], reason: str) -> None:
        self._redriven(job.payload, reason)

    # -- queues of other shards answered that they do not take it ------------------------------------------------

    def _refused_again(self, refusal: Refusal) -> None:
        message = self._put_off(_of_refusal(refusal))
        if message.confirmation is None:
            self._attempted(message, refusal.reason, message.tries + 1)
        if message.body and self._may_repeat(message, REDELIVERIES) and self.send(message):
            return
        # SNS: what asks for a confirmation never goes to a dead-letter queue.
        if message.confirmation is None:
            self._undeliverable(message, refusal.reason)

    def _refused_burying(self, refusal: Refusal) -> None:
        message = self._put_off(_of_refusal(refusal))
        if not (message.body and self._may_repeat(message, DEAD_LETTERS) and self.bury(message)):
            self._redriven(message, refusal.reason)

    def _put_off(self, message: QueueMessage) -> QueueMessage:
        """A message that a queue of another shard refused, with the time of its next try."""
        pause = pause_ms(QUEUE_RETRIES, message.tries) or 0
        return msgspec.structs.replace(
            message, not_before_ms=self._shard.clock.now_ms() + pause, was_counted=True
        )

    def _may_repeat(self, message: QueueMessage, kind: JobKind[QueueMessage]) -> bool:
        return is_temporary(message.reason) and message.tries < kind.tries_max


def sent_for(topic: TopicName) -> SentFor:
    return SentFor(TOPIC_SERVICE, topic.arn, topic.account)


def _failed(job: Job[QueueMessage], reason: str) -> JobFailed:
    text = f"the queue {job.payload.queue.name} refused the message: {reason}"
    return JobFailed(text, can_repeat=is_temporary(reason), pause_ms=pause_ms(QUEUE_RETRIES, _tries(job)))


def _tries(job: Job[QueueMessage]) -> int:
    """How often a message was tried, with the try at hand."""
    message = job.payload
    was_put_off = message.not_before_ms > job.due_ms  # a job with an order, for which that counts as a try
    return message.tries + job.attempt - was_put_off


_encode, _decode = msgspec.json.Encoder().encode, msgspec.json.Decoder(QueueMessage).decode


def _token(message: QueueMessage, tries: int) -> str:
    """What is known about a message that a queue of another shard refuses; the message itself comes with it."""
    known = QueueMessage(
        message.topic,
        message.subscription,
        message.queue,
        "",
        "",
        confirmation=message.confirmation,
        tries=tries,
    )
    return _encode(known).decode()


def _of_refusal(refusal: Refusal) -> QueueMessage:
    """The message that was refused. Its body is empty if it cannot be decrypted any more."""
    known = _decode(refusal.target.token)
    if refusal.message is None:
        return known
    message = QueueMessage.of(known.topic, known.subscription, known.queue, refusal.message, refusal.reason)
    return msgspec.structs.replace(message, confirmation=known.confirmation, tries=known.tries)
