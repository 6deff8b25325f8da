"""Plain values, as a JSON or CBOR document holds them, to a request struct: the tolerant reader.

Tolerant as AWS is: unknown members are ignored, a null member of a struct is absent, a number or boolean is taken for
text where text belongs. Everything else that is not of its type is a SerializationException in AWS's words.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from penstock.turns import Steps
from penstock.wire.faults import malformed_input
from penstock.wire.service import Fault
from penstock.wire.shapes import (
    MEMBERS_MAX,
    ListOf,
    MapOf,
    Scalar,
    Shape,
    StructOf,
    blob,
    check_known,
    is_integer,
    time_of,
    unicode_text,
)

ALL_MEMBERS_MAX = 2000
"""The limit for all lists and maps of a request, unless its action may have more (:attr:`Action.members_max`)."""


class MemberBudget:
    """Counts the members of all lists and maps of one request."""

    __slots__ = ("_left", "_most")

    def __init__(self, members_max: int = 0) -> None:
        """``members_max``: of an action whose requests may have more members than others; 0: as others."""
        self._left = self._most = members_max or ALL_MEMBERS_MAX

    def spend(self, members: list[Any] | dict[str, Any]) -> None:
        """Count these members before any of them is read. Raises Fault if there are too many."""
        if len(members) > MEMBERS_MAX:
            raise too_many_members(MEMBERS_MAX)
        self._left -= len(members)
        if self._left < 0:
            raise too_many_members(self._most)


def too_many_members(most: int) -> Fault:
    return malformed_input(f"The request has a list or map, or several, of more than {most} members.")


def read_struct(value: dict[str, Any], shape: StructOf, budget: MemberBudget) -> msgspec.Struct:
    return shape.make(read_members(value, shape, budget))


def read_members(value: dict[str, Any], shape: StructOf, budget: MemberBudget) -> dict[str, Any]:
    if shape.is_strict:
        check_known(value, {field.name for field in shape.fields})
    return {
        field.name: _value(value[field.name], field.shape, budget, any_text=field.any_text)
        for field in shape.fields
        if value.get(field.name) is not None
    }


def struct_steps(value: dict[str, Any], shape: StructOf, budget: MemberBudget) -> Steps[msgspec.Struct]:
    """Does the same as :func:`read_struct`, with a pause after each field of each struct: a field is one scalar, or a
    list or map with a bounded number of them."""
    if shape.is_strict:
        check_known(value, {field.name for field in shape.fields})
    members: dict[str, Any] = {}
    for field in shape.fields:
        given = value.get(field.name)
        if given is not None:
            inner = field.shape
            if isinstance(inner, ListOf) and isinstance(inner.member, StructOf):
                listed: list[msgspec.Struct] = []
                for member in _list(given, budget):
                    listed.append((yield from struct_steps(_object(_present(member)), inner.member, budget)))
                members[field.name] = listed
            elif isinstance(inner, StructOf):
                members[field.name] = yield from struct_steps(_object(given), inner, budget)
            else:
                members[field.name] = _value(given, inner, budget, any_text=field.any_text)
            yield
    return shape.make(members)


def _value(value: Any, shape: Shape, budget: MemberBudget, *, any_text: bool = False) -> Any:
    match shape:
        case Scalar():
            scalar = _scalar(value, shape.type, any_text)
            return time_of(scalar) if shape.is_time else scalar
        case ListOf():
            return [_member(member, shape.member, budget) for member in _list(value, budget)]
        case MapOf():
            if not isinstance(value, dict):
                raise malformed_input(_misplaced(value) or "Expected map or null")
            budget.spend(value)
            return {
                _text(key, any_text=False): _map_value(member, shape.value, budget)
                for key, member in value.items()
            }
        case StructOf():
            return read_struct(_object(value), shape, budget)


def _list(value: Any, budget: MemberBudget) -> list[Any]:
    if not isinstance(value, list):
        raise malformed_input(_misplaced(value) or "Expected list or null")
    budget.spend(value)
    return value


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise malformed_input(_misplaced(value) or "Expected structure or null")
    return value


def _member(value: Any, shape: Shape, budget: MemberBudget) -> Any:
    return _value(_present(value), shape, budget)


def _present(value: Any) -> Any:
    if value is None:
        # Dropping it would send a message without an attribute that its sender meant to give it.
        raise malformed_input("Null value found where not expected")
    return value


def _map_value(value: Any, shape: Shape, budget: MemberBudget) -> Any:
    if isinstance(value, list) and isinstance(shape, Scalar):
        raise malformed_input("Unrecognized collection type class java.lang.String")
    return _member(value, shape, budget)


def _misplaced(value: Any) -> str | None:
    if isinstance(value, list):
        return "Start of list found where not expected"
    if isinstance(value, dict):
        return "Start of structure or map found where not expected."
    return None


def _token(value: Any) -> str:
    if isinstance(value, bool):
        return "TRUE_VALUE" if value else "FALSE_VALUE"
    return "STRING_VALUE" if isinstance(value, str | bytes) else "NUMBER_VALUE"


def _scalar(value: Any, wanted: type, any_text: bool) -> Any:
    misplaced = _misplaced(value)
    if misplaced is not None:
        raise malformed_input(misplaced)
    if wanted is str:
        return _text(value, any_text=any_text)
    if wanted is bytes:
        return _blob(value)
    if wanted is bool:
        if isinstance(value, bool):
            return value
        raise malformed_input(f"{_token(value)} can not be converted to a Boolean")
    return _float(value) if wanted is float else _integer(value)


def _text(value: Any, *, any_text: bool) -> str:
    if isinstance(value, bytes):
        raise malformed_input("A binary value can not be converted to a String")
    return unicode_text(value if isinstance(value, str) else json.dumps(value), any_text=any_text)


def _integer(value: Any) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not is_integer(value):
        raise malformed_input(f"{_token(value)} can not be converted to an Integer")
    return int(value)


def _float(value: Any) -> float:
    # Smithy: what JSON has no numbers for is written as text.
    if value in ("NaN", "Infinity", "-Infinity"):
        return float(value)
    if isinstance(value, float) or is_integer(value):
        return float(value)
    raise malformed_input(f"{_token(value)} can not be converted to a Double")


def _blob(value: Any) -> bytes:
    if isinstance(value, bytes):  # CBOR has a type for it
        return value
    if not isinstance(value, str):
        raise malformed_input(f"{_token(value)} can not be converted to a Blob")
    return blob(value)
