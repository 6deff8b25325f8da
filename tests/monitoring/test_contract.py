"""The structs of all actions of CloudWatch, compared with the model of botocore."""

from __future__ import annotations

from botocore.loaders import Loader

from penstock.services.cloudwatch import ACTIONS
from penstock.services.cloudwatch.actions import UNSUPPORTED
from penstock.services.cloudwatch.limits import UNITS
from penstock.services.cloudwatch.structs import NotSupported
from penstock.wire.shapes import ListOf, MapOf, Scalar, Shape, StructOf, struct_shape
from support.rows import every_row

MODEL = Loader().load_service_model("cloudwatch", "service-2")
# Of answers: what this server has nothing to say about.
NOT_ANSWERED = {
    "ThresholdMetricId", "EvaluationState", "EvaluationWindow", "WarmUpConfiguration", "EvaluationCriteria",
    "EvaluationInterval", "ActionConfiguration", "LogAlarms", "AlarmContributorId", "AlarmContributorAttributes",
}  # fmt: skip
TYPES = {"string": str, "integer": int, "long": int, "boolean": bool, "double": float, "timestamp": float}


def test_actions_are_those_of_the_model_and_others_are_known_not_to_be_there() -> None:
    """A newer model may have actions that were not known here: they are unknown to the server, too."""
    assert set(ACTIONS) <= set(MODEL["operations"])
    assert len(UNSUPPORTED & set(MODEL["operations"])) >= 35
    assert not set(ACTIONS) & UNSUPPORTED
    assert len(ACTIONS) == 20


def test_the_units_are_those_of_the_model() -> None:
    assert list(UNITS) == MODEL["shapes"]["StandardUnit"]["enum"]


@every_row("action", sorted(ACTIONS))
def test_members_are_those_of_the_model(action: str) -> None:
    row, operation = ACTIONS[action], MODEL["operations"][action]
    _same_members(struct_shape(row.request), operation["input"]["shape"], frozenset())
    if row.response is None:
        assert "output" not in operation
    else:
        _same_members(struct_shape(row.response), operation["output"]["shape"], NOT_ANSWERED)


def _same_members(struct: StructOf, shape_name: str, left_out: frozenset[str] | set[str]) -> None:
    if struct.type is NotSupported:
        return
    members = MODEL["shapes"][shape_name].get("members", {})
    names = {field.name for field in struct.fields}
    assert names | (left_out & set(members)) == set(members), shape_name
    for field in struct.fields:
        _same_shape(field.shape, members[field.name]["shape"], left_out)


def _same_shape(ours: Shape, shape_name: str, left_out: frozenset[str] | set[str]) -> None:
    theirs = MODEL["shapes"][shape_name]
    match ours:
        case ListOf():
            assert theirs["type"] == "list"
            _same_shape(ours.member, theirs["member"]["shape"], left_out)
        case MapOf():
            assert theirs["type"] == "map"
            _same_shape(ours.value, theirs["value"]["shape"], left_out)
        case StructOf():
            assert theirs["type"] == "structure"
            _same_members(ours, shape_name, left_out)
        case Scalar():
            assert ours.type is TYPES[theirs["type"]], shape_name
            assert ours.is_time == (theirs["type"] == "timestamp"), shape_name


@every_row("action", sorted(ACTIONS))
def test_permissions_are_those_of_iam(action: str) -> None:
    row = ACTIONS[action]
    assert row.permission == f"cloudwatch:{action}"
    assert not row.grantable and not row.anonymous
