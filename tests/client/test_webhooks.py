"""What a topic sends to a URL."""

from __future__ import annotations

from typing import Any

import pytest

from client.fake_server import FakeServer, reply
from client.test_envelopes import changed
from client.test_query import answer
from client.test_signatures import CONFIRMATION, TOPIC, Signer, fetching, signer
from penstock.client import (
    ApiError,
    DecodeError,
    SignatureInvalid,
    SignatureVerifier,
    Unavailable,
    Webhook,
    WebhookKind,
    confirm_subscription,
    parse_webhook,
    verify_webhook,
)
from penstock.client.http.exchange import HttpResponse
from penstock.client.webhooks import BODY_BYTES_MAX

__all__ = ["signer"]

SUBSCRIPTION = f"{TOPIC}:c7fe3a54-ab0e-4ec2-88e0-db410a0f2bee"


def headers(kind: str, **more: str) -> dict[str, str]:
    return {
        "X-Amz-Sns-Message-Type": kind, "x-amz-sns-message-id": "m", "x-amz-sns-topic-arn": TOPIC,
        "x-amz-sns-subscription-arn": SUBSCRIPTION, **more,
    }  # fmt: skip


def test_a_message() -> None:
    webhook = parse_webhook(headers("Notification"), changed().encode())
    assert (webhook.kind, webhook.body, webhook.is_raw) == (WebhookKind.NOTIFICATION, "grüße\n🐌", False)
    assert (webhook.topic_arn, webhook.subscription_arn) == (TOPIC, SUBSCRIPTION)
    assert webhook.notification is not None and webhook.notification.attributes["k"] == "v"


def test_a_raw_message(signer: Signer) -> None:
    given = headers("Notification", **{"x-amz-sns-rawdelivery": "true"})
    webhook = parse_webhook(given, b'{"drink": "latte"}')
    assert (webhook.body, webhook.is_raw, webhook.topic_arn) == ('{"drink": "latte"}', True, TOPIC)
    assert (webhook.message_id, webhook.notification) == ("m", None)
    with pytest.raises(SignatureInvalid, match="raw"):
        verify_webhook(webhook, SignatureVerifier(fetch=fetching(signer)[0]))


def test_a_request_to_confirm() -> None:
    webhook = parse_webhook(headers("SubscriptionConfirmation"), changed(**CONFIRMATION).encode())
    assert webhook.kind == "SubscriptionConfirmation" and webhook.notification is None
    assert webhook.envelope is not None and webhook.envelope.token == "2336"


@pytest.mark.parametrize(
    ("given", "body"),
    [({}, changed()), (headers("Else"), changed()), (headers("Notification"), "text"),
     (headers("Notification"), changed(Type="UnsubscribeConfirmation")),
     (headers("SubscriptionConfirmation", **{"x-amz-sns-rawdelivery": "true"}), changed()),
     (headers("Notification"), " " * (BODY_BYTES_MAX + 1))],
)  # fmt: skip
def test_something_else_is_refused(given: dict[str, str], body: str) -> None:
    with pytest.raises(DecodeError):
        parse_webhook(given, body.encode())


def confirmation(signer: Signer, url: str, certificate_url: str, **members: Any) -> Webhook:
    body = signer.signed("2", certificate_url, **{**CONFIRMATION, "SubscribeURL": url, **members})
    return parse_webhook(headers("SubscriptionConfirmation"), body.encode())


def test_a_subscription_is_confirmed(signer: Signer) -> None:
    confirmed = answer("ConfirmSubscription", f"<SubscriptionArn>{SUBSCRIPTION}</SubscriptionArn>")
    with FakeServer(reply(body=signer.certificate), reply(body=confirmed)) as server:
        target = f"/?Action=ConfirmSubscription&TopicArn={TOPIC}&Token=2336"
        webhook = confirmation(signer, f"{server.url}{target}", f"{server.url}/key.pem")
        assert confirm_subscription(webhook, SignatureVerifier(trusted=[server.url])) == SUBSCRIPTION
    assert server.requests[1].startswith(f"GET {target} HTTP/1.1\r\n".encode())


def confirmed_with(signer: Signer, url: str, **members: Any) -> list[str]:
    """Returns the URLs that were asked for."""
    fetch, asked = fetching(signer)
    webhook = confirmation(signer, url, "https://sns.eu-central-1.amazonaws.com/key.pem", **members)
    with pytest.raises(SignatureInvalid):
        confirm_subscription(webhook, SignatureVerifier(topics=[TOPIC], fetch=fetch))
    return asked


def test_only_a_trusted_server_is_asked_to_confirm(signer: Signer) -> None:
    good = f"https://sns.eu-central-1.amazonaws.com/?Action=ConfirmSubscription&TopicArn={TOPIC}&Token=2336"
    certificate = ["https://sns.eu-central-1.amazonaws.com/key.pem"]
    assert confirmed_with(signer, good.replace("https://sns.", "https://evil.")) == certificate
    assert confirmed_with(signer, good.replace("Confirm", "Un")) == certificate
    assert confirmed_with(signer, "") == certificate
    other = f"{TOPIC}-2"
    assert confirmed_with(signer, good.replace(TOPIC, other), TopicArn=other) == []


def test_a_refusal_of_the_server_is_reported(signer: Signer) -> None:
    refusal = b"<ErrorResponse><Error><Code>InvalidParameter</Code><Message>Invalid token</Message></Error>"
    answers = [
        (HttpResponse(400, [], refusal), ApiError, "Invalid token"),
        (HttpResponse(302, [], b""), ApiError, "302"),
        (HttpResponse(200, [], b"<html/>"), Unavailable, "answer"),
    ]
    url = f"https://sns.eu-central-1.amazonaws.com/?Action=ConfirmSubscription&TopicArn={TOPIC}&Token=2336"
    webhook = confirmation(signer, url, "https://sns.eu-central-1.amazonaws.com/key.pem")
    for given, kind, text in answers:

        def fetch(asked: str, given: HttpResponse = given) -> HttpResponse:
            return HttpResponse(200, [], signer.certificate) if asked.endswith(".pem") else given

        with pytest.raises(kind, match=text):
            confirm_subscription(webhook, SignatureVerifier(fetch=fetch))


def test_a_message_cannot_be_confirmed(signer: Signer) -> None:
    webhook = parse_webhook(headers("Notification"), changed().encode())
    with pytest.raises(ValueError, match="nothing to confirm"):
        confirm_subscription(webhook, SignatureVerifier(fetch=fetching(signer)[0]))
