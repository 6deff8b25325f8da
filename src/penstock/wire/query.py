"""The Query protocol, reading: parameters of a form to a request struct.

Rule 1: names are those of the struct's own marks (see shapes): flattened or with a level for the members.
Rule 2: members of a list or map come in the order of their numbers; gaps do not matter, and one without any
number (``Attribute.Name``, ``AttributeName``) stands alone.
Rule 3: reading is tolerant: parameters that no field knows are passed over. That takes in what is not the
action's at all: Action, Version, and the signature of a presigned URL.
Rule 4: what is not of its type is SerializationException, in the words of JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

import msgspec

from penstock.wire.faults import malformed_input, missing_parameter
from penstock.wire.form import Branch, read_form
from penstock.wire.scalars import blob, is_integer, unicode_text
from penstock.wire.service import HttpRequest
from penstock.wire.shapes import (
    Field,
    ListOf,
    MapOf,
    Scalar,
    Shape,
    Spelling,
    StructOf,
    struct_shape,
)

_FORM = b"application/x-www-form-urlencoded"
_NUMBER = re.compile(r"[0-9]{1,9}")
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_BOOLEANS = {"true": True, "false": False}


class Form(msgspec.Struct, frozen=True):
    """A request of the Query protocol, before it is known what it asks for."""

    parameters: Branch
    resource: str  # the path it was sent to, if that is more than the root
    action: str = ""
    version: str = ""


def is_form(request: HttpRequest) -> bool:
    return request.headers.get(b"content-type", b"")[: len(_FORM)].lower() == _FORM


def is_query(request: HttpRequest) -> bool:
    """Whether a request uses this protocol: parameters in the URL, or a form."""
    return request.method != b"POST" or is_form(request) or b"Action=" in request.target.partition(b"?")[2]


def read_query(request: HttpRequest) -> Form:
    path, _, query = request.target.partition(b"?")
    # HEAD must not do anything, so it asks for nothing.
    sources = [] if request.method == b"HEAD" else [query]
    if request.method == b"POST" and is_form(request):
        sources.append(request.body)
    tree = read_form(*sources)
    # Amazon's own examples write a queue's URL with a slash at its end.
    resource = unquote(path.decode("latin-1"), errors="replace").rstrip("/")
    return Form(tree, resource, tree.text("Action"), tree.text("Version"))


class FormDecoder:
    """Made once for each action."""

    __slots__ = ("_shape",)

    def __init__(self, request: type[msgspec.Struct]) -> None:
        self._shape = struct_shape(request)

    def __call__(self, form: Form) -> msgspec.Struct:
        members = _members(form.parameters, self._shape, "")
        if form.resource:
            for field in self._shape.fields:
                if field.from_path:
                    # SQS: the parameter wins over the path.
                    members.setdefault(field.name, form.resource)
        return self._shape.type(**members)


def _members(branch: Branch, shape: StructOf, where: str) -> dict[str, Any]:
    members = {field.name: _field(branch, field, where) for field in shape.fields}
    return {name: value for name, value in members.items() if value is not None}


def _field(branch: Branch, field: Field, where: str) -> Any:
    """The value, or None if nothing was given; given under several spellings, all of it."""
    found: Any = None
    for name in (field.spelling.name, *field.spelling.also):
        below = branch.below.get(name)
        if below is None:
            continue
        value = _value(below, field.shape, field.spelling, where + name, any_text=field.any_text)
        if found is None:
            found = value
        elif isinstance(value, list):
            found += value
        elif isinstance(value, dict):
            found |= value
    return found


def _value(branch: Branch, shape: Shape, spelling: Spelling, where: str, *, any_text: bool = False) -> Any:
    match shape:
        case Scalar():
            return None if branch.value is None else _scalar(branch.value, shape.type, any_text)
        case ListOf():
            return _list(branch, shape, spelling, where)
        case MapOf():
            return _map(branch, shape, spelling, where)
        case StructOf():
            return shape.type(**_members(branch, shape, where + "."))


def _list(branch: Branch, shape: ListOf, spelling: Spelling, where: str) -> list[Any] | None:
    items = [_value(item, shape.member, shape.inner, at) for at, item in _numbered(branch, spelling, where)]
    if not items and branch.value and isinstance(shape.member, Scalar):
        items = [_value(branch, shape.member, shape.inner, where)]
    return [item for item in items if item is not None] or None


def _map(branch: Branch, shape: MapOf, spelling: Spelling, where: str) -> dict[str, Any] | None:
    entries = list(_numbered(branch, spelling, where))
    if not entries and spelling.key in branch.below:
        entries = [(where, branch)]
    found: dict[str, Any] = {}
    for at, entry in entries:
        key = entry.below.get(spelling.key)
        if key is None or key.value is None:
            raise missing_parameter(f"{at}.{spelling.key}")
        at = f"{at}.{spelling.value}"
        value = _value(entry.below.get(spelling.value, Branch()), shape.value, shape.inner, at)
        if value is None:
            raise missing_parameter(at)
        found[unicode_text(key.value, any_text=False)] = value
    return found or None


def _numbered(branch: Branch, spelling: Spelling, where: str) -> Iterator[tuple[str, Branch]]:
    """The members of a list or map and their full names, in the order of their numbers."""
    if spelling.item is not None:
        branch = branch.below.get(spelling.item, Branch())
        where = f"{where}.{spelling.item}"
    for number in sorted(filter(_NUMBER.fullmatch, branch.below), key=int):
        yield f"{where}.{number}", branch.below[number]


def _scalar(text: str, wanted: type, any_text: bool) -> Any:
    if wanted is str:
        return unicode_text(text, any_text=any_text)
    if wanted is bytes:
        return blob(text)
    if wanted is bool:
        if text.lower() in _BOOLEANS:
            return _BOOLEANS[text.lower()]
        raise malformed_input("STRING_VALUE can not be converted to a Boolean")
    if _INTEGER.fullmatch(text) and is_integer(number := int(text)):
        return number
    raise malformed_input("STRING_VALUE can not be converted to an Integer")
