"""What a request or response struct looks like, told by its type hints.

JSON is decoded by msgspec straight into the struct; this description serves whoever must walk it by hand: the
lenient JSON reader, and the Query protocol, whose own names stand beside the fields as :class:`Flat`,
:class:`Wrapped` and :class:`FromPath`.
"""

from __future__ import annotations

from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec

MEMBERS_MAX = 2000
"""Of one list or map of a request; no service takes nearly as many."""


class Flat(msgspec.Struct, frozen=True):
    """A list or map that the Query protocol flattens: ``Tag.1.Key``, ``Tag.1.Value``, ``TagKey.1``."""

    name: str
    key: str = "Name"
    value: str = "Value"
    also: tuple[str, ...] = ()  # other spellings that clients are known to send
    json: str = ""  # its name where an answer of the Query protocol is rendered as JSON, if it has its own


class Wrapped(msgspec.Struct, frozen=True):
    """A list or map with a level of its own: ``Tags.member.1``, ``Attributes.entry.1.key``.

    This is how a list or map is spelt that says nothing else.
    """

    name: str = ""  # the field's
    item: str = ""  # "member" in a list, "entry" in a map
    key: str = "key"
    value: str = "value"


class FromPath(msgspec.Struct, frozen=True):
    """Marks the text that the path of the request gives if no parameter does: whose URL it was sent to."""


class AtRoot:
    """Marks a request that belongs to no resource: it is not taken at a resource's own URL."""

    __slots__ = ()


class AnyText(msgspec.Struct, frozen=True):
    """Marks text whose characters the handler judges itself, lone surrogates included."""


class Scalar(msgspec.Struct, frozen=True):
    type: type[str] | type[int] | type[bool] | type[bytes]


class Spelling(msgspec.Struct, frozen=True):
    """How the Query protocol names a field, settled from its marks."""

    name: str
    item: str | None = None  # the level between a list or map and its members; None if it is flattened
    key: str = "key"
    value: str = "value"
    also: tuple[str, ...] = ()
    json: str = ""


class ListOf(msgspec.Struct, frozen=True):
    member: Shape
    inner: Spelling  # of a member that is a list or map itself and has no field whose marks could tell


class MapOf(msgspec.Struct, frozen=True):
    value: Shape
    inner: Spelling


class Field(msgspec.Struct, frozen=True):
    name: str
    shape: Shape
    flat: Flat | None
    spelling: Spelling
    any_text: bool
    from_path: bool


class StructOf(msgspec.Struct, frozen=True):
    type: type[msgspec.Struct]
    fields: tuple[Field, ...]


Shape = Scalar | ListOf | MapOf | StructOf


@cache
def struct_shape(struct: type[msgspec.Struct]) -> StructOf:
    hints = get_type_hints(struct, include_extras=True)
    return StructOf(struct, tuple(_field(name, hints[name]) for name in struct.__struct_fields__))


def _field(name: str, hint: Any) -> Field:
    bare, notes = _bare(hint)
    shape = _shape(bare)
    marks = {type(note): note for note in notes}
    flat = marks.get(Flat)
    spelling = _spelling(name, shape, flat or marks.get(Wrapped, Wrapped()))
    return Field(name, shape, flat, spelling, AnyText in marks, FromPath in marks)


def _spelling(name: str, shape: Shape, mark: Flat | Wrapped) -> Spelling:
    if isinstance(mark, Flat):
        return Spelling(mark.name, None, mark.key, mark.value, mark.also, mark.json or name)
    item = mark.item or ("member" if isinstance(shape, ListOf) else "entry")
    return Spelling(mark.name or name, item, mark.key, mark.value, json=name)


def _bare(hint: Any) -> tuple[Any, list[Any]]:
    """The hint without ``Annotated`` and ``| None``, and what they were annotated with."""
    notes: list[Any] = []
    while True:
        if get_origin(hint) is Annotated:
            hint, *found = get_args(hint)
            notes += found
        elif get_origin(hint) in (Union, UnionType):
            (hint,) = (choice for choice in get_args(hint) if choice is not NoneType)
        else:
            return hint, notes


def _shape(hint: Any) -> Shape:
    hint, _ = _bare(hint)
    if get_origin(hint) is list:
        member = _shape(get_args(hint)[0])
        return ListOf(member, _spelling("", member, Wrapped()))
    if get_origin(hint) is dict:
        value = _shape(get_args(hint)[1])
        return MapOf(value, _spelling("", value, Wrapped()))
    if issubclass(hint, msgspec.Struct):
        return struct_shape(hint)
    assert hint in (str, int, bool, bytes), f"no wire type for {hint}"
    return Scalar(hint)
