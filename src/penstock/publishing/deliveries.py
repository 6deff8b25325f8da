"""Deliveries to subscribers that are no queues: HTTP endpoints, mail, and what cannot leave this machine.

Each message for an HTTP endpoint or a mail address is a job of an internal queue. A job finds its subscription and
the delivery policy at each attempt as they are then: one whose subscription is gone ends, and a new policy applies to
what waits already. When the policy has no further retry, the message is given back, for the dead-letter queue of the
subscription. Confirmations are tried again in the same way, and then forgotten.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from email.message import EmailMessage
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4
from zlib import crc32

import msgspec

from penstock.broker.internal_queues import Job, JobKind, JobQueues
from penstock.broker.parts import PartList
from penstock.errors import JobFailed
from penstock.limits import DAY, MINUTE, SECOND
from penstock.outgoing import CredentialUrl
from penstock.publishing.delivery_log import DeliveryAttempt, log_attempt
from penstock.publishing.email_delivery import (
    MailFailed,
    MailServer,
    confirmation_mail,
    is_mail_address,
    notification_mail,
)
from penstock.publishing.failed_attempts import FailedAttempts
from penstock.publishing.http_delivery import (
    HttpAnswer,
    HttpMessage,
    confirmation_request,
    notification_request,
)
from penstock.publishing.namespace import TopicMetrics
from penstock.publishing.throttles import Throttles
from penstock.publishing.unsent import Unsent, UnsentMessage
from penstock.topics.delivery_policy import DeliveryPolicy, effective_policy
from penstock.topics.envelopes import NOTIFICATION, Confirmation, ConfirmationKind
from penstock.topics.names import SubscriptionName
from penstock.topics.publication import Notice
from penstock.topics.records import Subscription, SubscriptionState, Topic
from penstock.topics.retries import MAIL_RETRIES, pause_ms

if TYPE_CHECKING:
    from penstock.broker.partition import Partition
    from penstock.publishing.signing import Signer

log = logging.getLogger("penstock.topics")

HTTP_PROTOCOLS = ("http", "https")
MAIL_PROTOCOLS = ("email", "email-json")
_WAIT_MS_MAX = SECOND  # for a slot, with the job at hand; whoever waits longer is put off
_HTTP_PACE, _MAIL_PACE = (5, 100), (1 / 60, 20)
"""How many confirmations a second an account sends to one host or one mailbox, and how many more at once."""
_ERROR_MAX = 300
_JITTER = 0.1
_KEPT = 200  # the status in the delivery status log
_PAUSES_AFTER_ERROR_MS = (SECOND, 10 * SECOND, MINUTE)  # after an error of this server


class Outbound(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message for one subscriber: a notice or a confirmation."""

    subscription: SubscriptionName
    protocol: str
    endpoint: str
    notice: Notice | None = None
    confirmation: Confirmation | None = None
    last_error: str = ""

    @property
    def message_id(self) -> str:
        of = self.notice or self.confirmation
        return "" if of is None else of.message_id


# When a process dies, its tries take up the places of their endpoints until they become visible. Longer tries are
# extended.
HTTP_DELIVERIES = JobKind(
    "topic-http", Outbound, pauses_ms=_PAUSES_AFTER_ERROR_MS, visibility_ms=20 * SECOND, ordered=False, tries_max=101,
    running_max=16, running_per_group_max=4, waiting_max=100_000, age_ms_max=4 * DAY,
)  # fmt: skip
MAIL_DELIVERIES = JobKind(
    "topic-mail", Outbound, pauses_ms=_PAUSES_AFTER_ERROR_MS, visibility_ms=2 * MINUTE, ordered=False,
    tries_max=1 + MAIL_RETRIES.count, running_max=4, running_per_group_max=2, age_ms_max=4 * DAY,
)  # fmt: skip
DELIVERY_KINDS = (HTTP_DELIVERIES, MAIL_DELIVERIES)


class Http(Protocol):
    async def may_subscribe(self, account: str, endpoint: str) -> bool:
        """Whether a URL may be called, as far as that is known. A name that does not resolve may."""

    async def post(self, account: str, endpoint: str, message: HttpMessage) -> HttpAnswer: ...


class Mail(Protocol):
    @property
    def server(self) -> MailServer | None:
        """None: there is none."""

    async def send(self, account: str, mail: EmailMessage) -> None:
        """Raises MailFailed."""


