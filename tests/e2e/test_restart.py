"""A restart on the same data directory changes nothing that a client can see."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.process import ServerProcess
from support.sqs import sqs_client

ACCOUNT = "200000000000"


class Restarting:
    """A server with a data directory, and a client of whichever process is the present one."""

    def __init__(self, data: Path, shards: int) -> None:
        self._arguments = ("--data", str(data), "--shards", str(shards))
        self._start()

    def _start(self) -> None:
        self.server = ServerProcess(*self._arguments)
        self.sqs = sqs_client(self.server.url, ACCOUNT)

    def stop_and_start(self) -> None:
        assert self.server.stop() == 0
        self._start()

    def kill_and_start(self) -> None:
        self.server.kill()
        self._start()


@pytest.fixture(params=[1, 8], ids=["one shard", "8 shards"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Restarting]:
    running = Restarting(tmp_path / "data", request.param)
    yield running
    running.server.kill()


@pytest.fixture(params=["stop", "kill"])
def again(request: pytest.FixtureRequest, kept: Restarting) -> Callable[[], None]:
    return kept.stop_and_start if request.param == "stop" else kept.kill_and_start


def attributes(sqs: Any, queue: str) -> dict[str, str]:
    shown: dict[str, str] = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])["Attributes"]
    return shown


def receive(sqs: Any, queue: str, **more: Any) -> list[dict[str, Any]]:
    answer = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, AttributeNames=["All"], **more)
    messages: list[dict[str, Any]] = answer.get("Messages", [])
    return messages


def arn(name: str) -> str:
    return f"arn:aws:sqs:us-east-1:{ACCOUNT}:{name}"


def test_queues_keep_every_attribute_and_tag(kept: Restarting, again: Callable[[], None]) -> None:
    sqs = kept.sqs
    allow = json.dumps({"redrivePermission": "byQueue", "sourceQueueArns": [arn("q")]})
    sqs.create_queue(QueueName="dead", Attributes={"RedriveAllowPolicy": allow})
    policy = json.dumps(
        {"Statement": [{"Effect": "Allow", "Principal": "*", "Action": "*", "Resource": "*"}]}
    )
    redrive = json.dumps({"deadLetterTargetArn": arn("dead"), "maxReceiveCount": 3})
    plain = {
        "DelaySeconds": "7", "ReceiveMessageWaitTimeSeconds": "2", "VisibilityTimeout": "9", "Policy": policy,
        "RedrivePolicy": redrive, "MessageRetentionPeriod": "61", "KmsMasterKeyId": "key",
        "KmsDataKeyReusePeriodSeconds": "77", "MaximumMessageSize": "2048",
    }  # fmt: skip
    sqs.create_queue(QueueName="q", Attributes=plain, tags={"team": "billing", "é": ""})
    sqs.add_permission(QueueUrl="dead", Label="l", AWSAccountIds=["111111111111"], Actions=["*"])
    fifo = {
        "FifoQueue": "true", "ContentBasedDeduplication": "true", "DeduplicationScope": "messageGroup",
        "FifoThroughputLimit": "perMessageGroupId",
    }  # fmt: skip
    sqs.create_queue(QueueName="q.fifo", Attributes=fifo)
    before = {name: attributes(sqs, name) for name in ("q", "dead", "q.fifo")}
    again()
    sqs = kept.sqs
    assert {name: attributes(sqs, name) for name in before} == before
    assert sqs.list_queue_tags(QueueUrl="q")["Tags"] == {"team": "billing", "é": ""}
    assert sqs.create_queue(QueueName="q", Attributes=plain)["QueueUrl"].endswith("/q")
    assert [
        url.rpartition("/")[2] for url in sqs.list_dead_letter_source_queues(QueueUrl="dead")["queueUrls"]
    ] == ["q"]


def test_messages_keep_contents_counts_handles_and_deadlines(
    kept: Restarting, again: Callable[[], None]
) -> None:
    sqs = kept.sqs
    sqs.create_queue(QueueName="q")
    colour = {"c": {"DataType": "Binary.png", "BinaryValue": b"\0\xff"}}
    for body in ("deleted", "in flight", "shown again", "waiting \U0001f600"):
        sqs.send_message(QueueUrl="q", MessageBody=body, MessageAttributes=colour, MessageGroupId="tenant")
    sqs.send_message(QueueUrl="q", MessageBody="delayed", DelaySeconds=600)
    handles = {m["Body"]: m["ReceiptHandle"] for m in receive(sqs, "q", VisibilityTimeout=600)}
    sqs.delete_message(QueueUrl="q", ReceiptHandle=handles["deleted"])
    # A change of the visibility is on disk when it is answered; the receive itself may be lost in a crash.
    sqs.change_message_visibility(QueueUrl="q", ReceiptHandle=handles["in flight"], VisibilityTimeout=600)
    for body in ("shown again", "waiting \U0001f600"):
        sqs.change_message_visibility(QueueUrl="q", ReceiptHandle=handles[body], VisibilityTimeout=0)
    before = attributes(sqs, "q")
    shown = receive(sqs, "q", VisibilityTimeout=0, MessageAttributeNames=["All"])
    # The answer to a receive does not wait for the disk; this one does, for everything before it.
    sqs.tag_queue(QueueUrl="q", Tags={"durable": "all before"})
    again()
    sqs = kept.sqs
    assert attributes(sqs, "q") == before
    assert (
        before["ApproximateNumberOfMessagesNotVisible"],
        before["ApproximateNumberOfMessagesDelayed"],
    ) == ("1", "1")
    messages = receive(sqs, "q", MessageAttributeNames=["All"])
    assert [m["Body"] for m in messages] == ["shown again", "waiting \U0001f600"]
    for earlier, later in zip(shown, messages, strict=True):
        assert later["MessageAttributes"] == colour
        assert later["MD5OfMessageAttributes"] == earlier["MD5OfMessageAttributes"]
        assert later["MessageId"] == earlier["MessageId"]
        assert later["Attributes"] == earlier["Attributes"] | {"ApproximateReceiveCount": "3"}
    sqs.delete_message(QueueUrl="q", ReceiptHandle=handles["in flight"])
    assert attributes(sqs, "q")["ApproximateNumberOfMessagesNotVisible"] == "2", (
        "a handle from before deletes"
    )


def test_a_thousand_messages_are_kept_once_each_and_deleted_ones_stay_deleted(kept: Restarting) -> None:
    sqs = kept.sqs
    sqs.create_queue(QueueName="q")
    for start in range(0, 1000, 10):
        entries = [{"Id": str(i), "MessageBody": str(i)} for i in range(start, start + 10)]
        sqs.send_message_batch(QueueUrl="q", Entries=entries)
    gone = receive(sqs, "q")
    entries = [{"Id": str(i), "ReceiptHandle": m["ReceiptHandle"]} for i, m in enumerate(gone)]
    sqs.delete_message_batch(QueueUrl="q", Entries=entries)
    kept.kill_and_start()
    left: list[str] = []
    while messages := receive(kept.sqs, "q", VisibilityTimeout=600):
        left += [m["Body"] for m in messages]
    assert sorted(left + [m["Body"] for m in gone], key=int) == [str(i) for i in range(1000)]


def test_fifo_keeps_deduplication_groups_and_sequence(kept: Restarting, again: Callable[[], None]) -> None:
    sqs = kept.sqs
    sqs.create_queue(QueueName="q.fifo", Attributes={"FifoQueue": "true"})

    def send(body: str, group: str = "g") -> dict[str, Any]:
        answer: dict[str, Any] = kept.sqs.send_message(
            QueueUrl="q.fifo", MessageBody=body, MessageGroupId=group, MessageDeduplicationId=body
        )
        return answer

    first, second = send("a"), send("b")
    other = send("c", "other")
    (held,) = sqs.receive_message(QueueUrl="q.fifo", VisibilityTimeout=600)["Messages"]
    again()
    sqs = kept.sqs
    for sent, repeated in ((first, send("a")), (other, send("c", "other"))):
        assert (repeated["MessageId"], repeated["SequenceNumber"]) == (
            sent["MessageId"],
            sent["SequenceNumber"],
        )
    assert int(send("d")["SequenceNumber"]) > int(second["SequenceNumber"])
    assert [m["Body"] for m in receive(sqs, "q.fifo")] == ["c"], "the group of what is in flight stays locked"
    sqs.delete_message(QueueUrl="q.fifo", ReceiptHandle=held["ReceiptHandle"])
    messages = receive(sqs, "q.fifo")
    assert [m["Body"] for m in messages] == ["b", "d"]
    assert messages[0]["Attributes"]["SequenceNumber"] == second["SequenceNumber"]


def test_a_visibility_timeout_continues_across_a_restart(kept: Restarting) -> None:
    kept.sqs.create_queue(QueueName="q")
    kept.sqs.send_message(QueueUrl="q", MessageBody="b")
    receive(kept.sqs, "q", VisibilityTimeout=6)
    kept.stop_and_start()
    assert receive(kept.sqs, "q") == []
    (message,) = receive(kept.sqs, "q", WaitTimeSeconds=20)
    assert message["Attributes"]["ApproximateReceiveCount"] == "2"


def test_dead_letters_and_pauses_are_kept(kept: Restarting, again: Callable[[], None]) -> None:
    sqs = kept.sqs
    for name in ("dead", "purged", "gone"):
        sqs.create_queue(QueueName=name)
    redrive = json.dumps({"deadLetterTargetArn": arn("dead"), "maxReceiveCount": 1})
    sqs.create_queue(QueueName="q", Attributes={"RedrivePolicy": redrive})
    for body in ("kept", "deleted"):
        sqs.send_message(QueueUrl="q", MessageBody=body)
    for _ in range(2):
        receive(sqs, "q", VisibilityTimeout=0)
    while attributes(sqs, "dead")["ApproximateNumberOfMessages"] != "2":
        time.sleep(0.01)
    dead = {m["Body"]: m for m in receive(sqs, "dead", VisibilityTimeout=0)}
    sqs.delete_message(QueueUrl="dead", ReceiptHandle=dead["deleted"]["ReceiptHandle"])
    sqs.send_message(QueueUrl="purged", MessageBody="b")
    sqs.purge_queue(QueueUrl="purged")
    sqs.delete_queue(QueueUrl="gone")
    again()
    sqs = kept.sqs
    (message,) = receive(sqs, "dead")
    assert message["Body"] == "kept"
    assert message["Attributes"]["DeadLetterQueueSourceArn"] == arn("q")
    assert message["Attributes"]["ApproximateReceiveCount"] == "3"
    assert receive(sqs, "purged") == []
    with pytest.raises(sqs.exceptions.PurgeQueueInProgress):
        sqs.purge_queue(QueueUrl="purged")
    with pytest.raises(sqs.exceptions.QueueDeletedRecently):
        sqs.create_queue(QueueName="gone")
    assert not any(url.endswith("/gone") for url in sqs.list_queues()["QueueUrls"])


def test_a_move_task_continues(kept: Restarting, again: Callable[[], None]) -> None:
    sqs = kept.sqs
    for name in ("dead", "other"):
        sqs.create_queue(QueueName=name)
    redrive = json.dumps({"deadLetterTargetArn": arn("dead"), "maxReceiveCount": 1})
    sqs.create_queue(QueueName="q", Attributes={"RedrivePolicy": redrive})
    for start in range(0, 30, 10):
        entries = [{"Id": str(i), "MessageBody": str(i)} for i in range(start, start + 10)]
        sqs.send_message_batch(QueueUrl="dead", Entries=entries)
    handle = sqs.start_message_move_task(
        SourceArn=arn("dead"), DestinationArn=arn("other"), MaxNumberOfMessagesPerSecond=15
    )["TaskHandle"]
    again()
    sqs = kept.sqs
    (task,) = sqs.list_message_move_tasks(SourceArn=arn("dead"))["Results"]
    assert (task["Status"], task["TaskHandle"]) == ("RUNNING", handle)
    deadline = time.monotonic() + 30
    while task["Status"] == "RUNNING" and time.monotonic() < deadline:
        time.sleep(0.1)
        (task,) = sqs.list_message_move_tasks(SourceArn=arn("dead"))["Results"]
    assert (task["Status"], task["ApproximateNumberOfMessagesMoved"]) == ("COMPLETED", 30)
    moved = [m["Body"] for _ in range(4) for m in receive(sqs, "other")]
    assert sorted(moved, key=int) == [str(i) for i in range(30)], "none lost, none twice"
