"""Compile the text of a pattern, and refuse what AWS refuses, in its words.

The compiler reads tokens one by one, so that the first fault is the one that is reported. What ``$or`` multiplies is
expanded last, when the number of keys and of combinations is known to be small.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod
from typing import Any, NamedTuple

from penstock.patterns.compact import TokenReader, compact_json
from penstock.patterns.errors import PatternError, TooManyMembers
from penstock.patterns.expressions import TOO_COMPLEX, ExpressionReader
from penstock.patterns.limits import FILTER_POLICY, PatternLimits
from penstock.patterns.pattern import Branch, EventPattern, Path, Rule

_OR = "$or"
_RESERVED = frozenset(
    (
        "exactly",
        "prefix",
        "suffix",
        "equals-ignore-case",
        "anything-but",
        "exists",
        "numeric",
        "cidr",
        "wildcard",
    )
)
_TOO_MANY_KEYS = "Filter policy can not have more than {} keys"
_LEVELS_MAX = 150  # of objects in objects; each takes two calls


def compile_pattern(text: str, *, nested: bool, limits: PatternLimits = FILTER_POLICY) -> EventPattern:
    """``nested``: keys may be in keys (SNS: the scope MessageBody), and a dot separates the two as well.

    Raises JsonTextError or PatternError.
    """
    if len(text) > limits.bytes_max or len(text.encode(errors="replace")) > limits.bytes_max:
        raise PatternError(f"Filter policy can not be larger than {limits.bytes_max} bytes")
    try:
        compact, tokens = compact_json(text, limits.members_max)
    except TooManyMembers as error:
        # The rest of the text is not read, and need not be JSON.
        has_more = _count_rules(error.document) > limits.keys_max
        reason = _TOO_MANY_KEYS.format(limits.keys_max) if has_more else TOO_COMPLEX
        raise PatternError(reason) from None
    compiler = _Compiler(TokenReader(compact, tokens), nested, limits)
    node = compiler.read()
    return EventPattern(compact, tuple(_branches(node)), tuple(compiler.rules))


def _count_rules(document: Any) -> int:
    """How many keys there are in a document that is not a pattern, perhaps."""
    waiting, rules = [document], 0
    while waiting:
        item = waiting.pop()
        if not isinstance(item, dict):
            continue
        for name, value in item.items():
            if not isinstance(value, list):
                waiting.append(value)
            elif name == _OR:
                waiting += value
            else:
                rules += 1
    return rules


class _All(NamedTuple):
    members: list[_Node]


class _Any(NamedTuple):
    members: list[_All]


_Node = _All | _Any | Rule


def _branches(node: _Node) -> Iterator[Branch]:
    """Expands a tree whose size was checked."""
    match node:
        case Rule():
            yield (node,)
        case _Any():
            for member in node.members:
                yield from _branches(member)
        case _All():
            for parts in product(*(list(_branches(member)) for member in node.members)):
                yield tuple(rule for part in parts for rule in part)


def _combinations(node: _Node) -> int:
    # SNS: the values of a key times its depth; keys multiply, branches of $or add.
    match node:
        case Rule():
            return len(node.terms) * len(node.path)
        case _Any():
            return sum(_combinations(member) for member in node.members)
        case _All():
            return prod(_combinations(member) for member in node.members)


class _Compiler:
    def __init__(self, tokens: TokenReader, nested: bool, limits: PatternLimits) -> None:
        self.rules: list[Rule] = []
        self._tokens = tokens
        self._expressions = ExpressionReader(tokens, limits)
        self._nested = nested
        self._limits = limits

    def read(self) -> _Node:
        if self._tokens.next().kind != "{":
            self._tokens.refuse("Filter is not an object")
        node = self._object((), level=0, inside_or=False)
        if len(self.rules) > self._limits.keys_max:
            raise PatternError(_TOO_MANY_KEYS.format(self._limits.keys_max))
        if _combinations(node) > self._limits.combinations_max:
            raise PatternError(TOO_COMPLEX)
        if self._expressions.wildcard_points > self._limits.wildcard_points_max:
            raise PatternError(TOO_COMPLEX)
        return node

    def _object(self, path: Path, level: int, *, inside_or: bool) -> _All:
        if level > _LEVELS_MAX:
            raise PatternError(TOO_COMPLEX)
        members: list[_Node] = []
        while (token := self._tokens.next()).kind != "}":
            if token.text == _OR:
                members.append(self._or(path, level + 1))
            elif inside_or and token.text in _RESERVED:
                self._tokens.refuse(
                    f"{token.text} is Ruler reserved fieldName which cannot be used inside $or."
                )
            else:
                members.append(self._member(token.text, path, level + 1, inside_or))
        if not members:
            self._tokens.refuse("Empty objects are not allowed")
        return _All(members)

    def _member(self, name: str, path: Path, level: int, inside_or: bool) -> _Node:
        # SNS: "a.b" is {"a": {"b": …}}. The names of message attributes are not split.
        inner = (*path, *name.split(".")) if self._nested else (name,)
        token = self._tokens.next()
        if token.kind == "[":
            # The rest of the text is not read if there are far more keys than there may be.
            if len(self.rules) > self._limits.combinations_max:
                raise PatternError(_TOO_MANY_KEYS.format(self._limits.keys_max))
            terms = self._expressions.rule()
            if len(terms) * len(inner) > self._limits.combinations_max:
                raise PatternError(TOO_COMPLEX)
            rule = Rule(inner, terms)
            self.rules.append(rule)
            return rule
        if token.kind != "{":
            self._tokens.refuse(f'"{name}" must be an object or an array')
        if not self._nested:
            raise PatternError(
                "Filter policy scope MessageAttributes does not support nested filter policy", is_nested=True
            )
        return self._object(inner, level, inside_or=inside_or)

    def _or(self, path: Path, level: int) -> _Any:
        if self._tokens.next().kind != "[":
            self._tokens.refuse("It must be an Array followed with $or.")
        members: list[_All] = []
        while (token := self._tokens.next()).kind != "]":
            if token.kind != "{":
                self._tokens.refuse("Only JSON object is allowed in array of $or relationship.")
            members.append(self._object(path, level, inside_or=True))
        if len(members) < 2:
            self._tokens.refuse("There must have at least 2 Objects in $or relationship.")
        return _Any(members)
