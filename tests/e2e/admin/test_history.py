"""Who did what with a message, whichever worker its request came to."""

from __future__ import annotations

import json
from http.client import HTTPConnection
from typing import Any

from e2e.admin.requests import REGION, make
from e2e.process import ServerProcess
from penstock.client.api import ApiSession

ACCOUNT = "000000000000"
CREDENTIAL = f"AKIDEXAMPLE/20260101/{REGION}/sqs/aws4_request"
SIGNED = f"AWS4-HMAC-SHA256 Credential={CREDENTIAL}, SignedHeaders=host, Signature={'0' * 64}"
QUEUES = 8  # with two workers, some requests come to the one that does not own the queue


class Consumer:
    """A client with an address and a user agent of its own."""

    def __init__(self, server: ServerProcess, address: str, agent: str) -> None:
        self._connection = HTTPConnection("127.0.0.1", server.port, source_address=(address, 0))
        self._agent = agent

    def __call__(self, action: str, **members: Any) -> Any:
        headers = {
            "X-Amz-Target": f"AmazonSQS.{action}", "Content-Type": "application/x-amz-json-1.0",
            "User-Agent": self._agent, "Authorization": SIGNED,
        }  # fmt: skip
        self._connection.request("POST", "/", json.dumps(members), headers)
        response = self._connection.getresponse()
        body = response.read()
        assert response.status == 200, body
        return json.loads(body) if body else None

    def close(self) -> None:
        self._connection.close()


def test_the_history_names_the_client_and_not_the_worker_between(
    admin_server: ServerProcess, api: ApiSession
) -> None:
    producer = Consumer(admin_server, "127.0.0.2", "producer/1")
    consumer = Consumer(admin_server, "127.0.0.3", "consumer/2")
    for number in range(QUEUES):
        name = f"history-{number}"
        url = make(api, name)
        id = producer("SendMessage", QueueUrl=url, MessageBody="a")["MessageId"]
        (message,) = consumer("ReceiveMessage", QueueUrl=url, VisibilityTimeout=60)["Messages"]
        handle = message["ReceiptHandle"]
        consumer("ChangeMessageVisibility", QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=90)
        holder = api.admin("GET", f"/queues/{name}/messages/{id}")["holder"]
        assert (holder["by"], holder["address"], holder["user_agent"]) == (ACCOUNT, "127.0.0.3", "consumer/2")
        assert holder["extended"] == 1
        consumer("DeleteMessage", QueueUrl=url, ReceiptHandle=handle)
        history = api.admin("GET", f"/queues/{name}/messages/{id}/history")
        assert [(each["event"], each["address"], each["user_agent"]) for each in history["events"]] == [
            ("sent", "127.0.0.2", "producer/1"),
            ("received", "127.0.0.3", "consumer/2"),
            ("extended", "127.0.0.3", "consumer/2"),
            ("deleted", "127.0.0.3", "consumer/2"),
        ]
        assert history["complete"]
    producer.close()
    consumer.close()
