"""Message move tasks."""

from __future__ import annotations

import base64
import json
from typing import Any

import msgspec
import pytest

from penstock.broker.move_tasks import MoveFailure
from penstock.errors import (
    MoveTaskMissing,
    MoveTaskNotRunning,
    MoveTaskRunning,
    PenstockError,
    SourceNotDeadLetterQueue,
)
from support.rows import every_row

SOURCE = "arn:aws:sqs:eu-west-1:123456789012:dlq"
TARGET = "arn:aws:sqs:eu-west-1:123456789012:q"
FORMAT = "arn:<partition>:<service>:<region>:<account-id>:<resource-id>"


@pytest.fixture(autouse=True)
def queues(sqs: Any) -> None:
    for name in ("dlq", "q", "q.fifo"):
        sqs.make(name)


def start(sqs: Any, source: Any = SOURCE, **members: Any) -> Any:
    return sqs("StartMessageMoveTask", SourceArn=source, **members)


def handle(document: object) -> str:
    return base64.b64encode(json.dumps(document).encode()).decode()


def test_a_task_handle_is_base64_of_its_id_and_source(sqs: Any) -> None:
    reply = start(sqs, DestinationArn=TARGET, MaxNumberOfMessagesPerSecond=500)
    decoded = base64.b64decode(reply.body["TaskHandle"])
    assert decoded == b'{"taskId":"task-0","sourceArn":"' + SOURCE.encode() + b'"}'
    listed = sqs("ListMessageMoveTasks", SourceArn=SOURCE).body
    assert listed["Results"] == [
        {
            "TaskHandle": reply.body["TaskHandle"],
            "Status": "RUNNING",
            "SourceArn": SOURCE,
            "DestinationArn": TARGET,
            "MaxNumberOfMessagesPerSecond": 500,
            "ApproximateNumberOfMessagesMoved": 0,
            "ApproximateNumberOfMessagesToMove": 5,
            "StartedTimestamp": 1_700_000_000_000,
        }
    ]


def test_a_task_shows_its_handle_only_running_and_its_failure_only_failed(sqs: Any) -> None:
    start(sqs)
    task = sqs.broker.tasks[0]
    for status, shown in (("COMPLETED", set()), ("FAILED", {"FailureReason"}), ("RUNNING", {"TaskHandle"})):
        sqs.broker.tasks = [msgspec.structs.replace(task, status=status, failure="Reason")]
        (entry,) = sqs("ListMessageMoveTasks", SourceArn=SOURCE).body["Results"]
        assert entry.keys() & {"TaskHandle", "FailureReason"} == shown
        assert "DestinationArn" not in entry and "MaxNumberOfMessagesPerSecond" not in entry


@pytest.mark.parametrize(
    ("failure", "shown"),
    [
        (MoveFailure.DESTINATION_MISSING, "AWS.SimpleQueueService.NonExistentQueue"),
        (MoveFailure.SOURCE_UNKNOWN, "CouldNotDetermineMessageSource"),
        (MoveFailure.NOT_PERMITTED, "AccessDenied"),
        (MoveFailure.KEY_DISABLED, "KMS.DisabledException"),
        (MoveFailure.KEY_MISSING, "KMS.NotFoundException"),
        (MoveFailure.INTERNAL, "InternalError"),
        ("KMS.DisabledException", "KMS.DisabledException"),  # stored by an earlier version
    ],
)
def test_failures_are_named_as_by_sqs(sqs: Any, failure: str, shown: str) -> None:
    start(sqs)
    sqs.broker.tasks = [msgspec.structs.replace(sqs.broker.tasks[0], status="FAILED", failure=failure)]
    (entry,) = sqs("ListMessageMoveTasks", SourceArn=SOURCE).body["Results"]
    assert entry["FailureReason"] == shown


