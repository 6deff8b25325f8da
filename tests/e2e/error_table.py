"""Every refusal of the specification that one request can bring about, as a table.

A row says which rule it is, what is asked, and what is answered: shape, status and text. The older code of a shape
stands once, in :data:`CODES`. Queues are named barely; the test makes them: ``std``, ``small`` (1,024 bytes a message),
``f.fifo``, ``content.fifo`` (content-based deduplication), ``dead`` (the dead-letter queue of ``source``), ``closed``
(a queue that lets nobody send dead letters to it), ``purged`` (a moment ago) and ``gone`` (deleted a moment ago).
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

ACCOUNT = "310000000000"
REGION = "us-east-1"

_SQS, _CORAL = "com.amazonaws.sqs#", "com.amazon.coral.service#"
_LEGACY = "AWS.SimpleQueueService."
CODES = {
    f"{_CORAL}InvalidParameterValueException": "InvalidParameterValue",
    f"{_CORAL}MissingRequiredParameterException": "MissingParameter",
    f"{_CORAL}SerializationException": "MalformedInput",
    f"{_CORAL}UnknownOperationException": "InvalidAction",
    f"{_SQS}QueueDoesNotExist": f"{_LEGACY}NonExistentQueue",
    f"{_SQS}QueueNameExists": "QueueAlreadyExists",
    f"{_SQS}QueueDeletedRecently": f"{_LEGACY}QueueDeletedRecently",
    f"{_SQS}PurgeQueueInProgress": f"{_LEGACY}PurgeQueueInProgress",
    f"{_SQS}EmptyBatchRequest": f"{_LEGACY}EmptyBatchRequest",
    f"{_SQS}TooManyEntriesInBatchRequest": f"{_LEGACY}TooManyEntriesInBatchRequest",
    f"{_SQS}BatchEntryIdsNotDistinct": f"{_LEGACY}BatchEntryIdsNotDistinct",
    f"{_SQS}InvalidBatchEntryId": f"{_LEGACY}InvalidBatchEntryId",
    f"{_SQS}BatchRequestTooLong": f"{_LEGACY}BatchRequestTooLong",
    f"{_SQS}UnsupportedOperation": f"{_LEGACY}UnsupportedOperation",
    **{
        f"{_SQS}{shape}": shape
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
    f"{_SQS}PurgeQueueInProgress": 403,
    f"{_SQS}OverLimit": 403,
    f"{_SQS}ReceiptHandleIsInvalid": 404,
    f"{_SQS}ResourceNotFoundException": 404,
    f"{_SQS}InvalidAddress": 404,
}  # all others: 400


class Row(NamedTuple):
    rule: str
    action: str
    request: Any
    type: str
    text: str | None  # None: Amazon's words are not known


def arn(name: str, *, service: str = "sqs", region: str = REGION, account: str = ACCOUNT) -> str:
    return f"arn:aws:{service}:{region}:{account}:{name}"


def _parameter(rule: str, action: str, request: Any, text: str | None) -> Row:
    return Row(rule, action, request, f"{_CORAL}InvalidParameterValueException", text)


def _missing(rule: str, action: str, request: Any, name: str) -> Row:
    text = f"The request must contain the parameter {name}."
    return Row(rule, action, request, f"{_CORAL}MissingRequiredParameterException", text)


def _malformed(rule: str, action: str, request: Any, text: str | None) -> Row:
    return Row(rule, action, request, f"{_CORAL}SerializationException", text)


def _sqs(shape: str, rule: str, action: str, request: Any, text: str | None) -> Row:
    return Row(rule, action, request, f"{_SQS}{shape}", text)


def _create(attributes: dict[str, str], name: str = "new") -> dict[str, Any]:
    return {"QueueName": name, "Attributes": attributes}


def _set(attributes: dict[str, str], queue: str = "std") -> dict[str, Any]:
    return {"QueueUrl": queue, "Attributes": attributes}


def _send(queue: str = "std", **more: Any) -> dict[str, Any]:
    return {"QueueUrl": queue, "MessageBody": "b", **more}


def _batch(*entries: dict[str, Any], queue: str = "std") -> dict[str, Any]:
    return {"QueueUrl": queue, "Entries": list(entries)}


def _entry(id: str = "a", **more: Any) -> dict[str, Any]:
    return {"Id": id, "MessageBody": "b", **more}


_NO_QUEUE = "The specified queue does not exist."
_NAME = "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length"
_FIFO_NAME = (
    "The name of a FIFO queue can only include alphanumeric characters, hyphens, or underscores, "
    "must end with .fifo suffix and be 1 to 80 in length."
)
_NEEDS_DEDUP_ID = (
    "The queue should either have ContentBasedDeduplication enabled "
    "or MessageDeduplicationId provided explicitly"
)
_QUEUE_ACTIONS: dict[str, dict[str, Any]] = {
    "AddPermission": {"Label": "l", "AWSAccountIds": [ACCOUNT], "Actions": ["*"]},
    "ChangeMessageVisibility": {"ReceiptHandle": "h", "VisibilityTimeout": 0},
    "ChangeMessageVisibilityBatch": {"Entries": [{"Id": "a", "ReceiptHandle": "h", "VisibilityTimeout": 0}]},
    "DeleteMessage": {"ReceiptHandle": "h"},
    "DeleteMessageBatch": {"Entries": [{"Id": "a", "ReceiptHandle": "h"}]},
    "DeleteQueue": {},
    "GetQueueAttributes": {"AttributeNames": ["All"]},
    "ListDeadLetterSourceQueues": {},
    "ListQueueTags": {},
    "PurgeQueue": {},
    "ReceiveMessage": {},
    "RemovePermission": {"Label": "l"},
    "SendMessage": {"MessageBody": "b"},
    "SendMessageBatch": {"Entries": [{"Id": "a", "MessageBody": "b"}]},
    "SetQueueAttributes": {"Attributes": {"DelaySeconds": "1"}},
    "TagQueue": {"Tags": {"k": "v"}},
    "UntagQueue": {"TagKeys": ["k"]},
}

WIRE = [
    Row("an unknown action", "FooBar", {}, f"{_CORAL}UnknownOperationException",
        "The action FooBar is not valid for this endpoint."),
    _malformed("a body that is not JSON", "ListQueues", b"{", None),
    _malformed("JSON that is not an object", "ListQueues", b"[]", None),
    _malformed("text for a number", "ReceiveMessage", {"QueueUrl": "std", "MaxNumberOfMessages": "many"},
               "STRING_VALUE can not be converted to an Integer"),
    _malformed("true for a number", "ReceiveMessage", {"QueueUrl": "std", "WaitTimeSeconds": True},
               "TRUE_VALUE can not be converted to an Integer"),
    _malformed("a list for text", "SendMessage", {"QueueUrl": "std", "MessageBody": ["b"]},
               "Start of list found where not expected"),
    _malformed("a map for text", "SendMessage", {"QueueUrl": "std", "MessageBody": {"b": 1}},
               "Start of structure or map found where not expected."),
    _malformed("a list in the attribute map", "CreateQueue", {"QueueName": "new", "Attributes": {"Policy": []}},
               "Unrecognized collection type class java.lang.String"),
]  # fmt: skip

RESOLUTION = [
    *(
        _sqs("QueueDoesNotExist", "a queue that is not there", action, {"QueueUrl": "none", **rest}, _NO_QUEUE)
        for action, rest in _QUEUE_ACTIONS.items()
    ),
    *(
        _sqs("QueueDoesNotExist", "no queue at all", action, rest, _NO_QUEUE)
        for action, rest in _QUEUE_ACTIONS.items()
    ),
    _sqs("QueueDoesNotExist", "a URL without a path", "SendMessage", _send("http://whatever"), _NO_QUEUE),
    _sqs("QueueDoesNotExist", "names are case-sensitive", "SendMessage", _send("STD"), _NO_QUEUE),
    _sqs("QueueDoesNotExist", "a name that is not there", "GetQueueUrl", {"QueueName": "none"}, _NO_QUEUE),
    _sqs("QueueDoesNotExist", "another account's queue", "GetQueueUrl",
         {"QueueName": "std", "QueueOwnerAWSAccountId": "399999999999"},
         "The specified queue does not exist or you do not have access to it."),
    _sqs("InvalidAddress", "a URL of another region and account", "SendMessage",
         _send("https://sqs.eu-west-3.amazonaws.com/399999999999/std"),
         "The address https://sqs.eu-west-3.amazonaws.com/ is not valid for this endpoint."),
]  # fmt: skip

_EXISTS = "A queue already exists with the same name and a different value for attribute VisibilityTimeout"
_ONLY_FIFO = "You can specify the {} only when FifoQueue is set to true."
_ONE_ENCRYPTION = (
    "You can use one type of server-side encryption (SSE) at one time. "
    "You can either enable KMS SSE or SQS SSE."
)
_WRONG_VALUES = {
    "DelaySeconds": ("-1", "901", "1.5", "x", ""),
    "MaximumMessageSize": ("1023", "1048577"),
    "MessageRetentionPeriod": ("59", "1209601"),
    "ReceiveMessageWaitTimeSeconds": ("-1", "21"),
    "VisibilityTimeout": ("-1", "43201"),
    "KmsDataKeyReusePeriodSeconds": ("59", "86401"),
    "SqsManagedSseEnabled": ("yes",),
    "Policy": ("{}", "no", '{"Version":"1999-01-01","Statement":[]}'),
}

QUEUES = [
    _parameter("a queue needs a name", "CreateQueue", {},
               "Value for parameter QueueName is invalid. Reason: Must specify a queue name."),
    _parameter("a name is not empty", "CreateQueue", {"QueueName": ""}, "Queue name cannot be empty"),
    _parameter("characters of a name", "CreateQueue", {"QueueName": "a b"}, _NAME),
    _parameter("80 characters at most", "CreateQueue", {"QueueName": "a" * 81}, _NAME),
    _parameter(".fifo is for FIFO queues", "CreateQueue", {"QueueName": "a.fifo"}, _NAME),
    _parameter("FIFO queues end in .fifo", "CreateQueue", _create({"FifoQueue": "true"}), _FIFO_NAME),
    _parameter(".fifo counts as well", "CreateQueue", _create({"FifoQueue": "true"}, "a" * 76 + ".fifo"),
               _FIFO_NAME),
    _sqs("InvalidAttributeName", "FifoQueue=false on standard", "CreateQueue", _create({"FifoQueue": "false"}),
         "Unknown Attribute FifoQueue."),
    _sqs("InvalidAttributeName", "content deduplication on standard", "CreateQueue",
         _create({"ContentBasedDeduplication": "true"}), "Unknown Attribute ContentBasedDeduplication."),
    _sqs("InvalidAttributeName", "deduplication scope on standard", "CreateQueue",
         _create({"DeduplicationScope": "queue"}), _ONLY_FIFO.format("DeduplicationScope")),
    _sqs("InvalidAttributeName", "throughput limit on standard", "CreateQueue",
         _create({"FifoThroughputLimit": "perQueue"}), _ONLY_FIFO.format("FifoThroughputLimit")),
    _sqs("InvalidAttributeName", "an unknown attribute", "CreateQueue", _create({"Foobar": "1"}),
         "Unknown Attribute Foobar."),
    _sqs("InvalidAttributeName", "a read-only attribute", "CreateQueue", _create({"QueueArn": "x"}),
         "Unknown Attribute QueueArn."),
    _sqs("QueueNameExists", "another value", "CreateQueue", _create({"VisibilityTimeout": "31"}, "std"), _EXISTS),
    _sqs("QueueDeletedRecently", "a name rests for a minute", "CreateQueue", {"QueueName": "gone"},
         "You must wait 60 seconds after deleting a queue before you can create another with the same name."),
    _parameter("a name to look for", "GetQueueUrl", {},
               "Value for parameter QueueName is invalid. Reason: Must specify a queue name."),
    *(
        _parameter("a page has 1 to 1000", "ListQueues", {"MaxResults": number},
                   "Value for parameter MaxResults is invalid. "
                   "Reason: MaxResults must be an integer between 1 and 1000.")
        for number in (0, 1001)
    ),
    _parameter("a token goes with a page size", "ListQueues", {"NextToken": "x"},
               "MaxResults is a mandatory parameter when you provide a value for NextToken."),
    _parameter("a token is one of ours", "ListQueues", {"NextToken": "x", "MaxResults": 1},
               "Invalid NextToken value."),
    _parameter("a token is one of ours", "ListDeadLetterSourceQueues",
               {"QueueUrl": "dead", "NextToken": "x", "MaxResults": 1}, "Invalid or expired next token."),
    _sqs("PurgeQueueInProgress", "one purge a minute", "PurgeQueue", {"QueueUrl": "purged"},
         "Only one PurgeQueue operation on purged is allowed every 60 seconds."),
    *(
        _sqs("InvalidAttributeName", "an unknown attribute", "GetQueueAttributes",
             {"QueueUrl": "std", "AttributeNames": [name]}, f"Unknown Attribute {name}.")
        for name in ("Foobar", "", "all")
    ),
    _missing("something to set", "SetQueueAttributes", {"QueueUrl": "std", "Attributes": {}}, "Attribute.Name"),
    _sqs("InvalidAttributeName", "an unknown attribute", "SetQueueAttributes", _set({"Foobar": "1"}),
         "Unknown Attribute Foobar."),
    *(
        _sqs("InvalidAttributeName", "FifoQueue on standard", "SetQueueAttributes", _set({"FifoQueue": value}),
             "Unknown Attribute FifoQueue.")
        for value in ("true", "false")
    ),
    _sqs("InvalidAttributeValue", "a FIFO queue stays one", "SetQueueAttributes",
         _set({"FifoQueue": "false"}, "f.fifo"),
         "Invalid value for the parameter FifoQueue. Reason: Modifying queue type is not supported."),
    *(
        _sqs("InvalidAttributeValue", "a value out of its range", action, request, f"Invalid value for the parameter {name}.")
        for name, values in _WRONG_VALUES.items()
        for value in values
        if not (name == "Policy" and not value)
        for action, request in (
            ("CreateQueue", _create({name: value})),
            ("SetQueueAttributes", _set({name: value})),
        )
    ),
    _sqs("InvalidAttributeName", "one kind of encryption", "SetQueueAttributes",
         _set({"KmsMasterKeyId": "k", "SqsManagedSseEnabled": "true"}), _ONE_ENCRYPTION),
    _missing("some tags", "TagQueue", {"QueueUrl": "std", "Tags": {}}, "Tags"),
    _parameter("a tag key is not empty", "TagQueue", {"QueueUrl": "std", "Tags": {"": "v"}},
               "Tag keys must be between 1 and 128 characters in length."),
    _parameter("a tag key is not empty", "UntagQueue", {"QueueUrl": "std", "TagKeys": [""]},
               "Tag keys must be between 1 and 128 characters in length."),
    _parameter("characters of a tag key", "TagQueue", {"QueueUrl": "std", "Tags": {"a!": "v"}},
               "Tag keys may only contain unicode letters, digits, whitespace, or one of these symbols: "
               "_ . : / = + - @"),
    _parameter("50 tags at most", "TagQueue", {"QueueUrl": "std", "Tags": {f"k{i}": "" for i in range(51)}},
               "Too many tags added for queue std."),
]  # fmt: skip


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


def _attribute(name: str, value: dict[str, Any]) -> dict[str, Any]:
    return _send(MessageAttributes={name: value})


_TEXT = {"DataType": "String", "StringValue": "x"}
_WRONG_TYPE = (
    "You can't use message attribute names beginning with 'AWS.' or 'Amazon'. "
    "These strings are reserved for internal use."
)

MESSAGES = [
    _missing("a body", "SendMessage", {"QueueUrl": "std"}, "MessageBody"),
    _missing("a body that is not empty", "SendMessage", _send(MessageBody=""), "MessageBody"),
    _parameter("the queue's limit", "SendMessage", _send("small", MessageBody="a" * 1025), _too_long(1024)),
    _parameter("attributes count into the size", "SendMessage",
               _send("small", MessageBody="a" * 1017, MessageAttributes={"k": _TEXT}), _too_long(1024)),
    _parameter("bytes count, not characters", "SendMessage", _send("small", MessageBody="é" * 513), _too_long(1024)),
    _parameter("1 MiB at most", "SendMessage", _send(MessageBody="a" * 1_048_577), _too_long(1_048_576)),
    _sqs("InvalidMessageContents", "control characters", "SendMessage", _send(MessageBody="a\x01b\x02"), _illegal("1")),
    _sqs("InvalidMessageContents", "the zero character", "SendMessage", _send(MessageBody="\x00"), _illegal("0")),
    _sqs("InvalidMessageContents", "U+FFFE", "SendMessage", _send(MessageBody="\ufffe"), _illegal("FFFE")),
    _sqs("InvalidMessageContents", "half a character", "SendMessage", _send(MessageBody="\ud800"), _illegal("D800")),
    *(
        _parameter("delay range", "SendMessage", _send(DelaySeconds=delay),
                   f"Value {delay} for parameter DelaySeconds is invalid. "
                   "Reason: DelaySeconds must be >= 0 and <= 900.")
        for delay in (-1, 901, 1000)
    ),
    _parameter("a FIFO message has no delay of its own", "SendMessage",
               _send("content.fifo", MessageGroupId="g", DelaySeconds=2),
               "Value 2 for parameter DelaySeconds is invalid. "
               "Reason: The request include parameter that is not valid for this queue type."),
    _missing("a group on FIFO", "SendMessage", _send("content.fifo"), "MessageGroupId"),
    _parameter("a deduplication id on FIFO", "SendMessage", _send("f.fifo", MessageGroupId="g"), _NEEDS_DEDUP_ID),
    *(
        _parameter("characters of a group id", "SendMessage", _send(queue, MessageGroupId=value),
                   _id_rule("MessageGroupId", value))
        for queue in ("content.fifo", "std")
        for value in ("", "a b", "é", "x" * 129)
    ),
    *(
        _parameter("characters of a deduplication id", "SendMessage",
                   _send("f.fifo", MessageGroupId="g", MessageDeduplicationId=value),
                   _id_rule("MessageDeduplicationId", value))
        for value in ("", "a b", "x" * 129)
    ),
    _parameter("a deduplication id on standard", "SendMessage", _send(MessageDeduplicationId="d"),
               "Value d for parameter MessageDeduplicationId is invalid. "
               "Reason: The request include parameter that is not valid for this queue type."),
    _sqs("UnsupportedOperation", "list values", "SendMessage",
         _attribute("a", {"DataType": "String", "StringListValues": ["x"]}),
         "Message attribute list values in SendMessage operation are not supported."),
    *(
        _parameter("1 to 10 messages", "ReceiveMessage", {"QueueUrl": "std", "MaxNumberOfMessages": number},
                   f"Value {number} for parameter MaxNumberOfMessages is invalid. "
                   "Reason: Must be between 1 and 10, if provided.")
        for number in (0, 11)
    ),
    *(
        _parameter("0 to 20 seconds", "ReceiveMessage", {"QueueUrl": "std", "WaitTimeSeconds": number},
                   f"Value {number} for parameter WaitTimeSeconds is invalid. "
                   "Reason: Must be >= 0 and <= 20, if provided.")
        for number in (-1, 21)
    ),
    _parameter("twelve hours", "ReceiveMessage", {"QueueUrl": "std", "VisibilityTimeout": 43201},
               "Value 43201 for parameter VisibilityTimeout is invalid. "
               "Reason: Must be >= 0 and <= 43200, if provided."),
    *(
        _missing("a receipt handle", action, {"QueueUrl": "std", "VisibilityTimeout": 0, **handle}, "ReceiptHandle")
        for action in ("DeleteMessage", "ChangeMessageVisibility")
        for handle in ({}, {"ReceiptHandle": ""})
    ),
    *(
        _sqs("ReceiptHandleIsInvalid", "a made-up handle", action,
             {"QueueUrl": queue, "ReceiptHandle": "garbage", "VisibilityTimeout": 0},
             'The input receipt handle "garbage" is not a valid receipt handle.')
        for action in ("DeleteMessage", "ChangeMessageVisibility")
        for queue in ("std", "f.fifo")
    ),
    _missing("a timeout, looked at before the handle", "ChangeMessageVisibility",
             {"QueueUrl": "std", "ReceiptHandle": "garbage"}, "VisibilityTimeout"),
    *(
        _parameter("twelve hours", "ChangeMessageVisibility",
                   {"QueueUrl": "std", "ReceiptHandle": "garbage", "VisibilityTimeout": timeout},
                   f"Value {timeout} for parameter VisibilityTimeout is invalid. "
                   "Reason: Must be between 0 and 43200.")
        for timeout in (-1, 43201)
    ),
]  # fmt: skip

ATTRIBUTES = [
    _parameter("ten attributes at most", "SendMessage",
               _send(MessageAttributes={f"a{i}": _TEXT for i in range(11)}),
               "Number of message attributes [11] exceeds the allowed maximum [10]."),
    _parameter("a name", "SendMessage", _attribute("", _TEXT),
               "The request must contain non-empty message (user) attribute names."),
    _parameter("256 characters", "SendMessage", _attribute("n" * 257, _TEXT),
               "Message (user) attribute name must be shorter than 256 bytes."),
    *(_parameter("reserved names", "SendMessage", _attribute(name, _TEXT), _WRONG_TYPE)
      for name in ("AWS.x", "aws.x", "Amazon.x", "AMAZON.x")),
    _parameter("a dot in front", "SendMessage", _attribute(".a", _TEXT),
               "Message (user) attribute name must not begin with character '.'."),
    _parameter("a dot behind", "SendMessage", _attribute("a.", _TEXT),
               "Message (user) attribute name must not end with character '.'."),
    _parameter("two dots", "SendMessage", _attribute("a..b", _TEXT),
               "Message (user) attribute name must not have successive '.' characters."),
    *(_parameter("characters of a name", "SendMessage", _attribute(f"a{character}", _TEXT),
                 f"Invalid non-alphanumeric character '#x{ord(character):X}' was found in the message attribute "
                 "name. Can only include alphanumeric characters, hyphens, underscores, or dots.")
      for character in '!"§(?'),
    _parameter("an empty value", "SendMessage", _attribute("N", {}),
               "The message (user) attribute 'N' must contain a non-empty message attribute value."),
    _parameter("no type", "SendMessage", _attribute("N", {"StringValue": "x"}),
               "The message (user) attribute 'N' must contain a non-empty message attribute type."),
    *(_parameter("three types", "SendMessage", _attribute("N", {"DataType": kind, "StringValue": "x"}),
                 "The type of message (user) attribute 'N' is invalid. You must use only the following supported "
                 "type prefixes: Binary, Number, String.")
      for kind in ("string", "Stringy", "Float", "String.")),
    _parameter("256 characters", "SendMessage", _attribute("N", {"DataType": "String." + "x" * 250, "StringValue": "x"}),
               "Message (user) attribute type must be shorter than 256 bytes."),
    *(_parameter("no value", "SendMessage", _attribute("N", {"DataType": "String", **value}),
                 "Message (user) attribute 'N' must contain a non-empty value of type 'String'.")
      for value in ({}, {"StringValue": ""})),
    _parameter("two values", "SendMessage", _attribute("N", {**_TEXT, "BinaryValue": "eA=="}),
               "Message (user) attribute 'N' must have a single value."),
    _parameter("the wrong field", "SendMessage", _attribute("N", {"DataType": "String", "BinaryValue": "eA=="}),
               "Message (user) attribute 'N' with type 'String' must use field 'String'."),
    _parameter("the wrong field", "SendMessage", _attribute("N", {"DataType": "Binary", "StringValue": "x"}),
               "Message (user) attribute 'N' with type 'Binary' must use field 'Binary'."),
    *(_parameter("a number is one", "SendMessage", _attribute("N", {"DataType": "Number", "StringValue": text}),
                 "Can't cast the value of message (user) attribute 'N' to a number.")
      for text in ("x", "1e127", "-1e129", "1" * 39)),
    _parameter("control characters", "SendMessage", _attribute("N", {"DataType": "String", "StringValue": "\x01"}), None),
    _parameter("one system attribute", "SendMessage", _send(MessageSystemAttributes={"X": _TEXT}),
               "Message system attribute name 'X' is invalid."),
    _parameter("a value of the system attribute", "SendMessage",
               _send(MessageSystemAttributes={"AWSTraceHeader": {"DataType": "String", "StringValue": ""}}),
               "Message system attribute 'AWSTraceHeader' must contain a non-empty value of type 'String'."),
]  # fmt: skip

_BATCHES = {
    "SendMessageBatch": "SendMessageBatchRequestEntry",
    "DeleteMessageBatch": "DeleteMessageBatchRequestEntry",
    "ChangeMessageVisibilityBatch": "ChangeMessageVisibilityBatchRequestEntry",
}
_ENTRY_ID = (
    "A batch entry id can only contain alphanumeric characters, hyphens and underscores. "
    "It can be at most 80 letters long."
)


def _every_batch(action: str, kind: str) -> list[Row]:
    return [
        _sqs("EmptyBatchRequest", "some entries", action, _batch(),
             f"There should be at least one {kind} in the request."),
        _sqs("TooManyEntriesInBatchRequest", "ten entries at most", action, _batch(*[_entry(f"i{n}") for n in range(11)]),
             "Maximum number of entries per request are 10. You have sent 11."),
        _missing("an id", action, _batch(_entry(), {"MessageBody": "b"}), f"{kind}.2.Id"),
        *(_sqs("InvalidBatchEntryId", "characters of an id", action, _batch(_entry(id)), _ENTRY_ID)
          for id in ("", "a b", "x" * 81, "ä")),
        _sqs("BatchEntryIdsNotDistinct", "ids differ; the first met again is named", action,
             _batch(*map(_entry, ("id_1", "id_2", "id_2", "id_1"))), "Id id_2 repeated."),
    ]  # fmt: skip


def _batch_too_long(size: int) -> str:
    return f"Batch requests cannot be longer than 1048576 bytes. You have sent {size} bytes."


BATCHES = [
    *(row for action, kind in _BATCHES.items() for row in _every_batch(action, kind)),
    _sqs("BatchRequestTooLong", "1 MiB in sum", "SendMessageBatch",
         _batch(_entry("a", MessageBody="x" * 1_000_000), _entry("b", MessageBody="x" * 48_577)),
         _batch_too_long(1_048_577)),
    _sqs("BatchRequestTooLong", "whatever the queue's own limit", "SendMessageBatch",
         _batch(_entry(MessageBody="x" * 1_048_577), queue="small"), _batch_too_long(1_048_577)),
    _parameter("a group for every FIFO entry", "SendMessageBatch",
               _batch(_entry("a", MessageGroupId="g"), _entry("b"), queue="content.fifo"),
               "The request must contain the parameter MessageGroupId."),
    _parameter("a deduplication id for every FIFO entry", "SendMessageBatch",
               _batch(_entry(MessageGroupId="g"), queue="f.fifo"), _NEEDS_DEDUP_ID),
]  # fmt: skip


def _redrive(rule: str, policy: dict[str, Any] | str, reason: str | None, *, queue: str = "std") -> Row:
    text = policy if isinstance(policy, str) else json.dumps(policy)
    words = (
        None if reason is None else f"Value {text} for parameter RedrivePolicy is invalid. Reason: {reason}"
    )
    return _parameter(rule, "SetQueueAttributes", _set({"RedrivePolicy": text}, queue), words)


def _allow(rule: str, policy: dict[str, Any] | str, reason: str | None) -> Row:
    text = policy if isinstance(policy, str) else json.dumps(policy)
    words = (
        "Invalid value for the parameter RedriveAllowPolicy. Reason: "
        "Amazon SQS can't create the redrive allow policy, as it’s in an unsupported format."
        if reason is None
        else f"Value {text} for parameter RedriveAllowPolicy is invalid. "
        f"Reason: Amazon SQS can't create the redrive allow policy. {reason}"
    )
    return _parameter(rule, "SetQueueAttributes", _set({"RedriveAllowPolicy": text}), words)


def _to(target: Any, count: Any = 1, **more: Any) -> dict[str, Any]:
    return {"deadLetterTargetArn": target, "maxReceiveCount": count, **more}


_NOT_A_MAP = "Invalid value for the parameter RedrivePolicy. Reason: Redrive policy is not a valid JSON map."
_NO_COUNT = "Redrive policy does not contain mandatory attribute: maxReceiveCount."
_COUNT = "Invalid value for maxReceiveCount: {}, valid values are from 1 to 1000 both inclusive."
_ARN_FORM = "You must use this format to specify the {}: arn:<partition>:<service>:<region>:<account-id>:<resource-id>"
_RATE = (
    "Value for parameter MaxNumberOfMessagesPerSecond is invalid. "
    "Reason: You must enter a number that's between 1 and 500."
)
_LISTED = (
    "Value for parameter MaxResults is invalid. Reason: You must enter a number that's between 1 and 10."
)


def _resource(rule: str, action: str, request: Any, name: str) -> Row:
    text = f"The resource that you specified for the {name} parameter doesn't exist."
    return _sqs("ResourceNotFoundException", rule, action, request, text)


DEAD_LETTERS = [
    *(_parameter("a JSON object", "SetQueueAttributes", _set({"RedrivePolicy": text}), _NOT_A_MAP)
      for text in ("x", "[]", json.dumps(json.dumps(_to(arn("dead")))))),
    _redrive("a count, looked for first", {}, _NO_COUNT),
    _redrive("a target", {"maxReceiveCount": 1},
             "Redrive policy does not contain mandatory attribute: deadLetterTargetArn."),
    *(_redrive("1 to 1000", _to(arn("dead"), count), _COUNT.format(count)) for count in (0, 1001, "0", "x")),
    _redrive("two keys", _to(arn("dead"), x=1),
             "Only following attributes are supported: [maxReceiveCount, deadLetterTargetArn]."),
    _redrive("an ARN", _to("dead"), "Dead-letter target ARN should be fully qualified ARN."),
    _redrive("an ARN of SQS", _to(arn("dead", service="sns")),
             "Only SQS queues are valid resources for deadLetterTargetArn."),
    _redrive("a queue that is there", _to(arn("none")), "Dead letter target does not exist."),
    _redrive("standard to standard", _to(arn("f.fifo")), "Dead-letter queue must be same type of queue as the source."),
    _redrive("FIFO to FIFO", _to(arn("dead")), "Dead-letter queue must be same type of queue as the source.",
             queue="f.fifo"),
    _redrive("the same region", _to(arn("dead", region="eu-west-1")),
             "Dead-letter target must be in same region as the source."),
    _redrive("the same account", _to(arn("dead", account="399999999999")),
             "Dead-letter target owner should be same as the source."),
    _redrive("allowed by the target", _to(arn("closed")), None),
    *(_allow("a form that is known", text, None)
      for text in ("x", "[]", '{"redrivePermission":"some"}', '{"redrivePermission":"allowAll","x":1}')),
    _allow("byQueue names queues", {"redrivePermission": "byQueue"},
           "When you specify the byQueue permission type, you must also specify one or more sourceQueueArns values."),
    _allow("only byQueue names queues", {"redrivePermission": "allowAll", "sourceQueueArns": [arn("std")]},
           "To specify one or more source queue ARNs, you must set redrivePermission to byQueue."),
    _allow("ten queues at most",
           {"redrivePermission": "byQueue", "sourceQueueArns": [arn(f"s{i}") for i in range(11)]},
           "The maximum number of source queue ARNs you can specify is 10."),
    _missing("a source", "StartMessageMoveTask", {}, "SourceArn"),
    *(_parameter("an ARN", "StartMessageMoveTask", {"SourceArn": arn("dead"), name: "x"}, _ARN_FORM.format(name))
      for name in ("SourceArn", "DestinationArn")),
    _resource("a source that is there", "StartMessageMoveTask", {"SourceArn": arn("none")}, "SourceArn"),
    _resource("a destination that is there", "StartMessageMoveTask",
              {"SourceArn": arn("dead"), "DestinationArn": arn("none")}, "DestinationArn"),
    _parameter("a source of dead letters", "StartMessageMoveTask", {"SourceArn": arn("std")},
               "Source queue must be configured as a Dead Letter Queue."),
    _parameter("two queues", "StartMessageMoveTask", {"SourceArn": arn("dead"), "DestinationArn": arn("dead")},
               "Source queue arn and destination queue arn cannot be the same."),
    _parameter("two queues of one type", "StartMessageMoveTask",
               {"SourceArn": arn("dead"), "DestinationArn": arn("f.fifo")},
               "The source queue and destination queue must be of the same queue type."),
    *(_parameter("1 to 500 a second", "StartMessageMoveTask",
                 {"SourceArn": arn("dead"), "MaxNumberOfMessagesPerSecond": rate}, _RATE)
      for rate in (0, 501)),
    *(_parameter("1 to 10 tasks", "ListMessageMoveTasks", {"SourceArn": arn("dead"), "MaxResults": number}, _LISTED)
      for number in (0, 11)),
    _resource("a source that is there", "ListMessageMoveTasks", {"SourceArn": arn("none")}, "SourceArn"),
    *(_parameter("a task handle is one", "CancelMessageMoveTask", {"TaskHandle": handle},
                 "Value for parameter TaskHandle is invalid.")
      for handle in ("x", "eA==", "e30=")),
]  # fmt: skip


def _permit(label: str = "l", accounts: tuple[str, ...] = (ACCOUNT,), *actions: str) -> dict[str, Any]:
    return {"QueueUrl": "std", "Label": label, "AWSAccountIds": list(accounts), "Actions": list(actions)}


_NO_LABEL = "Value L for parameter Label is invalid. Reason: can't find label."
_OWNER_ONLY = "Value SQS:{} for parameter ActionName is invalid. Reason: Only the queue owner is allowed to invoke this action."
_UNKNOWN_ACTION = (
    "Value SQS:{} for parameter ActionName is invalid. "
    "Reason: Please refer to the appropriate WSDL for a list of valid actions."
)

PERMISSIONS = [
    _parameter("no policy at all", "RemovePermission", {"QueueUrl": "std", "Label": "L"}, _NO_LABEL),
    _missing("a label", "AddPermission", _permit("", (ACCOUNT,), "*"), "Label"),
    _missing("some actions", "AddPermission", _permit(), "ActionName"),
    *(_parameter("not the owner's actions", "AddPermission", _permit("l", (ACCOUNT,), action), _OWNER_ONLY.format(action))
      for action in ("AddPermission", "CreateQueue", "DeleteQueue", "SetQueueAttributes", "StartMessageMoveTask")),
    *(_parameter("known actions", "AddPermission", _permit("l", (ACCOUNT,), action), _UNKNOWN_ACTION.format(action))
      for action in ("X", "SendMessageBatch")),
    _parameter("an account", "AddPermission", _permit("l", ("123",), "*"),
               "Value [123] for parameter PrincipalId is invalid. Reason: Unable to verify."),
    _sqs("OverLimit", "seven actions at most", "AddPermission",
         _permit("l", (ACCOUNT,), "SendMessage", "ReceiveMessage", "DeleteMessage", "ChangeMessageVisibility",
                 "GetQueueAttributes", "GetQueueUrl", "PurgeQueue", "ListDeadLetterSourceQueues"),
         "8 Actions were found, maximum allowed is 7."),
]  # fmt: skip

ROWS = [
    *WIRE,
    *RESOLUTION,
    *QUEUES,
    *MESSAGES,
    *ATTRIBUTES,
    *BATCHES,
    *DEAD_LETTERS,
    *PERMISSIONS,
]
