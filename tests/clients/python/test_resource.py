"""boto3 through its resources: Queue and Message objects."""

from __future__ import annotations

import json
from typing import Any

import pytest


def test_a_queue_is_created_found_and_changed(sqs_resource: Any) -> None:
    queue = sqs_resource.create_queue(QueueName="pipes", Attributes={"VisibilityTimeout": "45"})
    assert sqs_resource.get_queue_by_name(QueueName="pipes").url == queue.url
    assert [one.url for one in sqs_resource.queues.filter(QueueNamePrefix="pip")] == [queue.url]
    assert queue.attributes["VisibilityTimeout"] == "45"
    queue.set_attributes(Attributes={"VisibilityTimeout": "50"})
    queue.reload()
    assert queue.attributes["VisibilityTimeout"] == "50"
    queue.delete()
    assert list(sqs_resource.queues.all()) == []


def test_message_objects_change_visibility_and_delete(sqs_resource: Any) -> None:
    queue = sqs_resource.create_queue(QueueName="pipes")
    attributes = {"blob": {"DataType": "Binary", "BinaryValue": b"\x00\xff"}}
    queue.send_message(MessageBody="one", MessageAttributes=attributes)
    (message,) = queue.receive_messages(WaitTimeSeconds=10, MessageAttributeNames=["All"])
    assert (message.body, message.message_attributes) == ("one", attributes)
    message.change_visibility(VisibilityTimeout=0)
    (again,) = queue.receive_messages(WaitTimeSeconds=10, AttributeNames=["All"])
    assert again.message_id == message.message_id
    assert again.attributes["ApproximateReceiveCount"] == "2"
    again.delete()
    queue.reload()
    assert queue.attributes["ApproximateNumberOfMessagesNotVisible"] == "0"


def test_batches_and_purge(sqs_resource: Any) -> None:
    queue = sqs_resource.create_queue(QueueName="pipes")
    sent = queue.send_messages(
        Entries=[{"Id": "good", "MessageBody": "one"}, {"Id": "bad", "MessageBody": "x", "DelaySeconds": 901}]
    )
    assert [entry["Id"] for entry in sent["Successful"]] == ["good"]
    assert [entry["Code"] for entry in sent["Failed"]] == ["InvalidParameterValue"]
    (message,) = queue.receive_messages(WaitTimeSeconds=10)
    entries = [{"Id": "a", "ReceiptHandle": message.receipt_handle}, {"Id": "b", "ReceiptHandle": "nonsense"}]
    deleted = queue.delete_messages(Entries=entries)
    assert [entry["Id"] for entry in deleted["Successful"]] == ["a"]
    assert [entry["Code"] for entry in deleted["Failed"]] == ["ReceiptHandleIsInvalid"]
    queue.send_message(MessageBody="gone soon")
    queue.purge()
    assert queue.receive_messages() == []


def test_dead_letter_sources(sqs_resource: Any) -> None:
    dead = sqs_resource.create_queue(QueueName="dead")
    policy = {"deadLetterTargetArn": dead.attributes["QueueArn"], "maxReceiveCount": 1}
    queue = sqs_resource.create_queue(QueueName="pipes", Attributes={"RedrivePolicy": json.dumps(policy)})
    assert [one.url for one in dead.dead_letter_source_queues.all()] == [queue.url]


def test_a_missing_queue_has_its_type(sqs_resource: Any) -> None:
    with pytest.raises(sqs_resource.meta.client.exceptions.QueueDoesNotExist):
        sqs_resource.get_queue_by_name(QueueName="nowhere")
