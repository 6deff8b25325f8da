"""TagResource, UntagResource, ListTagsForResource, and data protection, which there is not."""

from __future__ import annotations

from typing import Any

import pytest

from services.sns.world import ACCOUNT, ARN, SnsWorld

NEWS = f"{ARN}:news"
INVALID = "InvalidParameter"


def tags(sns: SnsWorld) -> dict[str, str]:
    listed = sns("ListTagsForResource", ResourceArn=NEWS)["Tags"]
    return {tag["Key"]: tag["Value"] for tag in listed}


def tag(sns: SnsWorld, **given: str) -> None:
    sns("TagResource", ResourceArn=NEWS, Tags=[{"Key": key, "Value": value} for key, value in given.items()])


def test_tags_are_merged_and_removed(sns: SnsWorld) -> None:
    sns.make()
    tag(sns, a="1", b="2")
    tag(sns, b="3", c="")
    assert tags(sns) == {"a": "1", "b": "3", "c": ""}
    sns("UntagResource", ResourceArn=NEWS, TagKeys=["a", "absent", "a"])
    assert tags(sns) == {"b": "3", "c": ""}


def test_a_topic_has_fifty_tags(sns: SnsWorld) -> None:
    sns.make()
    tag(sns, **{f"k{number}": "" for number in range(50)})
    refused = sns.refused("TagResource", ResourceArn=NEWS, Tags=[{"Key": "more", "Value": ""}])
    assert refused == ("TagLimitExceeded", "Could not complete request: tag quota of per resource exceeded")
    tag(sns, k0="changed")


@pytest.mark.parametrize("action", ["TagResource", "UntagResource", "ListTagsForResource"])
@pytest.mark.parametrize(
    ("arn", "code", "text"),
    [
        (NEWS, "ResourceNotFound", "Resource does not exist"),
        ("arn:aws:sns:eu-west-1:111111111111:news", "ResourceNotFound", "Resource does not exist"),
        ("x", INVALID, "Invalid parameter: ResourceArn Reason: An ARN must have at least 6 elements, not 1"),
        (f"arn:aws:sns:us-east-1:{ACCOUNT}:news", INVALID, "Invalid parameter: ResourceArn"),
        (
            None,
            "ValidationError",
            "1 validation error detected: Value null at 'resourceArn' failed to satisfy constraint: "
            "Member must not be null",
        ),
    ],
)
def test_what_has_no_tags(sns: SnsWorld, action: str, arn: str | None, code: str, text: str) -> None:
    members: dict[str, Any] = {"TagResource": {"Tags": []}, "UntagResource": {"TagKeys": []}}.get(action, {})
    if arn is not None:
        members["ResourceArn"] = arn
    assert sns.refused(action, **members) == (code, text)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ([{"Key": "a", "Value": ""}] * 2, "Duplicated keys are not allowed."),
        ([{"Key": "a\n", "Value": ""}], "Tags Reason: a tag must not have control characters"),
        ([{"Key": "a", "Value": "\0"}], "Tags Reason: a tag must not have control characters"),
        (
            [{"Key": "AWS:a", "Value": ""}],
            "Tags Reason: aws: prefixed tag key names are not allowed for external use.",
        ),
    ],
)
def test_tags_that_are_refused(sns: SnsWorld, given: list[dict[str, str]], text: str) -> None:
    sns.make()
    refused = sns.refused("TagResource", ResourceArn=NEWS, Tags=given)
    assert refused == (INVALID, f"Invalid parameter: {text}")


def test_no_topic_has_a_data_protection_policy(sns: SnsWorld) -> None:
    sns.make()
    answer = sns.form("GetDataProtectionPolicy", ResourceArn=NEWS)
    assert b"    <DataProtectionPolicy/>\n" in answer.body
    refused = sns.refused("PutDataProtectionPolicy", ResourceArn=NEWS, DataProtectionPolicy="{}")
    assert refused == ("InvalidAction", "Operation (PutDataProtectionPolicy) is not supported in this region")
    missing = sns.refused("GetDataProtectionPolicy", ResourceArn=f"{ARN}:missing")
    assert missing == ("NotFound", "Topic does not exist")
    fifo = sns.refused("GetDataProtectionPolicy", ResourceArn=f"{ARN}:missing.fifo")
    assert fifo == ("InvalidAction", "Operation (GetDataProtectionPolicy) is not supported on FIFO topics")
