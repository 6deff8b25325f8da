"""Topics and their subscribers are given by name or ARN: what is in these."""

from __future__ import annotations

from typing import NamedTuple

# How the ARN of a subscriber begins, after "arn:PARTITION:", by protocol.
_SERVICES = {"sqs": "sqs", "lambda": "lambda", "firehose": "firehose", "sns": "application"}
_SCHEMES = {"http": "http", "https": "https"}
_PREFIXES = {"mailto": "email", "sms": "sms"}


class Subscriber(NamedTuple):
    """SNS takes both parts as they are, except for the name of a queue: it wants the ARN."""

    protocol: str
    endpoint: str


def topic_name(topic: str) -> str:
    """The name in an ARN of a topic or a subscription, or the name itself."""
    parts = topic.split(":")
    return parts[5] if parts[0] == "arn" and len(parts) > 5 else topic


def is_arn(text: str) -> bool:
    return text.startswith("arn:") and text.count(":") >= 5


def read_subscriber(text: str) -> Subscriber | None:
    """Reads ``queue:NAME``, a URL, ``mailto:ADDRESS``, ``sms:NUMBER`` or an ARN. Returns None for anything else."""
    if is_arn(text):
        protocol = _SERVICES.get(text.split(":")[2])
        return None if protocol is None else Subscriber(protocol, text)
    kind, colon, rest = text.partition(":")
    kind = kind.lower()
    if not colon or not rest:
        return None
    if kind == "queue":
        return Subscriber("sqs", rest)
    if kind in _SCHEMES:
        return Subscriber(_SCHEMES[kind], text) if rest.startswith("//") else None
    return Subscriber(_PREFIXES[kind], rest) if kind in _PREFIXES else None
