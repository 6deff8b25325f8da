"""Checks that several actions share. The constraints of the model stand in :mod:`.structs`."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from hashlib import blake2b

import msgspec

from penstock.metrics.series import MetricKey
from penstock.services.cloudwatch.faults import cloudwatch_fault, validation_error
from penstock.services.cloudwatch.structs import (
    Dimension,
    PutCompositeAlarmRequest,
    PutDashboardRequest,
    PutMetricAlarmRequest,
    TagResourceRequest,
)
from penstock.wire.constraints import Constraints

CONSTRAINTS = Constraints(validation_error)


def metric_key(namespace: str, name: str, dimensions: Iterable[Dimension] | None) -> MetricKey:
    pairs = [(each.Name or "", each.Value or "") for each in dimensions or ()]
    return MetricKey.of(namespace, name, pairs)


def shown_dimensions(metric: MetricKey) -> list[Dimension]:
    return [Dimension(Name=name, Value=value) for name, value in metric.dimensions]


def given_tags(
    request: PutMetricAlarmRequest | PutCompositeAlarmRequest | PutDashboardRequest | TagResourceRequest,
) -> dict[str, str]:
    """Raises Fault."""
    CONSTRAINTS.check(request, "Tags")
    pairs = request.Tags or []
    tags = {pair.Key or "": pair.Value or "" for pair in pairs}
    if len(tags) != len(pairs):
        raise validation_error("Tag keys must be unique.")
    if any(key.lower().startswith("aws:") for key in tags):
        raise validation_error("Tag keys must not begin with 'aws:'. This prefix is reserved.")
    return tags


# -- pages ---------------------------------------------------------------------------------------------------


class PageToken(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """Where a list continues: what was asked for, and the last item of the page before."""

    asked: str
    after: str


def write_token(asked: object, after: str) -> str:
    token = PageToken(_digest(asked), after)
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).decode()


def read_token(text: str | None, asked: object) -> str | None:
    """The last item of the page before; None if this is the first page. Raises Fault if it is another list's."""
    if text is None:
        return None
    try:
        token = msgspec.json.decode(base64.urlsafe_b64decode(text.encode()), type=PageToken)
    except (ValueError, RecursionError):
        token = None
    if token is None or token.asked != _digest(asked):
        raise cloudwatch_fault(
            "InvalidNextToken", "The next token is invalid: repeat the request without it."
        )
    return token.after


def _digest(asked: object) -> str:
    return blake2b(msgspec.msgpack.encode(asked), digest_size=9).hexdigest()
