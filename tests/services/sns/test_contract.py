"""The actions, structs and errors of SNS, compared with the model of botocore."""

from __future__ import annotations

from typing import get_type_hints

from botocore.loaders import Loader

from penstock.services.sns import ACTIONS
from penstock.services.sns import faults as sns_faults
from penstock.services.sns.structs import LANGUAGES
from penstock.wire.constraints import Length, OneOf, Pattern, Within
from penstock.wire.shapes import ListOf, MapOf, Scalar, Shape, StructOf, bare_hint, struct_shape
from support.rows import every_row

MODEL = Loader().load_service_model("sns", "service-2")
SHAPES = MODEL["shapes"]
TYPES = {"string": str, "integer": int, "boolean": bool, "blob": bytes, "timestamp": float}


def test_every_action_of_the_model_is_here() -> None:
    assert set(ACTIONS) == set(MODEL["operations"])
    assert len(ACTIONS) == 42


@every_row("action", sorted(ACTIONS))
def test_members_are_those_of_the_model(action: str) -> None:
    row, operation = ACTIONS[action], MODEL["operations"][action]
    if "input" in operation:
        _same_members(struct_shape(row.request), operation["input"]["shape"])
    if row.response is None:
        assert "output" not in operation
    else:
        assert operation["output"]["resultWrapper"] == f"{action}Result"
        _same_members(struct_shape(row.response), operation["output"]["shape"])


def _same_members(struct: StructOf, shape_name: str) -> None:
    members = SHAPES[shape_name].get("members", {})
    assert {field.name for field in struct.fields} == set(members), shape_name
    for field in struct.fields:
        _same_shape(field.shape, members[field.name]["shape"])
        theirs = SHAPES[members[field.name]["shape"]]
        if isinstance(field.shape, MapOf):
            names = theirs["key"].get("locationName", "key"), theirs["value"].get("locationName", "value")
            assert (field.spelling.key, field.spelling.value) == names
        if isinstance(field.shape, ListOf | MapOf):
            assert not theirs.get("flattened"), shape_name


def _same_shape(ours: Shape, shape_name: str) -> None:
    theirs = SHAPES[shape_name]
    match ours:
        case ListOf():
            assert theirs["type"] == "list"
            _same_shape(ours.member, theirs["member"]["shape"])
        case MapOf():
            assert theirs["type"] == "map"
            _same_shape(ours.value, theirs["value"]["shape"])
        case StructOf():
            assert theirs["type"] == "structure"
            _same_members(ours, shape_name)
        case Scalar():
            assert ours.type is TYPES[theirs["type"]], shape_name


@every_row("action", sorted(ACTIONS))
def test_permissions_are_those_of_iam(action: str) -> None:
    assert ACTIONS[action].permission == f"sns:{'Publish' if action == 'PublishBatch' else action}"


def test_codes_and_statuses_are_those_of_the_model() -> None:
    known = {name: shape["error"] for name, shape in SHAPES.items() if "error" in shape}
    for shape, (code, status) in sns_faults._SHAPES.items():
        assert (code, status) == (known[shape]["code"], known[shape]["httpStatusCode"]), shape


@every_row("action", sorted(ACTIONS))
def test_constraints_are_those_of_the_model(action: str) -> None:
    """Every mark is in the model. What the model says beyond that has a text of its own in a handler, or none."""
    request = ACTIONS[action].request
    operation = MODEL["operations"][action]
    members = SHAPES[operation["input"]["shape"]].get("members", {}) if "input" in operation else {}
    hints = get_type_hints(request, include_extras=True)
    for name, member in members.items():
        theirs = SHAPES[member["shape"]]
        for mark in bare_hint(hints[name])[1]:
            match mark:
                case Length():
                    assert (mark.low, mark.high) == (theirs.get("min", 0), theirs["max"])
                case Within():
                    assert (mark.low, mark.high) == (theirs["min"], theirs["max"])
                case Pattern():
                    assert mark.shown == theirs["pattern"]
                case OneOf():
                    assert mark.values == tuple(theirs["enum"]) == LANGUAGES
