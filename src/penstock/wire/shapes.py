"""What a request or response struct looks like, derived from its type hints, and single values as text carries them.

JSON is decoded by msgspec straight into the struct. This description serves the code that walks a struct member by
member: the tolerant reader of JSON and CBOR values, the Query protocol, and REST-JSON. A field that has another name
or another place there has a mark: :class:`Flat`, :class:`Wrapped`, :class:`FromPath` for the Query protocol,
:class:`InPath`, :class:`InQuery`, :class:`InHeader`, :class:`Payload` for REST-JSON.
"""

from __future__ import annotations

import base64
import codecs
import re
from collections.abc import Collection, Iterable
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from penstock.wire.faults import invalid_parameter, malformed_input, missing_parameter

MEMBERS_MAX = 2000
"""The most members of one list or map of a request; no service accepts nearly as many."""

TIME_MAX = 253_402_300_799
"""The last second of the year 9999."""

AnyMember = TypeVar("AnyMember")
Many = Annotated[list[AnyMember], msgspec.Meta(max_length=MEMBERS_MAX)]
Named = Annotated[dict[str, AnyMember], msgspec.Meta(max_length=MEMBERS_MAX)]
"""The bounded lists and maps of requests."""

_NAME_SHOWN_MAX = 100
_INTEGER_MAX = 2**63 - 1
_SURROGATE = re.compile("[\ud800-\udfff]")
_SURROGATES_MAX = 100  # of one text; each costs more than a hundred other characters


class Flat(msgspec.Struct, frozen=True):
    """A list or map that the Query protocol flattens: ``Tag.1.Key``, ``Tag.1.Value``, ``TagKey.1``."""

    name: str
    key: str = "Name"
    value: str = "Value"
    also: tuple[str, ...] = ()  # other spellings that clients are known to send
    json: str = ""  # its name where a response of the Query protocol is written as JSON, if it differs


class Wrapped(msgspec.Struct, frozen=True):
    """A list or map with a level of its own: ``Tags.member.1``, ``Attributes.entry.1.key``.

    The default for a list or map without a mark.
    """

    name: str = ""  # the field's
    item: str = ""  # "member" in a list, "entry" in a map
    key: str = "key"
    value: str = "value"


class FromPath(msgspec.Struct, frozen=True):
    """Text that defaults to the path of a Query request: a queue's own URL names the queue."""


class AtRoot:
    """Base of a request that belongs to no resource: the Query protocol refuses it at a resource's own URL."""

    __slots__ = ()


class AnyText(msgspec.Struct, frozen=True):
    """Text whose characters the handler checks itself, lone surrogates included."""


class Timestamp(msgspec.Struct, frozen=True):
    """A time in seconds since 1970: a number in JSON, with a tag in CBOR, ISO 8601 in the Query protocol."""


Time = Annotated[float, Timestamp(), msgspec.Meta(ge=0, le=TIME_MAX)]


class InPath(msgspec.Struct, frozen=True):
    """REST-JSON: a label of the URI template, ``/functions/{FunctionName}``."""

    name: str = ""  # the field's


class InQuery(msgspec.Struct, frozen=True):
    """REST-JSON: a parameter of the query string. A list is a parameter given several times."""

    name: str = ""


class InHeader(msgspec.Struct, frozen=True):
    """REST-JSON: a header."""

    name: str


class Payload(msgspec.Struct, frozen=True):
    """REST-JSON: the whole body, instead of a JSON object with the other members.

    Bytes and text are sent as they are. A response may hold an asynchronous iterable of bytes, which is streamed.
    """

    content_type: bytes = b"application/octet-stream"


Place = InPath | InQuery | InHeader | Payload


class Scalar(msgspec.Struct, frozen=True):
    type: type[str] | type[int] | type[float] | type[bool] | type[bytes]
    is_time: bool = False


class Spelling(msgspec.Struct, frozen=True):
    """How the Query protocol names a field, derived from its marks."""

    name: str
    item: str | None = None  # the level between a list or map and its members; None if it is flattened
    key: str = "key"
    value: str = "value"
    also: tuple[str, ...] = ()
    json: str = ""


class ListOf(msgspec.Struct, frozen=True):
    member: Shape
    inner: Spelling  # of a member that is a list or map itself, which has no field and so no marks


class MapOf(msgspec.Struct, frozen=True):
    value: Shape
    inner: Spelling


class Field(msgspec.Struct, frozen=True):
    name: str
    shape: Shape
    spelling: Spelling
    any_text: bool
    from_path: bool
    place: Place | None


