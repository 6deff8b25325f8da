"""What the actions of SNS return, and what a batch for a topic is made of.

Fields have the names of the members of SNS in snake_case.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import msgspec

from penstock.client.structs import AttributeValue, MessageAttribute, to_attribute

TopicAttributeValue = AttributeValue | Sequence[str | int | float | bool | None]
"""A string is sent as String, a number as Number, bytes as Binary, a list as String.Array."""
TopicMessageAttributes = Mapping[str, TopicAttributeValue]


def to_topic_attribute(name: str, value: TopicAttributeValue) -> MessageAttribute:
    if isinstance(value, list | tuple):
        return MessageAttribute("String.Array", string_value=json.dumps(value, ensure_ascii=False))
    return to_attribute(name, value)  # type: ignore[arg-type]  # it refuses other sequences


class SnsMembers(msgspec.Struct, rename="pascal", omit_defaults=True):
    """Absent members are None or empty."""


class TopicPage(SnsMembers):
    """A page of topics.

    :param topics: The ARNs of the topics. Empty by default.
    :param next_token: What asks for the next page; None (the default) on the last page.
    """

    topics: list[str] = []
    next_token: str | None = None


class Subscription(SnsMembers):
    """A subscription of a topic.

    :param subscription_arn: Its ARN, or ``PendingConfirmation`` or ``Deleted``.
    :param topic_arn: The ARN of the topic.
    :param protocol: ``sqs``, ``http``, ``https``, ``email``, ...
    :param endpoint: Where messages go: the ARN of a queue, a URL, an address. Empty by default.
    :param owner: The account that subscribed. Empty by default.
    """

    subscription_arn: str
    topic_arn: str
    protocol: str
    endpoint: str = ""
    owner: str = ""

    @property
    def is_confirmed(self) -> bool:
        """Whether messages go to the endpoint: it confirmed the subscription, and did not end it."""
        return self.subscription_arn.startswith("arn:")


class SubscriptionPage(SnsMembers):
    """A page of subscriptions.

    :param subscriptions: The subscriptions. Empty by default.
    :param next_token: What asks for the next page; None (the default) on the last page.
    """

    subscriptions: list[Subscription] = []
    next_token: str | None = None


class PublishedMessage(SnsMembers):
    """The server's answer to a message that was published.

    :param message_id: The id of the message.
    :param sequence_number: The number of the message, on a FIFO topic only. None by default.
    """

    message_id: str
    sequence_number: str | None = None


class PublishedEntry(PublishedMessage, kw_only=True):
    """An entry of a batch that was published: the members of :class:`PublishedMessage`, and its id.

    :param id: The id of the entry.
    """

    id: str


class PublishEntry(msgspec.Struct, kw_only=True):
    """A message of a batch to publish.

        latte = PublishEntry(message="latte", subject="new order", message_attributes={"table": 7})
        result = await client.publish_batch("orders", [latte, PublishEntry(message="espresso")])

    :param message: The text of the message.
    :param id: Names the entry in the result; None (the default): its place, "0", "1", ...
    :param subject: The subject, for emails and in envelopes. None by default.
    :param message_structure: ``json`` if the message has a text for each protocol. None by default.
    :param message_attributes: Attributes of the message, which filters look at. None by default.
    :param message_group_id: The message group. None by default.
    :param message_deduplication_id: The deduplication id, on a FIFO topic. None by default.
    """

    message: str
    id: str | None = None
    subject: str | None = None
    message_structure: str | None = None
    message_attributes: dict[str, TopicAttributeValue] | None = None
    message_group_id: str | None = None
    message_deduplication_id: str | None = None


# -- responses of which the client returns a single member ---------------------------------------------------------


class FoundTopic(SnsMembers):
    topic_arn: str


class FoundSubscription(SnsMembers):
    subscription_arn: str


class ListedTopics(SnsMembers):
    topics: list[FoundTopic] = []
    next_token: str | None = None


class ListedTag(SnsMembers):
    key: str = ""
    value: str = ""


class ListedTags(SnsMembers):
    tags: list[ListedTag] = []
