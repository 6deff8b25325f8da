"""The Query protocol, requests: form-encoded parameters to a request struct. :mod:`query_response` writes responses.

Parameters are read into a tree: ``Tag.2.Key=colour`` is the value at Tag, 2, Key. Names are those of the struct's
marks (see shapes): flattened, or with a level for the members. Parameters that no field knows are ignored, among them
Action, Version and the signature of a presigned URL. What is not of its type is a SerializationException, worded as
for JSON.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

import msgspec

from penstock.wire.faults import malformed_input, missing_parameter
from penstock.wire.service import HttpRequest
from penstock.wire.shapes import (
    Field,
    ListOf,
    MapOf,
    Scalar,
    Shape,
    Spelling,
    StructOf,
    blob,
    is_integer,
    struct_shape,
    time_of,
    unicode_text,
    utf8_text,
)

PARAMETERS_MAX = 2000  # the largest batch of SQS, with ten attributes on each message, needs about 400
LEVELS_MAX = 16  # the deepest name of any service has nine; what is deeper belongs to no field
NAME_BYTES_MAX = 512  # the longest has about a hundred, and three times that if all of it is escaped

_FORM = b"application/x-www-form-urlencoded"
_NUMBER = re.compile(r"[0-9]{1,9}")
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_BOOLEANS = {"true": True, "false": False}


class Branch:
    """One level of a name: the value given for it, and the levels below.

    Numbers in names are names of branches, so that ``Tag.999999999`` costs no more than ``Tag.1``. A value is decoded
    when it is read: one that no field knows costs nothing, whatever its length.
    """

    __slots__ = ("_value", "below", "encoded")

    def __init__(self) -> None:
        self.encoded: bytes | None = None  # as it was sent
        self._value: str | None = None
        self.below: dict[str, Branch] = {}

    @property
    def value(self) -> str | None:
        if self._value is None and self.encoded is not None:
            self._value = decode_parameter(self.encoded)
        return self._value

    def text(self, name: str) -> str:
        """The value of a name directly below; empty if it was not given."""
        branch = self.below.get(name)
        return branch.value or "" if branch is not None else ""


class Form(msgspec.Struct, frozen=True):
    """A request of the Query protocol whose action is not known yet."""

    parameters: Branch
    resource: str  # the path it was sent to, if that is more than the root
    action: str = ""
    version: str = ""


def is_form(request: HttpRequest) -> bool:
    return request.headers.get(b"content-type", b"")[: len(_FORM)].lower() == _FORM


def is_query(request: HttpRequest) -> bool:
    """Whether a request uses this protocol: parameters in the URL, or a form."""
    query = request.target.partition(b"?")[2]
    if request.headers.get(b"x-amz-target"):
        # Old clients send the header with a form as well; curl and urllib call a body of JSON a form.
        is_json = request.body.lstrip()[:1] == b"{"
        return is_form(request) and not is_json and (b"Action=" in request.body or b"Action=" in query)
    return request.method != b"POST" or is_form(request) or b"Action=" in query


def read_query(request: HttpRequest, parameters_max: int = 0) -> Form:
    """``parameters_max``: of an action whose requests may have more than those of others."""
    path, _, query = request.target.partition(b"?")
    # HEAD must not do anything, so it asks for nothing.
    sources = [] if request.method == b"HEAD" else [query]
    if request.method == b"POST" and is_form(request):
        sources.append(request.body)
    tree = read_form(*sources, parameters_max=parameters_max)
    # Amazon's own examples write a queue's URL with a slash at its end.
    resource = unquote(path.decode("latin-1"), errors="replace").rstrip("/")
    return Form(tree, resource, tree.text("Action"), tree.text("Version"))


def read_form(*sources: bytes, parameters_max: int = 0) -> Branch:
    """The parameters of a query string and of a body, as one tree. Of a parameter given twice the first counts."""
    most = parameters_max or PARAMETERS_MAX
    if sum(source.count(b"&") for source in sources) >= most:
        raise malformed_input(f"The request has more than {most} parameters.")
    tree = Branch()
    for source in sources:
        for parameter in source.split(b"&"):
            name, _, value = parameter.partition(b"=")
            if not 0 < len(name) <= NAME_BYTES_MAX:
                continue
            branch = tree
            for level in decode_parameter(name).split(".", LEVELS_MAX):
                found = branch.below.get(level)
                if found is None:
                    found = branch.below[level] = Branch()
                branch = found
            if branch.encoded is None:
                branch.encoded = value
    return tree


def decode_parameter(text: bytes) -> str:
    """A name or value of a form. Lone surrogates are let through; the field says whether it may hold them."""
    if b"+" in text:
        text = text.replace(b"+", b" ")
    if b"%" in text:
        text = _unescape(text)
    try:
        return utf8_text(text)
    except ValueError:
        raise malformed_input("The request's parameters are not UTF-8.") from None


def _unescape(text: bytes) -> bytes:
    # Quoted-printable is the same code with another sign, and the standard library decodes it in C: a body of 8 MiB,
    # all escapes, takes milliseconds where a loop in Python takes a second.
    plain = binascii.a2b_qp(text.replace(b"=", b"=3D").replace(b"%", b"="))
    # It ignores what is not an escape, and the result is then longer than it should be; except for an escaped line
    # break, which exists only in quoted-printable and is just as long.
    is_broken = len(plain) != len(text) - 2 * text.count(b"%") or b"%\n" in text or b"%\r" in text
    if is_broken:
        raise malformed_input("The request's parameters have a broken percent escape.")
    return plain


class FormDecoder:
    """Decodes the requests of one action."""

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
    """The value, or None if none was given; given under several spellings, all of it."""
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
            return None if branch.value is None else read_scalar(branch.value, shape, any_text=any_text)
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
    """The members of a list or map and their full names, in the order of their numbers. Gaps do not matter."""
    if spelling.item is not None:
        branch = branch.below.get(spelling.item, Branch())
        where = f"{where}.{spelling.item}"
    for number in sorted(filter(_NUMBER.fullmatch, branch.below), key=int):
        yield f"{where}.{number}", branch.below[number]


def read_scalar(text: str, shape: Scalar, *, any_text: bool = False) -> Any:
    """A value that was sent as text, as a scalar of the type that its field has. Raises Fault."""
    wanted = shape.type
    if wanted is str:
        return unicode_text(text, any_text=any_text)
    if wanted is bytes:
        return blob(text)
    if wanted is bool:
        if text.lower() in _BOOLEANS:
            return _BOOLEANS[text.lower()]
        raise malformed_input("STRING_VALUE can not be converted to a Boolean")
    if shape.is_time:
        return time_of(_seconds(text))
    if wanted is float:
        try:
            return float(text)
        except ValueError:
            raise malformed_input("STRING_VALUE can not be converted to a Double") from None
    if _INTEGER.fullmatch(text) and is_integer(number := int(text)):
        return number
    raise malformed_input("STRING_VALUE can not be converted to an Integer")


def _seconds(text: str) -> float:
    """Of a time in ISO 8601. One without a zone is UTC."""
    try:
        time = datetime.fromisoformat(text)
        return (time if time.tzinfo is not None else time.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise malformed_input("STRING_VALUE can not be converted to a Timestamp") from None
