"""LocalStack's page of all messages of a queue."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen
from xml.etree import ElementTree

import pytest

from e2e.admin.requests import REGION, make, send
from penstock.client.api import ApiSession
from support.process import ServerProcess
from support.rows import every_row
from support.sqs import sqs_client

JSON = {"Accept": "application/json"}
ACCOUNT = "000000000000"


def get(server: ServerProcess, path: str, headers: dict[str, str] | None = None) -> str:
    with urlopen(
        Request(f"{server.url}/_aws/sqs/messages{path}", headers=headers or {}), timeout=20
    ) as answer:
        text: str = answer.read().decode()
        return text


def messages(server: ServerProcess, path: str) -> Any:
    result = json.loads(get(server, path, JSON))["ReceiveMessageResponse"]["ReceiveMessageResult"]
    return result and result["Message"]


@pytest.fixture
def url(api: ApiSession) -> str:
    """A queue with a visible message, a delayed one and one in flight."""
    url = make(api, "peeked")
    if api.admin("GET", "/queues/peeked/messages")["messages"]:
        return url
    send(api, url, "taken")
    api.sqs("ReceiveMessage", QueueUrl=url, VisibilityTimeout=600)
    colour = {"colour": {"DataType": "String", "StringValue": "red"}}
    send(api, url, "<visible>", MessageAttributes=colour)
    send(api, url, "late", DelaySeconds=600)
    return url


def test_messages_of_a_queue_url_as_xml(admin_server: ServerProcess, url: str) -> None:
    space = "{http://queue.amazonaws.com/doc/2012-11-05/}"
    root = ElementTree.fromstring(get(admin_server, f"?QueueUrl={quote(url)}"))
    assert root.tag == f"{space}ReceiveMessageResponse"
    (message,) = root.iter(f"{space}Message")
    assert message.findtext(f"{space}Body") == "<visible>"


def test_messages_as_json_and_by_path(admin_server: ServerProcess, url: str) -> None:
    for path in (f"?QueueUrl={quote(url)}", f"/{REGION}/{ACCOUNT}/peeked", f"/{REGION}/{ACCOUNT}/peeked?x=1"):
        (message,) = messages(admin_server, path)
        system = {each["Name"]: each["Value"] for each in message["Attribute"]}
        assert message["Body"] == "<visible>" and message["ReceiptHandle"] == "SQS/BACKDOOR/ACCESS"
        assert (system["IsVisible"], system["IsDelayed"], system["ApproximateReceiveCount"]) == (
            "true", "false", "0",
        )  # fmt: skip
        assert message["MessageAttribute"][0]["Value"]["StringValue"] == "red"


def test_hidden_messages_are_shown_on_request(admin_server: ServerProcess, url: str) -> None:
    path = f"?QueueUrl={quote(url)}"
    found = messages(admin_server, f"{path}&ShowInvisible=true&ShowDelayed=True")
    assert {each["Body"] for each in found} == {"taken", "<visible>", "late"}
    assert {each["Body"] for each in messages(admin_server, f"{path}&ShowDelayed=true")} == {
        "<visible>",
        "late",
    }


def test_a_client_of_aws_with_that_endpoint_looks_without_receiving(
    admin_server: ServerProcess, api: ApiSession, url: str
) -> None:
    client = sqs_client(f"{admin_server.url}/_aws/sqs/messages", ACCOUNT, REGION)
    before = api.admin("GET", "/queues/peeked/messages")
    for _ in range(2):
        (message,) = client.receive_message(QueueUrl=url)["Messages"]
        assert message["Body"] == "<visible>"
    assert api.admin("GET", "/queues/peeked/messages") == before


def test_an_empty_queue_has_no_result(admin_server: ServerProcess, api: ApiSession) -> None:
    url = make(api, "peeked-empty")
    assert messages(admin_server, f"?QueueUrl={quote(url)}") is None
    assert "Messages" not in sqs_client(
        f"{admin_server.url}/_aws/sqs/messages", ACCOUNT, REGION
    ).receive_message(QueueUrl=url)


def test_errors_are_those_of_sqs(admin_server: ServerProcess, url: str) -> None:
    def error(path: str) -> str:
        with pytest.raises(HTTPError) as refused:
            urlopen(f"{admin_server.url}{path}Action=ReceiveMessage&QueueUrl=missing", timeout=20)
        return re.sub("<RequestId>.*</RequestId>", "", refused.value.read().decode())

    assert error("/_aws/sqs/messages?") == error("/?Version=2012-11-05&")


@every_row(
    "path",
    [
        "",
        "?QueueUrl=missing",
        f"/{REGION}/{ACCOUNT}/missing",
        "/eu-west-9/000000000000/peeked",
        "/a/b",
        "/a/b/c/d",
    ],
)
def test_errors(admin_server: ServerProcess, url: str, path: str) -> None:
    with pytest.raises(Exception, match="HTTP Error 40"):
        get(admin_server, path)
