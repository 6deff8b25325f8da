"""AWS JSON 1.0: bytes to a request struct, a response struct to bytes, a fault to bytes.

Rule 1: reading is as tolerant as AWS: unknown members are ignored, null members and null map values count as
absent, a number or boolean where text belongs is taken as its text, an empty body is ``{}``.
Rule 2: what cannot be read is SerializationException; no bytes raise anything else.
Rule 3: writing is compact and leaves out what is absent; an action without a result has zero bytes.
Rule 4: an error names its shape in the body and its older code in a header.
Rule 5: what is read is bounded: the members of each list and map, and of all of them together. msgspec keeps the
first bound natively where the struct states it (``Meta(max_length=MEMBERS_MAX)``), but only once it has made all
members; so those of a large body are counted first, as its commas outside of text.

Nearly every request is what its struct says, so msgspec reads it in one go; only when that fails is the body
read again by hand, for tolerance or for AWS's own words about what is wrong.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

import msgspec

from penstock.wire.faults import malformed_input
from penstock.wire.scalars import blob, is_integer, unicode_text
from penstock.wire.service import Action, Fault, Response, error_headers
from penstock.wire.shapes import MEMBERS_MAX, ListOf, MapOf, Scalar, Shape, StructOf, struct_shape

CONTENT_TYPE = b"application/x-amz-json-1.0"
FRAMEWORK_NAMESPACE = "com.amazon.coral.service"

_CONTENT_TYPE = (b"Content-Type", CONTENT_TYPE)
_encode = msgspec.json.Encoder().encode
_ALL_MEMBERS_MAX = 20_000
_SMALL_BYTES = 64 * 1024
_DIGITS_MAX = 40
_TOO_LONG = ("Expected `array` of length <=", "Expected `object` of length <=")


class RequestDecoder:
    """Made once for each action."""

    __slots__ = ("_decode", "_shape")

    def __init__(self, request: type[msgspec.Struct]) -> None:
        self._decode = msgspec.json.Decoder(request).decode
        self._shape = struct_shape(request)

    def __call__(self, body: bytes) -> msgspec.Struct:
        if len(body) > _SMALL_BYTES and body.count(b",") > _ALL_MEMBERS_MAX:
            _check_members(body)
        try:
            return self._decode(body or b"{}")
        except (ValueError, RecursionError) as error:
            if str(error).startswith(_TOO_LONG):
                raise _too_many(MEMBERS_MAX) from None
            return self._read_by_hand(body)

    def _read_by_hand(self, body: bytes) -> msgspec.Struct:
        try:
            # Only the standard library reads "\ud800", which as a message body has an error of its own.
            text = body.decode("utf-8", "surrogatepass")
            value = json.loads(text, parse_constant=_refuse_constant, parse_int=_number)
        except (ValueError, RecursionError):
            raise malformed_input("The request body is not valid JSON.") from None
        if not isinstance(value, dict):
            raise malformed_input("The request body must be a JSON object.")
        return _struct(value, self._shape, _Room())


def encode_fault(fault: Fault, namespace: str) -> bytes:
    namespace = namespace if fault.modelled else FRAMEWORK_NAMESPACE
    return _encode({"__type": f"{namespace}#{fault.shape}", "message": fault.message})


class JsonVoice:
    def __init__(self, namespace: str) -> None:
        """``namespace`` is that of the service's own errors; the framework's have theirs."""
        self._namespace = namespace

    def success(self, action: Action, response: msgspec.Struct | None, request_id: str) -> Response:
        body = b"" if response is None else _encode(response)
        return Response(200, [_CONTENT_TYPE, (b"x-amzn-RequestId", request_id.encode())], body)

    def error(self, fault: Fault, request_id: str) -> Response:
        headers = error_headers(fault, CONTENT_TYPE, request_id)
        headers.append((b"x-amzn-query-error", f"{fault.code};{fault.blame}".encode()))
        return Response(fault.status, headers, encode_fault(fault, self._namespace))


FRAMEWORK_VOICE = JsonVoice(FRAMEWORK_NAMESPACE)
"""For errors that no service gave."""


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)  # NaN and Infinity are not JSON


def _number(digits: str) -> int:
    # Thousands of digits take as long as thousands of members.
    if len(digits) > _DIGITS_MAX:
        raise ValueError(digits)
    return int(digits)


def _too_many(most: int) -> Fault:
    return malformed_input(f"The request has a list or map, or several, of more than {most} members.")


def _check_members(body: bytes) -> None:
    """Millions of members would hold up everyone for most of a second, whoever they are for; text may be any size."""
    if b"\\" in body:
        body = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    # Every other piece between quotes is outside of text. So many quotes are too many members by themselves: each
    # member has at most two texts, its name and its value.
    outside = body.split(b'"', 4 * _ALL_MEMBERS_MAX + 4)[::2]
    if len(outside) > 2 * _ALL_MEMBERS_MAX + 2 or b"".join(outside).count(b",") > _ALL_MEMBERS_MAX:
        raise _too_many(_ALL_MEMBERS_MAX)


class _Room:
    """For how many members of lists and maps, all together, a request still has room."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = _ALL_MEMBERS_MAX

    def take(self, members: list[Any] | dict[str, Any]) -> None:
        """Before any of the members is looked at."""
        if len(members) > MEMBERS_MAX:
            raise _too_many(MEMBERS_MAX)
        self._left -= len(members)
        if self._left < 0:
            raise _too_many(_ALL_MEMBERS_MAX)


