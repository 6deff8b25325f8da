"""What SNS does and this server refuses or does in another way: the rows of docs/compatibility.md, which a test
sends."""

from __future__ import annotations

from typing import Any, NamedTuple


class Refused(NamedTuple):
    what: str
    action: str
    members: dict[str, Any]
    code: str  # as SDKs show it
    text: str  # of the answer


TOPIC = "arn:aws:sns:eu-west-1:000000000000:news"


def _subscribe(protocol: str, endpoint: str, missing: str) -> Refused:
    members = {"TopicArn": TOPIC, "Protocol": protocol, "Endpoint": endpoint}
    text = (
        f"Invalid parameter: Protocol Reason: this server has no {missing} that {protocol} endpoints could be"
    )
    return Refused(
        f"Subscribe with the protocol `{protocol}`", "Subscribe", members, "InvalidParameter", text
    )


REFUSED = [
    _subscribe("lambda", "arn:aws:lambda:eu-west-1:000000000000:function:print", "functions"),
    _subscribe("firehose", "arn:aws:firehose:eu-west-1:000000000000:deliverystream/news", "delivery streams"),
    Refused(
        "PutDataProtectionPolicy, as AWS answers new accounts",
        "PutDataProtectionPolicy",
        {"ResourceArn": TOPIC, "DataProtectionPolicy": "{}"},
        "InvalidAction",
        "Operation (PutDataProtectionPolicy) is not supported in this region",
    ),
]

ACCEPTED = [
    (
        "Publish to a phone number or a platform endpoint, or to a topic with such subscribers",
        "accepted: the message is in the [outbox](topics.md#text-messages-and-push-notifications)",
    ),
    (
        "CreatePlatformApplication with any credentials",
        "accepted: they are not checked with the vendor",
    ),
    (
        "VerifySMSSandboxPhoneNumber",
        "the code is in the [outbox](topics.md#text-messages-and-push-notifications)",
    ),
    (
        "SetTopicAttributes with `TracingConfig`",
        "accepted and shown: there is no X-Ray",
    ),
]
