"""What of a request reaches the trail: names that are on the list, and nothing of a message."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from penstock.server.audit import safe_parameters, safe_response
from penstock.server.audit.actions import ACTIONS as KEPT
from penstock.server.audit.parameters import PARAMETERS, RESPONSES
from penstock.services.sqs import ACTIONS
from penstock.services.sqs import operations as op
from penstock.services.sts import operations as sts
from penstock.wire.shapes import ListOf, MapOf, Scalar, Shape, StructOf, struct_shape

# The secret members, by name. "Entries" and "Messages" are made of them.
SECRET = {
    "MessageBody", "Body", "MessageAttributes", "MessageSystemAttributes", "ReceiptHandle", "TaskHandle",
    "MessageGroupId", "MessageDeduplicationId", "ReceiveRequestAttemptId", "NextToken", "Entries", "Messages",
    "MD5OfMessageBody", "MD5OfMessageAttributes", "MD5OfMessageSystemAttributes", "MD5OfBody",
    "ExternalId", "TokenCode", "SerialNumber", "SecretAccessKey", "SessionToken", "ContextAssertion",
}  # fmt: skip

STS = {
    name: (getattr(sts, f"{name}Request"), getattr(sts, f"{name}Result"))
    for name in ("AssumeRole", "GetCallerIdentity", "GetSessionToken")
}
STRUCTS: list[tuple[str, str, type[msgspec.Struct], type[msgspec.Struct] | None]] = [
    *(("sqs", name, request, response) for name, (request, response, _) in ACTIONS.items()),
    *(("sts", name, request, response) for name, (request, response) in STS.items()),
]


def filled(shape: Shape, path: str) -> Any:
    """A value in which every text says where it is from."""
    match shape:
        case StructOf():
            fields = {field.name: filled(field.shape, f"{path}/{field.name}") for field in shape.fields}
            return shape.type(**fields)
        case ListOf():
            return [filled(shape.member, path)] * 3
        case MapOf():
            return {f"{path}/key": filled(shape.value, path)}
        case Scalar():
            return {str: path, bytes: path.encode(), int: 7, bool: True}[shape.type]


def origins(told: object) -> set[str]:
    """The first members on the way to every text that was told."""
    texts: set[str] = set()

    def walk(value: object) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                walk(key)
                walk(inner)
        elif isinstance(value, list):
            for inner in value:
                walk(inner)
        elif isinstance(value, str) and value.startswith("/"):
            texts.update(value.split("/")[1:])

    walk(told)
    return texts


@pytest.mark.parametrize(
    ("service", "action", "request_type", "response_type"), STRUCTS, ids=lambda each: str(each)
)
def test_no_secret_is_told(
    service: str, action: str, request_type: type[msgspec.Struct], response_type: type[msgspec.Struct] | None
) -> None:
    request = filled(struct_shape(request_type), "")
    told = safe_parameters(service, action, request)
    assert not origins(told) & SECRET
    assert len(origins(told)) >= len([value for value in (told or {}).values() if isinstance(value, str)])
    json.dumps(told)
    if response_type is not None:
        response = safe_response(service, action, filled(struct_shape(response_type), ""))
        assert not origins(response) & SECRET
        json.dumps(response)


@pytest.mark.parametrize(
    ("service", "action", "request_type", "response_type"), STRUCTS, ids=lambda each: str(each)
)
def test_what_is_on_the_lists_exists(
    service: str, action: str, request_type: type[msgspec.Struct], response_type: type[msgspec.Struct] | None
) -> None:
    request = filled(struct_shape(request_type), "")
    assert len(safe_parameters(service, action, request) or {}) == len(PARAMETERS[service][action])
    if response_type is not None:
        response = filled(struct_shape(response_type), "")
        assert len(safe_response(service, action, response) or {}) == len(RESPONSES[service].get(action, []))


def test_every_action_was_thought_of() -> None:
    for listed in (PARAMETERS, KEPT):
        assert listed["sqs"].keys() == ACTIONS.keys()
        assert listed["sts"].keys() == STS.keys()


def test_names_are_those_of_cloudtrail() -> None:
    request = op.AddPermissionRequest(
        QueueUrl="u", Label="l", AWSAccountIds=["111111111111"], Actions=["SendMessage"]
    )
    assert safe_parameters("sqs", "AddPermission", request) == {
        "queueUrl": "u",
        "label": "l",
        "AWSAccountIds": ["111111111111"],
        "actions": ["SendMessage"],
    }
    request = op.CreateQueueRequest(QueueName="q", Attributes={"DelaySeconds": "5"}, tags={"team": "shop"})
    assert safe_parameters("sqs", "CreateQueue", request) == {
        "queueName": "q",
        "attributes": {"DelaySeconds": "5"},
        "tags": {"team": "shop"},
    }
    assert safe_response("sqs", "CreateQueue", op.CreateQueueResult(QueueUrl="u")) == {"queueUrl": "u"}


def test_of_messages_there_are_counts() -> None:
    entries = [op.SendMessageBatchRequestEntry(Id=str(number), MessageBody="secret") for number in range(4)]
    request = op.SendMessageBatchRequest(QueueUrl="u", Entries=entries)
    assert safe_parameters("sqs", "SendMessageBatch", request) == {"queueUrl": "u", "numberOfEntries": 4}
    message = op.Message(MessageId="m", ReceiptHandle="secret", MD5OfBody="secret", Body="secret")
    response = op.ReceiveMessageResult(Messages=[message, message])
    assert safe_response("sqs", "ReceiveMessage", response) == {"numberOfMessages": 2}
    assert safe_response("sqs", "ReceiveMessage", op.ReceiveMessageResult()) is None


def test_session_tags_are_told_and_the_credentials_only_by_their_id() -> None:
    request = sts.AssumeRoleRequest(
        RoleArn="r", RoleSessionName="s", Tags=[sts.Tag(Key="team", Value="shop")]
    )
    assert safe_parameters("sts", "AssumeRole", request) == {
        "roleArn": "r",
        "roleSessionName": "s",
        "tags": {"team": "shop"},
    }
    credentials = sts.Credentials(AccessKeyId="ASIA", SecretAccessKey="no", SessionToken="no", Expiration="x")
    result = sts.AssumeRoleResult(
        Credentials=credentials, AssumedRoleUser=sts.AssumedRoleUser(AssumedRoleId="i", Arn="a")
    )
    assert safe_response("sts", "AssumeRole", result) == {"accessKeyId": "ASIA", "assumedRoleArn": "a"}


def test_what_is_unknown_is_not_told() -> None:
    assert safe_parameters("sqs", "NewAction", op.SendMessageRequest(MessageBody="secret")) is None
    assert safe_parameters("sns", "Publish", op.SendMessageRequest(MessageBody="secret")) is None
    assert safe_response("sqs", "DeleteQueue", None) is None