def _struct(value: dict[str, Any], shape: StructOf, room: _Room) -> msgspec.Struct:
    members = {
        field.name: _value(value[field.name], field.shape, room, any_text=field.any_text)
        for field in shape.fields
        if value.get(field.name) is not None
    }
    return shape.type(**members)


def _value(value: Any, shape: Shape, room: _Room, *, any_text: bool = False) -> Any:
    match shape:
        case Scalar():
            return _scalar(value, shape.type, any_text)
        case ListOf():
            if not isinstance(value, list):
                raise malformed_input(_misplaced(value) or "Expected list or null")
            room.take(value)
            return [_value(member, shape.member, room) for member in value if member is not None]
        case MapOf():
            if not isinstance(value, dict):
                raise malformed_input(_misplaced(value) or "Expected map or null")
            room.take(value)
            return {
                _text(key, any_text=False): _map_value(member, shape.value, room)
                for key, member in value.items()
                if member is not None
            }
        case StructOf():
            if not isinstance(value, dict):
                raise malformed_input(_misplaced(value) or "Expected structure or null")
            return _struct(value, shape, room)


def _map_value(value: Any, shape: Shape, room: _Room) -> Any:
    if isinstance(value, list) and isinstance(shape, Scalar):
        raise malformed_input("Unrecognized collection type class java.lang.String")
    return _value(value, shape, room)


def _misplaced(value: Any) -> str | None:
    if isinstance(value, list):
        return "Start of list found where not expected"
    if isinstance(value, dict):
        return "Start of structure or map found where not expected."
    return None


def _token(value: Any) -> str:
    if isinstance(value, bool):
        return "TRUE_VALUE" if value else "FALSE_VALUE"
    return "STRING_VALUE" if isinstance(value, str) else "NUMBER_VALUE"


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
    return _integer(value)


def _text(value: Any, *, any_text: bool) -> str:
    return unicode_text(value if isinstance(value, str) else json.dumps(value), any_text=any_text)


def _integer(value: Any) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not is_integer(value):
        raise malformed_input(f"{_token(value)} can not be converted to an Integer")
    return int(value)


def _blob(value: Any) -> bytes:
    if not isinstance(value, str):
        raise malformed_input(f"{_token(value)} can not be converted to a Blob")
    return blob(value)