class Endpoints:
    """How the process reaches subscribers that are no queues."""

    def __init__(self, http: Http, mail: Mail, signer: Signer) -> None:
        self.http = http
        self.mail = mail
        self.signer = signer

    async def may_subscribe(self, account: str, protocol: str, endpoint: str) -> bool:
        """Whether messages may go to an endpoint: SNS calls it unreachable if they may not."""
        if protocol in HTTP_PROTOCOLS:
            return await self.http.may_subscribe(account, endpoint)
        return protocol not in MAIL_PROTOCOLS or is_mail_address(endpoint)


Find = Callable[[SubscriptionName], tuple[Topic, Subscription] | None]
Failed = Callable[[Notice, str], None]


class Deliveries(PartList):
    """What is delivered for the topics of one shard."""

    def __init__(
        self,
        partition: Partition,
        endpoints: Endpoints,
        find: Find,
        failed: Failed,
        metrics: TopicMetrics,
        succeeded: Callable[[str], None] = lambda arn: None,
    ) -> None:
        """``find``: a subscription with its topic, as they are now. ``failed``: a message is not tried again, for a
        reason; the open commit decides what becomes of it. ``succeeded``: a subscription got a message."""
        self._shard = partition.shard
        self._endpoints = endpoints
        self._find = find
        self._failed = failed
        self._succeeded = succeeded
        self._metrics = metrics
        self._throttles = Throttles()
        self.unsent = Unsent(partition)
        self.failed_attempts = FailedAttempts()
        super().__init__([self.unsent])
        self._http = JobQueues(partition, HTTP_DELIVERIES, self._post, self._give_up)
        self._mail = JobQueues(partition, MAIL_DELIVERIES, self._send_mail, self._give_up)

    @property
    def job_queues(self) -> Sequence[JobQueues[Any]]:
        return (self._http, self._mail)

    def start(self) -> None:
        self._http.start()
        self._mail.start()

    def stop(self) -> None:
        self._http.stop()
        self._mail.stop()

    # -- with the open commit ----------------------------------------------------------------------------------

    def notify(self, topic: Topic, subscription: Subscription, notice: Notice) -> bool:
        """Deliver a notice when the commit is durable. Returns False if too many wait already."""
        if not self._can_leave(subscription.protocol):
            self._keep(topic, subscription, _unsent_notice(subscription, notice))
            self._count_delivered(topic)
            self._log_kept(topic, subscription, notice)
            return True
        return self._add(topic, _outbound(subscription, notice=notice))

    def confirm(self, topic: Topic, subscription: Subscription, token: str) -> None:
        """Ask the endpoint for a confirmation of the subscription."""
        self._ask(ConfirmationKind.SUBSCRIBE, topic, subscription, token)

    def unsubscribed(self, topic: Topic, subscription: Subscription, token: str) -> None:
        """Tell the endpoint that its subscription has ended, and how to restore it."""
        self._ask(ConfirmationKind.UNSUBSCRIBE, topic, subscription, token)

    def _ask(self, kind: ConfirmationKind, topic: Topic, subscription: Subscription, token: str) -> None:
        confirmation = new_confirmation(kind, topic, subscription, token, self._shard.clock.wall_ms())
        if self._can_leave(subscription.protocol):
            if not self._add(topic, _outbound(subscription, confirmation=confirmation)):
                log.warning(
                    "a confirmation for subscription %s is lost: too many deliveries wait",
                    subscription.name.arn,
                )
            return
        self._keep_confirmation(topic, subscription, confirmation)

    def _keep_confirmation(
        self, topic: Topic, subscription: Subscription, confirmation: Confirmation
    ) -> None:
        self._keep(topic, subscription, _unsent_confirmation(subscription, confirmation))
        if subscription.protocol in MAIL_PROTOCOLS:
            # Whoever reads the log of the server may confirm in the place of the owner of the address.
            log.info(
                "there is no mail server: confirm the subscription of %s to topic %s with this link: %s",
                subscription.endpoint, topic.name.name, confirmation.subscribe_url,
            )  # fmt: skip

    def _can_leave(self, protocol: str) -> bool:
        return protocol in HTTP_PROTOCOLS or (
            protocol in MAIL_PROTOCOLS and self._endpoints.mail.server is not None
        )

    def _add(self, topic: Topic, outbound: Outbound) -> bool:
        jobs = self._http if outbound.protocol in HTTP_PROTOCOLS else self._mail
        return jobs.add(
            topic.name.home, topic.name.space, group_of(outbound.protocol, outbound.endpoint), outbound
        )

    def _keep(self, topic: Topic, subscription: Subscription, message: UnsentMessage) -> None:
        name, at_ms = topic.name, self._shard.clock.wall_ms()
        message = msgspec.structs.replace(
            message, account=name.account, region=name.region, at_ms=at_ms, topic=name.arn
        )
        self.unsent.add(name.home, message)

    def _count_delivered(self, topic: Topic) -> None:
        self._shard.open_commit.when_durable.append(lambda _: self._metrics.delivered(topic.name))

    def _log_kept(self, topic: Topic, subscription: Subscription, notice: Notice) -> None:
        """What is in the outbox counts as delivered: so it is in the delivery status log, too."""
        since_ms = max(0, self._shard.clock.wall_ms() - notice.published_ms)
        attempt = DeliveryAttempt(1, True, _KEPT, "kept in the outbox", since_ms)
        self._shard.open_commit.when_durable.append(
            lambda _: log_attempt(topic, subscription, notice, attempt)
        )

    # -- attempts ------------------------------------------------------------------------------------------------

    def _wanted(self, outbound: Outbound) -> tuple[Topic, Subscription] | None:
        """The subscription, if the message is still to be delivered."""
        found = self._find(outbound.subscription)
        if found is None:
            return None
        confirmation, awaited = outbound.confirmation, SubscriptionState.CONFIRMED
        if confirmation is not None:
            is_new = confirmation.kind is ConfirmationKind.SUBSCRIBE
            awaited = SubscriptionState.PENDING if is_new else SubscriptionState.DELETED
        return found if found[1].state is awaited else None

    async def _post(self, job: Job[Outbound]) -> None:
        """Raises JobFailed."""
        outbound, found = job.payload, self._wanted(job.payload)
        if found is None:
            self._release(job)
            return
        policy = _policy(*found)
        if not await self._slot(job, policy, found[1]) or not await self._may_ask(job, found[0]):
            return
        found = self._wanted(outbound)
        if found is None:  # it has ended while this waited
            return
        topic, subscription = found
        message = await self._request(outbound, topic, subscription, policy)
        answer = await self._endpoints.http.post(topic.name.account, outbound.endpoint, message)
        await job.confirm()
        log_attempt(topic, subscription, outbound.notice, self._attempt(job, answer))
        if not answer.is_complete:
            raise self._http_failure(job, topic, _policy(topic, subscription), answer)
        self._delivered(job, topic)
        if not answer.is_success:
            # SNS: what an endpoint refuses counts as delivered. The subscriber has not got it all the same.
            self._remember_failure(job, f"{answer.status} {answer.text}, which counts as delivered")

    async def _slot(self, job: Job[Outbound], policy: DeliveryPolicy, subscription: Subscription) -> bool:
        """Wait until the throttle of the policy lets this through. Returns False if the job was put off for that."""
        # SNS: a throttle delays messages, retries among them, and drops none.
        if policy.receives_per_second is None:
            self._throttles.release(job.id)  # it was put off when there was a throttle
            return True
        wait_ms = self._throttles.wait_ms(
            subscription.name.arn, policy.receives_per_second, job.id, self._shard.clock.now_ms()
        )
        return await self._wait(job, job.id, wait_ms)

    async def _may_ask(self, job: Job[Outbound], topic: Topic) -> bool:
        """Wait until another confirmation may go to this place. Returns False if the job was put off for that.

        Whoever subscribes an endpoint that is not his own, again and again or to many topics, must not flood it."""
        if job.payload.confirmation is None:
            return True
        protocol, endpoint = job.payload.protocol, job.payload.endpoint
        per_second, burst = _MAIL_PACE if protocol in MAIL_PROTOCOLS else _HTTP_PACE
        place = f"{topic.name.account} {_asked_place(protocol, endpoint)}"
        slot, now_ms = _asking(job), self._shard.clock.now_ms()
        return await self._wait(job, slot, self._throttles.wait_ms(place, per_second, slot, now_ms, burst))

    async def _wait(self, job: Job[Outbound], slot: str, wait_ms: int) -> bool:
        """Wait for a slot, or put the job off for so long and return False."""
        if wait_ms > _WAIT_MS_MAX:
            await job.confirm()
            job.put_off(wait_ms, was_tried=False)
            return False
        if wait_ms:
            await self._shard.pause(wait_ms)
        self._throttles.release(slot)
        return True

    def _release(self, job: Job[Outbound]) -> None:
        """The job has no need of its slots any more."""
        self._throttles.release(job.id)
        self._throttles.release(_asking(job))

    async def _request(
        self, outbound: Outbound, topic: Topic, subscription: Subscription, policy: DeliveryPolicy
    ) -> HttpMessage:
        if outbound.notice is not None:
            notice, is_raw = outbound.notice, subscription.is_raw
            if not is_raw:
                notice = await self._signed(topic, notice)
            return notification_request(notice, policy.content_type, is_raw=is_raw)
        assert outbound.confirmation is not None
        return confirmation_request(await self._signed(topic, outbound.confirmation))

    async def _signed(self, topic: Topic, message: Any) -> Any:
        """A notice or confirmation with its signature. SNS: messages of FIFO topics have none."""
        if message.signature or topic.name.is_fifo:
            return message
        await self._endpoints.signer.ready()
        return self._endpoints.signer.signed(message, topic.signature_version)

    def _http_failure(
        self, job: Job[Outbound], topic: Topic, policy: DeliveryPolicy, answer: HttpAnswer
    ) -> JobFailed:
        reason = f"{answer.status} {answer.text}" if answer.status else answer.text
        pause = pause_ms(policy.retries, job.attempt)
        if pause is not None and job.payload.notice is not None:
            # SNS: each failed attempt of an HTTP endpoint counts. The last one is counted by who gets the message.
            self._metrics.failed(topic.name)
        return self._failure(job, reason, pause)

    async def _send_mail(self, job: Job[Outbound]) -> None:
        """Raises JobFailed."""
        outbound, found = job.payload, self._wanted(job.payload)
        if found is None:
            self._release(job)
            return
        if not await self._may_ask(job, found[0]):
            return
        topic, subscription = found
        server = self._endpoints.mail.server
        if server is None:  # it was taken away meanwhile
            await job.confirm()
            self._keep_instead(topic, subscription, outbound)
        else:
            try:
                mail = await self._mail_of(outbound, topic, server.sender)
                await self._endpoints.mail.send(topic.name.account, mail)
            except MailFailed as failure:
                await job.confirm()
                pause = _jittered(pause_ms(MAIL_RETRIES, job.attempt), job) if failure.can_repeat else None
                raise self._failure(job, str(failure), pause) from None
            await job.confirm()
        self._delivered(job, topic)

    async def _mail_of(self, outbound: Outbound, topic: Topic, sender: str) -> EmailMessage:
        """Raises MailFailed."""
        to, protocol = outbound.endpoint, outbound.protocol
        if not is_mail_address(to):
            raise MailFailed("the endpoint is no mail address", can_repeat=False)
        if outbound.confirmation is not None:
            return confirmation_mail(await self._signed(topic, outbound.confirmation), protocol, to, sender)
        assert outbound.notice is not None
        notice: Notice = await self._signed(topic, outbound.notice)
        display_name = topic.attributes.get("DisplayName", "")
        return notification_mail(notice, protocol, to, display_name, sender, notice.published_ms)

    def _keep_instead(self, topic: Topic, subscription: Subscription, outbound: Outbound) -> None:
        if outbound.confirmation is not None:
            self._keep_confirmation(topic, subscription, outbound.confirmation)
        elif outbound.notice is not None:
            self._keep(topic, subscription, _unsent_notice(subscription, outbound.notice))

    def _delivered(self, job: Job[Outbound], topic: Topic) -> None:
        """End a job, with the open commit."""
        job.done()
        self.failed_attempts.succeeded(job.payload.subscription.arn)
        self._succeeded(job.payload.subscription.arn)
        if job.payload.notice is not None:
            self._count_delivered(topic)

    def _give_up(self, job: Job[Outbound], reason: str) -> None:
        self._release(job)
        outbound = job.payload
        if outbound.notice is not None and self._wanted(outbound) is not None:
            self._failed(outbound.notice, reason)
        elif outbound.confirmation is not None:
            # SNS: a confirmation never goes to a dead-letter queue.
            arn = outbound.subscription.arn
            log.info("a confirmation for subscription %s was not delivered: %s", arn, reason)

    def _failure(self, job: Job[Outbound], reason: str, pause: int | None) -> JobFailed:
        """The failure of an attempt, which is stored with the job if there is another one."""
        self._remember_failure(job, reason)
        job.payload = msgspec.structs.replace(job.payload, last_error=reason[:_ERROR_MAX])
        return JobFailed(reason, can_repeat=pause is not None, pause_ms=pause)

    def _remember_failure(self, job: Job[Outbound], reason: str) -> None:
        arn = job.payload.subscription.arn
        self.failed_attempts.failed(arn, reason, job.attempt, self._shard.clock.wall_ms())

    def _attempt(self, job: Job[Outbound], answer: HttpAnswer) -> DeliveryAttempt:
        of = job.payload.notice
        clock = self._shard.clock
        since_ms = clock.now_ms() - job.due_ms if of is None else clock.wall_ms() - of.published_ms
        return DeliveryAttempt(job.attempt, answer.is_complete, answer.status, answer.text, max(0, since_ms))


