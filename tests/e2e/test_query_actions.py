"""Every action has the same outcome in both protocols of botocore; bodies are returned byte for byte."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from support.process import ServerProcess
from support.query_client import query_client
from support.rows import every_row
from support.sqs import sqs_client

CLIENTS: dict[str, Callable[[str, str], Any]] = {"json": sqs_client, "query": query_client}


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest, server: ServerProcess, account: str) -> Any:
    made = CLIENTS[request.param](server.url, account)
    assert made.meta.service_model.protocol == request.param
    return made


class AllActions:
    """One client calls all actions and keeps their outcomes, without what differs by nature."""

    def __init__(self, client: Any, account: str) -> None:
        self._client = client
        self._account = account
        self.outcomes: list[tuple[str, Any]] = []

    def ask(self, action: str, /, **request: Any) -> Any:
        try:
            answer = self._client._make_api_call(action, request)
        except ClientError as refused:
            # The one text that differs between the protocols is looked at elsewhere.
            text = refused.response["Error"]["Message"].replace(" for this wsdl version", "")
            status = refused.response["ResponseMetadata"]["HTTPStatusCode"]
            answer = {"Error": (refused.response["Error"]["Code"], text, status)}
        answer.pop("ResponseMetadata", None)
        self.outcomes.append((action, self._timeless(answer)))
        return answer

    def _timeless(self, answer: Any) -> Any:
        text = json.dumps(answer, sort_keys=True, default=lambda blob: blob.hex())
        text = text.replace(self._account, "ACCOUNT")
        text = re.sub(r'AQEB[^"\\]+', "HANDLE", text)
        text = re.sub(r'"TaskHandle": "[^"]+"', '"TaskHandle": "TASK"', text)
        text = re.sub(r'"AIDA[A-Z0-9]+"', '"SENDER"', text)
        text = re.sub(r"\b1[0-9]{9}([0-9]{3})?\b", "0", text)
        text = re.sub(r'"SequenceNumber": "\d+"', '"SequenceNumber": "N"', text)
        return json.loads(re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UUID", text))


def call_all(client: Any, account: str) -> list[tuple[str, Any]]:
    calls = AllActions(client, account)
    ask = calls.ask
    arn = f"arn:aws:sqs:us-east-1:{account}:"
    attributes = {
        "a": {"DataType": "String", "StringValue": 'é"\r<'},
        "b": {"DataType": "Binary", "BinaryValue": b"\0\xff"},
        "n": {"DataType": "Number.int", "StringValue": "3"},
    }
    url = ask("CreateQueue", QueueName="q", Attributes={"DelaySeconds": "0"}, tags={"k": "v é", "e": ""})[
        "QueueUrl"
    ]
    ask("CreateQueue", QueueName="q", Attributes={"DelaySeconds": "5"})
    dead = ask("CreateQueue", QueueName="dead")["QueueUrl"]
    policy = json.dumps({"deadLetterTargetArn": f"{arn}dead", "maxReceiveCount": 1})
    ask("SetQueueAttributes", QueueUrl=url, Attributes={"RedrivePolicy": policy, "VisibilityTimeout": "40"})
    ask("GetQueueAttributes", QueueUrl=url, AttributeNames=["All"])
    ask("GetQueueAttributes", QueueUrl=url)
    ask("GetQueueAttributes", QueueUrl=url, AttributeNames=["Nonsense"])
    ask("ListQueues")
    ask("ListQueues", QueueNamePrefix="d", MaxResults=1)
    ask("ListQueues", QueueNamePrefix="none")
    ask("GetQueueUrl", QueueName="q")
    ask("GetQueueUrl", QueueName="none")
    ask("ListDeadLetterSourceQueues", QueueUrl=dead)
    ask("TagQueue", QueueUrl=url, Tags={"x": "1", "y": "2"})
    ask("UntagQueue", QueueUrl=url, TagKeys=["y", "z"])
    ask("ListQueueTags", QueueUrl=url)
    ask("ListQueueTags", QueueUrl=dead)
    ask("AddPermission", QueueUrl=url, Label="l", AWSAccountIds=["111111111111", "222222222222"],
        Actions=["SendMessage", "ReceiveMessage"])  # fmt: skip
    ask("RemovePermission", QueueUrl=url, Label="l")
    ask("RemovePermission", QueueUrl=url, Label="l")
    ask("SendMessage", QueueUrl=url, MessageBody="one", MessageAttributes=attributes, MessageSystemAttributes={
        "AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1-2"}})  # fmt: skip
    ask("SendMessage", QueueUrl=url, MessageBody="x", DelaySeconds=901)
    (message,) = ask("ReceiveMessage", QueueUrl=url, AttributeNames=["All"], MessageAttributeNames=["All"])[
        "Messages"
    ]
    ask("ReceiveMessage", QueueUrl=url, VisibilityTimeout=0, WaitTimeSeconds=0, MaxNumberOfMessages=10)
    handle = message["ReceiptHandle"]
    ask("ChangeMessageVisibility", QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=50)
    ask("DeleteMessage", QueueUrl=url, ReceiptHandle=handle)
    ask("DeleteMessage", QueueUrl=url, ReceiptHandle="garbage")
    ask("SendMessageBatch", QueueUrl=url, Entries=[
        {"Id": "a", "MessageBody": "1", "MessageAttributes": attributes},
        {"Id": "b", "MessageBody": ""},
        {"Id": "c", "MessageBody": "3", "DelaySeconds": 0},
    ])  # fmt: skip
    ask("SendMessageBatch", QueueUrl=url, Entries=[{"Id": "a", "MessageBody": "1"}] * 2)
    received = ask("ReceiveMessage", QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    first, second = (one["ReceiptHandle"] for one in received)
    ask("ChangeMessageVisibilityBatch", QueueUrl=url, Entries=[
        {"Id": "a", "ReceiptHandle": first, "VisibilityTimeout": 60},
        {"Id": "b", "ReceiptHandle": "garbage", "VisibilityTimeout": 60},
    ])  # fmt: skip
    ask("DeleteMessageBatch", QueueUrl=url, Entries=[
        {"Id": "a", "ReceiptHandle": first}, {"Id": "b", "ReceiptHandle": "garbage"}])  # fmt: skip
    ask("ChangeMessageVisibility", QueueUrl=url, ReceiptHandle=second, VisibilityTimeout=0)
    ask("ReceiveMessage", QueueUrl=url)
    task = ask("StartMessageMoveTask", SourceArn=f"{arn}dead", MaxNumberOfMessagesPerSecond=500)
    _await_end(client, f"{arn}dead")
    ask("ListMessageMoveTasks", SourceArn=f"{arn}dead")
    ask("CancelMessageMoveTask", TaskHandle=task["TaskHandle"])
    ask("StartMessageMoveTask", SourceArn=f"{arn}none")
    fifo = ask("CreateQueue", QueueName="q.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
    ask("SendMessage", QueueUrl=fifo, MessageBody="b", MessageGroupId="g", MessageDeduplicationId="d")
    ask("SendMessage", QueueUrl=fifo, MessageBody="b")
    ask("ReceiveMessage", QueueUrl=fifo, AttributeNames=["All"], ReceiveRequestAttemptId="r")
    ask("PurgeQueue", QueueUrl=url)
    ask("PurgeQueue", QueueUrl=url)
    ask("DeleteQueue", QueueUrl=url)
    ask("DeleteQueue", QueueUrl=url)
    return calls.outcomes


def _await_end(client: Any, source: str) -> None:
    for _ in range(200):
        if client.list_message_move_tasks(SourceArn=source)["Results"][0]["Status"] != "RUNNING":
            return
        time.sleep(0.02)  # the server's own clock moves messages
    raise AssertionError("the task did not end")


def test_every_action_has_the_same_outcome_in_both_protocols(server: ServerProcess) -> None:
    outcomes = {}
    for account, (name, make) in enumerate(CLIENTS.items(), 250_000_000_001):
        outcomes[name] = call_all(make(server.url, str(account)), str(account))
    for one, other in zip(outcomes["json"], outcomes["query"], strict=True):
        assert one == other
    asked = {action for action, answer in outcomes["query"]}
    succeeded = {action for action, answer in outcomes["query"] if "Error" not in answer}
    actions = set(sqs_client(server.url, "250000000001").meta.service_model.operation_names)
    assert asked == actions and len(actions) == 23
    # The task of this calls is over before it can be cancelled; the next test is quicker.
    assert actions - succeeded == {"CancelMessageMoveTask"}


def test_a_task_is_cancelled(client: Any, account: str) -> None:
    dead = f"arn:aws:sqs:us-east-1:{account}:dead"
    url = client.create_queue(QueueName="dead")["QueueUrl"]
    policy = json.dumps({"deadLetterTargetArn": dead, "maxReceiveCount": 1})
    target = client.create_queue(QueueName="q", Attributes={"RedrivePolicy": policy})["QueueUrl"]
    for body in "abc":
        client.send_message(QueueUrl=url, MessageBody=body)
    task = client.start_message_move_task(
        SourceArn=dead, DestinationArn=dead.replace("dead", "q"), MaxNumberOfMessagesPerSecond=1
    )
    (shown,) = client.list_message_move_tasks(SourceArn=dead)["Results"]
    assert (shown["TaskHandle"], shown["MaxNumberOfMessagesPerSecond"]) == (task["TaskHandle"], 1)
    moved = client.cancel_message_move_task(TaskHandle=task["TaskHandle"])["ApproximateNumberOfMessagesMoved"]
    assert moved in (0, 1, 2)
    assert client.list_queues(QueueNamePrefix="q")["QueueUrls"] == [target]


BODIES = [
    "é", "😀", "&quot;", "\r", "\r\n", "\n", "\t", "]]>", "\ufffd", " ", "  a  ", "+", "%41", "a=b&c=d",
    "<a href=\"x\">'&amp;'</a>", "<![CDATA[x]]>", "\x85\u2028", "&#xD;", "\ue000\ud7ff",
    "é😀&quot;\r\r\n\t]]>\ufffd" * 1000,
]  # fmt: skip


@pytest.mark.parametrize("body", BODIES, ids=lambda body: ascii(body[:12]))
def test_bodies_are_returned_byte_for_byte(server: ServerProcess, account: str, body: str) -> None:
    clients = {name: make(server.url, account) for name, make in CLIENTS.items()}
    for sender, sending in clients.items():
        for receiver, receiving in clients.items():
            url = sending.create_queue(QueueName=f"{sender}-{receiver}")["QueueUrl"]
            attributes = {"a": {"DataType": "String", "StringValue": body}}
            digest = hashlib.md5(body.encode()).hexdigest()
            sent = sending.send_message(QueueUrl=url, MessageBody=body, MessageAttributes=attributes)
            assert sent["MD5OfMessageBody"] == digest
            (message,) = receiving.receive_message(QueueUrl=url, MessageAttributeNames=["All"])["Messages"]
            assert message["Body"] == body
            assert message["MD5OfBody"] == digest
            assert message["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]
            assert message["MessageAttributes"]["a"]["StringValue"] == body


@every_row("body", ["\x00", "a\x01", "\x0b", "\ufffe", "\uffff"])
def test_what_xml_cannot_carry_is_refused(client: Any, body: str) -> None:
    url = client.create_queue(QueueName="q")["QueueUrl"]
    with pytest.raises(ClientError) as caught:
        client.send_message(QueueUrl=url, MessageBody=body)
    assert caught.value.response["Error"]["Code"] == "InvalidMessageContents"


def test_a_message_of_one_mebibyte(client: Any) -> None:
    url = client.create_queue(QueueName="q")["QueueUrl"]
    body = "\r" * 1_048_576
    client.send_message(QueueUrl=url, MessageBody=body)
    assert client.receive_message(QueueUrl=url)["Messages"][0]["Body"] == body


def test_a_long_poll_ends_with_the_message(client: Any) -> None:
    url = client.create_queue(QueueName="q")["QueueUrl"]
    client.send_message(QueueUrl=url, MessageBody="late", DelaySeconds=1)
    begun = time.monotonic()
    (message,) = client.receive_message(QueueUrl=url, WaitTimeSeconds=20)["Messages"]
    assert (message["Body"], time.monotonic() - begun < 10) == ("late", True)


def test_in_query_both_lists_of_system_attributes_are_one(server: ServerProcess, account: str) -> None:
    """Amazon: both travel under one name, so the SDK sends but one of them; in JSON they add up."""
    shown = {}
    for name, make in CLIENTS.items():
        client = make(server.url, account)
        url = client.create_queue(QueueName=name)["QueueUrl"]
        client.send_message(QueueUrl=url, MessageBody="b")
        (message,) = client.receive_message(
            QueueUrl=url, MessageSystemAttributeNames=["All"], AttributeNames=["SenderId"]
        )["Messages"]
        shown[name] = set(message["Attributes"])
    assert shown["query"] == {"SenderId"}
    assert {"SenderId", "SentTimestamp", "ApproximateReceiveCount"} < shown["json"]
