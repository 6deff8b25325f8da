"""The Query protocol, answering in JSON: for callers that send a form and accept ``application/json``.

Rule: this is the XML in other brackets, not the JSON protocol: the same wrapping elements, a map as a list of
its entries, and null for what is absent.
"""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.wire.answer import Answer, refusal_headers
from penstock.wire.registry import Fault, Operation
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
    def success(self, operation: Operation, response: msgspec.Struct | None, request_id: str) -> Answer:
        content: dict[str, Any] = {}
        if operation.response is not None:
            content[f"{operation.name}Result"] = _struct(response, struct_shape(operation.response))
        content["ResponseMetadata"] = {"RequestId": request_id}
        headers = [(b"Content-Type", CONTENT_TYPE), (b"x-amzn-RequestId", request_id.encode())]
        return Answer(200, headers, _encode({f"{operation.name}Response": content}))

    def refusal(self, fault: Fault, request_id: str) -> Answer:
        error = {"Code": fault.code, "Message": fault.query_message, "Type": fault.blame}
        body = _encode({"Error": error, "RequestId": request_id})
        return Answer(fault.status, refusal_headers(fault, CONTENT_TYPE, request_id), body)


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
