"""What a server logs about requests, in both protocols: who asked for what, and how it was answered."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from types import MappingProxyType
from typing import Any
from urllib.parse import urlencode

import pytest
from botocore.exceptions import ClientError

from penstock import __version__
from penstock.broker.other_shards import DefinitionQuestion
from penstock.limits import MINUTE, SECOND
from penstock.names import QueueName
from penstock.services.sqs.region_hints import RegionHints
from penstock.testing.clock import ManualClock
from support.process import ServerProcess
from support.sqs import sqs_client
from support.texts import says
from support.waiting import until

ACCOUNT = "123456789012"
SECRET = "the-secret-body"


@pytest.fixture(scope="module", params=["1", "2"], ids=["one process", "two processes"])
def server(request: pytest.FixtureRequest) -> Iterator[ServerProcess]:
    with ServerProcess("--memory", "--log-level", "debug", "--processes", request.param) as running:
        yield running
        running.stop()


def lines(server: ServerProcess) -> list[dict[str, Any]]:
    return [json.loads(line) for line in server.log]


def line_of(server: ServerProcess, request_id: str) -> dict[str, Any]:
    """Returns the line of the process that served it: another one may have passed it on."""

    def found() -> list[dict[str, Any]]:
        return [line for line in lines(server) if line.get("request_id") == request_id and "account" in line]

    until(lambda: bool(found()), f"request {request_id} is logged")
    return found()[-1]


def in_a_form(server: ServerProcess, **form: str) -> str:
    """Sends a request in the Query protocol; its id."""
    scope = f"{ACCOUNT}/20260101/us-east-1/sqs/aws4_request"
    headers = {"Authorization": f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=00"}
    request = urllib.request.Request(server.url, urlencode(form).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return str(answer.headers["x-amzn-RequestId"])
    except urllib.error.HTTPError as error:
        return str(error.headers["x-amzn-RequestId"])


def test_requests_in_json(server: ServerProcess) -> None:
    sqs = sqs_client(server.url, ACCOUNT)
    for number in range(4):  # of several shards
        url = sqs.create_queue(QueueName=f"orders-{number}")["QueueUrl"]
        sent = sqs.send_message(QueueUrl=url, MessageBody=SECRET)["ResponseMetadata"]["RequestId"]
        line = line_of(server, sent)
        assert (line["action"], line["queue"], line["account"]) == (
            "SendMessage",
            f"orders-{number}",
            ACCOUNT,
        )
        assert line["status"] == 200 and isinstance(line["ms"], float) and "error" not in line
        with pytest.raises(ClientError) as refused:
            sqs.send_message(QueueUrl=f"{server.url}/{ACCOUNT}/absent-{number}", MessageBody=SECRET)
        line = line_of(server, refused.value.response["ResponseMetadata"]["RequestId"])
        assert (line["action"], line["queue"], line["status"]) == ("SendMessage", f"absent-{number}", 400)
        assert line["error"] == "AWS.SimpleQueueService.NonExistentQueue"
    assert not any(SECRET in line for line in server.log)


def test_requests_in_forms(server: ServerProcess) -> None:
    sqs_client(server.url, ACCOUNT).create_queue(QueueName="forms")
    url = f"{server.url}/{ACCOUNT}/forms"
    line = line_of(server, in_a_form(server, Action="SendMessage", QueueUrl=url, MessageBody=SECRET))
    assert (line["action"], line["queue"], line["account"], line["status"]) == (
        "SendMessage", "forms", ACCOUNT, 200,
    )  # fmt: skip
    line = line_of(
        server, in_a_form(server, Action="SendMessage", QueueUrl=url + "-absent", MessageBody=SECRET)
    )
    assert (line["queue"], line["error"]) == ("forms-absent", "AWS.SimpleQueueService.NonExistentQueue")
    assert not any(SECRET in line for line in server.log)


def test_the_line_ready_has_numbers_and_the_version(server: ServerProcess) -> None:
    ready = server.facts
    assert ready["version"] == __version__
    assert (ready["queues"], ready["messages"], ready["bytes"], ready["port"]) == (0, 0, 0, server.port)
    assert isinstance(ready["loaded_ms"], float)


def test_a_queue_of_another_region_is_hinted_at_once(server: ServerProcess) -> None:
    for region in ("eu-west-1", "my-region-1"):
        sqs_client(server.url, ACCOUNT, region).create_queue(QueueName=f"in-{region}")
    elsewhere = sqs_client(server.url, ACCOUNT, "us-east-2")

    def hints(name: str) -> list[dict[str, Any]]:
        return [line for line in lines(server) if line["message"].startswith(f'queue "{name}" was asked for')]

    def asked_until_hinted(name: str) -> None:
        def is_hinted() -> bool:
            with suppress(ClientError):
                elsewhere.get_queue_url(QueueName=name)
            return bool(hints(name))

        until(is_hinted, "a hint is logged")

    asked_until_hinted("in-eu-west-1")
    (hint,) = hints("in-eu-west-1")
    says(hint["message"], "region us-east-2", "exists in eu-west-1")
    assert (hint["level"], hint["region"], hint["account"]) == ("info", "us-east-2", ACCOUNT)


def test_a_hint_is_looked_for_once_a_minute_and_for_one_queue_a_second() -> None:
    clock, described = ManualClock(), []

    class OneQueue:
        by_name = MappingProxyType({QueueName(ACCOUNT, "my-region-1", "orders"): None})

        async def ask(self, question: DefinitionQuestion) -> None:
            described.append(question.name.name)

    hints = RegionHints(OneQueue(), clock)  # type: ignore[arg-type]

    def looked_for(name: str) -> bool:
        described.clear()
        hints.missed(QueueName(ACCOUNT, "us-east-1", name))
        return bool(described)

    assert looked_for("orders")
    assert not looked_for("orders") and not looked_for("other")
    clock.advance(SECOND)
    assert not looked_for("orders") and looked_for("other")
    clock.advance(MINUTE)
    assert looked_for("orders")


def test_warnings_have_the_level_warning() -> None:
    with ServerProcess("--memory", "--host", "0.0.0.0") as server:
        until(lambda: len(server.log) > 1, "two lines")
        (warning,) = (line for line in lines(server) if line["level"] == "warning")
        says(warning["message"], "open to the network")
        server.stop()
