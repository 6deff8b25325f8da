"""The OpenAPI document: valid, and complete."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from penstock.services.admin import ACTIONS
from penstock.services.admin.openapi import openapi_document
from support.rows import every_row

DOCUMENT = openapi_document(ACTIONS)
OPERATIONS = {
    operation["operationId"]: (path, operation)
    for path, methods in DOCUMENT["paths"].items()
    for operation in methods.values()
}


def nodes(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for each in value.values():
            yield from nodes(each)
    elif isinstance(value, list):
        for each in value:
            yield from nodes(each)


def test_it_is_a_document_of_openapi_3_1() -> None:
    assert DOCUMENT["openapi"].startswith("3.1.")
    assert DOCUMENT["info"].keys() >= {"title", "version"}
    assert all(path.startswith("/") for path in DOCUMENT["paths"])
    methods = {method for each in DOCUMENT["paths"].values() for method in each}
    assert methods <= {"get", "put", "post", "delete", "patch"}


def test_every_reference_leads_to_a_schema() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    references = {node["$ref"] for node in nodes(DOCUMENT) if "$ref" in node}
    assert references
    assert {each.removeprefix("#/components/schemas/") for each in references} <= schemas.keys()


def test_every_schema_is_used() -> None:
    references = {node["$ref"].rpartition("/")[2] for node in nodes(DOCUMENT) if "$ref" in node}
    assert DOCUMENT["components"]["schemas"].keys() == references


def test_no_schema_has_null() -> None:
    assert not [node for node in nodes(DOCUMENT) if node.get("type") == "null"]


@every_row("name", ACTIONS)
def test_every_row_is_an_operation_with_its_parameters(name: str) -> None:
    row = ACTIONS[name]
    path, operation = OPERATIONS[name]
    assert row.http.endswith(f" {path}")
    in_path = {each["name"] for each in operation.get("parameters", ()) if each["in"] == "path"}
    assert in_path == set(re.findall(r"{(\w+)}", path))
    in_body: dict[str, Any] = {}
    if "requestBody" in operation:
        in_body = operation["requestBody"]["content"]["application/json"]["schema"]["properties"]
    named = {each["name"] for each in operation.get("parameters", ())} | in_body.keys()
    assert named == set(row.request.__struct_fields__)
    assert operation["summary"] != name, "a handler has a docstring"
    assert str(row.status) in operation["responses"]
    assert operation.get("x-permission", "") == row.permission
