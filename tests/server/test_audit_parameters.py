"""Which members of a request are recorded: those that are listed, and nothing of a message."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from penstock.server.audit.recorder import listed_members
from penstock.services.sqs import structs as op
from penstock.services.sts import structs as sts
from penstock.wire.shapes import ListOf, MapOf, Scalar, Shape, StructOf, struct_shape
from support.audit_events import ROWS, rule_of
from support.rows import every_row

# Secret members by name. "Entries" and "Messages" contain them.
SECRET = {
    "MessageBody", "Body", "MessageAttributes", "MessageSystemAttributes", "ReceiptHandle", "TaskHandle",
    "MessageGroupId", "MessageDeduplicationId", "ReceiveRequestAttemptId", "NextToken", "Entries", "Messages",
    "MD5OfMessageBody", "MD5OfMessageAttributes", "MD5OfMessageSystemAttributes", "MD5OfBody",
    "ExternalId", "TokenCode", "SerialNumber", "SecretAccessKey", "SessionToken", "ContextAssertion",
}  # fmt: skip

STRUCTS = [
    (service, name, row.request, row.response) for service, rows in ROWS.items() for name, row in rows.items()
]


def safe_parameters(service: str, action: str, request: msgspec.Struct) -> dict[str, Any] | None:
    return listed_members(rule_of(service, action)[0].parameters, request)


def safe_response(service: str, action: str, response: msgspec.Struct) -> dict[str, Any] | None:
    return listed_members(rule_of(service, action)[0].response, response)


def filled(shape: Shape, path: str) -> Any:
    """A value in which every text is its own path."""
    match shape:
        case StructOf():
            fields = {field.name: filled(field.shape, f"{path}/{field.name}") for field in shape.fields}
            return shape.type(**fields)
        case ListOf():
            return [filled(shape.member, path)] * 3
        case MapOf():
            return {f"{path}/key": filled(shape.value, path)}
        case Scalar():
            return {str: path, bytes: path.encode(), int: 7, float: 7.5, bool: True}[shape.type]


def origins(recorded: object) -> set[str]:
    """The members on the way to every recorded text."""
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

    walk(recorded)
    return texts


@every_row(("service", "action", "request_type", "response_type"), STRUCTS)
def test_no_secret_is_recorded(
    service: str, action: str, request_type: type[msgspec.Struct], response_type: type[msgspec.Struct] | None
) -> None:
    request = filled(struct_shape(request_type), "")
    recorded = safe_parameters(service, action, request)
    assert not origins(recorded) & SECRET
    assert len(origins(recorded)) >= len(
        [value for value in (recorded or {}).values() if isinstance(value, str)]
    )
    json.dumps(recorded)
    if response_type is not None:
        response = safe_response(service, action, filled(struct_shape(response_type), ""))
        assert not origins(response) & SECRET
        json.dumps(response)


@every_row(("service", "action", "request_type", "response_type"), STRUCTS)
def test_listed_members_exist(
    service: str, action: str, request_type: type[msgspec.Struct], response_type: type[msgspec.Struct] | None
) -> None:
    request = filled(struct_shape(request_type), "")
    assert len(safe_parameters(service, action, request) or {}) == len(ROWS[service][action].audit.parameters)
    if response_type is not None:
        response = filled(struct_shape(response_type), "")
        assert len(safe_response(service, action, response) or {}) == len(
            ROWS[service][action].audit.response
        )


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
    create = op.CreateQueueRequest(QueueName="q", Attributes={"DelaySeconds": "5"}, tags={"team": "shop"})
    assert safe_parameters("sqs", "CreateQueue", create) == {
        "queueName": "q",
        "attributes": {"DelaySeconds": "5"},
        "tags": {"team": "shop"},
    }
    assert safe_response("sqs", "CreateQueue", op.CreateQueueResult(QueueUrl="u")) == {"queueUrl": "u"}


def test_messages_are_counted() -> None:
    entries = [op.SendMessageBatchRequestEntry(Id=str(number), MessageBody="secret") for number in range(4)]
    request = op.SendMessageBatchRequest(QueueUrl="u", Entries=entries)
    assert safe_parameters("sqs", "SendMessageBatch", request) == {"queueUrl": "u", "numberOfEntries": 4}
    message = op.Message(MessageId="m", ReceiptHandle="secret", MD5OfBody="secret", Body="secret")
    response = op.ReceiveMessageResult(Messages=[message, message])
    assert safe_response("sqs", "ReceiveMessage", response) == {"numberOfMessages": 2}
    assert safe_response("sqs", "ReceiveMessage", op.ReceiveMessageResult()) is None


def test_session_tags_are_recorded_and_credentials_only_by_their_id() -> None:
    request = sts.AssumeRoleRequest(
        RoleArn="r", RoleSessionName="s", Tags=[sts.Tag(Key="team", Value="shop")]
    )
    assert safe_parameters("sts", "AssumeRole", request) == {
        "roleArn": "r",
        "roleSessionName": "s",
        "tags": {"team": "shop"},
    }
    credentials = sts.IssuedCredentials(
        AccessKeyId="ASIA", SecretAccessKey="no", SessionToken="no", Expiration="x"
    )
    result = sts.AssumeRoleResult(
        Credentials=credentials, AssumedRoleUser=sts.AssumedRoleUser(AssumedRoleId="i", Arn="a")
    )
    assert safe_response("sts", "AssumeRole", result) == {"accessKeyId": "ASIA", "assumedRoleArn": "a"}


def test_unknown_actions_have_no_listed_members() -> None:
    assert safe_parameters("sqs", "NewAction", op.SendMessageRequest(MessageBody="secret")) is None
    assert safe_parameters("sns", "Publish", op.SendMessageRequest(MessageBody="secret")) is None