@every_row(
    ("source", "members", "status", "code", "message"),
    [
        (None, {}, 400, "MissingParameter", "The request must contain the parameter SourceArn."),
        (
            "x",
            {},
            400,
            "InvalidParameterValue",
            f"You must use this format to specify the SourceArn: {FORMAT}",
        ),
        (
            SOURCE,
            {"DestinationArn": "x"},
            400,
            "InvalidParameterValue",
            f"You must use this format to specify the DestinationArn: {FORMAT}",
        ),
        *(
            (
                source,
                {},
                404,
                "ResourceNotFoundException",
                "The resource that you specified for the SourceArn parameter doesn't exist.",
            )
            for source in (SOURCE + "x", SOURCE.replace("123456789012", "9"), SOURCE.replace("sqs", "sns"))
        ),
        (
            SOURCE,
            {"DestinationArn": TARGET + "x"},
            404,
            "ResourceNotFoundException",
            "The resource that you specified for the DestinationArn parameter doesn't exist.",
        ),
        (
            SOURCE,
            {"DestinationArn": SOURCE},
            400,
            "InvalidParameterValue",
            "Source queue arn and destination queue arn cannot be the same.",
        ),
        (
            SOURCE,
            {"DestinationArn": TARGET + ".fifo"},
            400,
            "InvalidParameterValue",
            "The source queue and destination queue must be of the same queue type.",
        ),
        *(
            (
                SOURCE,
                {"MaxNumberOfMessagesPerSecond": rate},
                400,
                "InvalidParameterValue",
                "Value for parameter MaxNumberOfMessagesPerSecond is invalid. "
                "Reason: You must enter a number that's between 1 and 500.",
            )
            for rate in (0, 501)
        ),
    ],
)
def test_start_refuses(
    sqs: Any, source: Any, members: dict[str, Any], status: int, code: str, message: str
) -> None:
    reply = start(sqs, source, **members)
    assert (reply.status, *reply.error) == (status, code, message)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            MoveTaskRunning(),
            "There is already a task running. "
            "Only one active task is allowed for a source queue arn at a given time.",
        ),
        (SourceNotDeadLetterQueue(), "Source queue must be configured as a Dead Letter Queue."),
    ],
)
def test_errors_of_the_broker_on_start(sqs: Any, error: PenstockError, message: str) -> None:
    sqs.broker.raises = error
    assert start(sqs).error == ("InvalidParameterValue", message)


def test_cancel_returns_the_number_of_moved_messages(sqs: Any) -> None:
    task = start(sqs).body["TaskHandle"]
    assert sqs("CancelMessageMoveTask", TaskHandle=task).body == {"ApproximateNumberOfMessagesMoved": 2}


@pytest.mark.parametrize(
    "bad", ["x", "é", handle([]), handle({}), handle({"taskId": 1, "sourceArn": SOURCE}), handle({"taskId": "t"})]
)  # fmt: skip
def test_cancel_with_an_invalid_handle(sqs: Any, bad: str) -> None:
    assert sqs("CancelMessageMoveTask", TaskHandle=bad).error == (
        "InvalidParameterValue",
        "Value for parameter TaskHandle is invalid.",
    )


def test_cancel_of_a_task_that_does_not_exist_or_has_ended(sqs: Any) -> None:
    assert sqs("CancelMessageMoveTask").code == "MissingParameter"
    gone = sqs("CancelMessageMoveTask", TaskHandle=handle({"taskId": "t", "sourceArn": SOURCE + "x"}))
    assert (gone.status, gone.code) == (404, "ResourceNotFoundException")
    known = handle({"taskId": "t", "sourceArn": SOURCE})
    sqs.broker.raises = MoveTaskMissing()
    reply = sqs("CancelMessageMoveTask", TaskHandle=known)
    assert (reply.status, *reply.error) == (404, "ResourceNotFoundException", "Task does not exist.")
    sqs.broker.raises = MoveTaskNotRunning()
    assert sqs("CancelMessageMoveTask", TaskHandle=known).error == (
        "InvalidParameterValue",
        "Only active tasks can be cancelled.",
    )


def test_list_returns_one_task_by_default_and_ten_at_most(sqs: Any) -> None:
    assert sqs("ListMessageMoveTasks", SourceArn=SOURCE).raw == b"{}"
    for _ in range(3):
        start(sqs)
    assert len(sqs("ListMessageMoveTasks", SourceArn=SOURCE).body["Results"]) == 1
    assert len(sqs("ListMessageMoveTasks", SourceArn=SOURCE, MaxResults=10).body["Results"]) == 3
    for wrong in (0, 11):
        assert sqs("ListMessageMoveTasks", SourceArn=SOURCE, MaxResults=wrong).error == (
            "InvalidParameterValue",
            "Value for parameter MaxResults is invalid. "
            "Reason: You must enter a number that's between 1 and 10.",
        )
