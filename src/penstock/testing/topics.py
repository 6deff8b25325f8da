"""Topics that a test makes: created, subscribed and published to in one line each."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from penstock.testing.http_subscriber import HttpSubscriber
from penstock.testing.publications import PublicationSnapshot

if TYPE_CHECKING:
    from penstock.client import SyncClient
    from penstock.client.topic_structs import TopicMessageAttributes
    from penstock.testing.broker import InProcessBroker

_CONFIRMED_WITHIN_S = 10.0
_LOOK_AGAIN_S = 0.005


class FixtureTopic:
    """A topic of a broker, as ``broker.topic(name)`` returns it.

    For example:

        topic = broker.topic("orders")
        topic.subscribe("kitchen", filter_policy={"drink": ["latte"]})
        topic.publish("one latte", attributes={"drink": "latte"})
    """

    def __init__(self, broker: InProcessBroker, arn: str) -> None:
        """The broker makes it: use ``broker.topic(name)``.

        :param broker: The broker.
        :param arn: The ARN of the topic.
        """
        self._broker = broker
        self.arn = arn
        """The ARN of the topic."""

    @property
    def name(self) -> str:
        """The name of the topic."""
        return self.arn.rpartition(":")[2]

    def subscribe(
        self,
        endpoint: str | HttpSubscriber,
        *,
        filter_policy: Mapping[str, Any] | None = None,
        filter_policy_scope: str | None = None,
        raw_message_delivery: bool = False,
        attributes: Mapping[str, Any] | None = None,
    ) -> str:
        """Subscribe a queue, which is created if it is missing, or a subscriber, whose confirmation is waited for.

            topic.subscribe("kitchen", filter_policy={"drink": ["latte"]}, raw_message_delivery=True)

        :param endpoint: The name or the URL of a queue, or an :class:`HttpSubscriber`.
        :param filter_policy: Which messages it gets; None (the default): all.
        :param filter_policy_scope: ``MessageAttributes`` (the default of SNS) or ``MessageBody``: what the filter
            looks at. None by default.
        :param raw_message_delivery: Whether it gets the message without an envelope; False by default.
        :param attributes: More attributes of the subscription, such as ``RedrivePolicy`` and ``DeliveryPolicy``. None
            by default.
        :returns: The ARN of the subscription.
        :raises ApiError: The broker refused it.
        :raises AssertionError: The subscriber did not confirm in time.
        """
        __tracebackhide__ = True
        given: dict[str, Any] = dict(attributes or {})
        if filter_policy_scope is not None:
            given["FilterPolicyScope"] = filter_policy_scope
        if filter_policy is not None:
            given["FilterPolicy"] = filter_policy
        if raw_message_delivery:
            given["RawMessageDelivery"] = True
        with self._broker.client() as client:
            if not isinstance(endpoint, HttpSubscriber):
                return client.subscribe(self.arn, "sqs", _queue_arn(client, endpoint), attributes=given)
            subscription = client.subscribe(self.arn, "http", endpoint.url, attributes=given)
            if endpoint.confirms:
                _wait_until_confirmed(client, subscription, endpoint)
            return subscription

    def publish(
        self,
        body: Any,
        *,
        subject: str | None = None,
        attributes: TopicMessageAttributes | None = None,
        group: str | None = None,
        dedup_id: str | None = None,
    ) -> PublicationSnapshot:
        """Publish a message.

            message = topic.publish({"drink": "latte"}, attributes={"size": "large"})
            print(message.chosen, message.filtered_out)

        :param body: The text, or a value that becomes JSON.
        :param subject: The subject. None by default.
        :param attributes: Attributes by name: texts, numbers, bytes and lists. None by default.
        :param group: The message group, on a FIFO topic. None by default.
        :param dedup_id: The deduplication id, on a FIFO topic. None by default.
        :returns: What was published, and what the filters decided. A duplicate is the first message.
        :raises ApiError: The broker refused it.
        """
        from penstock.client import JsonCodec

        with self._broker.client() as client:
            published = client.publish(
                self.arn,
                JsonCodec().encode(body).body,
                subject=subject,
                message_attributes=attributes,
                message_group_id=group,
                message_deduplication_id=dedup_id,
            )
        known = {each.id: each for each in self._broker.publications(self.arn)}
        return known[published.message_id]


def _queue_arn(client: SyncClient, queue: str) -> str:
    """The ARN of a queue, which is created if it is missing."""
    from penstock.client import QueueDoesNotExist

    if queue.startswith("arn:"):
        return queue
    try:
        return client.get_queue_attributes(queue, ["QueueArn"])["QueueArn"]
    except QueueDoesNotExist:
        url = client.create_queue(queue, {"FifoQueue": True} if queue.endswith(".fifo") else None)
        return client.get_queue_attributes(url, ["QueueArn"])["QueueArn"]


def _wait_until_confirmed(client: SyncClient, subscription: str, subscriber: HttpSubscriber) -> None:
    __tracebackhide__ = True
    end = time.monotonic() + _CONFIRMED_WITHIN_S
    while client.get_subscription_attributes(subscription)["PendingConfirmation"] != "false":
        if time.monotonic() > end:
            raise AssertionError(
                f"{subscriber.url} did not confirm in {_CONFIRMED_WITHIN_S:g} s: is it started?"
            )
        time.sleep(_LOOK_AGAIN_S)
