"""Delivery policies: how a message is tried again for HTTP endpoints, how many come in a second, of what type.

A topic has a policy under the key ``http``, with the defaults of its subscriptions. A subscription has one of its
own, part by part, unless the topic does not allow that. Policies are stored in the form in which clients read them
back.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from penstock.errors import PenstockError
from penstock.limits import HOUR, SECOND
from penstock.topics.retries import FUNCTIONS, Retries

_PAUSE_S_MAX = 3600
_RETRIES_MAX = 100
_RATE_MAX = 1_000_000_000

# In the order in which they are shown. The first three have to be given.
_REQUIRED = ("minDelayTarget", "maxDelayTarget", "numRetries")
_COUNTS = ("numMaxDelayRetries", "numNoDelayRetries", "numMinDelayRetries")
_FUNCTION, _DISABLE, _RATE, _TYPE = (
    "backoffFunction",
    "disableSubscriptionOverrides",
    "maxReceivesPerSecond",
    "headerContentType",
)
_DEFAULT_RETRIES: dict[str, Any] = {
    "minDelayTarget": 20, "maxDelayTarget": 20, "numRetries": 3, "numMaxDelayRetries": 0, "numNoDelayRetries": 0,
    "numMinDelayRetries": 0, "backoffFunction": "linear",
}  # fmt: skip
DEFAULT_CONTENT_TYPE = "text/plain; charset=UTF-8"
_DEFAULT_REQUEST = {_TYPE: DEFAULT_CONTENT_TYPE}

_TYPES = frozenset(("application/json", "text/plain"))
_RAW_TYPES = _TYPES | {
    "text/css", "text/csv", "text/html", "text/xml", "application/atom+xml", "application/octet-stream",
    "application/soap+xml", "application/x-www-form-urlencoded", "application/xhtml+xml", "application/xml",
}  # fmt: skip
_CONTENT_TYPE = re.compile(r"([a-z]+/[a-z+-]+)(?:; ?charset=[A-Za-z0-9_-]{1,40})?")


class DeliveryPolicyInvalid(PenstockError):
    """``reason``: what SNS says after "DeliveryPolicy: "."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class DeliveryPolicy(NamedTuple):
    """What applies to one subscription."""

    retries: Retries
    receives_per_second: int | None  # None: no limit
    content_type: str  # of notifications


# -- what clients set ----------------------------------------------------------------------------------------------


def parse_topic_policy(text: str) -> str:
    """Returns the DeliveryPolicy of a topic as it is stored and read back: compact, with only the keys that were
    given, and ``disableSubscriptionOverrides``. An empty text, which removes the policy, is not passed here.

    Raises DeliveryPolicyInvalid."""
    document = _object(_read(text), "")
    _check_names(document, "", ("http",))
    http = _object(document.get("http", {}), "http")
    names = ("defaultHealthyRetryPolicy", _DISABLE, "defaultThrottlePolicy", "defaultRequestPolicy")
    _check_names(http, "http.", (*names, "defaultSicklyRetryPolicy"))
    _check_absent(http, "http.", "defaultSicklyRetryPolicy")
    retries, disables, throttle, request = (http.get(name) for name in names)
    shown: dict[str, Any] = {}
    if retries is not None:
        shown[names[0]] = _checked_retries(retries, f"http.{names[0]}")
    if disables is not None and not isinstance(disables, bool):
        raise DeliveryPolicyInvalid(f"http.{_DISABLE} must be either true or false")
    shown[_DISABLE] = bool(disables)
    shown[names[2]] = _checked_throttle(throttle, f"http.{names[2]}")
    shown[names[3]] = _checked_request(request, f"http.{names[3]}", is_raw=True)
    return _text({"http": {name: part for name, part in shown.items() if part is not None}})


