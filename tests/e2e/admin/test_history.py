"""Who did what with a message, whichever process its request came to."""

from __future__ import annotations

import json
from http.client import HTTPConnection
from typing import Any

from e2e.admin.requests import REGION, make
from penstock.client.api import ApiError, ApiSession
from support.process import ServerProcess

ACCOUNT = "000000000000"
CREDENTIAL = f"AKIDEXAMPLE/20260101/{REGION}/sqs/aws4_request"
SIGNED = f"AWS4-HMAC-SHA256 Credential={CREDENTIAL}, SignedHeaders=host, Signature={'0' * 64}"
QUEUES = 8  # with two processes, some requests come to the one that does not own the queue


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


def test_the_history_names_the_client_and_not_the_process_between(
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


def test_the_history_of_a_message_is_shown_for_the_queues_that_it_was_in_only(api: ApiSession) -> None:
    url, id_of = make(api, "traced"), {}
    others = [
        f"not-traced-{number}" for number in range(QUEUES)
    ]  # with two processes, some are in the same shard
    for name in others:
        make(api, name)
    for body in ("stays", "goes", "moves"):
        id_of[body] = api.sqs("SendMessage", QueueUrl=url, MessageBody=body)["MessageId"]
    api.admin("DELETE", f"/queues/traced/messages/{id_of['goes']}")
    api.admin("POST", f"/queues/traced/messages/{id_of['moves']}/move", body={"to": others[0]})
    for id in (id_of["stays"], id_of["goes"]):
        assert api.admin("GET", f"/queues/traced/messages/{id}/history")["events"]
        for name in others:
            assert _events(api, name, id) == []
    assert _events(api, "traced", id_of["moves"])[:2] == ["sent", "moved"]
    assert "moved" in _events(api, others[0], id_of["moves"])
    assert _events(api, others[1], id_of["moves"]) == []


def _events(api: ApiSession, queue: str, id: str) -> list[str]:
    """None for a message that another shard has numbered: it is not known there."""
    try:
        history = api.admin("GET", f"/queues/{queue}/messages/{id}/history")
    except ApiError as error:
        assert error.status == 404
        return []
    return [each["event"] for each in history["events"]]
