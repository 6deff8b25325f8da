"""Long polls: what wakes them, what ends them, and clients that disconnect."""

from __future__ import annotations

import json
import socket
import time
from typing import Any

import pytest

from support.process import ServerProcess
from support.raw import Raw, authorization
from support.sqs import Background, sqs_client

LONG_S = 20


@pytest.fixture
def url(sqs: Any) -> str:
    text: str = sqs.create_queue(QueueName="q")["QueueUrl"]
    return text


def poll(sqs: Any, url: str, **more: Any) -> Background:
    return Background(sqs.receive_message, QueueUrl=url, WaitTimeSeconds=LONG_S, **more)


def bodies(answer: dict[str, Any]) -> list[str]:
    return [message["Body"] for message in answer.get("Messages", [])]


class Hanging:
    """A long poll on a bare socket, which can be closed while it waits."""

    def __init__(self, server: ServerProcess, account: str, queue: str) -> None:
        body = json.dumps({"QueueUrl": queue, "WaitTimeSeconds": LONG_S}).encode()
        self.socket = socket.create_connection(("127.0.0.1", server.port), timeout=30)
        self.socket.sendall(
            f"POST / HTTP/1.1\r\nHost: h\r\nX-Amz-Target: AmazonSQS.ReceiveMessage\r\n"
            f"Authorization: {authorization(account)}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            + body
        )

    def hang_up(self, *, reset: bool) -> None:
        if reset:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        self.socket.close()


def test_a_send_wakes_a_poll_which_does_not_wait_for_more(sqs: Any, url: str) -> None:
    begun = time.monotonic()
    waiting = poll(sqs, url, MaxNumberOfMessages=10)
    sqs.send_message(QueueUrl=url, MessageBody="b")
    assert bodies(waiting.result()) == ["b"]
    assert time.monotonic() - begun < LONG_S / 2


def test_a_delay_that_ends_wakes_a_poll(sqs: Any, url: str) -> None:
    begun = time.monotonic()
    sqs.send_message(QueueUrl=url, MessageBody="b", DelaySeconds=1)
    assert bodies(sqs.receive_message(QueueUrl=url)) == []
    assert bodies(sqs.receive_message(QueueUrl=url, WaitTimeSeconds=LONG_S)) == ["b"]
    assert 0.9 < time.monotonic() - begun < LONG_S / 2


def test_a_visibility_that_ends_or_is_set_to_0_wakes_a_poll(sqs: Any, url: str) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="b")
    sqs.receive_message(QueueUrl=url, VisibilityTimeout=1)
    answer = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=LONG_S)
    assert bodies(answer) == ["b"]
    waiting = poll(sqs, url)
    handle = answer["Messages"][0]["ReceiptHandle"]
    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=0)
    assert bodies(waiting.result()) == ["b"]


def test_the_wait_time_of_the_queue_applies_unless_the_request_says_0(sqs: Any) -> None:
    url = sqs.create_queue(QueueName="w", Attributes={"ReceiveMessageWaitTimeSeconds": "1"})["QueueUrl"]
    begun = time.monotonic()
    assert bodies(sqs.receive_message(QueueUrl=url, WaitTimeSeconds=0)) == []
    short = time.monotonic() - begun
    answer = sqs.receive_message(QueueUrl=url)
    assert "Messages" not in answer and answer["ResponseMetadata"]["HTTPStatusCode"] == 200
    assert time.monotonic() - begun - short > 0.9


def test_many_polls_get_one_message_each(server: ServerProcess, account: str) -> None:
    sqs = sqs_client(server.url, account)
    url = sqs.create_queue(QueueName="q")["QueueUrl"]
    waiting = [poll(sqs, url, MaxNumberOfMessages=1) for _ in range(12)]
    sent = {str(i) for i in range(12)}
    for body in sent:
        sqs.send_message(QueueUrl=url, MessageBody=body)
    assert {body for each in waiting for body in bodies(each.result())} == sent


def test_deleting_the_queue_ends_its_polls(
    sqs: Any, url: str, raw: Raw, server: ServerProcess, account: str
) -> None:
    hanging = Hanging(server, account, "q")
    waiting = poll(sqs, url)
    sqs.delete_queue(QueueUrl=url)
    with pytest.raises(sqs.exceptions.QueueDoesNotExist):
        waiting.result()
    assert hanging.socket.recv(65536).startswith(b"HTTP/1.1 400 ")
    hanging.hang_up(reset=False)


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
def test_a_disconnected_poll_receives_nothing(
    server: ServerProcess, account: str, sqs: Any, url: str, reset: bool
) -> None:
    gone = [Hanging(server, account, "q") for _ in range(5)]
    assert bodies(sqs.receive_message(QueueUrl=url, WaitTimeSeconds=1)) == []  # they have arrived by now
    for poller in gone:
        poller.hang_up(reset=reset)
    sqs.send_message(QueueUrl=url, MessageBody="b")
    answer = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=5, AttributeNames=["ApproximateReceiveCount"])
    assert bodies(answer) == ["b"], "it is not hidden for a client that will never read it"
    assert answer["Messages"][0]["Attributes"] == {"ApproximateReceiveCount": "1"}


def test_a_disconnected_poll_receives_nothing_from_a_fifo_queue(
    server: ServerProcess, account: str, sqs: Any
) -> None:
    url = sqs.create_queue(QueueName="q.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
    gone = Hanging(server, account, "q.fifo")
    assert bodies(sqs.receive_message(QueueUrl=url, WaitTimeSeconds=1)) == []
    gone.hang_up(reset=False)
    sqs.send_message(QueueUrl=url, MessageBody="b", MessageGroupId="g", MessageDeduplicationId="d")
    assert bodies(sqs.receive_message(QueueUrl=url, WaitTimeSeconds=5)) == ["b"]