def parse_subscription_policy(text: str, *, is_raw: bool) -> str:
    """Returns the DeliveryPolicy of a subscription as it is stored and read back: with all parts, and all fields of
    its retry policy. ``is_raw``: whether the subscription has raw delivery, which allows more content types. An empty
    text, which removes the policy, is not passed here.

    Raises DeliveryPolicyInvalid."""
    document = _object(_read(text), "")
    names = ("healthyRetryPolicy", "sicklyRetryPolicy", "throttlePolicy", "requestPolicy", "guaranteed")
    _check_names(document, "", names)
    _check_absent(document, "", "sicklyRetryPolicy")
    if document.get("guaranteed"):
        raise DeliveryPolicyInvalid("guaranteed must be false")
    retries, _, throttle, request, _ = (document.get(name) for name in names)
    return _text(
        _of_subscription(
            None if retries is None else {**_DEFAULT_RETRIES, **_checked_retries(retries, names[0])},
            _checked_throttle(throttle, names[2]),
            _checked_request(request, names[3], is_raw=is_raw),
        )
    )


# -- what applies ----------------------------------------------------------------------------------------------------


def effective_topic_policy(topic_policy: str | None) -> str:
    """Returns the EffectiveDeliveryPolicy of a topic. ``topic_policy``: as it is stored, None or empty: none."""
    retries, throttle, request, disables = _parts_of_topic(topic_policy or "")
    http: dict[str, Any] = {"defaultHealthyRetryPolicy": retries, _DISABLE: disables}
    if throttle is not None:
        http["defaultThrottlePolicy"] = throttle
    return _text({"http": {**http, "defaultRequestPolicy": request}})


def effective_subscription_policy(topic_policy: str | None, subscription_policy: str | None) -> str:
    """Returns the EffectiveDeliveryPolicy of a subscription. Both policies are as they are stored."""
    return _text(_of_subscription(*_effective_parts(topic_policy or "", subscription_policy or "")))


def effective_policy(
    topic_policy: str | None, subscription_policy: str | None, *, is_raw: bool
) -> DeliveryPolicy:
    """Returns the rules for a subscription. Both policies are as they are stored."""
    return _effective(topic_policy or "", subscription_policy or "", is_raw)


@lru_cache(1024)
def _effective(topic_policy: str, subscription_policy: str, is_raw: bool) -> DeliveryPolicy:
    retries, throttle, request = _effective_parts(topic_policy, subscription_policy)
    content_type: str = request[_TYPE]
    # SNS: a JSON envelope has one of two types. A topic, or a time with raw delivery, may have left another one.
    if not is_raw and _base_type(content_type) not in _TYPES:
        content_type = DEFAULT_CONTENT_TYPE
    return DeliveryPolicy(_retries(retries), None if throttle is None else throttle[_RATE], content_type)


Parts = tuple[dict[str, Any], dict[str, Any] | None, dict[str, Any]]


def _effective_parts(topic_policy: str, subscription_policy: str) -> Parts:
    retries, throttle, request, disables = _parts_of_topic(topic_policy)
    # SNS: what a subscription sets replaces the part of the topic, unless the topic disables that.
    if subscription_policy and not disables:
        own = msgspec.json.decode(subscription_policy)
        retries = own["healthyRetryPolicy"] or retries
        throttle = own["throttlePolicy"] or throttle
        request = own["requestPolicy"] or request
    return retries, throttle, request


def _parts_of_topic(topic_policy: str) -> tuple[dict[str, Any], dict[str, Any] | None, dict[str, Any], bool]:
    http = msgspec.json.decode(topic_policy)["http"] if topic_policy else {}
    return (
        {**_DEFAULT_RETRIES, **http.get("defaultHealthyRetryPolicy", {})},
        http.get("defaultThrottlePolicy"),
        http.get("defaultRequestPolicy", _DEFAULT_REQUEST),
        http.get(_DISABLE, False),
    )


def _of_subscription(
    retries: dict[str, Any] | None, throttle: dict[str, Any] | None, request: dict[str, Any] | None
) -> dict[str, Any]:
    return {
        "healthyRetryPolicy": retries, "sicklyRetryPolicy": None, "throttlePolicy": throttle,
        "requestPolicy": request, "guaranteed": False,
    }  # fmt: skip


def _retries(of: dict[str, Any]) -> Retries:
    given = {**_DEFAULT_RETRIES, **of}
    at_ends = sum(given[name] for name in _COUNTS)
    return Retries(
        immediate=given["numNoDelayRetries"],
        first=given["numMinDelayRetries"],
        growing=given["numRetries"] - at_ends,
        last=given["numMaxDelayRetries"],
        shortest_ms=given["minDelayTarget"] * SECOND,
        longest_ms=given["maxDelayTarget"] * SECOND,
        function=given[_FUNCTION],
    )


