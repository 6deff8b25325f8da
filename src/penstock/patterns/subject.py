"""What patterns are matched with: the attributes or the body of a message, read once for all patterns.

A body is a tree of names. A name leads to all its values, also those in arrays, and the tree is made only where a
pattern looks. Of a value in an array of objects or of arrays, the element is kept, because all conditions on one
array must hold in one element (:mod:`~penstock.patterns.elements`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal, DecimalException
from enum import Enum
from typing import Any, NamedTuple

import msgspec

from penstock.errors import TooMuchWork
from penstock.patterns.limits import PIECE, WORK_MAX
from penstock.patterns.pattern import Path
from penstock.patterns.values import CONSTANTS, Constant, Value
from penstock.turns import Steps, in_pieces

ROOT = 0
"""The element that everything is in which is in no array."""

_SHORT_MAX = 1024

_decode = msgspec.json.Decoder(float_hook=Decimal).decode
_UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError, DecimalException)


class FilterOutcome(Enum):
    """Why a message is delivered or not."""

    MATCHED = "matched"
    MISMATCH = "mismatch"
    NO_ATTRIBUTES = "no attributes"
    INVALID_ATTRIBUTES = "invalid attributes"
    INVALID_BODY = "invalid body"


class FoundValues(NamedTuple):
    """The values of one path. There is at least one."""

    values: list[Value]
    elements: list[int] | None
    """The innermost element of an array that each value is in. None: none is in any."""


class Element(NamedTuple):
    """An object or array that is an element of an array."""

    parent: int  # the element that the array is in
    array: int


class FilterSubject:
    """``problem``: why no pattern can match, whatever it says."""

    def __init__(self, problem: FilterOutcome | None = None, size: int = 0) -> None:
        """``size``: how long all texts in it are."""
        self.problem = problem
        self.is_long = size > _SHORT_MAX
        """Whether a single comparison may take long, so that there are pauses between a few of them."""
        self.elements = [Element(-1, -1)]  # by number: that of an element is higher than those it is in
        self.found: dict[Path, FoundValues | None] = {}
        """What was looked for already."""
        self._work = 0

    @property
    def outcome_of_mismatch(self) -> FilterOutcome:
        """Why a pattern that did not match did not."""
        return self.problem or FilterOutcome.MISMATCH

    def spend(self, work: int) -> None:
        """Raises TooMuchWork when all patterns together have compared too many values of this message."""
        self._work += work
        if self._work > WORK_MAX:
            raise TooMuchWork

    @property
    def work(self) -> int:
        return self._work

    def find(self, path: Path) -> Steps[FoundValues | None]:
        """Looks for the values of a path that :attr:`found` does not have, and remembers them."""
        self.found[path] = None
        return None
        yield


class _Body(FilterSubject):
    def __init__(self, document: dict[str, Any], size: int) -> None:
        # SNS: no pattern matches {}, not even one that wants a field to be absent.
        super().__init__(None if document else FilterOutcome.MISMATCH, size)
        self._root = _Node()
        self._root.given.append((document, ROOT))

    def find(self, path: Path) -> Steps[FoundValues | None]:
        node: _Node | None = self._root
        for name in path:
            assert node is not None
            yield from node.open(self.elements)
            node = yield from node.child(name)
            if node is None:
                self.found[path] = None
                return None
        assert node is not None
        yield from node.open(self.elements)
        self.found[path] = node.found
        return node.found


class _Node:
    """All that one path leads to: it tells scalars from objects when it is opened, and enters arrays."""

    __slots__ = ("_children", "_is_open", "_objects", "found", "given")

    def __init__(self) -> None:
        self.given: list[tuple[Any, int]] = []  # each with its element, until the node is opened
        self.found: FoundValues | None = None
        self._objects: list[tuple[dict[str, Any], int]] = []
        self._children: dict[str, _Node] | None = None
        self._is_open = False

    def open(self, elements: list[Element]) -> Steps[None]:
        if self._is_open:
            return
        self._is_open = True
        values: list[Value] = []
        places: list[int] = []
        for number, (value, element) in enumerate(self.given):  # to which arrays add
            if type(value) is dict:
                self._objects.append((value, element))
            elif type(value) is list:
                yield from self._enter(value, element, elements)
            else:
                values.append(_scalar(value))
                places.append(element)
            if number % PIECE == PIECE - 1:
                yield
        self.given = []
        if values:
            self.found = FoundValues(values, places if any(places) else None)

    def _enter(self, members: list[Any], element: int, elements: list[Element]) -> Steps[None]:
        array = len(elements)
        for piece in in_pieces(members, PIECE):
            for member in piece:
                if type(member) is dict or type(member) is list:
                    self.given.append((member, len(elements)))
                    elements.append(Element(element, array))
                else:
                    self.given.append((member, element))
            if len(piece) == PIECE:
                yield

    def child(self, name: str) -> Steps[_Node | None]:
        """Needs an open node."""
        if self._children is None:
            self._children = {}
            for number, (members, element) in enumerate(self._objects):
                if len(members) <= PIECE:
                    self._add(members.items(), element)
                else:
                    for piece in in_pieces(members.items(), PIECE):
                        self._add(piece, element)
                        yield
                if number % PIECE == PIECE - 1:
                    yield
            self._objects = []
        return self._children.get(name)

    def _add(self, members: Iterable[tuple[str, Any]], element: int) -> None:
        assert self._children is not None
        for name, value in members:
            if "." in name:  # SNS: "a.b" is {"a": {"b": …}}
                name, _, rest = name.partition(".")
                value = {rest: value}
            child = self._children.get(name)
            if child is None:
                child = self._children[name] = _Node()
            child.given.append((value, element))


def _scalar(value: Any) -> Value:
    if value is None or value is True or value is False:
        return CONSTANTS[value]
    return value  # type: ignore[no-any-return]


def body_subject(text: str) -> FilterSubject:
    """Reads the body of a message, which has to be a JSON object. SNS: another one matches nothing."""
    try:
        document = _decode(text)
    except _UNREADABLE:
        return FilterSubject(FilterOutcome.INVALID_BODY)
    return _Body(document, len(text)) if type(document) is dict else FilterSubject(FilterOutcome.INVALID_BODY)


def attributes_subject(attributes: Mapping[str, tuple[str, str | None]]) -> FilterSubject:
    """Reads the attributes of a message: by name, the type with the value, which is None for a binary one."""
    # SNS: a message without attributes matches nothing, not even {"exists": false}.
    if not attributes:
        return FilterSubject(FilterOutcome.NO_ATTRIBUTES)
    subject = FilterSubject(size=sum(len(text or "") for _, text in attributes.values()))
    for name, (kind, text) in attributes.items():
        try:
            values = _attribute_values(kind, text)
        except _UNREADABLE:
            # SNS: whether a pattern looks at this attribute or not.
            return FilterSubject(FilterOutcome.INVALID_ATTRIBUTES)
        subject.found[(name,)] = FoundValues(values, None) if values else None
    return subject


def _attribute_values(kind: str, text: str | None) -> list[Value]:
    """Raises one of _UNREADABLE."""
    match kind:
        case "String" if text is not None:
            # SNS: quotes and backslashes are compared as JSON writes them.
            return [text.replace("\\", "\\\\").replace('"', '\\"')]
        case "Number" if text is not None:
            number = _decode(text)
            if type(number) is not int and type(number) is not Decimal:
                raise msgspec.DecodeError("not a number")
            return [number]
        case "String.Array" if text is not None:
            members = _decode(text)
            if type(members) is not list or any(type(member) in (dict, list) for member in members):
                raise msgspec.DecodeError("not an array of scalars")
            return [_scalar(member) for member in members]
    # SNS: Binary, and types with labels of their own, are present and match nothing.
    return [Constant.OPAQUE]
