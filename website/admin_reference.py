"""The page with every request of the admin API, from its OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.services.admin.actions import ACTIONS
from penstock.services.admin.openapi import openapi_document

INTRODUCTION = """\
# Requests of the admin API

All requests, parameters and members, in the order of `GET /admin/v1/openapi.json`, from which this page is made.
[The admin API](admin-api.md) explains what they are for, with examples."""


def admin_reference() -> str:
    document = openapi_document(ACTIONS)
    schemas = document["components"]["schemas"]
    parts = [INTRODUCTION, "## Requests"]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            parts += _request(f"{method.upper()} {path}", operation)
    parts.append("## Objects")
    for name, schema in schemas.items():
        parts += [f"### {name}", _table("member", _members(schema))]
    return "\n\n".join(parts) + "\n"


def _request(request: str, operation: dict[str, Any]) -> Iterator[str]:
    yield f"### {operation['operationId']}"
    yield f"```text\n{request}\n```"
    permission = operation.get("x-permission")
    yield operation["summary"] + (f" Needs the permission `{permission}`." if permission else "")
    parameters = [
        (each["name"], f"in the {each['in']}, {_type(each['schema'])}{', required' * each['required']}")
        for each in operation.get("parameters", ())
    ]
    if parameters:
        yield _table("parameter", parameters)
    if "requestBody" in operation:
        yield "Body:"
        yield _table("member", _members(_schema(operation["requestBody"])))
    status, answer = next(iter(operation["responses"].items()))
    if "content" in answer:
        schema = _schema(answer)
        content = (
            f"[{_name(schema)}](#{_name(schema).lower()})" if "$ref" in schema else f"`{_media(answer)}`"
        )
        yield f"Answer: {status}, {content}."
    else:
        yield f"Answer: {status}, without a body."


def _members(schema: dict[str, Any]) -> list[tuple[str, str]]:
    required = schema.get("required", ())
    return [
        (name, f"{_type(each)}{', always' * (name in required)}")
        for name, each in schema.get("properties", {}).items()
    ]


def _media(content: dict[str, Any]) -> str:
    (media,) = content["content"]
    assert isinstance(media, str)
    return media


def _schema(content: dict[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = content["content"][_media(content)].get("schema", {})
    return schema


def _name(schema: dict[str, Any]) -> str:
    return str(schema["$ref"]).rpartition("/")[2]


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return f"[{_name(schema)}](#{_name(schema).lower()})"
    if "enum" in schema:
        return "one of " + ", ".join(f"`{each}`" for each in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(_type(each) for each in schema["anyOf"])
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}" if "items" in schema else "list"
    if schema.get("type") == "object" and "additionalProperties" in schema:
        return f"map to {_type(schema['additionalProperties'])}"
    return str(schema.get("type", "any value"))


def _table(heading: str, rows: list[tuple[str, str]]) -> str:
    return "\n".join(
        [f"| {heading} | value |", "|---|---|", *(f"| `{name}` | {text} |" for name, text in rows)]
    )
