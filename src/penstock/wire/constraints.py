"""Constraints of the members of a request, which stand in its struct, and AWS's texts for what violates them.

A service whose model has constraints writes them as marks into the hints of its structs. A decoder ignores marks, so
that a request is checked alike whatever protocol it came in::

    class Tag(msgspec.Struct):
        Key: Annotated[str | None, Required(), Length(1, 128)] = None

    CONSTRAINTS = Constraints(validation_error)
    CONSTRAINTS.check(request)

All violations are collected and refused in one error: "2 validation errors detected: Value null at
'tags.1.member.key' failed to satisfy constraint: Member must not be null; ...". They are in the order of the members,
and of the marks of a member.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache
from itertools import islice
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

import msgspec

from penstock.turns import Steps
from penstock.wire.shapes import bare_hint

VIOLATIONS_MAX = 10
"""Checking ends after this many violations, as in AWS: a request must not cost more than a few."""

_SHOWN_MAX = 4096  # of a value: no message of a fault is longer


class Required(msgspec.Struct, frozen=True):
    """The member must be given. Other marks say nothing about a member that is not."""


class Length(msgspec.Struct, frozen=True):
    """The characters of a text, the members of a list."""

    low: int
    high: int

    def broken_by(self, value: Sequence[Any]) -> str | None:
        if len(value) > self.high:
            return f"have length less than or equal to {self.high}"
        if len(value) < self.low:
            return f"have length greater than or equal to {self.low}"
        return None


class Within(msgspec.Struct, frozen=True):
    """The range of a number."""

    low: int
    high: int | None = None

    def broken_by(self, value: float) -> str | None:
        if self.high is not None and value > self.high:
            return f"have value less than or equal to {self.high}"
        if value < self.low:
            return f"have value greater than or equal to {self.low}"
        return None


class OneOf(msgspec.Struct, frozen=True):
    """The values that a text may have, in the order of AWS's text."""

    values: tuple[str, ...]

    def broken_by(self, value: str) -> str | None:
        return None if value in self.values else f"satisfy enum value set: [{', '.join(self.values)}]"


class Pattern(msgspec.Struct, frozen=True):
    """What a whole text must match. ``python``: the same in Python's syntax, where that of Java has more."""

    shown: str
    python: str = ""

    def broken_by(self, value: str) -> str | None:
        pattern, flags = (self.python, 0) if self.python else (self.shown, re.ASCII)
        if re.fullmatch(pattern, value, flags):
            return None
        return f"satisfy regular expression pattern: {self.shown}"


Mark = Required | Length | Within | OneOf | Pattern


class _Rules(NamedTuple):
    """What is checked of one value, and of what it holds."""

    is_required: bool
    marks: tuple[Any, ...]
    members_max: int | None  # of a list or map: those beyond its length are not looked at
    item: _Rules | None  # of each member of a list or map
    struct: type[msgspec.Struct] | None


class Constraints:
    """Checks the requests of one service."""

    def __init__(
        self,
        fault: Callable[[str], Exception],
        shown_list: Callable[[Sequence[Any]], str] = lambda members: "[...]",
    ) -> None:
        """``fault`` makes the error of a text; ``shown_list``: how texts show a list."""
        self._fault = fault
        self._shown_list = shown_list

    def check(self, request: msgspec.Struct, *members: str) -> None:
        """Check these members of a request, or all. Raises the fault."""
        for _ in self.steps(request, *members):
            pass

    def steps(self, request: msgspec.Struct, *members: str) -> Steps[None]:
        """Does what :meth:`check` does, with a pause after each member of a list."""
        found: list[str] = []
        for violation in self._violations(request, "", members):
            if violation is None:
                yield
                continue
            found.append(violation)
            if len(found) == VIOLATIONS_MAX:
                break
        if found:
            errors = "error" if len(found) == 1 else "errors"
            raise self._fault(f"{len(found)} validation {errors} detected: {'; '.join(found)}")

    def _violations(
        self, struct: msgspec.Struct, path: str, members: Collection[str] = ()
    ) -> Iterator[str | None]:
        for name, shown, rules in _rules_of(type(struct)):
            if not members or name in members:
                yield from self._of_value(getattr(struct, name), f"{path}{shown}", rules)

    def _of_value(self, value: Any, path: str, rules: _Rules) -> Iterator[str | None]:
        if value is None:
            if rules.is_required:
                yield _worded("null", path, "not be null")
            return
        for mark in rules.marks:
            if (broken := mark.broken_by(value)) is not None:
                yield _worded(f"'{self._shown(value)}'", path, broken)
        if rules.struct is not None:
            yield from self._violations(value, f"{path}.")
        elif rules.item is not None:
            members = value.items() if isinstance(value, dict) else enumerate(value, 1)
            for name, each in islice(members, rules.members_max):
                yield from self._of_value(each, f"{path}.{name}.member", rules.item)
                yield None

    def _shown(self, value: Any) -> str:
        if isinstance(value, str):
            return value[:_SHOWN_MAX]
        return self._shown_list(value) if isinstance(value, list) else str(value)


def _worded(value: str, path: str, rule: str) -> str:
    return f"Value {value} at '{path}' failed to satisfy constraint: Member must {rule}"


@cache
def _rules_of(struct: type[msgspec.Struct]) -> list[tuple[str, str, _Rules]]:
    """The members that have rules, each with its name in texts."""
    hints = get_type_hints(struct, include_extras=True)
    named = ((name, _rules(hints[name])) for name in struct.__struct_fields__)
    return [(name, name[0].lower() + name[1:], rules) for name, rules in named if rules is not None]


def _rules(hint: Any) -> _Rules | None:
    """None if there are no constraints in it."""
    bare, notes = bare_hint(hint)
    marks = [note for note in notes if isinstance(note, Mark)]
    item = _rules(get_args(bare)[-1]) if get_origin(bare) in (list, dict) else None
    is_struct = isinstance(bare, type) and issubclass(bare, msgspec.Struct)
    struct = bare if is_struct and _rules_of(bare) else None
    if not marks and item is None and struct is None:
        return None
    return _Rules(
        is_required=any(isinstance(mark, Required) for mark in marks),
        marks=tuple(mark for mark in marks if not isinstance(mark, Required)),
        members_max=next((mark.high for mark in marks if isinstance(mark, Length)), None),
        item=item,
        struct=struct,
    )
