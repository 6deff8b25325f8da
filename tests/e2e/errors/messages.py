"""Sending, receiving, deleting and hiding messages."""

from __future__ import annotations

from e2e.errors.row import NEEDS_DEDUP_ID, missing, parameter, sending, sqs


def _id_rule(name: str, value: str) -> str:
    return (
        f"Value {value} for parameter {name} is invalid. Reason: {name} can only include alphanumeric "
        "and punctuation characters. 1 to 128 in length."
    )


def _illegal(character: str) -> str:
    return (
        f"Invalid binary character '#x{character}' was found in the message body, the set of allowed characters "
        "is #x9 | #xA | #xD | [#x20-#xD7FF] | [#xE000-#xFFFD] | [#x10000-#x10FFFF]."
    )


def _too_long(limit: int) -> str:
    return f"One or more parameters are invalid. Reason: Message must be shorter than {limit} bytes."


_TEXT = {"DataType": "String", "StringValue": "x"}
MESSAGES = [
    missing("a body", "SendMessage", {"QueueUrl": "std"}, "MessageBody"),
    missing("a body that is not empty", "SendMessage", sending(MessageBody=""), "MessageBody"),
    parameter("the queue's limit", "SendMessage", sending("small", MessageBody="a" * 1025), _too_long(1024)),
    parameter("attributes count into the size", "SendMessage",
              sending("small", MessageBody="a" * 1017, MessageAttributes={"k": _TEXT}), _too_long(1024)),
    parameter("bytes count, not characters", "SendMessage", sending("small", MessageBody="é" * 513), _too_long(1024)),
    parameter("1 MiB at most", "SendMessage", sending(MessageBody="a" * 1_048_577), _too_long(1_048_576)),
    sqs("InvalidMessageContents", "controls", "SendMessage", sending(MessageBody="\x01\x02"), _illegal("1")),
    sqs("InvalidMessageContents", "the zero character", "SendMessage", sending(MessageBody="\x00"), _illegal("0")),
    sqs("InvalidMessageContents", "U+FFFE", "SendMessage", sending(MessageBody="\ufffe"), _illegal("FFFE")),
    sqs("InvalidMessageContents", "half a character", "SendMessage", sending(MessageBody="\ud800"), _illegal("D800")),
    *(
        parameter("delay range", "SendMessage", sending(DelaySeconds=delay),
                  f"Value {delay} for parameter DelaySeconds is invalid. "
                  "Reason: DelaySeconds must be >= 0 and <= 900.")
        for delay in (-1, 901, 1000)
    ),
    parameter("a FIFO message has no delay of its own", "SendMessage",
              sending("content.fifo", MessageGroupId="g", DelaySeconds=2),
              "Value 2 for parameter DelaySeconds is invalid. "
              "Reason: The request include parameter that is not valid for this queue type."),
    missing("a group on FIFO", "SendMessage", sending("content.fifo"), "MessageGroupId"),
    parameter("a deduplication id on FIFO", "SendMessage", sending("f.fifo", MessageGroupId="g"), NEEDS_DEDUP_ID),
    *(
        parameter("characters of a group id", "SendMessage", sending(queue, MessageGroupId=value),
                  _id_rule("MessageGroupId", value))
        for queue in ("content.fifo", "std")
        for value in ("", "a b", "é", "x" * 129)
    ),
    *(
        parameter("characters of a deduplication id", "SendMessage",
                  sending("f.fifo", MessageGroupId="g", MessageDeduplicationId=value),
                  _id_rule("MessageDeduplicationId", value))
        for value in ("", "a b", "x" * 129)
    ),
    parameter("a deduplication id on standard", "SendMessage", sending(MessageDeduplicationId="d"),
              "Value d for parameter MessageDeduplicationId is invalid. "
              "Reason: The request include parameter that is not valid for this queue type."),
    *(
        parameter("1 to 10 messages", "ReceiveMessage", {"QueueUrl": "std", "MaxNumberOfMessages": number},
                  f"Value {number} for parameter MaxNumberOfMessages is invalid. "
                  "Reason: Must be between 1 and 10, if provided.")
        for number in (0, 11)
    ),
    *(
        parameter("0 to 20 seconds", "ReceiveMessage", {"QueueUrl": "std", "WaitTimeSeconds": number},
                  f"Value {number} for parameter WaitTimeSeconds is invalid. "
                  "Reason: Must be >= 0 and <= 20, if provided.")
        for number in (-1, 21)
    ),
    parameter("twelve hours", "ReceiveMessage", {"QueueUrl": "std", "VisibilityTimeout": 43201},
              "Value 43201 for parameter VisibilityTimeout is invalid. "
              "Reason: Must be >= 0 and <= 43200, if provided."),
    *(
        missing("a receipt handle", action, {"QueueUrl": "std", "VisibilityTimeout": 0, **handle}, "ReceiptHandle")
        for action in ("DeleteMessage", "ChangeMessageVisibility")
        for handle in ({}, {"ReceiptHandle": ""})
    ),
    *(
        sqs("ReceiptHandleIsInvalid", "a made-up handle", action,
            {"QueueUrl": queue, "ReceiptHandle": "garbage", "VisibilityTimeout": 0},
            'The input receipt handle "garbage" is not a valid receipt handle.')
        for action in ("DeleteMessage", "ChangeMessageVisibility")
        for queue in ("std", "f.fifo")
    ),
    missing("a timeout, looked at before the handle", "ChangeMessageVisibility",
            {"QueueUrl": "std", "ReceiptHandle": "garbage"}, "VisibilityTimeout"),
    *(
        parameter("twelve hours", "ChangeMessageVisibility",
                  {"QueueUrl": "std", "ReceiptHandle": "garbage", "VisibilityTimeout": timeout},
                  f"Value {timeout} for parameter VisibilityTimeout is invalid. "
                  "Reason: Must be between 0 and 43200.")
        for timeout in (-1, 43201)
    ),
]  # fmt: skip
