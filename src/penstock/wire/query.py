"""The Query protocol, requests: form-encoded parameters to a request struct. :mod:`query_response` writes responses.

Action and Version are found without reading the rest, so that nothing more is done for a caller who may not perform
the action. Then the parameters are read into a tree: ``Tag.2.Key=colour`` is the value at Tag, 2, Key. A level of it
is made when a field asks for it. Names are those of the struct's marks (see shapes): flattened, or with a level for
the members. Parameters that no field knows are ignored, among them Action, Version and the signature of a presigned
URL. What is not of its type is a SerializationException, worded as for JSON.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

import msgspec

from penstock.turns import Steps
from penstock.wire.faults import malformed_input, missing_parameter
from penstock.wire.service import HttpRequest
from penstock.wire.shapes import (
    MEMBERS_MAX,
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
from penstock.wire.values import too_many_members

PARAMETERS_MAX = 500  # the largest batch of SQS, with ten attributes on each message, needs about 400
_BYTES_PER_STEP = 2048
_PARAMETERS_PER_STEP = 50
_SPREAD_PER_STEP = 256
NAME_BYTES_MAX = 512  # the longest has about a hundred, and three times that if all of it is escaped

_FORM = b"application/x-www-form-urlencoded"
_NUMBER = re.compile(r"[0-9]{1,9}")
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_BOOLEANS = {"true": True, "false": False}


class Branch:
    """One level of a name: the value given for it, and the levels below.

    Numbers in names are names of branches, so that ``Tag.999999999`` costs no more than ``Tag.1``. A value is decoded
    when it is read, and the next level is made when it is asked for: what no field knows costs nothing, whatever its
    length and its depth.
    """

    __slots__ = ("_below", "_value", "deeper", "encoded")

    def __init__(self) -> None:
        self.encoded: bytes | None = None  # as it was sent
        self._value: str | None = None
        self.deeper: list[tuple[str, bytes]] = []  # names below this one, and their values
        self._below: dict[str, Branch] = {}

    @property
    def below(self) -> dict[str, Branch]:
        """The next level, by its names. If a parameter is given twice, the first counts."""
        if self.deeper:
            self._spread(self.deeper)
            self.deeper = []
        return self._below

    def spread(self) -> Steps[None]:
        """Make the next level piece by piece, before it is asked for. What was read is freed piece by piece, too."""
        rest, self.deeper = self.deeper, []
        rest.reverse()
        while rest:
            piece = rest[: -_SPREAD_PER_STEP - 1 : -1]
            del rest[-_SPREAD_PER_STEP:]
            self._spread(piece)
            yield

    def drop(self) -> None:
        """Free the levels below, which were read."""
        self.deeper = []
        self._below = {}

    def _spread(self, parameters: list[tuple[str, bytes]]) -> None:
        below = self._below
        for name, value in parameters:
            level, dot, rest = name.partition(".")
            branch = below.get(level)
            if branch is None:
                branch = below[level] = Branch()
            if dot:
                branch.deeper.append((rest, value))
            elif branch.encoded is None:
                branch.encoded = value
        if len(below) > MEMBERS_MAX:
            raise too_many_members(MEMBERS_MAX)

    def add(self, parameters: bytes) -> None:
        """Take parameters of a form, which are separated by ``&``."""
        for parameter in parameters.split(b"&"):
            name, _, value = parameter.partition(b"=")
            if 0 < len(name) <= NAME_BYTES_MAX:
                self.deeper.append((decode_parameter(name), value))

    @property
    def value(self) -> str | None:
        if self._value is None and self.encoded is not None:
            self._value = decode_parameter(self.encoded)
        return self._value


class Form(msgspec.Struct, frozen=True):
    """A request of the Query protocol, of which only the action and the version were read."""

    sources: tuple[bytes, ...]  # with parameters: the query string, the body
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


def read_query(request: HttpRequest) -> Form:
    path, _, query = request.target.partition(b"?")
    # HEAD must not do anything, so it asks for nothing.
    sources: tuple[bytes, ...] = () if request.method == b"HEAD" else (query,)
    if request.method == b"POST" and is_form(request):
        sources = query, request.body
    # Amazon's own examples write a queue's URL with a slash at its end.
    resource = unquote(path.decode("latin-1"), errors="replace").rstrip("/")
    return Form(sources, resource, _find(b"Action", sources), _find(b"Version", sources))


def _find(name: bytes, sources: tuple[bytes, ...]) -> str:
    """The value of a parameter, without a look at the others; empty if it was not given."""
    begin = name + b"="
    for source in sources:
        at = 0 if source.startswith(begin) else source.find(b"&" + begin) + 1
        if at or source.startswith(begin):
            at += len(begin)
            return decode_parameter(source[at : at + NAME_BYTES_MAX].partition(b"&")[0])
    return ""


def read_form(*sources: bytes, parameters_max: int = 0) -> Branch:
    """The parameters of a query string and of a body, as one tree. ``parameters_max``: if there may be more than
    usual."""
    _check_count(sources, parameters_max)
    tree = Branch()
    for source in sources:
        tree.add(source)
    return tree


def _form_steps(sources: tuple[bytes, ...], parameters_max: int) -> Steps[Branch]:
    """Does the same as :func:`read_form`, for a form that may be long."""
    _check_count(sources, parameters_max)
    tree = Branch()
    for source in sources:
        at = 0
        while 0 <= at < len(source):
            end = source.find(b"&", at + _BYTES_PER_STEP)
            tree.add(source[at:end] if end >= 0 else source[at:])
            at = end + 1 if end >= 0 else -1
            yield
    return tree


def _check_count(sources: tuple[bytes, ...], parameters_max: int) -> None:
    most = parameters_max or PARAMETERS_MAX
    if sum(source.count(b"&") for source in sources) >= most:
        raise malformed_input(f"The request has more than {most} parameters.")


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

    __slots__ = ("_parameters_max", "_shape")

    def __init__(self, request: type[msgspec.Struct], parameters_max: int = 0) -> None:
        """``parameters_max``: of an action whose requests may have more than those of others; 0: as others."""
        self._shape = struct_shape(request)
        self._parameters_max = parameters_max

    def __call__(self, form: Form) -> msgspec.Struct:
        tree = read_form(*form.sources, parameters_max=self._parameters_max)
        return self._made(_members(tree, self._shape, ""), form)

    def steps(self, form: Form) -> Steps[msgspec.Struct]:
        """Does what a call does, with pauses."""
        tree = yield from _form_steps(form.sources, self._parameters_max)
        return self._made((yield from _members_steps(tree, self._shape, "")), form)

    def _made(self, members: dict[str, Any], form: Form) -> msgspec.Struct:
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
        if below is not None:
            value = _value(below, field.shape, field.spelling, where + name, any_text=field.any_text)
            found = _joined(found, value)
    return found


def _joined(found: Any, value: Any) -> Any:
    if found is None:
        return value
    if isinstance(value, list):
        found += value
    elif isinstance(value, dict):
        found |= value
    return found


def _value(branch: Branch, shape: Shape, spelling: Spelling, where: str, *, any_text: bool = False) -> Any:
    match shape:
        case Scalar():
            return None if branch.value is None else read_scalar(branch.value, shape, any_text=any_text)
        case ListOf():
            items = [
                _value(item, shape.member, shape.inner, at) for at, item in _numbered(branch, spelling, where)
            ]
            return _list(items, branch, shape, where)
        case MapOf():
            return _map(branch, shape, spelling, where)
        case StructOf():
            return shape.type(**_members(branch, shape, where + "."))


def _list(items: list[Any], branch: Branch, shape: ListOf, where: str) -> list[Any] | None:
    if not items and branch.value and isinstance(shape.member, Scalar):
        items = [_value(branch, shape.member, shape.inner, where)]
    return [item for item in items if item is not None] or None


# The same in steps, of what has many parameters.


def _members_steps(branch: Branch, shape: StructOf, where: str) -> Steps[dict[str, Any]]:
    yield from branch.spread()
    members: dict[str, Any] = {}
    for field in shape.fields:
        found: Any = None
        for name in (field.spelling.name, *field.spelling.also):
            below = branch.below.get(name)
            if below is None:
                continue
            if len(below.deeper) > _PARAMETERS_PER_STEP:
                value = yield from _value_steps(below, field.shape, field.spelling, where + name)
            else:
                value = _value(below, field.shape, field.spelling, where + name, any_text=field.any_text)
                yield
            found = _joined(found, value)
        if found is not None:
            members[field.name] = found
    return members


def _value_steps(branch: Branch, shape: Shape, spelling: Spelling, where: str) -> Steps[Any]:
    if isinstance(shape, StructOf):
        return shape.type(**(yield from _members_steps(branch, shape, where + ".")))
    if isinstance(shape, Scalar):
        return _value(branch, shape, spelling, where)
    yield from branch.spread()
    if spelling.item in branch.below:
        yield from branch.below[spelling.item].spread()
    if isinstance(shape, MapOf):
        found: dict[str, Any] = {}
        for at, entry in _entries(branch, spelling, where):
            key, value = _entry(entry, shape, spelling, at)
            found[key] = value
            yield
            entry.drop()
        return found or None
    items = []
    for at, item in _numbered(branch, spelling, where):
        if len(item.deeper) > _PARAMETERS_PER_STEP:
            items.append((yield from _value_steps(item, shape.member, shape.inner, at)))
        else:
            items.append(_value(item, shape.member, shape.inner, at))
            yield
        item.drop()
    return _list(items, branch, shape, where)


def _map(branch: Branch, shape: MapOf, spelling: Spelling, where: str) -> dict[str, Any] | None:
    entries = _entries(branch, spelling, where)
    return dict(_entry(entry, shape, spelling, at) for at, entry in entries) or None


def _entries(branch: Branch, spelling: Spelling, where: str) -> list[tuple[str, Branch]]:
    """The entries of a map and their full names. One may be given without a number."""
    entries = list(_numbered(branch, spelling, where))
    return [(where, branch)] if not entries and spelling.key in branch.below else entries


def _entry(entry: Branch, shape: MapOf, spelling: Spelling, at: str) -> tuple[str, Any]:
    key = entry.below.get(spelling.key)
    if key is None or key.value is None:
        raise missing_parameter(f"{at}.{spelling.key}")
    at = f"{at}.{spelling.value}"
    value = _value(entry.below.get(spelling.value, Branch()), shape.value, shape.inner, at)
    if value is None:
        raise missing_parameter(at)
    return unicode_text(key.value, any_text=False), value


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
    """Parses a time in ISO 8601. One without a zone is UTC."""
    try:
        time = datetime.fromisoformat(text)
        return (time if time.tzinfo is not None else time.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise malformed_input("STRING_VALUE can not be converted to a Timestamp") from None
