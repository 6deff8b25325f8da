"""MD5 digests of bodies and attributes, against digests recorded from Amazon SQS."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from penstock.queues.messages import Attribute
from penstock.services.sqs.sending import md5_of_attributes

TRACE = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"


@pytest.mark.parametrize(
    ("attributes", "digest"),
    [
        (
            {
                "color": Attribute("String", "blue"),
                "count": Attribute("Number", "3"),
                "blob": Attribute("Binary", b"\x01\x02\x03"),
            },
            "d838729972a4b70e2d2acd9d59ac847c",
        ),
        ({"timestamp": Attribute("Number", "1493147359900")}, "235c5c510d26fb653d073faed50ae77c"),
        ({"AWSTraceHeader": Attribute("String", TRACE)}, "5ae4d5d7636402d80f4eb6d213245a88"),
    ],
)
def test_recorded_digests_of_attributes(attributes: dict[str, Attribute], digest: str) -> None:
    assert md5_of_attributes(attributes) == digest
    assert md5_of_attributes(dict(reversed(attributes.items()))) == digest


def test_names_are_sorted_by_code_unit() -> None:
    # U+10000 is D800 DC00 in code units: before U+FFFD, though its code point comes after.
    high, low = "\ufffd", "\U00010000"
    both = md5_of_attributes({high: Attribute("String", "a"), low: Attribute("String", "b")})
    parts = b""
    for name, value in ((low, b"b"), (high, b"a")):
        for part in (name.encode(), b"String"):
            parts += len(part).to_bytes(4, "big") + part
        parts += b"\x01" + len(value).to_bytes(4, "big") + value
    assert both == hashlib.md5(parts).hexdigest()


def test_the_digest_of_a_body_is_of_its_utf8_bytes(sqs: Any) -> None:
    sqs.make("q")
    body = "héllo\r\n\U0001f600"
    sent = sqs("SendMessage", QueueUrl="q", MessageBody=body)
    assert sent.body["MD5OfMessageBody"] == hashlib.md5(body.encode()).hexdigest()
