"""A session with a real server, and what it does when connections break or the server has to wait."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from penstock.client import Forbidden, Retries, SyncClient
from penstock.client.api import ApiError, ApiSession, Unavailable
from penstock.client.credentials import SigningKeys
from support.certificates import write_certificate
from support.process import ServerProcess
from support.secured import Secured


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with ServerProcess("--memory") as running:
        yield running


def test_an_open_server(server: ServerProcess) -> None:
    session = ApiSession(server.url, "us-east-1")
    assert session.is_penstock
    url = session.sqs("CreateQueue", QueueName="orders")["QueueUrl"]
    session.sqs("SendMessage", QueueUrl=url, MessageBody="grüße 🐌")
    (message,) = session.sqs("ReceiveMessage", QueueUrl=url)["Messages"]
    assert message["Body"] == "grüße 🐌"
    session.close()
    session.close()


def test_an_error_has_the_code_that_people_know(server: ServerProcess) -> None:
    with pytest.raises(ApiError) as raised:
        ApiSession(server.url, "us-east-1").sqs("GetQueueUrl", QueueName="nothing")
    error = raised.value
    assert (error.code, error.status) == ("AWS.SimpleQueueService.NonExistentQueue", 400)
    assert error.message == "The specified queue does not exist." and error.request_id


def test_a_region_without_keys(server: ServerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """As AWS SDKs see it, whose requests are always signed; the account stays the default one."""
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(variable, raising=False)
    signed = SigningKeys("any", "any")

    def queues(region: str | None, keys: SigningKeys | None = None) -> list[str]:
        with SyncClient(endpoint_url=server.url, region=region, credentials=keys) as client:
            return client.list_queues("region-test").queue_urls

    with SyncClient(endpoint_url=server.url, region="eu-west-1") as client:
        url = client.create_queue("region-test")
        arn = client.get_queue_attributes(url, ["QueueArn"])["QueueArn"]
    assert arn == "arn:aws:sqs:eu-west-1:000000000000:region-test"
    assert queues("eu-west-1") == queues("eu-west-1", signed) == [url]
    assert queues("ap-south-1") == queues(None) == []


def test_the_region_of_the_server_without_region_and_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(variable, raising=False)
    with (
        ServerProcess("--memory", "--region", "eu-north-1") as server,
        SyncClient(endpoint_url=server.url) as client,
    ):
        url = client.create_queue("orders")
        assert ":eu-north-1:" in client.get_queue_attributes(url, ["QueueArn"])["QueueArn"]


def test_whoever_has_no_keys_is_anonymous_at_a_secured_server(tmp_path: Path) -> None:
    """The keys that carry the region are not known there, and a request with unknown keys is refused."""
    secured = Secured(tmp_path)
    secured.add("root")
    with secured.running("--memory") as server:
        root = ApiSession(server.url, "us-east-1", SigningKeys(*secured.keys["root"]))
        url = root.sqs("CreateQueue", QueueName="mailbox")["QueueUrl"]
        allow = {"Effect": "Allow", "Principal": "*", "Action": "sqs:SendMessage", "Resource": "*"}
        policy = json.dumps({"Version": "2012-10-17", "Statement": [allow]})
        root.sqs("SetQueueAttributes", QueueUrl=url, Attributes={"Policy": policy})
        with SyncClient(
            endpoint_url=server.url, region="us-east-1", retries=Retries(attempts_max=1)
        ) as client:
            client.send_message(url, "tea")
            with pytest.raises(Forbidden) as raised:
                client.receive_message(url)
        assert raised.value.code == "AccessDenied"


def test_a_secured_server(tmp_path: Path) -> None:
    secured = Secured(tmp_path)
    secured.add("root")
    with secured.running("--memory") as server:
        session = ApiSession(server.url, "eu-central-1", SigningKeys(*secured.keys["root"]))
        url = session.sqs("CreateQueue", QueueName="orders")["QueueUrl"]
        assert session.sqs("ListQueues")["QueueUrls"] == [url]
        wrong = ApiSession(server.url, "us-east-1", SigningKeys(secured.keys["root"][0], "wrong"))
        with pytest.raises(ApiError) as raised:
            wrong.sqs("ListQueues")
        assert (raised.value.code, raised.value.status) == ("SignatureDoesNotMatch", 403)


def test_https_with_an_authority_of_its_own(tmp_path: Path) -> None:
    files = write_certificate(tmp_path)
    tls = ("--tls-certificate", str(files.certificate), "--tls-key", str(files.key))
    with ServerProcess("--memory", *tls) as server:
        url = f"https://127.0.0.1:{server.port}"
        trusting = ApiSession(url, "us-east-1", ca_file=str(files.authority))
        assert trusting.is_penstock and trusting.why_not_ready() is None
        with pytest.raises(Unavailable, match="certificate verify failed"):
            ApiSession(url, "us-east-1").sqs("ListQueues")
        trusting.close()


def test_no_server() -> None:
    with pytest.raises(Unavailable, match=r"http://127.0.0.1:1: Connection refused"):
        ApiSession("http://127.0.0.1:1", "us-east-1").sqs("ListQueues")


def test_a_ca_file_that_does_not_exist() -> None:
    session = ApiSession("https://127.0.0.1:1", "us-east-1", ca_file="/nowhere.pem")
    with pytest.raises(Unavailable, match=r'"/nowhere.pem".*CA certificates.*No such file'):
        session.sqs("ListQueues")


def test_amazon_is_known_by_its_name() -> None:
    assert not ApiSession("https://sqs.eu-central-1.amazonaws.com", "eu-central-1").is_penstock


class Script:
    """Answers one request after the other with the given statuses, and headers of each. ``closes``: the connection
    after each, without a word, as a server does with one that was idle for long."""

    def __init__(self, *answers: tuple[int, dict[str, str]], closes: bool = False) -> None:
        self.requests: list[str] = []
        self.closed = threading.Event()
        script = self
        left = iter(answers)

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                script.requests.append(self.headers["X-Amz-Target"])
                status, headers = next(left)
                self.send_response(status)
                for name, value in {"Content-Length": "2", **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(b"{}")
                self.close_connection = closes

            def finish(self) -> None:
                super().finish()
                self.connection.shutdown(socket.SHUT_RDWR)
                script.closed.set()

            def log_message(self, *_: object) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.session = ApiSession(f"http://127.0.0.1:{self._server.server_port}", "us-east-1")

    def stop(self) -> None:
        self.session.close()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long the session slept, which it does not."""
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    return slept


