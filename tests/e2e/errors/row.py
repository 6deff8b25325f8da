"""The rows of the table of errors, and functions that make them."""

from __future__ import annotations

from typing import Any, NamedTuple

ACCOUNT = "310000000000"
REGION = "us-east-1"

SQS, CORAL = "com.amazonaws.sqs#", "com.amazon.coral.service#"
_LEGACY = "AWS.SimpleQueueService."
CODES = {
    f"{CORAL}InvalidParameterValueException": "InvalidParameterValue",
    f"{CORAL}MissingRequiredParameterException": "MissingParameter",
    f"{CORAL}SerializationException": "MalformedInput",
    f"{CORAL}UnknownOperationException": "InvalidAction",
    f"{SQS}QueueDoesNotExist": f"{_LEGACY}NonExistentQueue",
    f"{SQS}QueueNameExists": "QueueAlreadyExists",
    f"{SQS}QueueDeletedRecently": f"{_LEGACY}QueueDeletedRecently",
    f"{SQS}PurgeQueueInProgress": f"{_LEGACY}PurgeQueueInProgress",
    f"{SQS}EmptyBatchRequest": f"{_LEGACY}EmptyBatchRequest",
    f"{SQS}TooManyEntriesInBatchRequest": f"{_LEGACY}TooManyEntriesInBatchRequest",
    f"{SQS}BatchEntryIdsNotDistinct": f"{_LEGACY}BatchEntryIdsNotDistinct",
    f"{SQS}InvalidBatchEntryId": f"{_LEGACY}InvalidBatchEntryId",
    f"{SQS}BatchRequestTooLong": f"{_LEGACY}BatchRequestTooLong",
    f"{SQS}UnsupportedOperation": f"{_LEGACY}UnsupportedOperation",
    **{
        f"{SQS}{shape}": shape
        for shape in (
            "InvalidAddress",
            "InvalidAttributeName",
            "InvalidAttributeValue",
            "InvalidMessageContents",
            "OverLimit",
            "ReceiptHandleIsInvalid",
            "ResourceNotFoundException",
        )
    },
}
STATUSES = {
    f"{SQS}PurgeQueueInProgress": 403,
    f"{SQS}OverLimit": 403,
    f"{SQS}ReceiptHandleIsInvalid": 404,
    f"{SQS}ResourceNotFoundException": 404,
    f"{SQS}InvalidAddress": 404,
}  # all others: 400


class Row(NamedTuple):
    rule: str
    action: str
    request: Any
    type: str
    text: str | None  # None: Amazon's words are not known


def arn(name: str, *, service: str = "sqs", region: str = REGION, account: str = ACCOUNT) -> str:
    return f"arn:aws:{service}:{region}:{account}:{name}"


def parameter(rule: str, action: str, request: Any, text: str | None) -> Row:
    return Row(rule, action, request, f"{CORAL}InvalidParameterValueException", text)


def missing(rule: str, action: str, request: Any, name: str) -> Row:
    text = f"The request must contain the parameter {name}."
    return Row(rule, action, request, f"{CORAL}MissingRequiredParameterException", text)


def malformed(rule: str, action: str, request: Any, text: str | None) -> Row:
    return Row(rule, action, request, f"{CORAL}SerializationException", text)


def sqs(shape: str, rule: str, action: str, request: Any, text: str | None) -> Row:
    return Row(rule, action, request, f"{SQS}{shape}", text)


def creating(attributes: dict[str, str], name: str = "new") -> dict[str, Any]:
    return {"QueueName": name, "Attributes": attributes}


def setting(attributes: dict[str, str], queue: str = "std") -> dict[str, Any]:
    return {"QueueUrl": queue, "Attributes": attributes}


def sending(queue: str = "std", **more: Any) -> dict[str, Any]:
    return {"QueueUrl": queue, "MessageBody": "b", **more}


def batch(*entries: dict[str, Any], queue: str = "std") -> dict[str, Any]:
    return {"QueueUrl": queue, "Entries": list(entries)}


def entry(id: str = "a", **more: Any) -> dict[str, Any]:
    return {"Id": id, "MessageBody": "b", **more}


NO_QUEUE = "The specified queue does not exist."
NEEDS_DEDUP_ID = (
    "The queue should either have ContentBasedDeduplication enabled "
    "or MessageDeduplicationId provided explicitly"
)
