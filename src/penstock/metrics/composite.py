"""The rules of composite alarms: ``ALARM("backlog") AND NOT OK(errors)``. Parsed once, decided from states."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from penstock.errors import RuleInvalid
from penstock.metrics.alarms import AlarmState

RULE_LENGTH_MAX = 10_240
CHILDREN_MAX = 100
_DEPTH_MAX = 40

StateOf = Callable[[str], AlarmState | None]
"""The state of an alarm by its name or ARN, as the rule has it; None if there is none."""

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<state>ALARM|OK|INSUFFICIENT_DATA)\s*\(\s*
        (?:"(?P<double>[^"]+)"|'(?P<single>[^']+)'|(?P<bare>[^\s()"']+))\s*\)
    |(?P<word>AND|OR|NOT|TRUE|FALSE)\b
    |(?P<mark>[()])
    )""",
    re.VERBOSE,
)


class _RuleToken(NamedTuple):
    kind: str  # "state", "word" or "mark"
    text: str
    alarm: str = ""


class InState(NamedTuple):
    alarm: str  # a name or an ARN
    state: str

    def holds(self, state_of: StateOf) -> bool:
        return state_of(self.alarm) == self.state


class Truth(NamedTuple):
    value: bool

    def holds(self, state_of: StateOf) -> bool:
        return self.value


class Not(NamedTuple):
    part: RulePart

    def holds(self, state_of: StateOf) -> bool:
        return not self.part.holds(state_of)


class All(NamedTuple):
    parts: tuple[RulePart, ...]

    def holds(self, state_of: StateOf) -> bool:
        return all(part.holds(state_of) for part in self.parts)


class AnyOf(NamedTuple):
    parts: tuple[RulePart, ...]

    def holds(self, state_of: StateOf) -> bool:
        return any(part.holds(state_of) for part in self.parts)


RulePart = InState | Truth | Not | All | AnyOf


class CompositeRule(NamedTuple):
    condition: RulePart
    children: tuple[str, ...]  # names or ARNs, each once, in the order of the rule

    def holds(self, state_of: StateOf) -> bool:
        return self.condition.holds(state_of)


def parse_rule(text: str) -> CompositeRule:
    """Raises RuleInvalid."""
    if not 1 <= len(text) <= RULE_LENGTH_MAX:
        raise RuleInvalid(f"the rule must have 1 to {RULE_LENGTH_MAX} characters")
    tokens = _tokens(text)
    children = tuple(dict.fromkeys(token.alarm for token in tokens if token.kind == "state"))
    if len(children) > CHILDREN_MAX:
        raise RuleInvalid(f"the rule names more than {CHILDREN_MAX} alarms")
    parser = _RuleParser(tokens)
    condition = parser.any_of(0)
    if parser.at != len(tokens):
        raise RuleInvalid(f"expected AND or OR before {tokens[parser.at].text}")
    return CompositeRule(condition, children)


def _tokens(text: str) -> list[_RuleToken]:
    tokens: list[_RuleToken] = []
    at, end = 0, len(text.rstrip())
    while at < end:
        found = _TOKEN.match(text, at)
        if found is None:
            rest = text[at:].lstrip()[:20]
            raise RuleInvalid(f"expected ALARM(name), OK(name), AND, OR, NOT or a parenthesis at {rest!r}")
        kind = found.lastgroup if found["state"] is None else "state"
        assert kind is not None
        alarm = found["double"] or found["single"] or found["bare"] or ""
        tokens.append(_RuleToken(kind, found[kind], alarm))
        at = found.end()
    return tokens


class _RuleParser:
    def __init__(self, tokens: list[_RuleToken]) -> None:
        self._tokens = tokens
        self.at = 0
        self._leaves: dict[InState, InState] = {}  # one object for all that are equal

    def any_of(self, depth: int) -> RulePart:
        parts = [self._all(depth)]
        while self._take("OR"):
            parts.append(self._all(depth))
        return parts[0] if len(parts) == 1 else AnyOf(tuple(parts))

    def _all(self, depth: int) -> RulePart:
        parts = [self._one(depth)]
        while self._take("AND"):
            parts.append(self._one(depth))
        return parts[0] if len(parts) == 1 else All(tuple(parts))

    def _one(self, depth: int) -> RulePart:
        if depth > _DEPTH_MAX:
            raise RuleInvalid("the rule is nested too deeply")
        if self.at == len(self._tokens):
            raise RuleInvalid("the rule ends where a condition is expected")
        token = self._tokens[self.at]
        self.at += 1
        match token:
            case _RuleToken("state", state, alarm):
                leaf = InState(alarm, state)
                return self._leaves.setdefault(leaf, leaf)
            case _RuleToken("word", "TRUE" | "FALSE" as word):
                return Truth(word == "TRUE")
            case _RuleToken("word", "NOT"):
                return Not(self._one(depth + 1))
            case _RuleToken("mark", "("):
                inner = self.any_of(depth + 1)
                if not self._take(")"):
                    raise RuleInvalid("a parenthesis is not closed")
                return inner
        raise RuleInvalid(f"expected a condition before {token.text}")

    def _take(self, text: str) -> bool:
        found = self.at < len(self._tokens) and self._tokens[self.at][:2] in (("word", text), ("mark", text))
        self.at += found
        return found
