"""The Query protocol, which SNS and STS speak: parameters as a form, answers in XML.

Members are the objects that the JSON protocol has, too. An answer becomes plain dictionaries, lists and texts, and
these become the structs of an action.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlencode

from penstock.client.objects import Json, not_a_broker

ANSWER_BYTES_MAX = 16 * 1024 * 1024  # a page of SNS has less than one
_DEPTH_MAX = 20
_ERROR_BYTES_MAX = 10_000
# SNS: members that are maps, and the names that their keys and values have in a form. Other objects have members.
_MAPS = {"Attributes": ("key", "value"), "MessageAttributes": ("Name", "Value")}
_CHARACTERS = (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&apos;", "'"), ("&amp;", "&"))

R = TypeVar("R")


# -- requests --------------------------------------------------------------------------------------------------------


def encode_form(action: str, version: str, members: Mapping[str, Any]) -> bytes:
    """Writes an action with its members. Members that are None are left out."""
    pairs = [("Action", action), ("Version", version)]
    for name, value in members.items():
        pairs += _pairs(name, value)
    return urlencode(pairs).encode()


def _pairs(name: str, value: Any) -> Iterator[tuple[str, str]]:
    match value:
        case None:
            return
        case bool():
            yield name, "true" if value else "false"
        case bytes():
            yield name, base64.b64encode(value).decode()
        case str() | int():
            yield name, str(value)
        case Mapping() if (names := _MAPS.get(name.rpartition(".")[2])) is not None:
            for place, (key, each) in enumerate(value.items(), start=1):
                yield f"{name}.entry.{place}.{names[0]}", key
                yield from _pairs(f"{name}.entry.{place}.{names[1]}", each)
        case Mapping():
            for member, each in value.items():
                yield from _pairs(f"{name}.{member}", each)
        case list() | tuple():
            for place, each in enumerate(value, start=1):
                yield from _pairs(f"{name}.member.{place}", each)
        case _:
            raise TypeError(f"invalid value of {name}: {type(value).__name__} cannot be written into a form")


# -- answers ---------------------------------------------------------------------------------------------------------


def decode_answer(result: type[R], action: str, answer: bytes) -> R:
    """Reads the answer to an action. Raises Unavailable for anything else."""
    import msgspec  # commands have no use for it

    try:
        return msgspec.convert(read_answer(action, answer), result, strict=False)
    except msgspec.ValidationError:
        raise not_a_broker() from None


def read_answer(action: str, answer: bytes) -> Json:
    """The members of the answer to an action. Raises Unavailable for anything else."""
    read = read_xml(answer)
    if read is None or read.name != f"{action}Response":
        raise not_a_broker()
    result = read.value.get(f"{action}Result") if isinstance(read.value, dict) else None
    return result if isinstance(result, dict) else {}


class Read(NamedTuple):
    """The outermost element of an answer."""

    name: str
    value: Any


class _Invalid(Exception):
    """The text is no answer in XML."""


def read_xml(content: bytes) -> Read | None:
    """Reads an answer; None if it is not XML. ``member`` elements are a list, ``entry`` elements a mapping, others
    the members of an object. An empty element is left out, since it is an empty list as well as an empty text."""
    from xml.parsers import expat  # most commands have no use for it

    if len(content) > ANSWER_BYTES_MAX:
        return None
    reader = _Reader()
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = reader.begin
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.text
    # Entities are declared there, and a few of them can stand for gigabytes.
    parser.StartDoctypeDeclHandler = reader.refuse
    try:
        parser.Parse(content, True)
    except (expat.ExpatError, _Invalid):
        return None
    return reader.read


class _Element:
    __slots__ = ("entries", "list", "members", "name", "text")

    def __init__(self, name: str) -> None:
        self.name = name
        self.text: list[str] = []
        self.members: dict[str, Any] = {}
        self.list: list[Any] = []
        self.entries: dict[str, Any] = {}

    @property
    def value(self) -> Any:
        return self.list or self.entries or self.members or "".join(self.text)


class _Reader:
    """Callbacks of the parser. Nothing is called recursively."""

    def __init__(self) -> None:
        self.read: Read | None = None
        self._open: list[_Element] = []

    def begin(self, name: str, attributes: object) -> None:
        if len(self._open) == _DEPTH_MAX:
            raise _Invalid
        self._open.append(_Element(name.rpartition(":")[2]))

    def text(self, text: str) -> None:
        self._open[-1].text.append(text)

    def end(self, name: str) -> None:
        element = self._open.pop()
        if not self._open:
            self.read = Read(element.name, element.value)
            return
        parent = self._open[-1]
        if element.name == "member":
            parent.list.append(element.value)
        elif element.name == "entry":
            parent.entries[element.members.get("key", "")] = element.members.get("value", "")
        elif element.value:
            parent.members[element.name] = element.value

    def refuse(self, *_: object) -> None:
        raise _Invalid


def error_of(content: bytes) -> Json:
    """The code and the message of an error, under the names that JSON has for them. What else is there is not read:
    an error may come from a proxy."""
    text = content[:_ERROR_BYTES_MAX].decode("utf-8", "replace")
    found = {}
    for name, tag in (("__type", "Code"), ("message", "Message")):
        _, opened, rest = text.partition(f"<{tag}>")
        if opened:
            found[name] = _unescaped(rest.partition(f"</{tag}>")[0])
    return found


def _unescaped(text: str) -> str:
    """The module of the standard library that does this takes long to import, for commands."""
    for entity, character in _CHARACTERS:
        text = text.replace(entity, character)
    return text