# -- checks --------------------------------------------------------------------------------------------------------


def _checked_retries(given: Any, path: str) -> dict[str, Any]:
    given = _part(given, path, tuple(_DEFAULT_RETRIES))
    for name in _REQUIRED:
        if name not in given:
            raise DeliveryPolicyInvalid(f"{path}.{name} must be specified")
    least = _integer(given["minDelayTarget"], f"{path}.minDelayTarget", 1, _PAUSE_S_MAX)
    _integer(given["maxDelayTarget"], f"{path}.maxDelayTarget", least, _PAUSE_S_MAX)
    retries = _integer(given["numRetries"], f"{path}.numRetries", 0, _RETRIES_MAX)
    counts = [_integer(given[name], f"{path}.{name}", 0, _RETRIES_MAX) for name in _COUNTS if name in given]
    if sum(counts) > retries:
        raise DeliveryPolicyInvalid(
            f"{path}.numRetries must be greater than or equal to the sum of {', '.join(_COUNTS)}"
        )
    if given.get(_FUNCTION, FUNCTIONS[0]) not in FUNCTIONS:
        raise DeliveryPolicyInvalid(f"{path}.{_FUNCTION} must be one of {', '.join(FUNCTIONS)}")
    shown = {name: given[name] for name in _DEFAULT_RETRIES if name in given}
    if _retries(shown).total_ms > HOUR:
        raise DeliveryPolicyInvalid(
            f"{path}: the delays of all retries must not exceed {_PAUSE_S_MAX} seconds"
        )
    return shown


def _checked_throttle(given: Any, path: str) -> dict[str, Any] | None:
    given = _part(given, path, (_RATE,))
    if _RATE not in given:
        return None
    return {_RATE: _integer(given[_RATE], f"{path}.{_RATE}", 1, _RATE_MAX)}


def _checked_request(given: Any, path: str, *, is_raw: bool) -> dict[str, Any] | None:
    given = _part(given, path, (_TYPE,))
    if _TYPE not in given:
        return None
    content_type, allowed = given[_TYPE], _RAW_TYPES if is_raw else _TYPES
    if not isinstance(content_type, str) or _base_type(content_type) not in allowed:
        raise DeliveryPolicyInvalid(f"{path}.{_TYPE} must be one of {', '.join(sorted(allowed))}")
    return {_TYPE: content_type}


def _base_type(content_type: str) -> str | None:
    """The type without its character set; None if it is not written as a header has it."""
    found = _CONTENT_TYPE.fullmatch(content_type)
    return None if found is None else found[1]


def _part(given: Any, path: str, names: tuple[str, ...]) -> dict[str, Any]:
    """The members of a part of a policy. A null is the same as nothing."""
    given = {} if given is None else _object(given, path)
    _check_names(given, f"{path}.", names)
    return {name: value for name, value in given.items() if value is not None}


def _read(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise DeliveryPolicyInvalid("failed to parse JSON.") from None


def _object(given: Any, path: str) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise DeliveryPolicyInvalid(f"{path} must be a JSON object".strip())
    return given


def _check_names(given: dict[str, Any], prefix: str, known: tuple[str, ...]) -> None:
    for name in given:
        if name not in known:
            raise DeliveryPolicyInvalid(f"Unexpected JSON member: {prefix}{_path_of(name, given[name])}")


_PATH_MAX = 200


def _path_of(name: str, value: Any) -> str:
    """The path of the first value within something that nobody knows."""
    path = name
    while isinstance(value, dict) and value and len(path) < _PATH_MAX:
        name, value = next(iter(value.items()))
        path += f".{name}"
    return path[:_PATH_MAX]


def _check_absent(given: dict[str, Any], prefix: str, name: str) -> None:
    if given.get(name) is not None:
        raise DeliveryPolicyInvalid(f"{prefix}{name} is not supported")


def _integer(value: Any, path: str, low: int, high: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise DeliveryPolicyInvalid(f"{path} must be an integer")
    if value < low:
        raise DeliveryPolicyInvalid(f"{path} must be greater than or equal to {low}")
    if value > high:
        raise DeliveryPolicyInvalid(f"{path} must be less than or equal to {high}")
    return value


def _text(document: dict[str, Any]) -> str:
    return msgspec.json.encode(document).decode()
