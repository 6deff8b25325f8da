"""Condition operators: how one value of a policy is compared with one value of the request.

A value of the wrong type (not a date, not a network) is refused when a policy is compiled. In a request it matches
nothing.
"""

from __future__ import annotations

import operator
from base64 import b64decode
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Any, NamedTuple, TypeVar

from penstock.auth.policy.document import PolicyInvalid
from penstock.auth.policy.question import Question
from penstock.auth.policy.variables import template
from penstock.auth.policy.wildcards import ANY, Match, Token, cached_size, matcher
from penstock.cache import BoundedCache

Test = Callable[[Question, str], bool]
T = TypeVar("T")
_NUMBER_LENGTH_MAX = 64
_ADDRESS_LENGTH_MAX = 64  # the longest has 45 characters, and may name an interface as well


class Family(NamedTuple):
    test: Callable[[str, bool], Test]
    """Makes the test from a value of the policy. The second argument tells whether there are variables in this
    version of the language."""
    takes_variables: bool


def _texts(match_of: Callable[[tuple[Token, ...]], Match], *, wildcards: bool) -> Family:
    def compiled(value: str, has_variables: bool) -> Test:
        wanted = template(value, wildcards=wildcards, variables=has_variables)
        if wanted.fixed is not None:
            match = match_of(wanted.fixed)
            return lambda _, actual: match(actual)

        def test(question: Question, actual: str) -> bool:
            filled = wanted.fill(question)
            return filled is not None and match_of(filled)(actual)

        return test

    return Family(compiled, takes_variables=True)


def _read_as(
    what: str, read: Callable[[str], T | None], compare: Callable[[T, T], bool] = operator.eq
) -> Family:
    def compiled(value: str, _: bool) -> Test:
        wanted = read(value)
        if wanted is None:
            raise PolicyInvalid(f"{value} is not a {what}")

        def test(_: Question, text: str) -> bool:
            actual = read(text)
            return actual is not None and compare(actual, wanted)

        return test

    return Family(compiled, takes_variables=False)


def _ignoring_case(of: tuple[Token, ...]) -> Match:
    wanted = "".join(map(str, of)).casefold()
    return lambda text: text.casefold() == wanted


_arn_matchers: BoundedCache[tuple[Token, ...], Match] = BoundedCache(128 * 1024, cached_size)


def _arn(of: tuple[Token, ...]) -> Match:
    return _arn_matchers.get(of) or _arn_matchers.put(of, _compiled_arn(of))


def _compiled_arn(of: tuple[Token, ...]) -> Match:
    """IAM: each of the six parts of an ARN is compared by itself, so that no star matches across colons."""
    if of == (ANY,):
        return lambda text: text.count(":") >= 5
    parts: list[tuple[Token, ...]] = [()]
    for token in of:
        if isinstance(token, str):
            first, *others = token.split(":", 6 - len(parts))
            parts[-1] += (first,)
            parts.extend((other,) for other in others)
        else:
            parts[-1] += (token,)
    if len(parts) < 6:
        return lambda _: False
    matches = tuple(map(matcher, parts))

    def match(text: str) -> bool:
        actual = text.split(":", 5)
        return len(actual) == 6 and all(each(part) for each, part in zip(matches, actual, strict=True))

    return match


def _number(text: str) -> Decimal | None:
    try:
        number = Decimal(text) if len(text) <= _NUMBER_LENGTH_MAX else None
    except InvalidOperation:
        return None
    return number if number is not None and number.is_finite() else None


def _moment(text: str) -> float | None:
    """Seconds since 1970, of an ISO 8601 date or of such seconds. A year alone is a year."""
    try:
        if len(text) == 4 and text.isdecimal():
            text += "-01"
        elif text.lstrip("-").isdecimal():
            return float(text[:_NUMBER_LENGTH_MAX])
        if len(text) == 7:
            text += "-01"
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def _truth(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text.lower())


def _bytes(text: str) -> bytes | None:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        return None


def _network(value: str, _: bool) -> Test:
    try:
        network = ip_network(value, strict=False)
    except ValueError as error:
        raise PolicyInvalid(f"{value} is not an address or network") from error
    first, last = (network.version, int(network[0])), (network.version, int(network[-1]))

    def test(_: Question, text: str) -> bool:
        if len(text) > _ADDRESS_LENGTH_MAX:
            return False
        return first <= (_addresses.get(text) or _addresses.put(text, _address(text))) <= last

    return test


_addresses: BoundedCache[str, tuple[int, int]] = BoundedCache(4096)


def _address(text: str) -> tuple[int, int]:
    """Version and number. What is not an address is below every network."""
    try:
        address = ip_address(text)
    except ValueError:
        return 0, 0
    # A socket that listens on both shows an IPv4 client as ::ffff:192.0.2.1; policies name 192.0.2.1.
    plain = (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address
    return plain.version, int(plain)


_EQUAL = _texts(matcher, wildcards=False)
_EQUAL_IGNORING_CASE = _texts(_ignoring_case, wildcards=False)
_LIKE = _texts(matcher, wildcards=True)
_ARN = _texts(_arn, wildcards=True)
_IN_NETWORK = Family(_network, takes_variables=False)

OPERATORS: dict[str, tuple[Family, bool]] = {
    "stringequals": (_EQUAL, False),
    "stringnotequals": (_EQUAL, True),
    "stringequalsignorecase": (_EQUAL_IGNORING_CASE, False),
    "stringnotequalsignorecase": (_EQUAL_IGNORING_CASE, True),
    "stringlike": (_LIKE, False),
    "stringnotlike": (_LIKE, True),
    "arnequals": (_ARN, False),
    "arnlike": (_ARN, False),
    "arnnotequals": (_ARN, True),
    "arnnotlike": (_ARN, True),
    "bool": (_read_as("truth value", _truth), False),
    "binaryequals": (_read_as("base64 text", _bytes), False),
    "ipaddress": (_IN_NETWORK, False),
    "notipaddress": (_IN_NETWORK, True),
}
"""The family of each operator, by its name in lower case, and whether it is negated. ``Null`` compares nothing."""

_COMPARISONS: dict[str, tuple[Callable[[Any, Any], bool], bool]] = {
    "equals": (operator.eq, False),
    "notequals": (operator.eq, True),
    "lessthan": (operator.lt, False),
    "lessthanequals": (operator.le, False),
    "greaterthan": (operator.gt, False),
    "greaterthanequals": (operator.ge, False),
}
for _name, (_compare, _negated) in _COMPARISONS.items():
    OPERATORS[f"numeric{_name}"] = (_read_as("number", _number, _compare), _negated)
    OPERATORS[f"date{_name}"] = (_read_as("date", _moment, _compare), _negated)
