"""Smithy RPC v2 CBOR: ``POST /service/NAME/operation/ACTION`` with a body in CBOR (RFC 8949).

The codec is our own: the protocol uses a small part of CBOR, the depth and the members of a request must be bounded
while it is read, and a library would bring tags that create objects, which no service wants. A request may have a
hundred thousand members, so that reading pauses after every few hundred.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from itertools import count
from typing import Any

import msgspec

from penstock.turns import Steps, finished
from penstock.wire.faults import malformed_input
from penstock.wire.json import error_members
from penstock.wire.long_lists import EncodedList
from penstock.wire.service import Action, Fault, HttpRequest, Response, error_headers
from penstock.wire.shapes import Field, ListOf, MapOf, Scalar, Shape, StructOf, struct_shape, utf8_text
from penstock.wire.values import ALL_MEMBERS_MAX, MemberBudget, read_struct, struct_steps, too_many_members

_NAME = b"rpc-v2-cbor"
_CONTENT_TYPE = b"application/cbor"
_SMITHY_PROTOCOL = (b"smithy-protocol", _NAME)
_PATH = re.compile(rb".*/service/([^/]+)/operation/([^/]+)")
_DEPTH_MAX = 32

# The three high bits of a data item's first byte, and what the five low bits say.
_UNSIGNED, _NEGATIVE, _BYTES, _TEXT, _ARRAY, _MAP, _TAG, _SIMPLE = range(8)
_INDEFINITE = 31
_SIZES = {24: 1, 25: 2, 26: 4, 27: 8}  # bytes that follow with the argument
_FLOATS = {low: struct.Struct(form) for low, form in ((25, ">e"), (26, ">f"), (27, ">d"))}
_SIMPLE_VALUES = {20: False, 21: True, 22: None, 23: None}  # 23 is undefined
_BREAK, _NO_KEY = object(), object()
_ITEMS_PER_STEP = 256
_TIME = b"\xc1"  # tag 1: seconds since 1970

# AWS: lists and maps are written with an indefinite length.
_LIST_BEGIN, _MAP_BEGIN, _END = b"\x9f", b"\xbf", b"\xff"


def is_cbor(request: HttpRequest) -> bool:
    return request.headers.get(b"smithy-protocol") == _NAME


def service_and_action(request: HttpRequest) -> tuple[bytes, bytes]:
    """What the path names; empty if it has another form."""
    found = _PATH.fullmatch(request.target.partition(b"?")[0])
    return (found[1], found[2]) if found and request.method == b"POST" else (b"", b"")


class CborProtocol:
    """RPC v2 CBOR as one service speaks it."""

    __slots__ = ("_is_plain", "_namespace")

    def __init__(self, namespace: str, *, is_plain: bool = False) -> None:
        """``is_plain``: for clients that do not expect the statuses of the Query protocol."""
        self._namespace = namespace
        self._is_plain = is_plain

    def decoder(self, action: Action) -> CborDecoder:
        return CborDecoder(action.request, action.members_max)

    def success(self, action: Action, response: Any, request_id: str) -> Response:
        headers = [_SMITHY_PROTOCOL, (b"x-amzn-RequestId", request_id.encode())]
        if response is None:
            return Response(200, headers)
        assert action.response is not None, f"{action.name} has no response"
        headers.append((b"Content-Type", _CONTENT_TYPE))
        parts: list[bytes] = []
        _write_shaped(parts, response, struct_shape(action.response))
        return Response(200, headers, b"".join(parts))

    def encoded_list(self, pieces: Iterator[list[Any]], field: Field) -> Steps[EncodedList]:
        assert isinstance(field.shape, ListOf)
        parts: list[bytes] = []
        for piece in pieces:
            for member in piece:
                _write_shaped(parts, member, field.shape.member)
            yield
        return EncodedList(b"".join(parts))

    def error(self, fault: Fault, request_id: str) -> Response:
        headers = error_headers(fault, _CONTENT_TYPE, request_id)
        headers += [_SMITHY_PROTOCOL, (b"x-amzn-query-error", f"{fault.code};{fault.blame}".encode())]
        status = fault.plain_status if self._is_plain else fault.status
        return Response(status, headers, encode(error_members(fault, self._namespace)))


class CborDecoder:
    """Decodes the requests of one action."""

    __slots__ = ("_members_max", "_shape")

    def __init__(self, request: type[msgspec.Struct], members_max: int = 0) -> None:
        self._shape = struct_shape(request)
        self._members_max = members_max

    def __call__(self, body: bytes) -> msgspec.Struct:
        """Raises Fault, whatever the bytes are."""
        value = decode(body, self._members_max) if body else {}
        return read_struct(_map_of(value), self._shape, MemberBudget(self._members_max))

    def steps(self, body: bytes) -> Steps[msgspec.Struct]:
        value = yield from decode_steps(body, self._members_max)
        return (yield from struct_steps(_map_of(value), self._shape, MemberBudget(self._members_max)))


def _map_of(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise malformed_input("The request body must be a CBOR map.")
    return value


def decode(data: bytes, members_max: int = 0) -> Any:
    """The one data item that ``data`` holds. Raises Fault. ``members_max``: of all arrays and maps; 0: as usual."""
    return finished(decode_steps(data, members_max))


def decode_steps(data: bytes, members_max: int) -> Steps[Any]:
    reader = _ItemReader(data, members_max or ALL_MEMBERS_MAX)
    try:
        value = yield from reader.item()
    except (ValueError, struct.error):
        raise malformed_input("The request body is not valid CBOR.") from None
    if value is _BREAK or reader.at != len(data):
        raise malformed_input("The request body is not valid CBOR.")
    return value


class _Open:
    """An array or map that is being read."""

    __slots__ = ("depth", "key", "left", "members")

    def __init__(self, members: list[Any] | dict[str, Any], left: int | None, depth: int) -> None:
        self.members = members
        self.left = left  # how many members are to come; None: until there is a break
        self.depth = depth  # of its members
        self.key: Any = _NO_KEY  # of a map: that of the value which comes next


class _ItemReader:
    """Reads data items one after the other. Raises ValueError if they are not well-formed."""

    __slots__ = ("_data", "_members_left", "_members_max", "at")

    def __init__(self, data: bytes, members_max: int) -> None:
        self._data = data
        self._members_max = self._members_left = members_max
        self.at = 0

    def item(self) -> Steps[Any]:
        """The next item with all that is in it. It uses no recursion, so that it can pause wherever it is."""
        around: list[_Open] = []
        for number in count(1):
            if number % _ITEMS_PER_STEP == 0:
                yield
            value = self._begin(around[-1].depth if around else 0)
            if type(value) is _Open:
                if value.left != 0:
                    around.append(value)
                    continue
                value = value.members
            while around and self._ends(around[-1], value):
                value = around.pop().members
            if not around:
                return value

    def _begin(self, depth: int) -> Any:
        """A scalar, a break, or an array or map without its members."""
        if depth > _DEPTH_MAX:
            raise ValueError("nested too deeply")
        try:
            first = self._data[self.at]
        except IndexError:
            raise ValueError("cut short") from None
        self.at += 1
        major, low = first >> 5, first & 31
        if major == _SIMPLE:
            return self._simple(low)
        length = low if low < 24 else self._argument(low)
        if major in (_TEXT, _BYTES):
            string = self._chunks(major) if length is None else self._take(length)
            return string if major == _BYTES else utf8_text(string)
        if major == _ARRAY:
            return _Open([], length, depth + 1)
        if major == _MAP:
            return _Open({}, length, depth + 1)
        if length is None:
            raise ValueError("an indefinite length where there is none")
        if major == _TAG:
            self._count_member()
            return self._begin(depth + 1)  # the value says enough; tag 1 is a time in seconds
        return length if major == _UNSIGNED else -1 - length

    def _ends(self, container: _Open, value: Any) -> bool:
        """Put an item into an array or map. Returns whether that was its end."""
        key = container.key
        members: Any = container.members
        if key is _NO_KEY:
            if value is _BREAK and container.left is None:
                return True
            if type(members) is dict:
                container.key = value
                return False
            if value is _BREAK:
                raise ValueError("a break in an array of a known length")
            members.append(value)
        else:
            container.key = _NO_KEY
            if type(key) is not str or value is _BREAK:
                raise ValueError("a key that is not text, or no value")
            members[key] = value
        self._members_left -= 1
        if self._members_left < 0:
            raise too_many_members(self._members_max)
        if container.left is None:
            return False
        container.left -= 1
        return container.left == 0

    def _take(self, length: int) -> bytes:
        taken = self._data[self.at : self.at + length]
        if len(taken) != length:
            raise ValueError("cut short")
        self.at += length
        return taken

    def _argument(self, low: int) -> int | None:
        """The number in or after the first byte: a value, a length or a tag. None: the length is indefinite."""
        if low < 24:
            return low
        if low == _INDEFINITE:
            return None
        if low not in _SIZES:
            raise ValueError("a reserved argument")
        return int.from_bytes(self._take(_SIZES[low]), "big")

    def _simple(self, low: int) -> Any:
        if low in _FLOATS:
            return _FLOATS[low].unpack(self._take(_SIZES[low]))[0]
        if low == _INDEFINITE:
            return _BREAK
        if low not in _SIMPLE_VALUES:
            raise ValueError("an unknown simple value")
        return _SIMPLE_VALUES[low]

    def _chunks(self, major: int) -> bytes:
        """A string of indefinite length."""
        chunks = []
        while (first := self._take(1)[0]) != _SIMPLE << 5 | _INDEFINITE:
            if first >> 5 != major:
                raise ValueError("a chunk of another type")
            chunk_length = self._argument(first & 31)
            if chunk_length is None:
                raise ValueError("a chunk of indefinite length")
            chunks.append(self._take(chunk_length))
            self._count_member()
            if len(chunks) > ALL_MEMBERS_MAX:
                raise too_many_members(ALL_MEMBERS_MAX)
        return b"".join(chunks)

    def _count_member(self) -> None:
        self._members_left -= 1
        if self._members_left < 0:
            raise too_many_members(self._members_max)


def encode(value: Any) -> bytes:
    """A document of plain values. Members of maps that are None are left out."""
    parts: list[bytes] = []
    _write(parts, value)
    return b"".join(parts)


def _write_shaped(parts: list[bytes], value: Any, shape: Shape) -> None:
    """A value whose type is known, which says what is a time. Members that are None are left out."""
    match shape:
        case Scalar():
            if shape.is_time:
                parts.append(_TIME)
            _write(parts, float(value) if shape.type is float else value)
        case ListOf() if isinstance(value, EncodedList):
            parts += (_LIST_BEGIN, value.members, _END)
        case ListOf():
            parts.append(_LIST_BEGIN)
            for member in value:
                _write_shaped(parts, member, shape.member)
            parts.append(_END)
        case MapOf():
            parts.append(_MAP_BEGIN)
            for key, member in value.items():
                _write(parts, key)
                _write_shaped(parts, member, shape.value)
            parts.append(_END)
        case StructOf():
            parts.append(_MAP_BEGIN)
            for field in shape.fields:
                if (member := getattr(value, field.name)) is not None:
                    _write(parts, field.name)
                    _write_shaped(parts, member, field.shape)
            parts.append(_END)


def _write(parts: list[bytes], value: Any) -> None:
    match value:
        case None:
            parts.append(b"\xf6")
        case bool():
            parts.append(b"\xf5" if value else b"\xf4")
        case int() if value >= 0:
            parts.append(_head(_UNSIGNED, value))
        case int():
            parts.append(_head(_NEGATIVE, -1 - value))
        case float():
            parts.append(b"\xfb" + struct.pack(">d", value))
        case bytes():
            parts += (_head(_BYTES, len(value)), value)
        case str():
            text = value.encode()
            parts += (_head(_TEXT, len(text)), text)
        case list():
            parts.append(_LIST_BEGIN)
            for member in value:
                _write(parts, member)
            parts.append(_END)
        case dict():
            parts.append(_MAP_BEGIN)
            for key, member in value.items():
                if member is not None:
                    _write(parts, key)
                    _write(parts, member)
            parts.append(_END)
        case _:
            raise TypeError(f"no CBOR type for {type(value).__name__}")


def _head(major: int, argument: int) -> bytes:
    if argument < 24:
        return bytes((major << 5 | argument,))
    for low, size in _SIZES.items():
        if argument < 1 << 8 * size:
            return bytes((major << 5 | low,)) + argument.to_bytes(size, "big")
    raise ValueError(f"{argument} has more than 64 bits")
