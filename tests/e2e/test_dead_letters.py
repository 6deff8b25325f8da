"""Dead-letter queues and move tasks."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

import pytest
from botocore.exceptions import ClientError

from e2e.conftest import ON_SHARDS
from support.raw import Raw

pytestmark = ON_SHARDS


def arn(sqs: Any, url: str) -> str:
    text: str = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    return text


def make(sqs: Any, name: str, **attributes: str) -> str:
    if name.endswith(".fifo"):
        attributes = {"FifoQueue": "true", "ContentBasedDeduplication": "true", **attributes}
    url: str = sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
    return url


def make_source(sqs: Any, name: str, dead: str, receives_max: int = 1) -> str:
    policy = {"deadLetterTargetArn": arn(sqs, dead), "maxReceiveCount": receives_max}
    return make(sqs, name, RedrivePolicy=json.dumps(policy))


def receive(sqs: Any, url: str, **more: Any) -> list[dict[str, Any]]:
    answer = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, AttributeNames=["All"], **more)
    messages: list[dict[str, Any]] = answer.get("Messages", [])
    return messages


def let_die(sqs: Any, url: str, dead: str, body: str) -> str:
    """Send a message and receive it as often as it may be, until it is a dead letter; its id."""
    message_id: str = sqs.send_message(QueueUrl=url, MessageBody=body)["MessageId"]
    while receive(sqs, url, VisibilityTimeout=0):
        pass
    assert body in [message["Body"] for message in receive(sqs, dead, VisibilityTimeout=0)]
    return message_id


def waiting(sqs: Any, url: str) -> int:
    shown = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages"])[
        "Attributes"
    ]
    return int(shown["ApproximateNumberOfMessages"])


def task(sqs: Any, source: str) -> dict[str, Any]:
    """The newest one, once it has ended."""
    for _ in range(500):
        newest: dict[str, Any] = sqs.list_message_move_tasks(SourceArn=source)["Results"][0]
        if newest["Status"] not in ("RUNNING", "CANCELLING"):
            return newest
        time.sleep(0.02)
    raise AssertionError("the task does not end")


@pytest.mark.parametrize("receives_max", [1, 3])
def test_a_message_is_delivered_exactly_max_receive_count_times(sqs: Any, receives_max: int) -> None:
    dead = make(sqs, "dead")
    url = make_source(sqs, "q", dead, receives_max)
    system = {"AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1-a"}}
    colour = {"c": {"DataType": "String", "StringValue": "red"}}
    sqs.send_message(QueueUrl=url, MessageBody="b", MessageAttributes=colour, MessageSystemAttributes=system)
    seen = [
        receive(sqs, url, VisibilityTimeout=0, MessageAttributeNames=["All"]) for _ in range(receives_max)
    ]
    (last,) = seen[-1]
    assert last["Attributes"]["ApproximateReceiveCount"] == str(receives_max)
    assert receive(sqs, url) == [], "the receive that moves it gives nothing"
    (moved,) = receive(sqs, dead, WaitTimeSeconds=0, MessageAttributeNames=["All"])
    assert moved["Attributes"] == last["Attributes"] | {
        "ApproximateReceiveCount": str(receives_max + 1),
        "DeadLetterQueueSourceArn": arn(sqs, url),
    }
    for kept in ("MessageId", "Body", "MD5OfBody", "MessageAttributes", "MD5OfMessageAttributes"):
        assert moved[kept] == last[kept]


def test_a_group_continues_after_its_first_message_became_a_dead_letter(sqs: Any) -> None:
    dead = make(sqs, "dead.fifo")
    url = make_source(sqs, "q.fifo", dead)
    for body in ("poison", "next"):
        sqs.send_message(QueueUrl=url, MessageBody=body, MessageGroupId="g")
    (head,) = sqs.receive_message(QueueUrl=url, VisibilityTimeout=0)["Messages"]
    assert head["Body"] == "poison"
    assert [message["Body"] for message in receive(sqs, url)] == ["next"]
    (moved,) = receive(sqs, dead, WaitTimeSeconds=0)
    assert (moved["Body"], moved["Attributes"]["MessageGroupId"]) == ("poison", "g")
    assert "MessageDeduplicationId" in moved["Attributes"]


def test_sources_are_listed_in_pages(sqs: Any, raw: Raw) -> None:
    dead = make(sqs, "dead")
    assert raw.done("ListDeadLetterSourceQueues", {"QueueUrl": "dead"}) == {}
    urls = [make_source(sqs, f"q{i}", dead) for i in range(5)]
    assert raw.done("ListDeadLetterSourceQueues", {"QueueUrl": "dead"}) == {"queueUrls": urls}
    pages = sqs.get_paginator("list_dead_letter_source_queues").paginate(
        QueueUrl=dead, PaginationConfig={"PageSize": 2}
    )
    assert [url for page in pages for url in page["queueUrls"]] == urls


def test_a_source_must_be_allowed_by_its_dead_letter_queue(sqs: Any, account: str) -> None:
    friend = f"arn:aws:sqs:us-east-1:{account}:friend"
    allow = json.dumps({"redrivePermission": "byQueue", "sourceQueueArns": [friend]})
    dead = make(sqs, "dead", RedriveAllowPolicy=allow)
    make_source(sqs, "friend", dead)
    with pytest.raises(ClientError) as refused:
        make_source(sqs, "other", dead)
    assert refused.value.response["Error"]["Code"] == "InvalidParameterValue"


def test_a_move_without_destination_returns_each_to_its_own_source(sqs: Any) -> None:
    dead = make(sqs, "dead")
    sources = {name: make_source(sqs, name, dead) for name in ("a", "b")}
    died = {let_die(sqs, url, dead, name): name for name, url in sources.items()}
    handle = sqs.start_message_move_task(SourceArn=arn(sqs, dead))["TaskHandle"]
    decoded = json.loads(base64.b64decode(handle))
    assert decoded.keys() == {"taskId", "sourceArn"} and decoded["sourceArn"] == arn(sqs, dead)
    done = task(sqs, arn(sqs, dead))
    assert done.pop("StartedTimestamp") > 1_600_000_000_000, "in milliseconds"
    assert done == {
        "Status": "COMPLETED",
        "SourceArn": arn(sqs, dead),
        "ApproximateNumberOfMessagesMoved": 2,
        "ApproximateNumberOfMessagesToMove": 2,
    }
    for name, url in sources.items():
        (message,) = receive(sqs, url)
        assert message["Body"] == name
        assert message["MessageId"] not in died, "it is a new message"
        assert message["Attributes"]["ApproximateReceiveCount"] == "1", "so it does not bounce straight back"
    assert waiting(sqs, dead) == 0


def test_a_move_to_a_destination(sqs: Any) -> None:
    dead, other = make(sqs, "dead"), make(sqs, "other")
    let_die(sqs, make_source(sqs, "q", dead), dead, "b")
    sqs.start_message_move_task(
        SourceArn=arn(sqs, dead), DestinationArn=arn(sqs, other), MaxNumberOfMessagesPerSecond=500
    )
    done = task(sqs, arn(sqs, dead))
    assert (done["DestinationArn"], done["MaxNumberOfMessagesPerSecond"]) == (arn(sqs, other), 500)
    assert [message["Body"] for message in receive(sqs, other)] == ["b"]


def test_one_task_at_a_time_and_a_cancelled_one_stops(sqs: Any) -> None:
    dead, other = make(sqs, "dead"), make(sqs, "other")
    make_source(sqs, "q", dead)
    for i in range(10):
        sqs.send_message(QueueUrl=dead, MessageBody=str(i))
    slow = {"SourceArn": arn(sqs, dead), "DestinationArn": arn(sqs, other), "MaxNumberOfMessagesPerSecond": 1}
    handle = sqs.start_message_move_task(**slow)["TaskHandle"]
    with pytest.raises(ClientError, match="There is already a task running"):
        sqs.start_message_move_task(**slow)
    (running,) = sqs.list_message_move_tasks(SourceArn=arn(sqs, dead))["Results"]
    assert (running["Status"], running["TaskHandle"]) == ("RUNNING", handle)
    moved = sqs.cancel_message_move_task(TaskHandle=handle)["ApproximateNumberOfMessagesMoved"]
    done = task(sqs, arn(sqs, dead))
    assert done["Status"] == "CANCELLED" and "TaskHandle" not in done
    assert moved <= done["ApproximateNumberOfMessagesMoved"] < 10
    assert waiting(sqs, other) == done["ApproximateNumberOfMessagesMoved"]
    assert waiting(sqs, dead) + waiting(sqs, other) == 10, "nothing is lost or doubled"
    with pytest.raises(ClientError, match="Only active tasks can be cancelled"):
        sqs.cancel_message_move_task(TaskHandle=handle)


def test_tasks_that_do_not_exist(sqs: Any) -> None:
    dead = make(sqs, "dead")
    for source, text in (
        (arn(sqs, dead), "Task does not exist."),
        (arn(sqs, dead) + "x", "The resource that you specified for the SourceArn parameter doesn't exist."),
    ):
        document = {"taskId": "8b7f1d1c-0000-4000-8000-000000000000", "sourceArn": source}
        with pytest.raises(sqs.exceptions.ResourceNotFoundException) as refused:
            sqs.cancel_message_move_task(TaskHandle=base64.b64encode(json.dumps(document).encode()).decode())
        assert refused.value.response["Error"]["Message"] == text
        assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 404


def test_a_task_fails_with_its_reason(sqs: Any) -> None:
    dead = make(sqs, "dead")
    url = make_source(sqs, "q", dead)
    make_source(sqs, "other", dead)
    let_die(sqs, url, dead, "b")
    sqs.delete_queue(QueueUrl=url)
    sqs.start_message_move_task(SourceArn=arn(sqs, dead))
    failed = task(sqs, arn(sqs, dead))
    assert (failed["Status"], failed["FailureReason"]) == (
        "FAILED",
        "AWS.SimpleQueueService.NonExistentQueue",
    )
    assert waiting(sqs, dead) == 1
    sqs.purge_queue(QueueUrl=dead)
    sqs.send_message(QueueUrl=dead, MessageBody="of no source")
    sqs.start_message_move_task(SourceArn=arn(sqs, dead))
    assert task(sqs, arn(sqs, dead))["FailureReason"] == "CouldNotDetermineMessageSource"
    newest_first = sqs.list_message_move_tasks(SourceArn=arn(sqs, dead), MaxResults=10)["Results"]
    assert [each["FailureReason"] for each in newest_first][-1] == "AWS.SimpleQueueService.NonExistentQueue"
    assert len(newest_first) == 2
