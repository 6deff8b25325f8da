"""The terms of a rule: each says what one value must be like.

A rule such as ``["a", {"prefix": "b"}, {"exists": false}]`` has three. One of them must hold for one value, or,
for the last one, there must be no value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Any, NamedTuple

from penstock.patterns.errors import PatternError, shown
from penstock.patterns.values import Constant, Value

Test = Callable[[Value], bool]
Number = int | Decimal

_ADDRESS_LENGTH_MAX = 45
_ADDRESSES_KEPT = 1024
_FOLDED_KEPT = 8  # texts without their case
_BITS = {4: 32, 6: 128}
_MASK_BITS = re.compile("[+-]?[0-9]{1,9}")
_VALID_WILDCARDS = re.compile(r"(?:[^*\\]++|\*(?!\*)|\\[*\\])*+")
# What stands for an escaped character: no text has half of a surrogate pair.
_BACKSLASH, _STAR = "\ud800", "\ud801"


class Kind(Enum):
    """What an index does with a term."""

    EXACT = "exact"  # the argument is the value
    FOLDED = "folded"  # the argument is the text, without its case
    PREFIX = "prefix"
    NUMERIC = "numeric"  # the argument is the NumberRange
    PRESENT = "present"
    ABSENT = "absent"
    OTHER = "other"


class Term(NamedTuple):
    kind: Kind
    holds: Test
    argument: Any = None
    text: str = ""  # in the pattern


class NumberRange(NamedTuple):
    """The numbers between two, of which None is none."""

    bottom: Number | None
    includes_bottom: bool
    top: Number | None
    includes_top: bool

    def has(self, value: Value) -> bool:
        if not isinstance(value, int | Decimal):
            return False
        bottom, includes_bottom, top, includes_top = self
        if bottom is not None and (value < bottom or (value == bottom and not includes_bottom)):
            return False
        return top is None or value < top or (value == top and includes_top)


def exact(value: Value) -> Term:
    return Term(Kind.EXACT, lambda found: found == value, value)


def folded(text: str) -> Term:
    wanted = text.casefold()
    return Term(Kind.FOLDED, lambda value: isinstance(value, str) and casefolded(value) == wanted, wanted)


def prefix(text: str) -> Term:
    return Term(Kind.PREFIX, _starts(text), text)


def folded_prefix(text: str) -> Term:
    return Term(Kind.OTHER, _folded(_starts(text.casefold())))


def suffix(text: str) -> Term:
    return Term(Kind.OTHER, _ends(text))


def folded_suffix(text: str) -> Term:
    return Term(Kind.OTHER, _folded(_ends(text.casefold())))


def wildcard(text: str) -> Term:
    return Term(Kind.OTHER, _like(wildcard_pieces(text)))


def numeric(numbers: NumberRange) -> Term:
    if numbers.bottom is not None and numbers.bottom == numbers.top:
        return exact(numbers.bottom)  # {"numeric": ["=", 5]} is 5
    return Term(Kind.NUMERIC, numbers.has, numbers)


def present() -> Term:
    return Term(Kind.PRESENT, lambda value: True)


def absent() -> Term:
    return Term(Kind.ABSENT, lambda value: False)


def anything_but(values: Iterable[Value]) -> Term:
    refused = frozenset(values)
    return Term(Kind.OTHER, lambda value: value not in refused and value is not Constant.OPAQUE)


def anything_but_like(kind: str, texts: Iterable[str]) -> Term:
    """``kind``: "prefix", "suffix", "equals-ignore-case" or "wildcard", which are about texts only."""
    refused: Test
    match kind:
        case "prefix":
            refused = _starts(*texts)
        case "suffix":
            refused = _ends(*texts)
        case "equals-ignore-case":
            wanted = frozenset(text.casefold() for text in texts)
            refused = _folded(lambda value: value in wanted)
        case _:
            likes = [_like(wildcard_pieces(text)) for text in texts]

            def refused(value: Value) -> bool:
                return any(like(value) for like in likes)

    return Term(Kind.OTHER, lambda value: not refused(value) and value is not Constant.OPAQUE)


def cidr(text: str) -> Term:
    """Raises PatternError."""
    network = _network(text)

    def holds(value: Value) -> bool:
        address = _address(value) if isinstance(value, str) and len(value) <= _ADDRESS_LENGTH_MAX else None
        return address is not None and address in network

    return Term(Kind.OTHER, holds)


def _network(text: str) -> IPv4Network | IPv6Network:
    # SNS: these errors have no position.
    parts = text.split("/")
    if len(parts) != 2 or not parts[1]:
        raise PatternError("Malformed CIDR, one '/' required")
    address, bits = parts
    if not _MASK_BITS.fullmatch(bits):
        raise PatternError("Malformed CIDR, mask bits must be an integer")
    if int(bits) < 0:
        raise PatternError("Malformed CIDR, mask bits must not be negative")
    parsed = _address(address) if len(address) <= _ADDRESS_LENGTH_MAX else None
    if parsed is None:
        raise PatternError(f"Nonstandard IP address: {shown(address)}")
    most = _BITS[parsed.version]
    if int(bits) > most:
        raise PatternError(f"IPv{parsed.version} mask bits must be < {most + 1}")
    return ip_network((str(parsed), int(bits)), strict=False)


@lru_cache(_ADDRESSES_KEPT)
def _address(text: str) -> Any:
    """Returns an IPv4Address, an IPv6Address or None."""
    if "%" in text or not (":" in text or "." in text):
        return None
    try:
        return ip_address(text)
    except ValueError:
        return None


def _starts(*texts: str) -> Test:
    return lambda value: isinstance(value, str) and value.startswith(texts)


def _ends(*texts: str) -> Test:
    return lambda value: isinstance(value, str) and value.endswith(texts)


def _folded(test: Test) -> Test:
    return lambda value: isinstance(value, str) and test(casefolded(value))


@lru_cache(_FOLDED_KEPT)
def casefolded(text: str) -> str:
    """Returns a text without its case. Many terms compare one value, which may be long: it is folded once for all."""
    return text.casefold()


def wildcard_pieces(text: str) -> list[str]:
    """Returns the texts before, between and after the stars. Raises PatternError."""
    return [piece.replace(_BACKSLASH, "\\").replace(_STAR, "*") for piece in _marked(text).split("*")]


def wildcard_stars(text: str) -> int:
    """Returns how many stars a wildcard has. Raises PatternError.

    A position is one of the text in quotes, in UTF-8.
    """
    return _marked(text).count("*")


def _marked(text: str) -> str:
    """A wildcard without escapes. It may have very many of them, so that no loop looks at each. Raises
    PatternError."""
    marked = text.replace("\\\\", _BACKSLASH).replace("\\*", _STAR)
    if "**" in marked or "\\" in marked:
        met = _VALID_WILDCARDS.match(text)
        assert met is not None
        what = "Consecutive wildcard characters" if text[met.end()] == "*" else "Invalid escape character"
        raise PatternError(f"{what} at pos {_quoted_position(text, met.end())}")
    return marked


def _quoted_position(text: str, at: int) -> int:
    return 1 + len(text[:at].encode())


def _like(pieces: list[str]) -> Test:
    """Finds the pieces one after another, each as early as possible: that takes no second attempt."""
    first, *others = pieces
    if not others:
        return lambda value: value == first
    *middle, last = others

    def holds(value: Value) -> bool:
        if not isinstance(value, str) or not value.startswith(first) or not value.endswith(last):
            return False
        at, end = len(first), len(value) - len(last)
        for piece in middle:
            at = value.find(piece, at, end)
            if at < 0:
                return False
            at += len(piece)
        return at <= end

    return holds
