"""Checks that several actions share: ARNs, texts, pages. The constraints of the model stand in :mod:`.structs`."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable

import msgspec

from penstock.services.sns.faults import invalid, no_value, validation_error
from penstock.services.sns.limits import ARN_LENGTH_MAX, ARN_PARTS_MIN, TAGS_MAX
from penstock.services.sns.structs import Tag
from penstock.topics.names import SubscriptionName, TopicName
from penstock.wire.constraints import Constraints
from penstock.wire.service import Call

CONSTRAINTS = Constraints(validation_error)

_CONTROL = re.compile("[\x00-\x1f\x7f]")
_UUID = re.compile("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def is_signed(call: Call) -> bool:
    """Whether the caller says who he is. On a secured server that was verified."""
    return call.signed_for is not None if call.principal is None else call.principal.kind != "anonymous"


def has_control_characters(text: str) -> bool:
    return _CONTROL.search(text) is not None


def utf8_length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


# -- ARNs ------------------------------------------------------------------------------------------------------


def checked_arn(text: str | None, parameter: str) -> str:
    """Raises Fault if the text is not in the form of an ARN."""
    if text is None:
        raise no_value(parameter)
    parts = text.count(":") + 1
    if parts < ARN_PARTS_MIN:
        raise invalid(f"{parameter} Reason: An ARN must have at least {ARN_PARTS_MIN} elements, not {parts}")
    if len(text) > ARN_LENGTH_MAX:
        raise invalid(parameter)
    return text


def topic_name(text: str | None, call: Call, parameter: str = "TopicArn") -> TopicName:
    """Raises Fault."""
    arn = checked_arn(text, parameter)
    name = TopicName.of_arn(arn)
    if name is None or name.arn != arn:
        raise invalid(parameter)
    check_region(name.region, call, parameter)
    return name


def subscription_name(text: str | None, call: Call) -> SubscriptionName:
    """Raises Fault."""
    arn = checked_arn(text, "SubscriptionArn")
    name = SubscriptionName.of_arn(arn)
    if name is None or name.arn != arn or not _UUID.fullmatch(name.id):
        # SNS: the ARN of a topic lacks the id of a subscription.
        raise invalid("SubscriptionId")
    check_region(name.topic.region, call, "SubscriptionArn")
    return name


def check_region(region: str, call: Call, parameter: str) -> None:
    """SNS: an endpoint serves one region. Here it is the one that a request was signed for."""
    if call.signed_for is not None and region != call.space.region:
        raise invalid(parameter)


# -- tags ------------------------------------------------------------------------------------------------------


def tag_map(tags: Iterable[Tag] | None) -> dict[str, str]:
    """The tags of a request, whose constraints were checked. Raises Fault."""
    pairs = list(tags or ())
    found = {pair.Key or "": pair.Value or "" for pair in pairs}
    if len(found) != len(pairs):
        raise invalid("Duplicated keys are not allowed.")
    for key, value in found.items():
        if has_control_characters(key) or has_control_characters(value):
            raise invalid("Tags Reason: a tag must not have control characters")
        if key.lower().startswith("aws:"):
            raise invalid("Tags Reason: aws: prefixed tag key names are not allowed for external use.")
    return found


def has_too_many(tags: dict[str, str]) -> bool:
    return len(tags) > TAGS_MAX


# -- pages -----------------------------------------------------------------------------------------------------


class _PageToken(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """The last item of the page before. The list that it is of is checked, so that a token serves no other one."""

    listed: str
    after: str


def write_token(listed: str, after: str) -> str:
    return base64.b64encode(msgspec.json.encode(_PageToken(listed, after))).decode()


def read_token(text: str | None, listed: str) -> str:
    """The last item of the page before; empty if this is the first page. Raises Fault."""
    if not text:
        return ""
    try:
        token = msgspec.json.decode(base64.b64decode(text.encode(), validate=True), type=_PageToken)
    except (ValueError, RecursionError):
        token = None
    if token is None or token.listed != listed:
        raise invalid("NextToken")
    return token.after
