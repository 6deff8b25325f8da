"""Metric math, the language: ``SUM(METRICS()) / m1``, ``IF(m1 > 10, m1, 0)``. Text to a tree that can be computed.

An expression refers to metrics and to other expressions of its request by their ids. What it means is in
:mod:`penstock.metrics.functions`. Length, depth and the number of parts are bounded.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from penstock.errors import ExpressionInvalid
from penstock.turns import Steps

EXPRESSION_LENGTH_MAX = 2048
_DEPTH_MAX = 32
_PARTS_MAX = 500

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?)
    |(?P<word>[A-Za-z][A-Za-z0-9_]*)
    |"(?P<double>[^"]*)"|'(?P<single>[^']*)'
    |(?P<mark>==|!=|<=|>=|&&|\|\||[-+*/^<>(),\[\]])
    )""",
    re.VERBOSE,
)

# Operators of two sides, those that bind least first. `^` is apart: it binds from the right.
_LEVELS: tuple[dict[str, str], ...] = (
    {"OR": "OR", "||": "OR"},
    {"AND": "AND", "&&": "AND"},
    {mark: mark for mark in ("==", "!=", "<", "<=", ">", ">=")},
    {"+": "+", "-": "-"},
    {"*": "*", "/": "/"},
)
_OPERATORS = {text: (name, level) for level, of in enumerate(_LEVELS) for text, name in of.items()}
_RESERVED = frozenset(("AND", "OR"))


class NumberPart(NamedTuple):
    value: float


class TextPart(NamedTuple):
    text: str


class WordPart(NamedTuple):
    """An id if it begins in lower case, as ids do; else a keyword such as REPEAT."""

    name: str


class CallPart(NamedTuple):
    function: str
    arguments: tuple[Part, ...]


class ListPart(NamedTuple):
    members: tuple[Part, ...]


class NegativePart(NamedTuple):
    of: Part


class OperatorPart(NamedTuple):
    operator: str
    left: Part
    right: Part


Part = NumberPart | TextPart | WordPart | CallPart | ListPart | NegativePart | OperatorPart


def parse_expression(text: str) -> Part:
    """Raises ExpressionInvalid."""
    if not 1 <= len(text) <= EXPRESSION_LENGTH_MAX:
        raise ExpressionInvalid(f"an expression has 1 to {EXPRESSION_LENGTH_MAX} characters")
    parser = _ExpressionParser(_tokens(text))
    part = parser.operators(0, 0)
    if parser.token is not None:
        raise ExpressionInvalid(f"unexpected {parser.token.text!r}: expected an operator or the end")
    return part


def parts_of(part: Part) -> Iterator[Part]:
    """The part and everything in it."""
    rest = [part]
    while rest:
        part = rest.pop()
        yield part
        match part:
            case CallPart(_, inner) | ListPart(inner):
                rest += inner
            case NegativePart(of):
                rest.append(of)
            case OperatorPart(_, left, right):
                rest += (left, right)


def ids_of(part: Part) -> set[str]:
    """The ids that an expression refers to."""
    return {each.name for each in parts_of(part) if isinstance(each, WordPart) and each.name[0].islower()}


def in_order(expressions: Mapping[str, Part], known: frozenset[str]) -> Steps[list[str]]:
    """The ids of expressions, each behind those that it refers to. ``known``: the ids of metrics.

    Raises ExpressionInvalid if one refers to an id that does not exist, or to itself by way of others."""
    needed: dict[str, int] = {}  # how many others are still to be put before it
    users: dict[str, list[str]] = {id: [] for id in expressions}
    for id, part in expressions.items():
        wanted = ids_of(part) - known
        for missing in sorted(wanted - expressions.keys()):
            raise ExpressionInvalid(f"the expression {id!r} refers to {missing!r}, which does not exist")
        needed[id] = len(wanted)
        for other in wanted:
            users[other].append(id)
        yield
    ordered = [id for id, count in needed.items() if not count]
    for id in ordered:  # it grows
        for user in users[id]:
            needed[user] -= 1
            if not needed[user]:
                ordered.append(user)
        yield
    if len(ordered) < len(expressions):
        circle = ", ".join(sorted(id for id, count in needed.items() if count))
        raise ExpressionInvalid(f"expressions refer to each other in a circle: {circle}")
    return ordered


class _Symbol(NamedTuple):
    kind: str
    text: str


def _tokens(text: str) -> list[_Symbol]:
    tokens: list[_Symbol] = []
    at, end = 0, len(text.rstrip())
    while at < end:
        found = _TOKEN.match(text, at)
        if found is None:
            raise ExpressionInvalid(f"unexpected {text[at:].lstrip()[:10]!r}")
        kind = found.lastgroup
        assert kind is not None
        tokens.append(_Symbol("text" if kind in ("single", "double") else kind, found[kind]))
        at = found.end()
    if len(tokens) > _PARTS_MAX:
        raise ExpressionInvalid("the expression has too many parts: divide it into several")
    return tokens


class _ExpressionParser:
    def __init__(self, tokens: list[_Symbol]) -> None:
        self._tokens = tokens
        self._at = 0

    @property
    def token(self) -> _Symbol | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def operators(self, level: int, depth: int) -> Part:
        """Operators of this level and of those that bind more."""
        left = self._power(depth)
        while (found := self._operator(level)) is not None:
            operator, binding = found
            left = OperatorPart(operator, left, self.operators(binding + 1, depth))
        return left

    def _operator(self, level: int) -> tuple[str, int] | None:
        token = self.token
        found = None if token is None or token.kind == "text" else _OPERATORS.get(token.text)
        if found is None or found[1] < level:
            return None
        self._at += 1
        return found

    def _power(self, depth: int) -> Part:
        if depth > _DEPTH_MAX:
            raise ExpressionInvalid("the expression is nested too deeply: divide it into several")
        if self._take("-"):
            return NegativePart(self._power(depth + 1))
        if self._take("+"):
            return self._power(depth + 1)
        base = self._one(depth)
        return OperatorPart("^", base, self._power(depth + 1)) if self._take("^") else base

    def _one(self, depth: int) -> Part:
        token = self.token
        if token is None:
            raise ExpressionInvalid("the expression ends where a value is expected")
        self._at += 1
        match token:
            case _Symbol("number", text):
                if math.isinf(number := float(text)):
                    raise ExpressionInvalid(f"the number {text} is too large")
                return NumberPart(number)
            case _Symbol("text", text):
                return TextPart(text)
            case _Symbol("word", text) if text not in _RESERVED:
                return CallPart(text, self._until(")", depth + 1)) if self._take("(") else WordPart(text)
            case _Symbol("mark", "["):
                return ListPart(self._until("]", depth + 1))
            case _Symbol("mark", "("):
                inner = self.operators(0, depth + 1)
                if not self._take(")"):
                    raise ExpressionInvalid("a parenthesis is not closed")
                return inner
        raise ExpressionInvalid(f"unexpected {token.text!r}: expected a value")

    def _until(self, closing: str, depth: int) -> tuple[Part, ...]:
        """Values that are separated by commas."""
        if self._take(closing):
            return ()
        found = [self.operators(0, depth)]
        while self._take(","):
            found.append(self.operators(0, depth))
        if not self._take(closing):
            raise ExpressionInvalid(f"expected a comma or {closing!r}")
        return tuple(found)

    def _take(self, mark: str) -> bool:
        token = self.token
        found = token is not None and token == ("mark", mark)
        self._at += found
        return found
