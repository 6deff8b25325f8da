"""What is stored of a topic and of a subscription.

Attributes are stored in the form in which clients read them back. Only those that were set are stored."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from penstock.store.changes import RecordKind
from penstock.store.moving import by_home
from penstock.topics.names import SubscriptionName, TopicName

NOTHING: dict[str, str] = {}


class Topic(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: TopicName
    created_ms: int
    attributes: dict[str, str] = NOTHING
    """What clients have set, valid and in the form that SNS shows. ContentBasedDeduplication is "true" or "false" on
    every FIFO topic; a Policy that was never set is not here."""
    tags: dict[str, str] = NOTHING
    data_protection_policy: str = ""
    archived_from_ms: int = 0  # when the archive was turned on; 0: there is none

    @property
    def key(self) -> str:
        return self.name.home.key(self.name.arn)

    @property
    def signature_version(self) -> str:
        # SNS: 1 (SHA-1) unless 2 (SHA-256) was chosen.
        return self.attributes.get("SignatureVersion", "1")

    def with_attribute(self, name: str, value: str) -> Topic:
        """The same topic with this attribute; an empty value removes it."""
        return msgspec.structs.replace(self, attributes=_with(self.attributes, name, value))


class SubscriptionState(StrEnum):
    PENDING = "pending"  # it waits for its confirmation
    CONFIRMED = "confirmed"
    DELETED = "deleted"  # by someone who did not prove to be its owner; a new confirmation restores it


class Subscription(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: SubscriptionName
    protocol: str
    endpoint: str
    owner: str  # the account that subscribed
    principal: str = ""  # the ARN of the user or role that subscribed
    created_ms: int
    state: SubscriptionState = SubscriptionState.CONFIRMED
    ended_ms: int = 0  # when it became DELETED
    is_authenticated: bool = False  # ConfirmationWasAuthenticated
    is_protected: bool = False  # only an authorized caller may unsubscribe: AuthenticateOnUnsubscribe
    base_url: str = ""  # where the subscriber reached the server: links in messages begin with it
    attributes: dict[str, str] = NOTHING
    """RawMessageDelivery, FilterPolicy, FilterPolicyScope, RedrivePolicy, DeliveryPolicy, SubscriptionRoleArn,
    ReplayPolicy: what clients have set, valid and in the form that SNS shows."""

    @property
    def key(self) -> str:
        return self.name.topic.home.key(self.name.arn)

    @property
    def is_raw(self) -> bool:
        return self.attributes.get("RawMessageDelivery") == "true"

    def with_attribute(self, name: str, value: str) -> Subscription:
        """The same subscription with this attribute; an empty value removes it."""
        return msgspec.structs.replace(self, attributes=_with(self.attributes, name, value))


def _with(attributes: dict[str, str], name: str, value: str) -> dict[str, str]:
    changed: dict[str, Any] = {**attributes, name: value}
    if not value:
        del changed[name]
    return changed


TOPICS = RecordKind("topic", Topic, by_home)
SUBSCRIPTIONS = RecordKind("subscription", Subscription, by_home)
