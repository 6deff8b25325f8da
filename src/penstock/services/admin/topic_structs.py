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
