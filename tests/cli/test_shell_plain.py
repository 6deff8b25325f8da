"""DynamoMQ's commands outside of the shell, also with several workers, FIFO queues and Amazon SQS."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from support.command_line import CommandLine
from support.process import ServerProcess
from support.texts import says


def printed(penstock: CommandLine, *arguments: str) -> Any:
    return json.loads(penstock.done(*arguments))


@pytest.fixture(scope="module")
def workers() -> Iterator[CommandLine]:
    with ServerProcess("--memory", "--workers", "2") as running:
        yield CommandLine(running.url)


@pytest.fixture(scope="module", params=["one process", "two workers"])
def server(request: pytest.FixtureRequest, penstock: CommandLine) -> CommandLine:
    if request.param == "one process":
        return penstock
    found: CommandLine = request.getfixturevalue("workers")
    return found


@pytest.fixture
def queue(server: CommandLine, request: pytest.FixtureRequest) -> str:
    """With a dead-letter queue, and the four test messages."""
    name: str = request.node.originalname
    server.done("queue", "create", f"{name}-dlq")
    server.done("queue", "create", name, "--dead-letter-queue", f"{name}-dlq", "--max-receives", "5")
    assert list(printed(server, "et", name)["successes"]) == ["A-101", "A-202", "A-303", "A-404"]
    return name


def test_counts_and_list(server: CommandLine, queue: str) -> None:
    stats = printed(server, "qstat", queue)
    assert (stats["total_messages_in_queue"], stats["total_messages_in_queue_ready"]) == (4, 4)
    listed = printed(server, "ls", queue)["statuses"]
    assert [each["id"] for each in listed] == stats["first_100_IDs_in_queue"]
    assert listed[0] == {"id": listed[0]["id"], "status": "READY", "queue_type": "STANDARD"}


def test_one_message(server: CommandLine, queue: str) -> None:
    dump = printed(server, "get", queue, "A-303")
    assert dump == printed(server, "info", queue, dump["id"])
    assert dump["data"] == printed(server, "data", queue, "A-303")
    system = printed(server, "sys", queue, "A-303")
    assert system == printed(server, "system", queue, dump["id"])
    assert list(system)[:3] == ["id", "status", "receive_count"]


def test_a_received_message_needs_its_receipt_handle(server: CommandLine, queue: str) -> None:
    received = printed(server, "receive", queue)
    assert received["receive_count"] == 1
    for name in ("delete", "fail", "invalid"):
        assert "MessageInFlight" in server.failed(name, queue, received["id"])
    handle = ("--receipt-handle", received["receipt_handle"])
    assert printed(server, "fail", queue, received["id"], *handle)["invisible_until_at"] == ""
    assert server.done("delete", queue, received["id"]) == ""
    assert printed(server, "qstat", queue)["total_messages_in_queue"] == 3


def test_to_the_dead_letter_queue_and_reset(server: CommandLine, queue: str) -> None:
    assert server.done("invalid", queue, "A-202") == ""
    assert printed(server, "sys", queue, "A-202")["queue_type"] == "DLQ"
    assert {each["queue_type"] for each in printed(server, "ls", queue)["statuses"]} == {"STANDARD", "DLQ"}
    reset = printed(server, "reset", queue, "A-202")
    assert (reset["queue_type"], reset["receive_count"]) == ("STANDARD", 0)


def test_purging(server: CommandLine, queue: str) -> None:
    assert "Give --yes" in server.failed("purge", queue, code=2)
    ids = printed(server, "qstat", queue)["first_100_IDs_in_queue"]
    assert printed(server, "purge", queue, "--yes") == {"successes": ids, "failures": None}
    assert printed(server, "purge", queue) == {"successes": None, "failures": None}
    assert printed(server, "ls", queue) == {"statuses": None}


def test_a_fifo_queue(penstock: CommandLine) -> None:
    penstock.done("queue", "create", "plain.fifo", "--fifo")
    penstock.done("et", "plain.fifo")
    penstock.done("et", "plain.fifo")
    assert printed(penstock, "qstat", "plain.fifo")["total_messages_in_queue"] == 4
    assert printed(penstock, "receive", "plain.fifo")["data"]["id"] == "A-101"


def test_errors_are_one_line(penstock: CommandLine) -> None:
    penstock.done("queue", "create", "plain-errors")
    assert penstock.failed("get", "plain-errors", "A-101") == "message not found, ID: A-101"
    assert penstock.failed("receive", "plain-errors") == "Cannot proceed, queue is empty."
    says(penstock.failed("qstat", "nothing"), 'no queue "nothing"')


def test_what_amazon_sqs_can_do(amazon: CommandLine, penstock: CommandLine) -> None:
    penstock.done("queue", "create", "plain-amazon")
    amazon.done("et", "plain-amazon")
    stats = printed(amazon, "qstat", "plain-amazon")
    assert (stats["total_messages_in_queue"], stats["first_100_IDs_in_queue"]) == (4, None)
    received = printed(amazon, "receive", "plain-amazon")
    assert received["data"]["id"].startswith("A-") and received["receive_count"] == 1
    session = amazon.done(
        "shell", "plain-amazon", given="receive\nsys\nfail\nreceive\ndelete\nqstat\ninvalid\nls\n"
    )
    assert '"total_messages_in_queue": 3' in session and '"total_messages_in_queue_ready": 2' in session
    assert session.count("ERROR: ") == 2  # no message is chosen, and ls
    assert "ERROR: ls needs Penstock" in session
    says(amazon.failed("get", "plain-amazon", "A-101", code=2), "id", "Penstock")
    assert printed(amazon, "purge", "plain-amazon", "--yes") == {"successes": None, "failures": None}
