"""The Query protocol, answering in XML: a response struct or a fault to a document.

Rule 1: the root is ``<ActionResponse>`` in the service's namespace; an action without a result has no Result
element, and a result with nothing in it is an empty one.
Rule 2: every text comes back as it was: quotes and carriage returns are written as entities. What XML cannot
carry at all is written as U+FFFD, so that whatever we are asked to say is a document.
"""

from __future__ import annotations

import base64
import re
from typing import Any

import msgspec

from penstock.wire.service import Action, Fault, Response, error_headers
from penstock.wire.shapes import (
    ListOf,
    MapOf,
    Scalar,
    Shape,
    Spelling,
    StructOf,
    struct_shape,
)

CONTENT_TYPE = b"text/xml"

_DECLARATION = '<?xml version="1.0"?>'
_IMPOSSIBLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SPECIAL = re.compile('[&<>"\r]')
_ENTITIES = (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("\r", "&#xD;"))


class XmlVoice:
    def __init__(self, namespace: str) -> None:
        self._xmlns = f' xmlns="{escaped(namespace)}"' if namespace else ""

    def success(self, action: Action, response: msgspec.Struct | None, request_id: str) -> Response:
        root = f"{action.name}Response"
        parts = [f"{_DECLARATION}<{root}{self._xmlns}>"]
        if action.response is not None:
            _write_struct(parts, f"{action.name}Result", response, struct_shape(action.response))
        parts.append(f"<ResponseMetadata><RequestId>{request_id}</RequestId></ResponseMetadata></{root}>")
        headers = [(b"Content-Type", CONTENT_TYPE), (b"x-amzn-RequestId", request_id.encode())]
        return Response(200, headers, "".join(parts).encode())

    def error(self, fault: Fault, request_id: str) -> Response:
        error = (
            f"<Type>{fault.blame}</Type><Code>{escaped(fault.code)}</Code>"
            f"<Message>{escaped(fault.query_message)}</Message><Detail/>"
        )
        body = (
            f"{_DECLARATION}<ErrorResponse{self._xmlns}><Error>{error}</Error>"
            f"<RequestId>{request_id}</RequestId></ErrorResponse>"
        )
        return Response(fault.status, error_headers(fault, CONTENT_TYPE, request_id), body.encode())


def no_operation(request_id: str) -> Response:
    """The answer to a request that asks for nothing. SQS: XML, whatever the caller accepts."""
    headers = [(b"Content-Type", CONTENT_TYPE), (b"x-amzn-RequestId", request_id.encode())]
    return Response(404, headers, b"<UnknownOperationException/>\n")


def escaped(text: str) -> str:
    if not text.isprintable():
        text = _IMPOSSIBLE.sub("\ufffd", text)
    if _SPECIAL.search(text):
        for character, entity in _ENTITIES:
            text = text.replace(character, entity)
    return text


def _write(parts: list[str], name: str, value: Any, shape: Shape, spelling: Spelling) -> None:
    match shape:
        case Scalar():
            parts.append(f"<{name}>{_text(value)}</{name}>")
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
    if isinstance(shape, ListOf):
        for item in items:
            _write(parts, name, item, shape.member, shape.inner)
        return
    for key, value in items.items():
        parts.append(f"<{name}><{spelling.key}>{escaped(key)}</{spelling.key}>")
        _write(parts, spelling.value, value, shape.value, shape.inner)
        parts.append(f"</{name}>")


def _write_struct(parts: list[str], name: str, struct: Any, shape: StructOf) -> None:
    parts.append(f"<{name}>")
    empty = len(parts)
    for field in shape.fields:
        value = getattr(struct, field.name)
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
