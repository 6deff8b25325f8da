"""REST-JSON: method and URI name the action; members are in the path, the query string, headers and a JSON body.

An action's row says where it is served (``http="PUT /things/{Name}"``); marks beside the fields of its structs say
where each member is (:class:`InPath`, :class:`InQuery`, :class:`InHeader`, :class:`Payload`). Members without a mark
are those of a JSON object in the body.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterable, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes

import msgspec

from penstock.turns import Steps
from penstock.wire.faults import malformed_input
from penstock.wire.json import encoded_list, read_object
from penstock.wire.query import PARAMETERS_MAX, decode_parameter, read_scalar
from penstock.wire.service import Action, Fault, HttpRequest, Response, error_headers
from penstock.wire.shapes import (
    Field,
    InHeader,
    InPath,
    InQuery,
    ListOf,
    Payload,
    Scalar,
    StructOf,
    check_known,
    struct_shape,
    utf8_text,
)
from penstock.wire.values import MemberBudget, read_members, read_struct

_JSON = b"application/json"
_LABEL = re.compile(r"\\\{(\w+)(\\\+)?\\\}")
_encode = msgspec.json.Encoder().encode


class RestRequest(NamedTuple):
    """A request whose URI matched the template of an action."""

    request: HttpRequest
    labels: Mapping[str, str]


class UriTemplate:
    """``GET /things/{Name}``: a label is one segment of the path, ``{Key+}`` is the rest of it."""

    def __init__(self, template: str) -> None:
        method, _, path = template.partition(" ")
        self.method = method.encode()
        pattern, self.label_count = _LABEL.subn(_label_pattern, re.escape(path.rstrip("/")))
        self._pattern = re.compile(f"{pattern}/?".encode())

    def match(self, request: HttpRequest) -> dict[str, str] | None:
        """The labels, decoded, or None if the request is for another action."""
        if request.method != self.method:
            return None
        found = self._pattern.fullmatch(request.target.partition(b"?")[0])
        if found is None:
            return None
        try:
            return {name: utf8_text(unquote_to_bytes(text)) for name, text in found.groupdict().items()}
        except ValueError:
            return None


def _label_pattern(label: re.Match[str]) -> str:
    return f"(?P<{label[1]}>{'.+' if label[2] else '[^/]+'})"


class RestJsonProtocol:
    """REST-JSON as one service speaks it."""

    def decoder(self, action: Action) -> RestDecoder:
        return RestDecoder(action.request)

    def success(self, action: Action, response: Any, request_id: str) -> Response:
        headers = [(b"Content-Type", _JSON), (b"x-amzn-RequestId", request_id.encode())]
        if response is None:
            return Response(action.status, headers[1:])
        members: dict[str, Any] = {}
        assert action.response is not None, f"{action.name} has no response"
        for field in struct_shape(action.response).fields:
            value = getattr(response, field.name)
            if isinstance(field.place, Payload):
                return _payload_response(action, value, field, headers)
            if value is None:
                continue
            if isinstance(field.place, InHeader):
                headers.append((field.place.name.encode(), _header_value(value)))
            else:
                members[field.name] = value
        return Response(action.status, headers, _encode(members))

    def encoded_list(self, pieces: Iterator[list[Any]], field: Field) -> Steps[msgspec.Raw]:
        return encoded_list(pieces)

    def error(self, fault: Fault, request_id: str) -> Response:
        headers = error_headers(fault, _JSON, request_id)
        headers.append((b"X-Amzn-Errortype", fault.shape.encode()))
        return Response(fault.status, headers, _encode({"message": fault.message}))


def _payload_response(
    action: Action, value: Any, field: Field, headers: list[tuple[bytes, bytes]]
) -> Response:
    if isinstance(value, msgspec.Struct):
        return Response(action.status, headers, _encode(value))
    assert isinstance(field.place, Payload)
    headers[0] = (b"Content-Type", field.place.content_type)
    if isinstance(value, AsyncIterable):
        return Response(action.status, headers, stream=value)
    return Response(action.status, headers, value.encode() if isinstance(value, str) else value or b"")


def _header_value(value: Any) -> bytes:
    text = ("true" if value else "false") if isinstance(value, bool) else str(value)
    # A line break would start a header of its own.
    return text.replace("\r", " ").replace("\n", " ").encode()


class RestDecoder:
    """Decodes the requests of one action."""

    def __init__(self, request: type[msgspec.Struct]) -> None:
        self._shape = shape = struct_shape(request)
        self._placed = [field for field in shape.fields if field.place is not None]
        in_body = tuple(field for field in shape.fields if field.place is None)
        self._in_body = StructOf(request, in_body, is_strict=shape.is_strict)
        self._in_query = {
            each.place.name or each.name for each in shape.fields if isinstance(each.place, InQuery)
        }
        self._reads_body = not any(isinstance(field.place, Payload) for field in self._placed)

    def __call__(self, given: RestRequest) -> msgspec.Struct:
        request, labels = given
        members: dict[str, Any] = {}
        if self._reads_body and self._in_body.fields and request.body:
            members = read_members(read_object(request.body), self._in_body, MemberBudget())
        parameters = _read_parameters(request)
        if self._shape.is_strict:
            # A signature may be there, too.
            check_known((name for name in parameters if not name.startswith("X-Amz-")), self._in_query)
        for field in self._placed:
            value = _placed_value(field, request, labels, parameters)
            if value is not None:
                members[field.name] = value
        return self._shape.make(members)


def _read_parameters(request: HttpRequest) -> dict[str, list[str]]:
    query = request.target.partition(b"?")[2]
    if query.count(b"&") >= PARAMETERS_MAX:
        raise malformed_input(f"The request has more than {PARAMETERS_MAX} parameters.")
    parameters: dict[str, list[str]] = {}
    for parameter in filter(None, query.split(b"&")):
        name, _, value = parameter.partition(b"=")
        parameters.setdefault(decode_parameter(name), []).append(decode_parameter(value))
    return parameters


def _placed_value(
    field: Field, request: HttpRequest, labels: Mapping[str, str], parameters: dict[str, list[str]]
) -> Any:
    match field.place:
        case Payload():
            return _payload(field, request.body)
        case InPath(name):
            texts = [labels[name or field.name]]
        case InQuery(name):
            texts = parameters.get(name or field.name, [])
        case InHeader(name):
            value = request.headers.get(name.lower().encode())
            texts = [] if value is None else [value.decode("latin-1")]
    if isinstance(field.shape, ListOf):
        assert isinstance(field.shape.member, Scalar), f"{field.name}: a list of scalars"
        return [read_scalar(text, field.shape.member) for text in texts] or None
    assert isinstance(field.shape, Scalar), f"{field.name}: a scalar, or a list of them"
    return read_scalar(texts[0], field.shape, any_text=field.any_text) if texts else None


def _payload(field: Field, body: bytes) -> Any:
    if isinstance(field.shape, StructOf):
        return read_struct(read_object(body), field.shape, MemberBudget()) if body else None
    assert isinstance(field.shape, Scalar), f"{field.name}: bytes, text or a struct"
    if field.shape.type is bytes:
        return body
    try:
        return utf8_text(body)
    except ValueError:
        raise malformed_input("The request body holds text that is not Unicode.") from None