def test_a_request_that_was_not_done_is_repeated(waits: list[float]) -> None:
    script = Script((503, {"Retry-After": "1"}), (503, {"Retry-After": "1"}), (200, {}))
    assert script.session.sqs("SendMessage") == {}
    assert len(script.requests) == 3 and waits == sorted(waits) and len(waits) == 2
    script.stop()


def test_a_server_that_refuses_for_long(waits: list[float]) -> None:
    script = Script(*[(503, {"Retry-After": "1"})] * 4)
    with pytest.raises(ApiError) as raised:
        script.session.sqs("SendMessage")
    assert raised.value.status == 503 and len(script.requests) == 4
    script.stop()


def test_a_request_that_may_have_been_done_is_not_repeated(waits: list[float]) -> None:
    script = Script((503, {}), (200, {}))
    with pytest.raises(ApiError):
        script.session.sqs("SendMessage")
    assert script.requests == ["AmazonSQS.SendMessage"] and waits == []
    script.stop()


def test_a_connection_that_was_closed_while_idle_is_not_used() -> None:
    script = Script((200, {}), (200, {}), closes=True)
    script.session.sqs("SendMessage")
    script.closed.wait(10)
    script.session.sqs("SendMessage")
    assert script.requests == ["AmazonSQS.SendMessage"] * 2
    script.stop()


def test_an_answer_of_something_else() -> None:
    script = Script((200, {"Content-Length": "1"}))
    with pytest.raises(Unavailable, match="check the endpoint URL"):
        script.session.sqs("ListQueues")
    script.stop()
