"""Policies are asked only about possible names, accounts and tags, whatever a caller sends."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from penstock.auth import authorize
from penstock.auth.policy import Question, decide
from penstock.auth.principal import Principal
from support.rows import every_row

HERE, REGION = "123456789012", "eu-west-1"
HUGE = "x" * 100_000
ARN_LENGTH_MAX = len(f"arn:aws:sqs:{'r' * 63}:{HERE}:{'n' * 80}")
LENGTH = "Tag keys must be between 1 and 128 characters in length."
NO_QUEUE = "AWS.SimpleQueueService.NonExistentQueue"
OUTSIDER = Principal(
    kind="user", account="999999999999", arn="arn:aws:iam::999999999999:user/eve", id="AIDAEVE"
)
TOO_MANY = {f"k{number}": "" for number in range(51)}


def handle(arn: str) -> str:
    return base64.b64encode(json.dumps({"taskId": "t", "sourceArn": arn}).encode()).decode()


@pytest.fixture
def asked(sqs: Any, monkeypatch: pytest.MonkeyPatch) -> list[Question]:
    """The questions that were asked; callers sign, and have no permissions."""
    questions: list[Question] = []

    def recording(question: Question) -> Any:
        questions.append(question)
        return decide(question)

    monkeypatch.setattr(authorize, "decide", recording)
    sqs.make("q")
    sqs.principal = OUTSIDER
    return questions


@every_row(
    ("action", "request_", "code"),
    [
        ("CreateQueue", {"QueueName": HUGE}, "InvalidParameterValue"),
        ("CreateQueue", {"QueueName": "a b"}, "InvalidParameterValue"),
        ("CreateQueue", {"QueueName": HUGE, "Attributes": {"FifoQueue": "true"}}, "InvalidParameterValue"),
        ("GetQueueUrl", {"QueueName": HUGE}, NO_QUEUE),
        ("GetQueueUrl", {"QueueName": "q", "QueueOwnerAWSAccountId": HUGE}, NO_QUEUE),
        ("GetQueueUrl", {"QueueName": HUGE, "QueueOwnerAWSAccountId": "9" * 12}, NO_QUEUE),
        ("DeleteQueue", {"QueueUrl": "n" * 81}, NO_QUEUE),
        ("DeleteQueue", {"QueueUrl": f"http://h/{HERE}/{'n' * 900}"}, NO_QUEUE),
        ("DeleteQueue", {"QueueUrl": f"http://h/{'9' * 900}/q"}, NO_QUEUE),
        (
            "StartMessageMoveTask",
            {"SourceArn": f"arn:aws:sqs:{REGION}:{HERE}:{HUGE}"},
            "ResourceNotFoundException",
        ),
        (
            "ListMessageMoveTasks",
            {"SourceArn": f"arn:aws:sqs:{REGION}:{HERE}:{HUGE}"},
            "ResourceNotFoundException",
        ),
        (
            "CancelMessageMoveTask",
            {"TaskHandle": handle(f"arn:aws:sqs:{REGION}:{HERE}:{HUGE}")},
            "ResourceNotFoundException",
        ),
        ("TagQueue", {"QueueUrl": "q", "Tags": {"a": HUGE}}, "InvalidParameterValue"),
        ("TagQueue", {"QueueUrl": "q", "Tags": {HUGE: "a"}}, "InvalidParameterValue"),
        ("TagQueue", {"QueueUrl": "q", "Tags": TOO_MANY}, "InvalidParameterValue"),
        ("UntagQueue", {"QueueUrl": "q", "TagKeys": [HUGE]}, "InvalidParameterValue"),
        ("UntagQueue", {"QueueUrl": "q", "TagKeys": list(TOO_MANY)}, "InvalidParameterValue"),
        ("CreateQueue", {"QueueName": "new", "tags": {"a": HUGE}}, "InvalidParameterValue"),
        ("CreateQueue", {"QueueName": "new", "tags": TOO_MANY}, "InvalidParameterValue"),
    ],
)  # fmt: skip
def test_no_policy_is_asked_about_impossible_names_and_tags(
    sqs: Any, asked: list[Question], action: str, request_: dict[str, Any], code: str
) -> None:
    assert sqs(action, **request_).code == code
    assert asked == []


@pytest.mark.parametrize("name", ["n" * 80, "n" * 75 + ".fifo"])
def test_policies_are_asked_about_the_longest_possible_names_and_tags(
    sqs: Any, asked: list[Question], name: str
) -> None:
    tags = {"k" * 128: "v" * 256, **{f"k{number}": "" for number in range(49)}}
    url = f"http://h/{HERE}/{name}"
    requests: dict[str, dict[str, Any]] = {
        "CreateQueue": {"QueueName": name, "tags": tags},
        "GetQueueUrl": {"QueueName": name},
        "TagQueue": {"QueueUrl": url, "Tags": tags},
        "UntagQueue": {"QueueUrl": url, "TagKeys": list(tags)},
        "StartMessageMoveTask": {"SourceArn": f"arn:aws:sqs:{REGION}:{HERE}:{name}"},
    }
    for action, request in requests.items():
        asked.clear()
        assert sqs(action, **request).code == "AccessDenied"
        (question,) = asked
        assert len(question.resource) <= ARN_LENGTH_MAX
        assert question.resource.endswith(name)
        if "tag" in action.lower():
            assert set(question.tag_keys) == set(tags)


def test_errors_about_tags_name_the_queue(sqs: Any) -> None:
    sqs.make("q")
    untagged = sqs("UntagQueue", QueueUrl="q", TagKeys=list(TOO_MANY))
    assert untagged.error == ("InvalidParameterValue", "Too many tag keys given for queue q.")
    assert sqs("UntagQueue", QueueUrl="q", TagKeys=["k"] * 51).status == 200, "one key, however often"
    created = sqs("CreateQueue", QueueName="new", tags=TOO_MANY)
    assert created.error == ("InvalidParameterValue", "Too many tags added for queue new.")
    assert sqs("UntagQueue", QueueUrl="q", TagKeys=["k" * 129]).error == ("InvalidParameterValue", LENGTH)