class StructOf(msgspec.Struct, frozen=True):
    type: type[msgspec.Struct]
    fields: tuple[Field, ...]
    required: tuple[str, ...] = ()
    is_strict: bool = False  # what no field knows is refused, where AWS ignores it: ``forbid_unknown_fields``

    def make(self, members: dict[str, Any]) -> msgspec.Struct:
        """Raises Fault if a required member is missing."""
        for name in self.required:
            if name not in members:
                raise missing_parameter(name)
        return self.type(**members)


Shape = Scalar | ListOf | MapOf | StructOf


@cache
def struct_shape(struct: type[msgspec.Struct]) -> StructOf:
    hints = get_type_hints(struct, include_extras=True)
    fields = tuple(_field(name, hints[name]) for name in struct.__struct_fields__)
    required = tuple(field.name for field in msgspec.structs.fields(struct) if field.required)
    return StructOf(struct, fields, required, struct.__struct_config__.forbid_unknown_fields)


def resource_members(struct: type[msgspec.Struct]) -> type[msgspec.Struct] | None:
    """A struct with nothing but the members that name a request's resource, and so can be taken from its path; None
    if there are none."""
    hints = get_type_hints(struct, include_extras=True)
    named = [
        (field.name, hints[field.name], None) for field in struct_shape(struct).fields if field.from_path
    ]
    return msgspec.defstruct(f"{struct.__name__}Resource", named, kw_only=True) if named else None


def check_known(names: Iterable[str], known: Collection[str]) -> None:
    """Raises Fault for the first name that is none of these."""
    for name in names:
        if name not in known:
            shown = ascii(name[:_NAME_SHOWN_MAX])
            raise invalid_parameter(f"Unknown member {shown}: expected {', '.join(sorted(known)) or 'none'}.")


def _field(name: str, hint: Any) -> Field:
    bare, notes = bare_hint(hint)
    marks = {type(note): note for note in notes}
    place = next((note for note in notes if isinstance(note, Place)), None)
    shape = Scalar(bytes) if isinstance(place, Payload) and bare is Any else _shape(hint)
    spelling = _spelling(name, shape, marks.get(Flat) or marks.get(Wrapped, Wrapped()))
    return Field(name, shape, spelling, AnyText in marks, FromPath in marks, place)


def _spelling(name: str, shape: Shape, mark: Flat | Wrapped) -> Spelling:
    if isinstance(mark, Flat):
        return Spelling(mark.name, None, mark.key, mark.value, mark.also, mark.json or name)
    item = mark.item or ("member" if isinstance(shape, ListOf) else "entry")
    return Spelling(mark.name or name, item, mark.key, mark.value, json=name)


def bare_hint(hint: Any) -> tuple[Any, list[Any]]:
    """The hint without ``Annotated`` and ``| None``, and its annotations."""
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
    hint, notes = bare_hint(hint)
    if get_origin(hint) is list:
        member = _shape(get_args(hint)[0])
        return ListOf(member, _spelling("", member, Wrapped()))
    if get_origin(hint) is dict:
        value = _shape(get_args(hint)[1])
        return MapOf(value, _spelling("", value, Wrapped()))
    if issubclass(hint, msgspec.Struct):
        return struct_shape(hint)
    assert hint in (str, int, float, bool, bytes), f"no wire type for {hint}"
    return Scalar(hint, any(isinstance(note, Timestamp) for note in notes))


# Single values. What is not of its type is a SerializationException, in the same words in every protocol.


def unicode_text(text: str, *, any_text: bool) -> str:
    """Lone surrogates are not Unicode; only text that its handler checks may hold them."""
    if not any_text and _SURROGATE.search(text):
        raise malformed_input("The request body holds text that is not Unicode.")
    return text


def is_integer(value: object) -> bool:
    """Whether the value is an integer within 64 bits, as AWS has it; true and false are not numbers."""
    return (
        isinstance(value, int) and not isinstance(value, bool) and -_INTEGER_MAX - 1 <= value <= _INTEGER_MAX
    )


def time_of(seconds: float) -> float:
    if not 0 <= seconds <= TIME_MAX:  # not a number is refused, too
        raise malformed_input("The value is not a time between the years 1970 and 9999.")
    return seconds


def blob(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise malformed_input("Invalid base64 in a binary value") from None


def utf8_text(data: bytes) -> str:
    """Decode UTF-8 and let lone surrogates through, which a message body may hold. Raises ValueError."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        _surrogates.left = _SURROGATES_MAX
        return data.decode("utf-8", "penstock.surrogates")


class _Surrogates:
    """An error handler for the UTF-8 codec. ``surrogatepass`` would take most of a second for 8 MB of surrogates."""

    left = 0

    def __call__(self, error: UnicodeError) -> tuple[str | bytes, int]:
        self.left -= 1
        if self.left < 0:
            raise error
        return codecs.lookup_error("surrogatepass")(error)


_surrogates = _Surrogates()
codecs.register_error("penstock.surrogates", _surrogates)
