"""Requests and responses of the admin API about topics. A field is called as its JSON member is."""

from __future__ import annotations

from typing import Annotated

from penstock.services.admin.structs import Absent, Asked, MessageAttribute
from penstock.wire.shapes import InPath, InQuery, Named


class TopicInfo(Absent, kw_only=True):
    name: str
    account: str
    region: str
    arn: str
    kind: str  # "standard" or "fifo"
    confirmed: int  # subscriptions
    pending: int
    deleted: int
    created_at: str
    waiting: int  # messages on their way to endpoints
    failing: int  # subscriptions that did not get a message, or whose last attempt failed
    display_name: str | None = None


class TopicsRequest(Asked, kw_only=True):
    prefix: Annotated[str | None, InQuery()] = None
    contains: Annotated[str | None, InQuery()] = None
    limit: Annotated[int | None, InQuery()] = None
    after: Annotated[str | None, InQuery()] = None


class TopicsResult(Absent, kw_only=True):
    topics: list[TopicInfo]
    next: str | None = None


class DeliveriesRequest(Asked, kw_only=True):
    topic: Annotated[str | None, InQuery()] = None  # a name
    subscription: Annotated[str | None, InQuery()] = None  # an ARN
    limit: Annotated[int | None, InQuery()] = None
    after: Annotated[str | None, InQuery()] = None


class WaitingDeliveryInfo(Absent, kw_only=True):
    """A message on its way to one endpoint."""

    topic: str  # ARNs
    subscription: str
    protocol: str
    endpoint: str  # without a password
    state: str  # "visible": its turn is next, "delayed", "in_flight": it is being delivered
    attempt: int  # how many there were
    due_ms: int  # when the next one is, since 1970
    age_ms: int
    message_id: str | None = None
    last_error: str | None = None


class DeliveriesResult(Absent, kw_only=True):
    deliveries: list[WaitingDeliveryInfo]
    next: str | None = None


class FailingRequest(DeliveriesRequest, kw_only=True):
    pass


class FailedAttemptInfo(Absent, kw_only=True):
    """The last attempt to reach an endpoint, which failed."""

    at: str
    reason: str
    number: int  # of the attempt, from 1
    since: str  # no attempt has succeeded since then


class UndeliveredInfo(Absent, kw_only=True):
    """The last message that a subscriber did not get, and will not get."""

    at: str
    reason: str
    count: int  # of such messages, since the server was started
    dead_letter_queue: str | None = None  # the ARN of the queue that has it; without: the message is lost
    is_denied: bool | None = None  # true: the access policy of a queue does not allow it


class FailingSubscriptionInfo(Absent, kw_only=True):
    topic: str  # ARNs
    subscription: str
    protocol: str
    endpoint: str  # without a password
    attempt: FailedAttemptInfo | None = None
    undelivered: UndeliveredInfo | None = None


class FailingResult(Absent, kw_only=True):
    subscriptions: list[FailingSubscriptionInfo]
    next: str | None = None


class RecentRequest(Asked, kw_only=True):
    """Either a topic or a subscription."""

    topic: Annotated[str | None, InQuery()] = None  # a name
    subscription: Annotated[str | None, InQuery()] = None  # an ARN


class RecentMessageInfo(Absent, kw_only=True):
    """A message that was published lately."""

    id: str
    published_at: str
    body: str  # for the protocol of the subscription
    attributes: dict[str, MessageAttribute]
    subject: str | None = None
    group: str | None = None
    passes: bool | None = None  # the filter of the subscription


class RecentResult(Absent, kw_only=True):
    messages: list[RecentMessageInfo]  # the latest first


class TestFilterRequest(Asked, kw_only=True):
    """Either a policy with its scope, or the ARN of a subscription that has a policy."""

    policy: str | None = None
    scope: str | None = None  # "MessageAttributes" or "MessageBody"
    subscription: str | None = None
    body: str | None = None
    attributes: Named[MessageAttribute] | None = None


class FilterConditionInfo(Absent, kw_only=True):
    path: str
    condition: str  # as JSON
    found: str  # as JSON, with commas between several values
    passed: bool
    why: str


class TestFilterResult(Absent, kw_only=True):
    matched: bool
    outcome: str
    why: str
    conditions: list[FilterConditionInfo]


class OutboxRequest(Asked, kw_only=True):
    limit: Annotated[int | None, InQuery()] = None
    after: Annotated[str | None, InQuery()] = None


class OutboxEntryInfo(Absent, kw_only=True):
    """What could not leave the machine."""

    id: str
    at_ms: int
    protocol: str
    destination: str
    kind: str  # "Notification", or "SubscriptionConfirmation" with a link in the body
    body: str
    topic: str | None = None  # ARN
    subject: str | None = None


class OutboxResult(Absent, kw_only=True):
    entries: list[OutboxEntryInfo]  # the latest first
    next: str | None = None


class ClearOutboxResult(Absent, kw_only=True):
    deleted: int


class AboutOutboxEntry(Asked, kw_only=True):
    id: Annotated[str, InPath()]
