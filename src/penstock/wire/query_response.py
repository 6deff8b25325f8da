"""The Query protocol, responses: XML, or JSON for a client that sends a form and accepts ``application/json``.

XML: the root is ``<ActionResponse>`` in the service's namespace; an action without a result has no Result element,
and an empty result is an empty element. Every text can be read back unchanged: quotes and carriage returns are
written as entities. Characters that XML does not allow are written as U+FFFD. Some services write XML in lines,
without a declaration (:attr:`Service.xml_is_indented`).

JSON: this is the XML with other brackets, not the JSON protocol: the same wrapping elements, a map as a list of its
entries, and null for absent members.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from penstock.clock import iso_time
from penstock.turns import Steps
from penstock.wire.json import encoded_list
from penstock.wire.long_lists import EncodedList
from penstock.wire.query import FormDecoder
from penstock.wire.service import Action, Fault, Response, error_headers
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

_XML = b"text/xml"
_JSON = b"application/json"

_encode = msgspec.json.Encoder().encode
_DECLARATION = '<?xml version="1.0"?>'
_METADATA_BEGIN, _METADATA_END = "<ResponseMetadata>", "</ResponseMetadata>"
_INDENT = "  "
_EMPTY = "></"  # between the tags of an element without text; in text this is escaped
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SPECIAL = re.compile('[&<>"\r]')
_ENTITIES = (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("\r", "&#xD;"))


class QueryProtocol:
    """The Query protocol as one service speaks it, with responses in XML."""

    __slots__ = ("_detail", "_is_indented", "_xmlns")

    def __init__(self, namespace: str, *, error_detail: bool = False, is_indented: bool = False) -> None:
        """``error_detail``: errors end with an empty element for details (:attr:`Service.xml_error_detail`).
        ``is_indented``: :attr:`Service.xml_is_indented`."""
        self._xmlns = f' xmlns="{escaped(namespace)}"' if namespace else ""
        self._detail = ["<Detail/>"] if error_detail else []
        self._is_indented = is_indented

    def decoder(self, action: Action) -> FormDecoder:
        return FormDecoder(action.request, action.members_max)

    def success(self, action: Action, response: Any, request_id: str) -> Response:
        root = f"{action.name}Response"
        parts = [f"<{root}{self._xmlns}>"]
        if action.response is not None:
            _write_struct(parts, f"{action.name}Result", response, struct_shape(action.response))
        parts += _METADATA_BEGIN, _request_id(request_id), _METADATA_END, f"</{root}>"
        headers = [(b"Content-Type", _XML), (b"x-amzn-RequestId", request_id.encode())]
        return Response(200, headers, self._document(parts))

    def encoded_list(self, pieces: Iterator[list[Any]], field: Field) -> Steps[EncodedList]:
        assert isinstance(field.shape, ListOf)
        parts: list[str] = []
        for piece in pieces:
            _write_items(
                parts, field.spelling.item or field.spelling.name, piece, field.shape, field.spelling
            )
            yield
        return EncodedList(parts if self._is_indented else ["".join(parts)])

    def error(self, fault: Fault, request_id: str) -> Response:
        parts = [f"<ErrorResponse{self._xmlns}>", "<Error>", f"<Type>{fault.blame}</Type>"]
        parts.append(f"<Code>{escaped(fault.code)}</Code>")
        if fault.query_message:
            parts.append(f"<Message>{escaped(fault.query_message)}</Message>")
        parts += *self._detail, "</Error>", _request_id(request_id), "</ErrorResponse>"
        return Response(fault.status, error_headers(fault, _XML, request_id), self._document(parts))

    def _document(self, parts: list[str]) -> bytes:
        if self._is_indented:
            return _indented(parts).encode()
        return f"{_DECLARATION}{''.join(parts)}".encode()


class QueryJsonWriter:
    """Writes the responses of every service: nothing in them names it."""

    def success(self, action: Action, response: Any, request_id: str) -> Response:
        content: dict[str, Any] = {}
        if action.response is not None:
            shape = struct_shape(action.response)
            content[f"{action.name}Result"] = None if response is None else _json_struct(response, shape)
        content["ResponseMetadata"] = {"RequestId": request_id}
        headers = [(b"Content-Type", _JSON), (b"x-amzn-RequestId", request_id.encode())]
        return Response(200, headers, _encode({f"{action.name}Response": content}))

    def encoded_list(self, pieces: Iterator[list[Any]], field: Field) -> Steps[msgspec.Raw]:
        values = (_json_value(piece, field.shape, field.spelling) for piece in pieces)
        return encoded_list(values)

    def error(self, fault: Fault, request_id: str) -> Response:
        error = {"Code": fault.code, "Message": fault.query_message or None, "Type": fault.blame}
        body = _encode({"Error": error, "RequestId": request_id})
        return Response(fault.status, error_headers(fault, _JSON, request_id), body)


def no_operation(request_id: str) -> Response:
    """The response to a request without an action. SQS: XML, whatever the client accepts."""
    headers = [(b"Content-Type", _XML), (b"x-amzn-RequestId", request_id.encode())]
    return Response(404, headers, b"<UnknownOperationException/>\n")


def escaped(text: str) -> str:
    if not text.isprintable():
        text = _NOT_XML.sub("\ufffd", text)
    if _SPECIAL.search(text):
        for character, entity in _ENTITIES:
            text = text.replace(character, entity)
    return text


def _request_id(request_id: str) -> str:
    return f"<RequestId>{request_id}</RequestId>"


def _indented(parts: list[str]) -> str:
    """The document, an element in each line. Each part is a tag that begins or ends an element, or an element with
    text, which is written as it is. Elements without contents are written as one tag."""
    lines: list[str] = []
    indent = ""
    has_contents = True  # of the element that is open
    for part in parts:
        if part.startswith("</"):
            indent = indent[: -len(_INDENT)]
            if has_contents:
                lines.append(f"{indent}{part}")
            else:
                lines[-1] = f"{lines[-1][:-1]}/>"
            has_contents = True
            continue
        is_opened = "</" not in part and not part.endswith("/>")
        if _EMPTY in part:
            part = f"{part[: part.index(_EMPTY)]}/>"
        lines.append(f"{indent}{part}")
        if is_opened:
            indent += _INDENT
        has_contents = not is_opened
    lines.append("")
    return "\n".join(lines)


def _write(parts: list[str], name: str, value: Any, shape: Shape, spelling: Spelling) -> None:
    match shape:
        case Scalar():
            parts.append(f"<{name}>{_time(value) if shape.is_time else _text(value)}</{name}>")
        case StructOf():
            _write_struct(parts, name, value, shape)
        case ListOf() | MapOf() if spelling.item is None:
            _write_items(parts, name, value, shape, spelling)
        case ListOf() | MapOf():
            assert spelling.item is not None
            parts.append(f"<{name}>")
            _write_items(parts, spelling.item, value, shape, spelling)
            parts.append(f"</{name}>")


def _write_items(parts: list[str], name: str, items: Any, shape: ListOf | MapOf, spelling: Spelling) -> None:
    """The members of a list or map, each an element of that name."""
    if isinstance(items, EncodedList):
        parts += items.members
        return
    if isinstance(shape, ListOf):
        for item in items:
            _write(parts, name, item, shape.member, shape.inner)
        return
    for key, value in items.items():
        parts += f"<{name}>", f"<{spelling.key}>{escaped(key)}</{spelling.key}>"
        _write(parts, spelling.value, value, shape.value, shape.inner)
        parts.append(f"</{name}>")


def _write_struct(parts: list[str], name: str, struct: Any, shape: StructOf) -> None:
    parts.append(f"<{name}>")
    empty = len(parts)
    for field in shape.fields:
        value = None if struct is None else getattr(struct, field.name)
        if value is not None:
            _write(parts, field.spelling.name, value, field.shape, field.spelling)
    if len(parts) == empty:
        parts[-1] = f"<{name}/>"
    else:
        parts.append(f"</{name}>")


def _text(value: Any) -> str:
    if isinstance(value, str):
        return escaped(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def _time(seconds: float) -> str:
    whole, milliseconds = divmod(round(seconds * 1000), 1000)
    text = iso_time(whole)
    return f"{text[:-1]}.{milliseconds:03d}Z" if milliseconds else text


def _json_struct(struct: Any, shape: StructOf) -> dict[str, Any]:
    return {
        field.spelling.json: _json_value(getattr(struct, field.name), field.shape, field.spelling)
        for field in shape.fields
    }


def _json_value(value: Any, shape: Shape, spelling: Spelling) -> Any:
    if value is None or isinstance(value, msgspec.Raw):
        return value
    match shape:
        case Scalar():
            return value
        case StructOf():
            return _json_struct(value, shape)
        case ListOf():
            return [_json_value(member, shape.member, shape.inner) for member in value]
        case MapOf():
            return [
                {spelling.key: key, spelling.value: _json_value(member, shape.value, shape.inner)}
                for key, member in value.items()
            ]
