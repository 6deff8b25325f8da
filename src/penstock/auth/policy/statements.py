"""Compiled policies: statements as closures, found by the action and the resource that are asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from penstock.auth.policy.document import Kind
from penstock.auth.policy.question import Question, Verdict
from penstock.auth.policy.wildcards import Match

_REMEMBERED_MAX = 512  # actions on resources, for each policy
_RESOURCE_REMEMBERED_MAX = 256  # characters: a queue's ARN is shorter, and callers may name what is none

Reach = Callable[[Question], int]
"""How closely a statement means the caller (`principals`), if its conditions hold; else 0."""


class Statement(NamedTuple):
    allows: bool
    actions: Match  # of an action in lower case
    resources: Match
    reach: Reach
    verdict: Verdict  # what it says where it reaches
    is_fixed: bool  # it looks at nothing but the caller, the action and the resource


class About(NamedTuple):
    """The statements of a policy that can be about one action on one resource."""

    allows: tuple[Statement, ...]
    denies: tuple[Statement, ...]
    is_fixed: bool  # all of them are


class Policy:
    __slots__ = ("_remembered", "kind", "name", "statements", "unknown_keys")

    def __init__(
        self, kind: Kind, name: str, statements: tuple[Statement, ...], unknown_keys: tuple[str, ...] = ()
    ) -> None:
        self.kind = kind
        self.name = name
        self.statements = statements
        # Of its conditions: no request here has them, so they count as missing.
        self.unknown_keys = unknown_keys
        self._remembered: dict[tuple[str, str], About] = {}

    def __repr__(self) -> str:
        return f"Policy({self.kind!r}, {self.name!r})"

    def about(self, action: str, resource: str) -> About:
        found = self._remembered.get((action, resource))
        if found is None:
            if len(self._remembered) >= _REMEMBERED_MAX:
                self._remembered.clear()
            speaking = [each for each in self.statements if each.actions(action) and each.resources(resource)]
            found = About(
                allows=tuple(each for each in speaking if each.allows),
                denies=tuple(each for each in speaking if not each.allows),
                is_fixed=all(each.is_fixed for each in speaking),
            )
            if len(resource) <= _RESOURCE_REMEMBERED_MAX:
                self._remembered[action, resource] = found
        return found
