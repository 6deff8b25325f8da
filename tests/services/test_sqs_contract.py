"""The structs of all actions, compared with the model of botocore."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest
from botocore.loaders import Loader

from penstock.services.sqs import ACTIONS
from penstock.wire import json as wire_json
from penstock.wire.json import JsonDecoder
from penstock.wire.service import Fault
from penstock.wire.shapes import MEMBERS_MAX, Field, ListOf, MapOf, Scalar, Shape, StructOf, struct_shape
from support.rows import every_row

MODEL = Loader().load_service_model("sqs", "service-2")


def all_fields(struct: StructOf) -> Iterator[Field]:
    for field in struct.fields:
        yield field
        inner = field.shape
        while isinstance(inner, ListOf | MapOf):
            inner = inner.member if isinstance(inner, ListOf) else inner.value
        if isinstance(inner, StructOf):
            yield from all_fields(inner)


STRUCTS = [struct for row in ACTIONS.values() for struct in (row.request, row.response) if struct]


@every_row("struct", STRUCTS)
def test_every_list_and_map_has_its_query_name(struct: type[msgspec.Struct]) -> None:
    for field in all_fields(struct_shape(struct)):
        compound = isinstance(field.shape, ListOf | MapOf | StructOf)
        assert not compound or field.spelling.item is None, f"{struct.__name__}.{field.name}"


def test_the_actions_are_those_of_the_model() -> None:
    assert set(ACTIONS) == set(MODEL["operations"])
    assert len(ACTIONS) == 23


@every_row("action", sorted(ACTIONS))
def test_members_are_those_of_the_model(action: str) -> None:
    request, response = ACTIONS[action].request, ACTIONS[action].response
    operation = MODEL["operations"][action]
    _same_members(struct_shape(request), operation["input"]["shape"])
    if response is None:
        assert "output" not in operation
    else:
        _same_members(struct_shape(response), operation["output"]["shape"])


def _same_members(struct: StructOf, shape_name: str) -> None:
    members = MODEL["shapes"][shape_name].get("members", {})
    assert {field.name for field in struct.fields} == set(members)
    for field in struct.fields:
        _same_shape(field.shape, members[field.name]["shape"])


def _same_shape(ours: object, shape_name: str) -> None:
    theirs = MODEL["shapes"][shape_name]
    match ours:
        case ListOf():
            assert theirs["type"] == "list"
            _same_shape(ours.member, theirs["member"]["shape"])
        case MapOf():
            assert theirs["type"] == "map"
            _same_shape(ours.value, theirs["value"]["shape"])
        case StructOf():
            _same_members(ours, shape_name)
        case _:
            wanted = {"string": str, "integer": int, "long": int, "boolean": bool, "blob": bytes}
            assert ours.type is wanted[theirs["type"]]  # type: ignore[attr-defined]


def _sample(shape: Shape) -> object:
    return "" if isinstance(shape, Scalar) else {}


@pytest.mark.parametrize("request_type", [row.request for row in ACTIONS.values()])
def test_every_list_and_map_of_a_request_is_bounded_without_reading_by_hand(
    request_type: type[msgspec.Struct], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(wire_json, "read_object")  # msgspec alone must refuse
    structs = {request_type}
    for field in all_fields(struct_shape(request_type)):
        inner = field.shape.member if isinstance(field.shape, ListOf) else field.shape
        inner = inner.value if isinstance(inner, MapOf) else inner
        if isinstance(inner, StructOf):
            structs.add(inner.type)
    for struct in structs:
        for field in struct_shape(struct).fields:
            members: object
            if isinstance(field.shape, ListOf):
                members = [_sample(field.shape.member)] * (MEMBERS_MAX + 1)
            elif isinstance(field.shape, MapOf):
                members = {str(number): _sample(field.shape.value) for number in range(MEMBERS_MAX + 1)}
            else:
                continue
            with pytest.raises(Fault, match="more than 2000 members"):
                JsonDecoder(struct)(msgspec.json.encode({field.name: members}))
