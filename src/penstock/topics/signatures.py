"""What the signature of a message covers, by which subscribers check that it comes from this server."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.topics.envelopes import NOTIFICATION, Confirmation, timestamp
from penstock.topics.publication import Notice


def text_to_sign(of: Notice | Confirmation) -> str:
    """Returns the signed text: each covered field with its value, in the order of their names.

    The subscription is no part of it: one signature serves all subscribers who get the same text."""
    fields = _of_notice(of) if isinstance(of, Notice) else _of_confirmation(of)
    return "".join(f"{name}\n{value}\n" for name, value in fields)


def _of_notice(notice: Notice) -> Iterator[tuple[str, str]]:
    yield "Message", notice.text
    yield "MessageId", notice.message_id
    if notice.subject is not None:
        yield "Subject", notice.subject
    yield "Timestamp", timestamp(notice.published_ms)
    yield "TopicArn", notice.topic_arn
    yield "Type", NOTIFICATION


def _of_confirmation(of: Confirmation) -> Iterator[tuple[str, str]]:
    yield "Message", of.message
    yield "MessageId", of.message_id
    yield "SubscribeURL", of.subscribe_url
    yield "Timestamp", timestamp(of.sent_ms)
    yield "Token", of.token
    yield "TopicArn", of.topic_arn
    yield "Type", of.kind.value
