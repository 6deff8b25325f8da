"""Redrive policies and move tasks."""

from __future__ import annotations

import json
from typing import Any

from e2e.errors.row import Row, arn, missing, parameter, setting, sqs


def _redrive(rule: str, policy: dict[str, Any] | str, reason: str | None, *, queue: str = "std") -> Row:
    text = policy if isinstance(policy, str) else json.dumps(policy)
    words = (
        None if reason is None else f"Value {text} for parameter RedrivePolicy is invalid. Reason: {reason}"
    )
    return parameter(rule, "SetQueueAttributes", setting({"RedrivePolicy": text}, queue), words)


def _allow(rule: str, policy: dict[str, Any] | str, reason: str | None) -> Row:
    text = policy if isinstance(policy, str) else json.dumps(policy)
    words = (
        "Invalid value for the parameter RedriveAllowPolicy. Reason: "
        "Amazon SQS can't create the redrive allow policy, as it’s in an unsupported format."
        if reason is None
        else f"Value {text} for parameter RedriveAllowPolicy is invalid. "
        f"Reason: Amazon SQS can't create the redrive allow policy. {reason}"
    )
    return parameter(rule, "SetQueueAttributes", setting({"RedriveAllowPolicy": text}), words)


def _to(target: Any, count: Any = 1, **more: Any) -> dict[str, Any]:
    return {"deadLetterTargetArn": target, "maxReceiveCount": count, **more}


_NOT_A_MAP = "Invalid value for the parameter RedrivePolicy. Reason: Redrive policy is not a valid JSON map."
_NO_COUNT = "Redrive policy does not contain mandatory attribute: maxReceiveCount."
_COUNT = "Invalid value for maxReceiveCount: {}, valid values are from 1 to 1000 both inclusive."
_ARN_FORM = (
    "You must use this format to specify the {}: "
    "arn:<partition>:<service>:<region>:<account-id>:<resource-id>"
)
_OTHER_TYPE = "Dead-letter queue must be same type of queue as the source."
_RATE = (
    "Value for parameter MaxNumberOfMessagesPerSecond is invalid. "
    "Reason: You must enter a number that's between 1 and 500."
)
_LISTED = (
    "Value for parameter MaxResults is invalid. Reason: You must enter a number that's between 1 and 10."
)


def _resource(rule: str, action: str, request: Any, name: str) -> Row:
    text = f"The resource that you specified for the {name} parameter doesn't exist."
    return sqs("ResourceNotFoundException", rule, action, request, text)


DEAD_LETTERS = [
    *(parameter("a JSON object", "SetQueueAttributes", setting({"RedrivePolicy": text}), _NOT_A_MAP)
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
    _redrive("standard to standard", _to(arn("f.fifo")), _OTHER_TYPE),
    _redrive("FIFO to FIFO", _to(arn("dead")), _OTHER_TYPE, queue="f.fifo"),
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
    missing("a source", "StartMessageMoveTask", {}, "SourceArn"),
    *(parameter("an ARN", "StartMessageMoveTask", {"SourceArn": arn("dead"), name: "x"}, _ARN_FORM.format(name))
      for name in ("SourceArn", "DestinationArn")),
    _resource("a source that is there", "StartMessageMoveTask", {"SourceArn": arn("none")}, "SourceArn"),
    _resource("a destination that is there", "StartMessageMoveTask",
              {"SourceArn": arn("dead"), "DestinationArn": arn("none")}, "DestinationArn"),
    parameter("a source of dead letters", "StartMessageMoveTask", {"SourceArn": arn("std")},
              "Source queue must be configured as a Dead Letter Queue."),
    parameter("two queues", "StartMessageMoveTask", {"SourceArn": arn("dead"), "DestinationArn": arn("dead")},
              "Source queue arn and destination queue arn cannot be the same."),
    parameter("two queues of one type", "StartMessageMoveTask",
              {"SourceArn": arn("dead"), "DestinationArn": arn("f.fifo")},
              "The source queue and destination queue must be of the same queue type."),
    *(parameter("1 to 500 a second", "StartMessageMoveTask",
                {"SourceArn": arn("dead"), "MaxNumberOfMessagesPerSecond": rate}, _RATE)
      for rate in (0, 501)),
    *(parameter("1 to 10 tasks", "ListMessageMoveTasks", {"SourceArn": arn("dead"), "MaxResults": number}, _LISTED)
      for number in (0, 11)),
    _resource("a source that is there", "ListMessageMoveTasks", {"SourceArn": arn("none")}, "SourceArn"),
    *(parameter("a task handle is one", "CancelMessageMoveTask", {"TaskHandle": handle},
                "Value for parameter TaskHandle is invalid.")
      for handle in ("x", "eA==", "e30=")),
]  # fmt: skip
