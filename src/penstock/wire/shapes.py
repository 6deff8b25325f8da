"""What a request or response struct looks like, told by its type hints.

JSON is decoded by msgspec straight into the struct; this description serves whoever must walk it by hand: the
lenient JSON reader, and the Query protocol, whose flattened names stand beside the fields as :class:`Flat`.
"""

from __future__ import annotations

from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec


class Flat(msgspec.Struct, frozen=True):
    """How the Query protocol spells a list or map: ``Tag.1.Key``, ``Tag.1.Value``, ``TagKey.1``."""

    name: str
    key: str = "Name"
    value: str = "Value"
    also: tuple[str, ...] = ()  # other spellings that clients are known to send


class AnyText(msgspec.Struct, frozen=True):
    """Marks text whose characters the handler judges itself, lone surrogates included."""


class Scalar(msgspec.Struct, frozen=True):
    type: type[str] | type[int] | type[bool] | type[bytes]


class ListOf(msgspec.Struct, frozen=True):
    member: Shape


class MapOf(msgspec.Struct, frozen=True):
    value: Shape


class Field(msgspec.Struct, frozen=True):
    name: str
    shape: Shape
    flat: Flat | None
    any_text: bool


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
    flat = next((note for note in notes if isinstance(note, Flat)), None)
    return Field(name, _shape(bare), flat, any(isinstance(note, AnyText) for note in notes))


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
        return ListOf(_shape(get_args(hint)[0]))
    if get_origin(hint) is dict:
        return MapOf(_shape(get_args(hint)[1]))
    if issubclass(hint, msgspec.Struct):
        return struct_shape(hint)
    assert hint in (str, int, bool, bytes), f"no wire type for {hint}"
    return Scalar(hint)
