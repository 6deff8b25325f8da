"""The OpenAPI document of the admin API, made from its rows and structs: it cannot differ from what is served.

The first sentence of a handler's docstring is the summary of its row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from penstock import __version__
from penstock.services.admin.resources import Admin
from penstock.services.admin.structs import Nothing, OpenApiDocument
from penstock.wire.service import Action, Call
from penstock.wire.shapes import Field, InPath, InQuery, Payload, struct_shape

_REFERENCE = "#/components/schemas/{name}"
_ERROR = {
    "type": "object",
    "properties": {"message": {"type": "string"}},
    "required": ["message"],
}
_INTRODUCTION = (
    "Queues and messages of a Penstock server. Requests are signed with AWS Signature Version 4 for the service "
    "`penstock`; a server without credentials needs no signature. Times are RFC 3339 in UTC, durations are seconds. "
    "The header `X-Amzn-Errortype` of an error has its code."
)

_written: dict[int, bytes] = {}  # by the identity of the rows, which never change


async def get_open_api(admin: Admin, request: Nothing, call: Call) -> OpenApiDocument:
    """This document."""
    key = id(admin.actions)
    if key not in _written:
        _written[key] = msgspec.json.encode(openapi_document(admin.actions))
    return OpenApiDocument(content=_written[key])


def openapi_document(actions: Mapping[str, Action]) -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    for row in actions.values():
        method, _, path = row.http.partition(" ")
        paths.setdefault(path, {})[method.lower()] = _operation(row)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Penstock admin API", "version": __version__, "description": _INTRODUCTION},
        "servers": [{"url": "/"}],
        "security": [{"sigv4": []}],
        "paths": paths,
        "components": {
            "schemas": {**_schemas(actions), "Error": _ERROR},
            "securitySchemes": {
                "sigv4": {
                    "type": "apiKey",
                    "name": "Authorization",
                    "in": "header",
                    "description": "AWS Signature Version 4 for the service penstock",
                }
            },
        },
    }


def _operation(row: Action) -> dict[str, Any]:
    fields = struct_shape(row.request).fields
    schemas = msgspec.json.schema_components([row.request], ref_template=_REFERENCE)[1]
    schema = schemas[row.request.__name__]
    summary = (row.handler.__doc__ or row.name).partition("\n")[0]
    operation: dict[str, Any] = {"operationId": row.name, "summary": summary}
    if row.permission:
        operation["x-permission"] = row.permission
    parameters = [_parameter(field, schema) for field in fields if isinstance(field.place, InPath | InQuery)]
    if parameters:
        operation["parameters"] = parameters
    in_body = [field.name for field in fields if field.place is None]
    if in_body:
        operation["requestBody"] = _body(in_body, schema)
    operation["responses"] = {
        str(row.status): _success(row),
        "default": {
            "description": "An error",
            "content": {"application/json": {"schema": {"$ref": _REFERENCE.format(name="Error")}}},
        },
    }
    return operation


def _parameter(field: Field, schema: dict[str, Any]) -> dict[str, Any]:
    in_path = isinstance(field.place, InPath)
    return {
        "name": field.name,
        "in": "path" if in_path else "query",
        "required": in_path,
        "schema": _plain(schema["properties"][field.name]),
    }


def _body(members: list[str], schema: dict[str, Any]) -> dict[str, Any]:
    required = [name for name in schema.get("required", ()) if name in members]
    body: dict[str, Any] = {
        "type": "object",
        "properties": {name: _plain(schema["properties"][name]) for name in members},
    }
    if required:
        body["required"] = required
    return {"required": bool(required), "content": {"application/json": {"schema": body}}}


def _success(row: Action) -> dict[str, Any]:
    if row.response is None:
        return {"description": "Done"}
    for field in struct_shape(row.response).fields:
        if isinstance(field.place, Payload):
            return {"description": "Done", "content": {field.place.content_type.decode(): {}}}
    reference = {"$ref": _REFERENCE.format(name=row.response.__name__)}
    return {"description": "Done", "content": {"application/json": {"schema": reference}}}


def _schemas(actions: Mapping[str, Action]) -> dict[str, Any]:
    """Returns the schemas of all structs in responses, and of those within requests."""
    answers = {row.response for row in actions.values() if row.response is not None}
    answers -= {each for each in answers if any(field.place for field in struct_shape(each).fields)}
    requests = {row.request for row in actions.values()}
    found = msgspec.json.schema_components([*answers, *requests], ref_template=_REFERENCE)[1]
    for request in requests - answers:
        found.pop(request.__name__, None)
    return {name: _plain(found[name]) for name in sorted(found)}


def _plain(schema: Any) -> Any:
    """The schema without null: a member that has no value is left out."""
    if isinstance(schema, list):
        return [_plain(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    choices = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    if len(choices) == 1:
        schema = {**choices[0], **{name: value for name, value in schema.items() if name != "anyOf"}}
    return {
        name: _plain(value) for name, value in schema.items() if not (name == "default" and value is None)
    }