def new_confirmation(
    kind: ConfirmationKind, topic: Topic, subscription: Subscription, token: str, wall_ms: int
) -> Confirmation:
    """Returns a confirmation without its signature."""
    return Confirmation(
        kind=kind,
        message_id=str(uuid4()),
        topic_arn=topic.name.arn,
        subscription_arn=subscription.name.arn,
        token=token,
        sent_ms=wall_ms,
        base_url=subscription.base_url,
    )


def _outbound(
    subscription: Subscription, *, notice: Notice | None = None, confirmation: Confirmation | None = None
) -> Outbound:
    return Outbound(
        subscription=subscription.name,
        protocol=subscription.protocol,
        endpoint=subscription.endpoint,
        notice=notice,
        confirmation=confirmation,
    )


def _asking(job: Job[Outbound]) -> str:
    """The slot of a confirmation, beside that of its subscription."""
    return f"asks {job.id}"


def _asked_place(protocol: str, endpoint: str) -> str:
    """Who is asked: a host, or a mailbox, which may have several addresses."""
    if protocol not in MAIL_PROTOCOLS:
        return group_of(protocol, endpoint)
    user, _, host = endpoint.lower().rpartition("@")
    return f"{user.partition('+')[0]}@{host}"


def group_of(protocol: str, endpoint: str) -> str:
    """What a message is for, so that one slow host does not take all places of its account."""
    place = endpoint.rpartition("@")[2]
    if protocol in HTTP_PROTOCOLS:
        found = CredentialUrl.parse(endpoint)
        place = endpoint if found is None else f"{found.url.host}:{found.url.port}"
    return sha256(place.encode()).hexdigest()


