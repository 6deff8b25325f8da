"""Tags of a queue."""

from __future__ import annotations

from typing import Any

import pytest

from support.rows import every_row

LENGTH = "Tag keys must be between 1 and 128 characters in length."
SYMBOLS = "may only contain unicode letters, digits, whitespace, or one of these symbols: _ . : / = + - @"


@pytest.fixture(autouse=True)
def queue(sqs: Any) -> None:
    sqs.make("q")


def tags(sqs: Any) -> Any:
    return sqs("ListQueueTags", QueueUrl="q").body


def test_tags_are_overwritten_by_key_and_unknown_keys_are_ignored(sqs: Any) -> None:
    assert sqs("ListQueueTags", QueueUrl="q").raw == b"{}"
    assert sqs("TagQueue", QueueUrl="q", Tags={"a": "1", "A": ""}).raw == b""
    assert sqs("TagQueue", QueueUrl="q", Tags={"n": None}).code == "MalformedInput"
    sqs("TagQueue", QueueUrl="q", Tags={"a": "2", "é 1_.:/=+-@": "é"})
    assert tags(sqs) == {"Tags": {"a": "2", "A": "", "é 1_.:/=+-@": "é"}}
    assert sqs("UntagQueue", QueueUrl="q", TagKeys=["a", "unknown"]).raw == b""
    assert set(tags(sqs)["Tags"]) == {"A", "é 1_.:/=+-@"}


def test_create_accepts_lower_case_tags(sqs: Any) -> None:
    sqs("CreateQueue", QueueName="b", tags={"k": "v"})
    assert sqs("ListQueueTags", QueueUrl="b").body == {"Tags": {"k": "v"}}


@every_row(
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
def test_tag_refuses(sqs: Any, given: dict[str, str] | None, code: str, message: str) -> None:
    assert sqs("TagQueue", QueueUrl="q", Tags=given).error == (code, message)
    assert tags(sqs) == {}


def test_tags_are_counted_before_they_are_validated(sqs: Any) -> None:
    given = {f"k!{number}": "" for number in range(51)}
    assert sqs("TagQueue", QueueUrl="q", Tags=given).message == "Too many tags added for queue q."


def test_fifty_tags_in_all(sqs: Any) -> None:
    assert sqs("TagQueue", QueueUrl="q", Tags={f"k{number}": "" for number in range(50)}).status == 200
    assert sqs("TagQueue", QueueUrl="q", Tags={"k0": "again"}).status == 200
    assert sqs("TagQueue", QueueUrl="q", Tags={"more": ""}).status == 400


@pytest.mark.parametrize("keys", [None, [], [""]])
def test_untag_needs_keys(sqs: Any, keys: list[str] | None) -> None:
    assert sqs("UntagQueue", QueueUrl="q", TagKeys=keys).error == ("InvalidParameterValue", LENGTH)
