"""AWS JSON 1.0 and 1.1: a body to a request struct, a response struct or a fault to a body.

Nearly every request is what its struct says, so msgspec decodes it in one go; only when that fails is the body read
again member by member (:mod:`penstock.wire.values`), to be tolerant, or to name the error in AWS's words.

What is read is bounded: the members of each list and map, and of all of them together. msgspec keeps the first bound
where the struct states it (``Meta(max_length=MEMBERS_MAX)``), but only after it made all members, so those of a large
body, and of one that is read member by member, are counted first, as its commas outside of text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Literal, NoReturn

import msgspec

from penstock.turns import Steps
from penstock.wire.faults import malformed_input
from penstock.wire.service import Action, Fault, Response, error_headers
from penstock.wire.shapes import MEMBERS_MAX, Field, struct_shape, utf8_text
from penstock.wire.values import ALL_MEMBERS_MAX, MemberBudget, read_struct, struct_steps, too_many_members

JSON_TYPES = frozenset((b"application/x-amz-json-1.0", b"application/x-amz-json-1.1"))
FRAMEWORK_NAMESPACE = "com.amazon.coral.service"

_encode = msgspec.json.Encoder().encode
_SMALL_BYTES = 64 * 1024
_DIGITS_MAX = 40
_SPACE = re.compile(r"[ \t\n\r]*")
_LEVELS_IN_STEPS = 4  # a list of structs in a struct of a list of the request
_TOO_LONG = ("Expected `array` of length <=", "Expected `object` of length <=")


class JsonDecoder:
    """Decodes the requests of one action."""

    __slots__ = ("_decode", "_members_max", "_shape")

    def __init__(self, request: type[msgspec.Struct], members_max: int = 0) -> None:
        """``members_max``: of all lists and maps of a request; 0: as many as usual."""
        self._decode = msgspec.json.Decoder(request).decode
        self._shape = struct_shape(request)
        self._members_max = members_max or ALL_MEMBERS_MAX

    def __call__(self, body: bytes) -> msgspec.Struct:
        """Raises Fault, whatever the bytes are."""
        if len(body) > _SMALL_BYTES:
            _check_members(body, self._members_max)
        try:
            return self._decode(body or b"{}")
        except (ValueError, RecursionError) as error:
            budget = self._budget(body, error)
            return read_struct(read_object(body), self._shape, budget)

    def steps(self, body: bytes) -> Steps[msgspec.Struct]:
        """Does what a call does, with pauses where the body is read member by member. msgspec needs a few
        milliseconds for the longest."""
        _check_members(body, self._members_max)
        try:
            return self._decode(body or b"{}")
        except (ValueError, RecursionError) as error:
            budget = self._budget(body, error)
        yield
        value = yield from object_steps(body)
        return (yield from struct_steps(value, self._shape, budget))

    def _budget(self, body: bytes, error: Exception) -> MemberBudget:
        """The members that a body may have which msgspec refused. Raises Fault if it has too many."""
        if str(error).startswith(_TOO_LONG):
            raise too_many_members(MEMBERS_MAX) from None
        _check_members(body, self._members_max)
        return MemberBudget(self._members_max)


class JsonProtocol:
    """AWS JSON as one service speaks it."""

    __slots__ = ("_content_type", "_is_plain", "_namespace")

    def __init__(
        self,
        namespace: str,
        name: Literal["json-1.0", "json-1.1"] = "json-1.0",
        *,
        is_plain: bool = False,
    ) -> None:
        """``namespace`` is that of the service's own errors; those of the framework have theirs. ``is_plain``: for
        clients that do not expect the statuses of the Query protocol."""
        self._namespace = namespace
        self._is_plain = is_plain
        self._content_type = (b"Content-Type", f"application/x-amz-{name}".encode())

    def decoder(self, action: Action) -> JsonDecoder:
        return JsonDecoder(action.request, action.members_max)

    def success(self, action: Action, response: Any, request_id: str) -> Response:
        body = b"" if response is None else _encode(response)
        return Response(200, [self._content_type, (b"x-amzn-RequestId", request_id.encode())], body)

    def encoded_list(self, pieces: Iterator[list[Any]], field: Field) -> Steps[msgspec.Raw]:
        return encoded_list(pieces)

    def error(self, fault: Fault, request_id: str) -> Response:
        headers = error_headers(fault, self._content_type[1], request_id)
        headers.append((b"x-amzn-query-error", f"{fault.code};{fault.blame}".encode()))
        status = fault.plain_status if self._is_plain else fault.status
        return Response(status, headers, _encode(error_members(fault, self._namespace)))


FRAMEWORK_ERRORS = JsonProtocol(FRAMEWORK_NAMESPACE)
"""Writes errors that no service gave."""


def encoded_list(pieces: Iterable[list[Any]]) -> Steps[msgspec.Raw]:
    encoded = bytearray(b"[")
    for piece in pieces:
        if len(encoded) > 1:
            encoded += b","
        encoded += memoryview(_encode(piece))[1:-1]
        yield
    encoded += b"]"
    return msgspec.Raw(encoded)


def error_members(fault: Fault, namespace: str) -> dict[str, Any]:
    namespace = fault.namespace or (namespace if fault.modelled else FRAMEWORK_NAMESPACE)
    shown: dict[str, Any] = {"__type": f"{namespace}#{fault.shape}"}
    if fault.message:
        shown["message"] = fault.message
    return shown | fault.members


def read_object(body: bytes) -> dict[str, Any]:
    """The JSON object that a body holds. Raises Fault."""
    try:
        value = _decoder.decode(utf8_text(body))
    except (ValueError, RecursionError):
        raise malformed_input("The request body is not valid JSON.") from None
    return _object_of(value)


def object_steps(body: bytes) -> Steps[dict[str, Any]]:
    """Does the same as :func:`read_object`, with a pause after each member of the outer lists and objects."""
    try:
        text = utf8_text(body)
        value, end = yield from _value_steps(text, _after_space(text, 0), _LEVELS_IN_STEPS)
        if end != len(text):
            raise ValueError("something after the value")
    except (ValueError, RecursionError):
        raise malformed_input("The request body is not valid JSON.") from None
    return _object_of(value)


def _value_steps(text: str, at: int, levels: int) -> Steps[tuple[Any, int]]:
    """The value at a position, and where the next token is. Beneath some levels it is read in one go."""
    opening = text[at : at + 1]
    if levels == 0 or opening not in ("{", "["):
        value, at = _decoder.raw_decode(text, at)
        return value, _after_space(text, at)
    closing = "}" if opening == "{" else "]"
    keys: list[str] = []
    members: list[Any] = []
    at = _after_space(text, at + 1)
    sign = text[at : at + 1]
    while sign != closing:
        if members:
            if sign != ",":
                raise ValueError("no comma")
            at = _after_space(text, at + 1)
        if opening == "{":
            key, at = _key(text, at)
            keys.append(key)
        member, at = yield from _value_steps(text, at, levels - 1)
        members.append(member)
        sign = text[at : at + 1]
        yield
    value = members if opening == "[" else dict(zip(keys, members, strict=True))
    return value, _after_space(text, at + 1)


def _key(text: str, at: int) -> tuple[str, int]:
    if text[at : at + 1] != '"':
        raise ValueError("no name")
    key, at = _decoder.raw_decode(text, at)
    at = _after_space(text, at)
    if text[at : at + 1] != ":":
        raise ValueError("no colon")
    return key, _after_space(text, at + 1)


def _after_space(text: str, at: int) -> int:
    return _SPACE.match(text, at).end()  # type: ignore[union-attr]  # it matches nothing, too


def _object_of(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise malformed_input("The request body must be a JSON object.")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)  # NaN and Infinity are not JSON


def _number(digits: str) -> int:
    # Thousands of digits take as long as thousands of members.
    if len(digits) > _DIGITS_MAX:
        raise ValueError(digits)
    return int(digits)


# Only the standard library reads "\ud800", for which a message body has an error of its own.
_decoder = json.JSONDecoder(parse_constant=_refuse_constant, parse_int=_number)


def _check_members(body: bytes, members_max: int) -> None:
    """Millions of members would block the event loop for most of a second, even if no field knows them."""
    if body.count(b",") <= members_max:
        return
    if b"\\" in body:
        body = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    # Every other piece between quotes is outside of text. So many quotes are too many members by themselves: each
    # member has at most two texts, its name and its value.
    outside = body.split(b'"', 4 * members_max + 4)[::2]
    if len(outside) > 2 * members_max + 2 or b"".join(outside).count(b",") > members_max:
        raise too_many_members(members_max)
