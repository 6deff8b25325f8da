"""Checks that several actions share. What violates the model is collected and refused in one error, as AWS does."""

from __future__ import annotations

import base64
import re
from collections.abc import Collection, Iterable, Sequence
from hashlib import blake2b

import msgspec

from penstock.metrics.series import MetricKey
from penstock.services.cloudwatch.faults import cloudwatch_fault, validation_error
from penstock.services.cloudwatch.limits import (
    DIMENSION_VALUE_LENGTH_MAX,
    DIMENSIONS_MAX,
    NAME_LENGTH_MAX,
    TAG_KEY_LENGTH_MAX,
    TAG_VALUE_LENGTH_MAX,
    TAGS_MAX,
    UNITS,
)
from penstock.services.cloudwatch.structs import Dimension, TagPair

_SHOWN_MAX = 100
_ILLEGAL = re.compile(r"[\x00-\x1F\x7F\uFFFE\uFFFF]")  # ASCII control characters, and what XML cannot carry
_VIOLATIONS_MAX = 10


class ModelChecks:
    """Constraints of the model. Paths are those of the members, in lower case at their beginning."""

    def __init__(self) -> None:
        self._violations: list[str] = []

    def required(self, path: str, value: object) -> None:
        if value is None:
            self._add(path, "null", "Member must not be null")

    def length(self, path: str, value: str | Sequence[object] | None, low: int, high: int) -> None:
        if value is None:
            return
        shown = f"'{value[:_SHOWN_MAX] if isinstance(value, str) else '[...]'}'"
        if len(value) < low:
            self._add(path, shown, f"Member must have length greater than or equal to {low}")
        elif len(value) > high:
            self._add(path, shown, f"Member must have length less than or equal to {high}")

    def range(self, path: str, value: int | None, low: int, high: int | None = None) -> None:
        if value is None:
            return
        if value < low:
            self._add(path, f"'{value}'", f"Member must have value greater than or equal to {low}")
        elif high is not None and value > high:
            self._add(path, f"'{value}'", f"Member must have value less than or equal to {high}")

    def choice(self, path: str, value: str | None, choices: Collection[str]) -> None:
        if value is not None and value not in choices:
            listed = ", ".join(choices)
            self._add(path, f"'{value[:_SHOWN_MAX]}'", f"Member must satisfy enum value set: [{listed}]")

    def characters(self, path: str, value: str | None) -> None:
        if value is not None and _ILLEGAL.search(value):
            pattern = _ILLEGAL.pattern.replace("[", "[^", 1)
            self._add(
                path, f"'{value[:_SHOWN_MAX]}'", f"Member must satisfy regular expression pattern: {pattern}*"
            )

    def _add(self, path: str, value: str, constraint: str) -> None:
        if len(self._violations) < _VIOLATIONS_MAX:
            self._violations.append(f"Value {value} at '{path}' failed to satisfy constraint: {constraint}")

    def done(self) -> None:
        """Raises Fault if something is violated."""
        if self._violations:
            count = len(self._violations)
            noun = "error" if count == 1 else "errors"
            raise validation_error(f"{count} validation {noun} detected: {'; '.join(self._violations)}")

    # -- members that several requests have ------------------------------------------------------------------

    def name(self, path: str, value: str | None, high: int = NAME_LENGTH_MAX) -> None:
        """CloudWatch: no control characters, which a name of a stored record could not have in every store either."""
        self.length(path, value, 1, high)
        self.characters(path, value)

    def names(self, path: str, values: Sequence[str] | None, high: int) -> None:
        """A list of names of alarms."""
        self.length(path, values, 0, high)
        for number, value in enumerate((values or ())[:high], 1):
            self.name(f"{path}.{number}.member", value)

    def unit(self, path: str, value: str | None) -> None:
        self.choice(path, value, UNITS)

    def dimensions(self, path: str, values: Sequence[Dimension] | None, *, with_values: bool = True) -> None:
        self.length(path, values, 0, DIMENSIONS_MAX)
        for number, each in enumerate((values or ())[:DIMENSIONS_MAX], 1):
            at = f"{path}.{number}.member"
            self.required(f"{at}.name", each.Name)
            self.name(f"{at}.name", each.Name)
            if with_values:
                self.required(f"{at}.value", each.Value)
            self.length(f"{at}.value", each.Value, 1, DIMENSION_VALUE_LENGTH_MAX)


def metric_key(namespace: str, name: str, dimensions: Iterable[Dimension] | None) -> MetricKey:
    pairs = [(each.Name or "", each.Value or "") for each in dimensions or ()]
    return MetricKey.of(namespace, name, pairs)


def shown_dimensions(metric: MetricKey) -> list[Dimension]:
    return [Dimension(Name=name, Value=value) for name, value in metric.dimensions]


def given_tags(pairs: Sequence[TagPair] | None) -> dict[str, str]:
    """Raises Fault."""
    checks = ModelChecks()
    checks.length("tags", pairs, 0, TAGS_MAX)
    for number, pair in enumerate((pairs or ())[:TAGS_MAX], 1):
        at = f"tags.{number}.member"
        checks.required(f"{at}.key", pair.Key)
        checks.name(f"{at}.key", pair.Key, TAG_KEY_LENGTH_MAX)
        checks.required(f"{at}.value", pair.Value)
        checks.length(f"{at}.value", pair.Value, 0, TAG_VALUE_LENGTH_MAX)
        checks.characters(f"{at}.value", pair.Value)
    checks.done()
    tags = {pair.Key or "": pair.Value or "" for pair in pairs or ()}
    if len(tags) != len(pairs or ()):
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
