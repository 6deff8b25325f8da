"""Many patterns, and which of them match a message: most are never looked at.

Of each branch of a pattern, one rule is chosen by which the branch is looked up: by values, texts without their case,
prefixes, ranges of numbers, or at least by whether there is a value at all. Where a value of the message leads, the
branch may hold. If the rule is all of the branch, it does hold; else the pattern is tried. The rule with the fewest
others at the same place is chosen, so that ``{"type": ["order"], "customer": ["c17"]}`` is looked up by the customer
if there are many orders. Branches that can hold without a value, such as ``{"exists": false}``, are always tried.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from decimal import Decimal
from typing import Any, Generic, NamedTuple, TypeVar

from penstock.patterns.limits import PIECE
from penstock.patterns.matching import matching_steps
from penstock.patterns.pattern import Branch, EventPattern, Path, Rule
from penstock.patterns.ranges import RangeTree
from penstock.patterns.subject import FilterSubject
from penstock.patterns.terms import Kind, Term, casefolded
from penstock.patterns.values import Constant, Value, number_key
from penstock.turns import Steps, finished, in_pieces

K = TypeVar("K", bound=Hashable)

_PREFIX_LENGTH_MAX = 64  # of a prefix that is looked up; longer ones are tried
_LOOKUP_COST = 4  # a value is looked up at several places
_TRIES_PER_STEP = 16  # of a short message


class _Posting:
    """A branch of a pattern, at the places where it is looked up. Two are never equal."""

    __slots__ = ("is_certain", "key", "pattern", "rule")

    def __init__(self, key: Any, pattern: EventPattern, branch: Branch, rule: Rule) -> None:
        self.key = key
        self.pattern = pattern
        self.rule = rule
        self.is_certain = len(branch) == 1 and all(_place_of(term) is not None for term in rule.terms)
        """Whether the pattern matches if a value leads here."""


_Postings = dict[_Posting, None]


class _Place(NamedTuple):
    """Where a term is looked up."""

    table: str
    key: Any


def _place_of(term: Term) -> _Place | None:
    """None: its values cannot be listed."""
    match term.kind:
        case Kind.EXACT if isinstance(term.argument, int | Decimal):
            number = number_key(term.argument)
            return None if number is None else _Place("numbers", number)
        case Kind.EXACT:
            return _Place("texts", term.argument)
        case Kind.FOLDED:
            return _Place("folded", term.argument)
        case Kind.PREFIX if len(term.argument) <= _PREFIX_LENGTH_MAX:
            return _Place("prefixes", term.argument)
        case Kind.NUMERIC:
            return _Place("ranges", term.argument)
        case Kind.PRESENT:
            return _Place("present", None)
    return None


def _places_of(rule: Rule) -> list[_Place]:
    places = [_place_of(term) for term in rule.terms]
    listed = [place for place in places if place is not None]
    return listed if len(listed) == len(places) else [_Place("present", None)]


class _PathIndex:
    """All postings whose rules are about one path."""

    def __init__(self) -> None:
        self.tables: dict[str, dict[Any, _Postings]] = {
            name: {} for name in ("numbers", "texts", "folded", "prefixes", "present")
        }
        self.ranges: RangeTree[_Posting] = RangeTree()
        self.lengths: dict[int, int] = {}  # of prefixes: how many have it

    def __bool__(self) -> bool:
        return any(self.tables.values()) or len(self.ranges) > 0

    def crowd(self, place: _Place) -> int:
        """Returns about how many postings a value that leads to this place finds."""
        if place.table == "ranges":
            return len(self.ranges) // 4
        return len(self.tables[place.table].get(place.key, ()))

    def add(self, place: _Place, posting: _Posting) -> None:
        if place.table == "ranges":
            self.ranges.add(posting, place.key)
            return
        table = self.tables[place.table]
        if place.key not in table:
            table[place.key] = {}
            if place.table == "prefixes":
                self.lengths[len(place.key)] = self.lengths.get(len(place.key), 0) + 1
        table[place.key][posting] = None

    def remove(self, place: _Place, posting: _Posting) -> None:
        if place.table == "ranges":
            self.ranges.remove(posting, place.key)
            return
        table = self.tables[place.table]
        del table[place.key][posting]
        if not table[place.key]:
            del table[place.key]
            if place.table == "prefixes":
                self.lengths[len(place.key)] -= 1
                if not self.lengths[len(place.key)]:
                    del self.lengths[len(place.key)]

    def present(self) -> _Postings:
        return self.tables["present"].get(None, {})

    def led_to(self, value: Value) -> Iterator[_Posting]:
        """Yields what a value leads to."""
        tables = self.tables
        if isinstance(value, str):
            yield from tables["texts"].get(value, ())
            if tables["folded"]:
                yield from tables["folded"].get(casefolded(value), ())
            for length in self.lengths:
                if length <= len(value):
                    yield from tables["prefixes"].get(value[:length], ())
        elif isinstance(value, Constant):
            yield from tables["texts"].get(value, ())
        else:
            if tables["numbers"] and (key := number_key(value)) is not None:
                yield from tables["numbers"].get(key, ())
            if len(self.ranges):
                yield from self.ranges.having(value)


class PatternIndex(Generic[K]):
    """Patterns by key, all about attributes or all about bodies."""

    def __init__(self) -> None:
        self._patterns: dict[K, EventPattern] = {}
        self._postings: dict[K, list[tuple[_Posting, list[_Place]]]] = {}
        self._paths: dict[Path, _PathIndex] = {}
        self._always: _Postings = {}  # what no value leads to

    def __len__(self) -> int:
        return len(self._patterns)

    def __contains__(self, key: object) -> bool:
        return key in self._patterns

    def add(self, key: K, pattern: EventPattern) -> None:
        """Adds a pattern, in place of the one that has this key."""
        self.remove(key)
        self._patterns[key] = pattern
        self._postings[key] = [self._post(key, pattern, branch) for branch in pattern.branches]

    def remove(self, key: K) -> None:
        """Does nothing if there is no such key."""
        if self._patterns.pop(key, None) is None:
            return
        for posting, places in self._postings.pop(key):
            if not places:
                del self._always[posting]
                continue
            index = self._paths[posting.rule.path]
            for place in places:
                index.remove(place, posting)
            if not index:
                del self._paths[posting.rule.path]

    def _post(self, key: K, pattern: EventPattern, branch: Branch) -> tuple[_Posting, list[_Place]]:
        choices = [
            (self._crowd(rule.path, places), number, rule, places)
            for number, rule in enumerate(branch)
            if not rule.wants_absence and (places := list(dict.fromkeys(_places_of(rule))))
        ]
        if not choices:
            posting = _Posting(key, pattern, branch, branch[0])
            self._always[posting] = None
            return posting, []
        _, _, rule, places = min(choices, key=lambda choice: choice[:2])
        posting = _Posting(key, pattern, branch, rule)
        index = self._paths.setdefault(rule.path, _PathIndex())
        for place in places:
            index.add(place, posting)
        return posting, places

    def _crowd(self, path: Path, places: list[_Place]) -> tuple[int, bool]:
        """Returns how good a choice the places are: the less, the better."""
        index = self._paths.get(path)
        crowd = 0 if index is None else sum(map(index.crowd, places))
        return crowd, places[0].table == "present"

    def matching(self, subject: FilterSubject) -> list[K]:
        """Returns the keys of the patterns that match, in the order in which they are found. Raises TooMuchWork."""
        return finished(self.matching_steps(subject))

    def matching_steps(self, subject: FilterSubject) -> Steps[list[K]]:
        """Does the same in short steps. Patterns may be added and removed between them, so that the key of one that
        was just removed may be among the results."""
        if subject.problem is not None:
            return []
        candidates: _Postings = {}
        for path, index in list(self._paths.items()):
            try:
                found = subject.found[path]
            except KeyError:
                found = yield from subject.find(path)
            if found is None:
                continue
            candidates.update(index.present())
            for piece in in_pieces(found.values, PIECE):
                subject.spend(len(piece) * _LOOKUP_COST)
                for value in piece:
                    candidates.update(dict.fromkeys(index.led_to(value)))
                if len(piece) == PIECE:
                    yield
        return (yield from self._confirmed(candidates, subject))

    def _confirmed(self, candidates: _Postings, subject: FilterSubject) -> Steps[list[K]]:
        keys: dict[K, bool] = {}
        tries, per_step = 0, 1 if subject.is_long else _TRIES_PER_STEP
        for postings in (candidates, list(self._always)):
            for posting in postings:
                if keys.get(posting.key):
                    continue
                if posting.is_certain:
                    keys[posting.key] = True
                elif posting.key not in keys:
                    tries += 1
                    keys[posting.key] = yield from matching_steps(posting.pattern, subject)
                    if tries % per_step == 0:
                        yield
        return [key for key, matched in keys.items() if matched]
