"""The Query protocol, answering in JSON: for callers that send a form and accept ``application/json``.

Rule: this is the XML in other brackets, not the JSON protocol: the same wrapping elements, a map as a list of
its entries, and null for what is absent.
"""

from __future__ import annotations

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

CONTENT_TYPE = b"application/json"

_encode = msgspec.json.Encoder().encode


class QueryJsonVoice:
    def success(self, action: Action, response: msgspec.Struct | None, request_id: str) -> Response:
        content: dict[str, Any] = {}
        if action.response is not None:
            content[f"{action.name}Result"] = _struct(response, struct_shape(action.response))
        content["ResponseMetadata"] = {"RequestId": request_id}
        headers = [(b"Content-Type", CONTENT_TYPE), (b"x-amzn-RequestId", request_id.encode())]
        return Response(200, headers, _encode({f"{action.name}Response": content}))

    def error(self, fault: Fault, request_id: str) -> Response:
        error = {"Code": fault.code, "Message": fault.query_message, "Type": fault.blame}
        body = _encode({"Error": error, "RequestId": request_id})
        return Response(fault.status, error_headers(fault, CONTENT_TYPE, request_id), body)


def _struct(struct: Any, shape: StructOf) -> dict[str, Any]:
    return {
        field.spelling.json: _value(getattr(struct, field.name), field.shape, field.spelling)
        for field in shape.fields
    }


def _value(value: Any, shape: Shape, spelling: Spelling) -> Any:
    if value is None:
        return None
    match shape:
        case Scalar():
            return value
        case StructOf():
            return _struct(value, shape)
        case ListOf():
            return [_value(member, shape.member, shape.inner) for member in value]
        case MapOf():
            return [
                {spelling.key: key, spelling.value: _value(member, shape.value, shape.inner)}
                for key, member in value.items()
            ]