def _policy(topic: Topic, subscription: Subscription) -> DeliveryPolicy:
    return effective_policy(
        topic.attributes.get("DeliveryPolicy"),
        subscription.attributes.get("DeliveryPolicy"),
        is_raw=subscription.is_raw,
    )


def _jittered(pause: int | None, job: Job[Outbound]) -> int | None:
    """Shorter by a part that differs, so that what failed together is not tried again together."""
    if pause is None:
        return None
    chance = crc32(f"{job.id} {job.attempt}".encode()) / 2**32
    return int(pause * (1 - _JITTER * chance))


def _unsent_notice(subscription: Subscription, notice: Notice) -> UnsentMessage:
    return _unsent(
        subscription, notice.message_id, notice.text, subject=notice.subject or "", kind=NOTIFICATION
    )


def _unsent_confirmation(subscription: Subscription, confirmation: Confirmation) -> UnsentMessage:
    text = f"{confirmation.message}\n{confirmation.subscribe_url}"
    return _unsent(subscription, confirmation.message_id, text, subject="", kind=confirmation.kind.value)


def _unsent(
    subscription: Subscription, message_id: str, text: str, *, subject: str, kind: str
) -> UnsentMessage:
    return UnsentMessage(
        account="",
        region="",
        at_ms=0,
        protocol=subscription.protocol,
        destination=subscription.endpoint,
        message_id=message_id,
        text=text,
        subject=subject,
        subscription=subscription.name.arn,
        kind=kind,
    )
