"""Tags of a queue."""

from __future__ import annotations

from typing import Any

import pytest

LENGTH = "Tag keys must be between 1 and 128 characters in length."
SYMBOLS = "may only contain unicode letters, digits, whitespace, or one of these symbols: _ . : / = + - @"


@pytest.fixture(autouse=True)
def queue(face: Any) -> None:
    face.make("q")


def tags(face: Any) -> Any:
    return face("ListQueueTags", QueueUrl="q").body


def test_tags_are_overwritten_by_key_and_unknown_keys_are_ignored(face: Any) -> None:
    assert face("ListQueueTags", QueueUrl="q").raw == b"{}"
    assert face("TagQueue", QueueUrl="q", Tags={"a": "1", "A": ""}).raw == b""
    assert face("TagQueue", QueueUrl="q", Tags={"n": None}).code == "MalformedInput"
    face("TagQueue", QueueUrl="q", Tags={"a": "2", "é 1_.:/=+-@": "é"})
    assert tags(face) == {"Tags": {"a": "2", "A": "", "é 1_.:/=+-@": "é"}}
    assert face("UntagQueue", QueueUrl="q", TagKeys=["a", "unknown"]).raw == b""
    assert set(tags(face)["Tags"]) == {"A", "é 1_.:/=+-@"}


def test_create_takes_lower_case_tags(face: Any) -> None:
    face("CreateQueue", QueueName="b", tags={"k": "v"})
    assert face("ListQueueTags", QueueUrl="b").body == {"Tags": {"k": "v"}}


@pytest.mark.parametrize(
    ("given", "code", "message"),
    [
        (None, "MissingParameter", "The request must contain the parameter Tags."),
        ({}, "MissingParameter", "The request must contain the parameter Tags."),
        ({"": "x"}, "InvalidParameterValue", LENGTH),
        ({"k" * 129: "x"}, "InvalidParameterValue", LENGTH),
        ({"a!": "x"}, "InvalidParameterValue", f"Tag keys {SYMBOLS}"),
        ({"a\x1c": "x"}, "InvalidParameterValue", f"Tag keys {SYMBOLS}"),
        ({"a": "x;"}, "InvalidParameterValue", f"Tag values {SYMBOLS}"),
        (
            {"a": "x" * 257},
            "InvalidParameterValue",
            "Tag values must be between 0 and 256 characters in length.",
        ),
        (
            {"aws:x": "x"},
            "InvalidParameterValue",
            "Tag keys must not begin with 'aws:'. This prefix is reserved.",
        ),
        (
            {f"k{number}": "" for number in range(51)},
            "InvalidParameterValue",
            "Too many tags added for queue q.",
        ),
    ],
)
def test_tag_refuses(face: Any, given: dict[str, str] | None, code: str, message: str) -> None:
    assert face("TagQueue", QueueUrl="q", Tags=given).error == (code, message)
    assert tags(face) == {}


def test_tags_are_counted_before_they_are_looked_at(face: Any) -> None:
    given = {f"k!{number}": "" for number in range(51)}
    assert face("TagQueue", QueueUrl="q", Tags=given).message == "Too many tags added for queue q."


def test_fifty_tags_in_all(face: Any) -> None:
    assert face("TagQueue", QueueUrl="q", Tags={f"k{number}": "" for number in range(50)}).status == 200
    assert face("TagQueue", QueueUrl="q", Tags={"k0": "again"}).status == 200
    assert face("TagQueue", QueueUrl="q", Tags={"more": ""}).status == 400


@pytest.mark.parametrize("keys", [None, [], [""]])
def test_untag_needs_keys(face: Any, keys: list[str] | None) -> None:
    assert face("UntagQueue", QueueUrl="q", TagKeys=keys).error == ("InvalidParameterValue", LENGTH)
