"""What a topic sends to a URL: how it is read and checked, and how a subscription is confirmed.

These functions know no web framework: they take the headers and the body of a POST request.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from penstock.client.codec import DecodeError
from penstock.client.envelopes import (
    NOTIFICATION,
    SUBSCRIPTION_CONFIRMATION,
    UNSUBSCRIBE_CONFIRMATION,
    Envelope,
    read_envelope,
)
from penstock.client.errors import Unavailable, api_error
from penstock.client.query import error_of, read_answer
from penstock.client.signatures import SignatureInvalid, SignatureVerifier
from penstock.client.structs import Notification

BODY_BYTES_MAX = 4 * 1024 * 1024  # a message of 1 MiB, however its characters are escaped


class WebhookKind(StrEnum):
    """What a request of a topic is about."""

    NOTIFICATION = NOTIFICATION
    SUBSCRIPTION_CONFIRMATION = SUBSCRIPTION_CONFIRMATION
    UNSUBSCRIBE_CONFIRMATION = UNSUBSCRIBE_CONFIRMATION


class Webhook(msgspec.Struct, frozen=True, kw_only=True):
    """A request that a topic made to a URL.

        webhook = parse_webhook(request.headers, body)
        if webhook.kind == "SubscriptionConfirmation":
            confirm_subscription(webhook, verifier)

    :param kind: Whether it is a message, or asks to confirm that the subscription begins or has ended.
    :param topic_arn: The ARN of the topic.
    :param message_id: The id of the message.
    :param body: The text of the message, or a text for people.
    :param subscription_arn: The ARN of the subscription, unless it begins. Empty by default.
    :param envelope: The members of the body; None (the default) where the message was delivered raw.
    """

    kind: WebhookKind
    topic_arn: str
    message_id: str
    body: str
    subscription_arn: str = ""
    envelope: Envelope | None = None

    @property
    def is_raw(self) -> bool:
        """Whether the body of the request is the message itself. Such a request has no signature."""
        return self.envelope is None

    @property
    def notification(self) -> Notification | None:
        """What was published; None if the message was delivered raw, or if this is no message."""
        if self.envelope is None or self.kind is not WebhookKind.NOTIFICATION:
            return None
        return self.envelope.notification


def parse_webhook(headers: Mapping[str, str], body: bytes) -> Webhook:
    """Read a request of a topic. Its signature is not checked: :func:`verify_webhook` does that.

        webhook = parse_webhook(request.headers, body)
        print(webhook.kind, webhook.body)

    :param headers: The headers of the request, in upper or lower case.
    :param body: The body of the request.
    :returns: What the request is about.
    :raises DecodeError: It is not a request of a topic.
    """
    given = {name.lower(): value for name, value in headers.items()}
    if len(body) > BODY_BYTES_MAX:
        raise DecodeError(_EXPECTED, f"it has more than {BODY_BYTES_MAX} bytes")
    try:
        kind = WebhookKind(given.get("x-amz-sns-message-type", ""))
    except ValueError:
        raise DecodeError(_EXPECTED, "there is no header x-amz-sns-message-type") from None
    subscription_arn = given.get("x-amz-sns-subscription-arn", "")
    if given.get("x-amz-sns-rawdelivery") == "true" and kind is WebhookKind.NOTIFICATION:
        return Webhook(
            kind=kind,
            topic_arn=given.get("x-amz-sns-topic-arn", ""),
            message_id=given.get("x-amz-sns-message-id", ""),
            body=body.decode("utf-8", "replace"),
            subscription_arn=subscription_arn,
        )
    envelope = read_envelope(body)
    if envelope.type != kind:
        raise DecodeError(_EXPECTED, "its Type is not that of the header")
    return Webhook(
        kind=kind,
        topic_arn=envelope.topic_arn,
        message_id=envelope.message_id,
        body=envelope.message,
        subscription_arn=subscription_arn,
        envelope=envelope,
    )


def verify_webhook(webhook: Webhook, verifier: SignatureVerifier) -> None:
    """Check that a request comes from a topic that is trusted. This blocks while a certificate is fetched.

        verify_webhook(webhook, SignatureVerifier(topics=[topic_arn]))

    :param webhook: The request.
    :param verifier: What is trusted.
    :raises SignatureInvalid: It is not signed by a server that is trusted, its topic is another one, or it was
        delivered raw, so that it has no signature.
    :raises Unavailable: The certificate cannot be fetched at the moment.
    """
    if webhook.envelope is None:
        raise SignatureInvalid("it was delivered raw, without a signature")
    verifier.verify(webhook.envelope)


def confirm_subscription(webhook: Webhook, verifier: SignatureVerifier) -> str:
    """Confirm a subscription, or restore one that was ended, after the signature was checked.

        if webhook.kind == "SubscriptionConfirmation":
            subscription_arn = confirm_subscription(webhook, verifier)

    This blocks. In a coroutine: ``await asyncio.to_thread(confirm_subscription, webhook, verifier)``.

    :param webhook: The request that asks for it.
    :param verifier: What is trusted. The URL is only called at servers that are.
    :returns: The ARN of the subscription.
    :raises SignatureInvalid: The request is not trusted, or its URL does something else.
    :raises ApiError: The server refused: the token is too old, say.
    :raises Unavailable: The server did not answer.
    :raises ValueError: The request is a message: there is nothing to confirm.
    """
    if webhook.kind is WebhookKind.NOTIFICATION or webhook.envelope is None:
        raise ValueError("the request is a message: there is nothing to confirm")
    verify_webhook(webhook, verifier)
    url = webhook.envelope.subscribe_url
    if not verifier.urls.has_confirmation(url, webhook.topic_arn):
        raise SignatureInvalid("its SubscribeURL does not confirm a subscription at a trusted server")
    answer = verifier.get(url)
    if answer.status >= 300:
        found = error_of(answer.body)
        code = str(found.get("__type") or f"HTTP {answer.status}")
        raise api_error(
            code, str(found.get("message", "")), answer.status, answer.header(b"x-amzn-requestid")
        )
    arn = read_answer("ConfirmSubscription", answer.body).get("SubscriptionArn")
    if not isinstance(arn, str):
        raise Unavailable("the answer is not that of a topic")
    return arn


_EXPECTED = "a request of a topic"
