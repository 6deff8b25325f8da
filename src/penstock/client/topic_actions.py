"""The actions of SNS as typed coroutines, over a session.

Names and parameters are those of boto3 in snake_case, the topic first. A topic is given by its ARN or its name.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from penstock.client.errors import TopicDoesNotExist
from penstock.client.objects import Json
from penstock.client.query import decode_answer
from penstock.client.session import Session
from penstock.client.structs import BatchResult, FoundAttributes, Nothing
from penstock.client.topic_structs import (
    FoundSubscription,
    FoundTopic,
    ListedTags,
    ListedTopics,
    PublishedEntry,
    PublishedMessage,
    PublishEntry,
    SubscriptionPage,
    TopicMessageAttributes,
    TopicPage,
    to_topic_attribute,
)

TopicSettings = Mapping[str, str | int | bool | Mapping[str, Any]]
"""A flag or a number may be given as such, a policy as a mapping; SNS has texts for all of them."""

_Published = BatchResult[PublishedEntry]

R = TypeVar("R")


class TopicActions:
    """The actions of SNS. A topic is given by its ARN, or by its name if it is one of the caller's account."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._topics_prefix = ""  # of the ARNs of all topics of the caller

    # -- topics ------------------------------------------------------------------------------------------------------

    async def create_topic(
        self, name: str, attributes: TopicSettings | None = None, tags: Mapping[str, str] | None = None
    ) -> str:
        """Create a topic. If there is one of this name with the same attributes, nothing happens.

            topic = await client.create_topic("orders.fifo", {"FifoTopic": True})

        :param name: The name. It ends with ``.fifo`` if the topic is a FIFO topic.
        :param attributes: Attributes of SNS by name. A flag or a number may be given as such, a policy as a mapping.
            None by default.
        :param tags: The tags of the topic. None by default.
        :returns: The ARN of the topic.
        :raises ApiError: The server refused the request: there is such a topic with other attributes, say.
        :raises Unavailable: The server did not answer.
        """
        created = await self._sns(
            FoundTopic, "CreateTopic", Name=name, Attributes=_texts(attributes), Tags=_tags(tags)
        )
        return created.topic_arn

    async def delete_topic(self, topic: str) -> None:
        """Delete a topic with all its subscriptions. That it does not exist is no error.

            await client.delete_topic("orders")

        :param topic: The ARN or the name of the topic.
        :raises ApiError: The server refused the request.
        :raises Unavailable: The server did not answer.
        """
        await self._sns(Nothing, "DeleteTopic", TopicArn=await self._topic_arn(topic))

    async def list_topics(self, *, next_token: str | None = None) -> TopicPage:
        """List the topics of the caller, up to 100 in a page.

            page = await client.list_topics()

        :param next_token: The token of the page before; None (the default): from the start.
        :returns: The ARNs, and the token of the next page.
        :raises ApiError: The server refused the request.
        :raises Unavailable: The server did not answer.
        """
        found = await self._sns(ListedTopics, "ListTopics", NextToken=next_token)
        return TopicPage([each.topic_arn for each in found.topics], found.next_token)

    async def list_topic_pages(self) -> AsyncIterator[TopicPage]:
        """List all topics of the caller, page by page.

            async for page in client.list_topic_pages():
                print(page.topics)

        :returns: An iterator over the pages.
        :raises ApiError: The server refused the request.
        :raises Unavailable: The server did not answer.
        """
        token = None
        while True:
            page = await self.list_topics(next_token=token)
            yield page
            if (token := page.next_token) is None:
                return

    async def get_topic_attributes(self, topic: str) -> dict[str, str]:
        """Read the attributes of a topic.

            attributes = await client.get_topic_attributes("orders")
            print(attributes["SubscriptionsConfirmed"])

        :param topic: The ARN or the name of the topic.
        :returns: The values by name; SNS has texts for all of them.
        :raises TopicDoesNotExist: There is no such topic.
        :raises ApiError: The server refused the request.
        :raises Unavailable: The server did not answer.
        """
        arn = await self._topic_arn(topic)
        return (await self._sns(FoundAttributes, "GetTopicAttributes", TopicArn=arn)).attributes

    async def set_topic_attributes(
        self, topic: str, attribute_name: str, attribute_value: str | int | bool | Mapping[str, Any]
    ) -> None:
        """Change one attribute of a topic.

            await client.set_topic_attributes("orders", "DisplayName", "Orders")

        :param topic: The ARN or the name of the topic.
        :param attribute_name: The name of the attribute.
        :param attribute_value: Its value. A policy may be given as a mapping; an empty text removes some attributes.
        :raises TopicDoesNotExist: There is no such topic.
        :raises ApiError: The server refused the request.
        :raises Unavailable: The server did not answer.
        """
        await self._sns(
            Nothing,
            "SetTopicAttributes",
            TopicArn=await self._topic_arn(topic),
            AttributeName=attribute_name,
            AttributeValue=_text(attribute_value),
        )

    # -- subscriptions -----------------------------------------------------------------------------------------------

    async def subscribe(
        self,
        topic: str,
        protocol: str,
        endpoint: str | None = None,
        *,
        attributes: TopicSettings | None = None,
        return_subscription_arn: bool = True,
    ) -> str:
        """Subscribe an endpoint to a topic. A queue must allow it: see :meth:`subscribe_queue`.

            arn = await client.subscribe("orders", "https", "https://example.com/orders")

        The owner of a URL or of an email address has to confirm it before messages are sent.

        :param topic: The ARN or the name of the topic.
        :param protocol: ``sqs``, ``http``, ``https``, ``email``, ``email-json``, ``lambda``, ...
        :param endpoint: Where messages go: the ARN of a queue or a function, a URL, an address. None by default.
        :param attributes: Attributes of the subscription, such as ``RawMessageDelivery`` and ``FilterPolicy``. A flag
            may be given as such, a policy as a mapping. None by default.
        :param return_subscription_arn: Whether the ARN is returned before the subscription is confirmed; True by
            default. Otherwise it is ``pending confirmation`` until then.
        :returns: The ARN of the subscription.
        :raises TopicDoesNotExist: There is no such topic.
        :raises ApiError: The server refused the request.
        :raises Unavailable: The server did not answer.
        """
        made = await self._sns(
            FoundSubscription,
            "Subscribe",
            TopicArn=await self._topic_arn(topic),
            Protocol=protocol,
            Endpoint=endpoint,
            Attributes=_texts(attributes),
            ReturnSubscriptionArn=return_subscription_arn or None,
        )
        return made.subscription_arn

    async def confirm_subscription(
        self, topic: str, token: str, *, authenticate_on_unsubscribe: bool = False
    ) -> str:
        """Confirm a subscription with the token that was sent to its endpoint.

            subscription = await client.confirm_subscription("orders", token)

        :param topic: The ARN or the name of the topic.
        :param token: The token in the confirmation request.
        :param authenticate_on_unsubscribe: Whether only an authorized caller can end the subscription; False by
            default.
        :returns: The ARN of the subscription.
        :raises ApiError: The server refused the request: the token is not valid, say.
        :raises Unavailable: The server did not answer.
        """
        confirmed = await self._sns(
            FoundSubscription,
            "ConfirmSubscription",
            TopicArn=await self._topic_arn(topic),
            Token=token,
            AuthenticateOnUnsubscribe=authenticate_on_unsubscribe or None,
        )
        return confirmed.subscription_arn

    async def unsubscribe(self, subscription_arn: str) -> None:
        """End a subscription. That it does not exist is no error.

            await client.unsubscribe(subscription)

        :param subscription_arn: The ARN of the subscription.
        :raises ApiError: The server refused the request.
        :raises Unavailable: The server did not answer.
        """
        await self._sns(Nothing, "Unsubscribe", SubscriptionArn=subscription_arn)

    async def get_subscription_attributes(self, subscription_arn: str) -> dict[str, str]:
        """Read the attributes of a subscription.

            attributes = await client.get_subscription_attributes(subscription)
            print(attributes["PendingConfirmation"])

        :param subscription_arn: The ARN of the subscription.
        :returns: The values by name; SNS has texts for all of them.
        :raises TopicDoesNotExist: There is no such subscription.
        :raises ApiError: The server refused the request.
        :raises Unavailable: The server did not answer.
        """
        found = await self._sns(
            FoundAttributes, "GetSubscriptionAttributes", SubscriptionArn=subscription_arn
        )
        return found.attributes

    async def set_subscription_attributes(
        self,
        subscription_arn: str,
        attribute_name: str,
        attribute_value: str | int | bool | Mapping[str, Any] | None = None,
    ) -> None:
        """Change one attribute of a subscription.

            await client.set_subscription_attributes(subscription, "FilterPolicy", {"drink": ["latte"]})

        :param subscription_arn: The ARN of the subscription.
        :param attribute_name: The name of the attribute.
        :param attribute_value: Its value. A flag may be given as such, a policy as a mapping. None (the default)
            removes a redrive policy; an empty mapping removes a filter policy.
        :raises TopicDoesNotExist: There is no such subscription.
        :raises ApiError: The server refused the request.
        :raises Unavailable: The server did not answer.
        """
        await self._sns(
            Nothing,
            "SetSubscriptionAttributes",
            SubscriptionArn=subscription_arn,
            AttributeName=attribute_name,
            AttributeValue=None if attribute_value is None else _text(attribute_value),
        )

    async def list_subscriptions(self, *, next_token: str | None = None) -> SubscriptionPage:
        """List the subscriptions of the caller, up to 100 in a page.

            page = await client.list_subscriptions()

        :param next_token: The token of the page before; None (the default): from the start.
        :returns: The subscriptions, and the token of the next page.
        :raises ApiError: The server refused the request.
        :raises Unavailable: The server did not answer.
        """
        return await self._sns(SubscriptionPage, "ListSubscriptions", NextToken=next_token)

    async def list_subscriptions_by_topic(
        self, topic: str, *, next_token: str | None = None
    ) -> SubscriptionPage:
        """List the subscriptions of a topic, up to 100 in a page.

            page = await client.list_subscriptions_by_topic("orders")
            for subscription in page.subscriptions:
                print(subscription.protocol, subscription.endpoint)

        :param topic: The ARN or the name of the topic.
        :param next_token: The token of the page before; None (the default): from the start.
        :returns: The subscriptions, and the token of the next page.
        :raises TopicDoesNotExist: There is no such topic.
        :raises ApiError: The server refused the request.
        :raises Unavailable: The server did not answer.
        """
        arn = await self._topic_arn(topic)
        return await self._sns(
            SubscriptionPage, "ListSubscriptionsByTopic", TopicArn=arn, NextToken=next_token
        )

    # -- messages ----------------------------------------------------------------------------------------------------

    async def publish(
        self,
        topic: str,
        message: str,
        *,
        subject: str | None = None,
        message_structure: str | None = None,
        message_attributes: TopicMessageAttributes | None = None,
        message_group_id: str | None = None,
        message_deduplication_id: str | None = None,
    ) -> PublishedMessage:
        """Publish one message to a topic.

            await client.publish("orders", "two lattes", message_attributes={"table": 7})

        :param topic: The ARN or the name of the topic.
        :param message: The text of the message.
        :param subject: The subject, for emails and in envelopes. None by default.
        :param message_structure: ``json`` if the message is an object with a text for each protocol, one of them
            ``default``. None by default.
        :param message_attributes: Attributes of the message by name, with a text, a number, bytes, a list or a
            :class:`MessageAttribute` as the value. None by default.
        :param message_group_id: The message group: required on a FIFO topic, the tenant on a standard one. None by
            default.
        :param message_deduplication_id: On a FIFO topic, two messages with the same id are one. None by default.
        :returns: The id of the message, and its sequence number on a FIFO topic.
        :raises TopicDoesNotExist: There is no such topic.
        :raises TypeError: The message is not a text, or an attribute has a value of another type.
        :raises ApiError: The server refused the request.
        :raises Unavailable: The server did not answer.
        """
        entry = PublishEntry(
            message=message,
            subject=subject,
            message_structure=message_structure,
            message_attributes=None if message_attributes is None else dict(message_attributes),
            message_group_id=message_group_id,
            message_deduplication_id=message_deduplication_id,
        )
        return await self._sns(
            PublishedMessage,
            "Publish",
            message_deduplication_id is not None,  # then a second one is a duplicate
            TopicArn=await self._topic_arn(topic),
            **_members(entry),
        )

    async def publish_batch(
        self, topic: str, entries: Iterable[PublishEntry | str]
    ) -> BatchResult[PublishedEntry]:
        """Publish up to ten messages in one request. Some may fail: look at ``failed`` of the result.

            result = await client.publish_batch("orders", ["one", PublishEntry(message="two", subject="orders")])

        :param topic: The ARN or the name of the topic.
        :param entries: The messages. A text stands for a message without anything else.
        :returns: The messages that were published, and those that were refused.
        :raises TopicDoesNotExist: There is no such topic.
        :raises TypeError: A message is not a text, or an attribute has a value of another type.
        :raises ApiError: The server refused the request.
        :raises Unavailable: The server did not answer.
        """
        given = [PublishEntry(message=entry) if isinstance(entry, str) else entry for entry in entries]
        members = [
            {"Id": str(place) if entry.id is None else entry.id, **_members(entry)}
            for place, entry in enumerate(given)
        ]
        return await self._sns(
            _Published,
            "PublishBatch",
            all(entry.message_deduplication_id is not None for entry in given),
            TopicArn=await self._topic_arn(topic),
            PublishBatchRequestEntries=members,
        )

    # -- tags --------------------------------------------------------------------------------------------------------

    async def tag_topic(self, topic: str, tags: Mapping[str, str]) -> None:
        """Add tags to a topic, or change their values.

            await client.tag_topic("orders", {"team": "payments"})

        :param topic: The ARN or the name of the topic.
        :param tags: The values by key.
        :raises TopicDoesNotExist: There is no such topic.
        :raises ApiError: The server refused the request.
        :raises Unavailable: The server did not answer.
        """
        arn = await self._topic_arn(topic)
        await self._sns(Nothing, "TagResource", ResourceArn=arn, Tags=_tags(tags))

    async def untag_topic(self, topic: str, tag_keys: Sequence[str]) -> None:
        """Remove tags from a topic.

            await client.untag_topic("orders", ["team"])

        :param topic: The ARN or the name of the topic.
        :param tag_keys: The keys of the tags.
        :raises TopicDoesNotExist: There is no such topic.
        :raises ApiError: The server refused the request.
        :raises Unavailable: The server did not answer.
        """
        arn = await self._topic_arn(topic)
        await self._sns(Nothing, "UntagResource", ResourceArn=arn, TagKeys=list(tag_keys))

    async def list_topic_tags(self, topic: str) -> dict[str, str]:
        """Read all tags of a topic.

            tags = await client.list_topic_tags("orders")

        :param topic: The ARN or the name of the topic.
        :returns: The values by key.
        :raises TopicDoesNotExist: There is no such topic.
        :raises ApiError: The server refused the request.
        :raises Unavailable: The server did not answer.
        """
        arn = await self._topic_arn(topic)
        found = await self._sns(ListedTags, "ListTagsForResource", ResourceArn=arn)
        return {each.key: each.value for each in found.tags}

    # -- how they are done -------------------------------------------------------------------------------------------

    async def _sns(
        self, result: type[R], action: str, is_idempotent: bool | None = None, **members: Any
    ) -> R:
        """Members that are None are left out."""
        answer = await self._session.sns(action, members, is_idempotent=is_idempotent)
        return decode_answer(result, action, answer)

    async def _topic_arn(self, topic: str) -> str:
        """The ARN of a topic. SNS has no action that finds one by its name, but all topics of a caller have the same
        account and region, so that any of them shows how their ARNs begin."""
        if ":" in topic:
            return topic
        if not self._topics_prefix:
            page = await self.list_topics()
            if not page.topics:
                raise TopicDoesNotExist("NotFound", f'there is no topic "{topic}"', 404)
            self._topics_prefix = page.topics[0].rpartition(":")[0]
        return f"{self._topics_prefix}:{topic}"


def _members(entry: PublishEntry) -> Json:
    """Everything but the id of the entry."""
    if not isinstance(entry.message, str):
        raise TypeError(f"invalid message: expected str, not {type(entry.message).__name__}")
    attributes = {
        name: msgspec.to_builtins(to_topic_attribute(name, value), builtin_types=(bytes,))
        for name, value in (entry.message_attributes or {}).items()
    }
    return {
        "Message": entry.message,
        "Subject": entry.subject,
        "MessageStructure": entry.message_structure,
        "MessageAttributes": attributes or None,
        "MessageGroupId": entry.message_group_id,
        "MessageDeduplicationId": entry.message_deduplication_id,
    }


def _texts(settings: TopicSettings | None) -> dict[str, str] | None:
    return None if settings is None else {name: _text(value) for name, value in settings.items()}


def _text(value: str | int | bool | Mapping[str, Any]) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _tags(tags: Mapping[str, str] | None) -> list[Json] | None:
    return None if tags is None else [{"Key": key, "Value": value} for key, value in tags.items()]
