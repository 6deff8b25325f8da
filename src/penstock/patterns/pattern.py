"""A compiled pattern: conditions on paths, in branches of which one must hold.

A branch is a conjunction; ``$or`` makes several of them. Paths are tuples of names, so that ``{"a.b": …}`` and
``{"a": {"b": …}}`` are one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from penstock.patterns.limits import PIECE
from penstock.patterns.terms import Kind, Term
from penstock.patterns.values import Value

Path = tuple[str, ...]


class Rule:
    """What one key of a pattern wants. One of its terms must hold."""

    __slots__ = ("_exact", "_prefixes", "_tests", "at_a_time", "path", "terms", "wants_absence")

    def __init__(self, path: Path, terms: tuple[Term, ...]) -> None:
        self.path = path
        self.terms = terms
        self.wants_absence = any(term.kind is Kind.ABSENT for term in terms)
        # What many terms have in common is looked up or compared at once.
        self._exact = frozenset(term.argument for term in terms if term.kind is Kind.EXACT)
        self._prefixes = tuple(term.argument for term in terms if term.kind is Kind.PREFIX)
        self._tests = tuple(
            term.holds for term in terms if term.kind not in (Kind.EXACT, Kind.PREFIX, Kind.ABSENT)
        )
        self.at_a_time = max(1, PIECE // self.cost)
        """How many values are compared without a pause."""

    @property
    def cost(self) -> int:
        """How many comparisons one value may take."""
        return 1 + len(self._prefixes) + len(self._tests)

    def any_holds(self, values: Iterable[Value]) -> bool:
        """Whether a term holds for one of the values."""
        return any(map(self.holds, values))

    def holds(self, value: Value) -> bool:
        if value in self._exact:
            return True
        if self._prefixes and isinstance(value, str) and value.startswith(self._prefixes):
            return True
        return any(test(value) for test in self._tests) if self._tests else False


Branch = tuple[Rule, ...]


class EventPattern(NamedTuple):
    compact: str
    """The text, as AWS returns it: without spaces, with the order of keys and the literals of numbers kept."""
    branches: tuple[Branch, ...]
    rules: tuple[Rule, ...]
    """Those of all branches, in the order of the text."""
