"""Creating, finding, listing, configuring and tagging queues."""

from __future__ import annotations

from e2e.errors.row import creating, missing, parameter, setting, sqs

_NAME = "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length"
_FIFO_NAME = (
    "The name of a FIFO queue can only include alphanumeric characters, hyphens, or underscores, "
    "must end with .fifo suffix and be 1 to 80 in length."
)
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
    parameter("a queue needs a name", "CreateQueue", {},
              "Value for parameter QueueName is invalid. Reason: Must specify a queue name."),
    parameter("a name is not empty", "CreateQueue", {"QueueName": ""}, "Queue name cannot be empty"),
    parameter("characters of a name", "CreateQueue", {"QueueName": "a b"}, _NAME),
    parameter("80 characters at most", "CreateQueue", {"QueueName": "a" * 81}, _NAME),
    parameter(".fifo is for FIFO queues", "CreateQueue", {"QueueName": "a.fifo"}, _NAME),
    parameter("FIFO queues end in .fifo", "CreateQueue", creating({"FifoQueue": "true"}), _FIFO_NAME),
    parameter(".fifo counts as well", "CreateQueue", creating({"FifoQueue": "true"}, "a" * 76 + ".fifo"),
              _FIFO_NAME),
    sqs("InvalidAttributeName", "FifoQueue=false on standard", "CreateQueue", creating({"FifoQueue": "false"}),
        "Unknown Attribute FifoQueue."),
    sqs("InvalidAttributeName", "content deduplication on standard", "CreateQueue",
        creating({"ContentBasedDeduplication": "true"}), "Unknown Attribute ContentBasedDeduplication."),
    sqs("InvalidAttributeName", "deduplication scope on standard", "CreateQueue",
        creating({"DeduplicationScope": "queue"}), _ONLY_FIFO.format("DeduplicationScope")),
    sqs("InvalidAttributeName", "throughput limit on standard", "CreateQueue",
        creating({"FifoThroughputLimit": "perQueue"}), _ONLY_FIFO.format("FifoThroughputLimit")),
    sqs("InvalidAttributeName", "an unknown attribute", "CreateQueue", creating({"Foobar": "1"}),
        "Unknown Attribute Foobar."),
    sqs("InvalidAttributeName", "a read-only attribute", "CreateQueue", creating({"QueueArn": "x"}),
        "Unknown Attribute QueueArn."),
    sqs("QueueNameExists", "another value", "CreateQueue", creating({"VisibilityTimeout": "31"}, "std"), _EXISTS),
    sqs("QueueDeletedRecently", "a name rests for a minute", "CreateQueue", {"QueueName": "gone"},
        "You must wait 60 seconds after deleting a queue before you can create another with the same name."),
    parameter("a name to look for", "GetQueueUrl", {},
              "Value for parameter QueueName is invalid. Reason: Must specify a queue name."),
    *(
        parameter("a page has 1 to 1000", "ListQueues", {"MaxResults": number},
                  "Value for parameter MaxResults is invalid. "
                  "Reason: MaxResults must be an integer between 1 and 1000.")
        for number in (0, 1001)
    ),
    parameter("a token goes with a page size", "ListQueues", {"NextToken": "x"},
              "MaxResults is a mandatory parameter when you provide a value for NextToken."),
    parameter("a token is one of ours", "ListQueues", {"NextToken": "x", "MaxResults": 1},
              "Invalid NextToken value."),
    parameter("a token is one of ours", "ListDeadLetterSourceQueues",
              {"QueueUrl": "dead", "NextToken": "x", "MaxResults": 1}, "Invalid or expired next token."),
    sqs("PurgeQueueInProgress", "one purge a minute", "PurgeQueue", {"QueueUrl": "purged"},
        "Only one PurgeQueue operation on purged is allowed every 60 seconds."),
    *(
        sqs("InvalidAttributeName", "an unknown attribute", "GetQueueAttributes",
            {"QueueUrl": "std", "AttributeNames": [name]}, f"Unknown Attribute {name}.")
        for name in ("Foobar", "", "all")
    ),
    missing("something to set", "SetQueueAttributes", {"QueueUrl": "std", "Attributes": {}}, "Attribute.Name"),
    sqs("InvalidAttributeName", "an unknown attribute", "SetQueueAttributes", setting({"Foobar": "1"}),
        "Unknown Attribute Foobar."),
    *(
        sqs("InvalidAttributeName", "FifoQueue on standard", "SetQueueAttributes", setting({"FifoQueue": value}),
            "Unknown Attribute FifoQueue.")
        for value in ("true", "false")
    ),
    sqs("InvalidAttributeValue", "a FIFO queue stays one", "SetQueueAttributes",
        setting({"FifoQueue": "false"}, "f.fifo"),
        "Invalid value for the parameter FifoQueue. Reason: Modifying queue type is not supported."),
    *(
        sqs("InvalidAttributeValue", "a value out of its range", action, request,
            f"Invalid value for the parameter {name}.")
        for name, values in _WRONG_VALUES.items()
        for value in values
        for action, request in (
            ("CreateQueue", creating({name: value})),
            ("SetQueueAttributes", setting({name: value})),
        )
    ),
    sqs("InvalidAttributeName", "one kind of encryption", "SetQueueAttributes",
        setting({"KmsMasterKeyId": "k", "SqsManagedSseEnabled": "true"}), _ONE_ENCRYPTION),
    missing("some tags", "TagQueue", {"QueueUrl": "std", "Tags": {}}, "Tags"),
    parameter("a tag key is not empty", "TagQueue", {"QueueUrl": "std", "Tags": {"": "v"}},
              "Tag keys must be between 1 and 128 characters in length."),
    parameter("a tag key is not empty", "UntagQueue", {"QueueUrl": "std", "TagKeys": [""]},
              "Tag keys must be between 1 and 128 characters in length."),
    parameter("characters of a tag key", "TagQueue", {"QueueUrl": "std", "Tags": {"a!": "v"}},
              "Tag keys may only contain unicode letters, digits, whitespace, or one of these symbols: "
              "_ . : / = + - @"),
    parameter("50 tags at most", "TagQueue", {"QueueUrl": "std", "Tags": {f"k{i}": "" for i in range(51)}},
              "Too many tags added for queue std."),
]  # fmt: skip
