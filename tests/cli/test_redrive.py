"""``penstock redrive`` against an open server, a secured one, and one that looks like Amazon SQS."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.command_line import CommandLine
from support.texts import says


@pytest.fixture(autouse=True)
def queues(penstock: CommandLine) -> Iterator[None]:
    """A dead-letter queue with twenty messages of its source."""
    penstock.done("queue", "create", "orders-dlq")
    penstock.done(
        "queue",
        "create",
        "orders",
        "--dead-letter-queue",
        "orders-dlq",
        "--max-receives",
        "1",
        "--visibility",
        "0s",
    )
    penstock.done("queue", "create", "elsewhere")
    for start in range(0, 20, 10):
        entries = [{"Id": str(n), "MessageBody": f"message {start + n}"} for n in range(10)]
        penstock.sqs("SendMessageBatch", "orders", Entries=entries)
    while penstock.done("queue", "stat", "orders-dlq", "visible") != "20\n":
        penstock.sqs("ReceiveMessage", "orders", MaxNumberOfMessages=10)
    yield
    penstock("redrive", "cancel", "orders-dlq")
    penstock.done("queue", "delete", "orders", "orders-dlq", "elsewhere", "--yes")


@pytest.mark.parametrize("server", ["penstock", "amazon"])
def test_start_and_wait(server: str, penstock: CommandLine, request: pytest.FixtureRequest) -> None:
    command: CommandLine = request.getfixturevalue(server)
    assert command.done("redrive", "start", "orders-dlq", "--wait") == "completed: 20 messages moved\n"
    assert penstock.done("queue", "stat", "orders", "visible") == "20\n"
    heading, task = command.done("redrive", "ls").splitlines()
    assert heading.split() == ["QUEUE", "STATUS", "MOVED", "OF", "ABOUT", "TO", "RATE", "STARTED", "FAILURE"]
    assert task.split()[:6] == ["orders-dlq", "completed", "20", "20", "sources", "-"]


def test_start_to_another_queue(penstock: CommandLine) -> None:
    task = penstock.json("redrive", "start", "orders-dlq", "--to", "elsewhere", "--wait")
    assert (task["queue"], task["status"], task["done"], task["to"]) == (
        "orders-dlq", "completed", 20, "elsewhere",
    )  # fmt: skip
    assert penstock.done("queue", "stat", "elsewhere", "visible") == "20\n"


def test_the_progress_bar_of_a_terminal(penstock: CommandLine) -> None:
    code, output = penstock.in_terminal("redrive", "start", "orders-dlq", "--wait", "--rate", "20/s")
    assert code == 0
    assert "redrive orders-dlq" in output and "/20" in output and "completed: 20 messages moved" in output


@pytest.mark.parametrize("server", ["penstock", "amazon"])
def test_a_slow_task_is_listed_and_cancelled(server: str, request: pytest.FixtureRequest) -> None:
    command: CommandLine = request.getfixturevalue(server)
    started = command.done("redrive", "start", "orders-dlq", "--rate", "60/m")
    says(started, "started", "20 messages", "orders-dlq")
    (task,) = command.json_lines("redrive", "ls", "orders-dlq")
    assert (task["status"], task["rate"], task["total"]) == ("running", 1, 20)
    again = command.failed("redrive", "start", "orders-dlq")
    assert "already" in again
    assert command.done("redrive", "cancel", "orders-dlq").startswith("cancelled after ")
    (task,) = command.json_lines("redrive", "ls", "orders-dlq")
    assert task["status"] in ("cancelling", "cancelled")


@pytest.mark.parametrize("server", ["penstock", "amazon"])
def test_show_is_the_latest_task(server: str, request: pytest.FixtureRequest) -> None:
    command: CommandLine = request.getfixturevalue(server)
    says(command.failed("redrive", "show", "orders-dlq"), "no task", "orders-dlq")
    command.done("redrive", "start", "orders-dlq", "--to", "elsewhere", "--rate", "60/m")
    assert command.json("redrive", "show", "orders-dlq")["status"] == "running"
    lines = [line.split(maxsplit=1) for line in command.done("redrive", "show", "orders-dlq").splitlines()]
    shown = dict(lines)
    assert (shown["queue"], shown["to"], shown["rate"]) == ("orders-dlq", "elsewhere", "1 a second")
    says(shown["moved"], "of about 20")
    command.done("redrive", "cancel", "orders-dlq")
    result = command("redrive", "show", "orders-dlq", "--wait")
    assert result.exit_code == 1
    says(result.stderr, "the task is cancelled")
    command.done("redrive", "start", "orders-dlq", "--wait")
    latest = command.json("redrive", "show", "orders-dlq", "--wait")
    assert latest["status"] == "completed" and "to" not in latest
    assert latest == command.json_lines("redrive", "ls", "orders-dlq")[0]


def test_waiting_for_a_task_that_is_cancelled_fails(penstock: CommandLine) -> None:
    process = penstock.spawn("redrive", "start", "orders-dlq", "--rate", "1", "--wait")
    process.expect("redrive orders-dlq")
    penstock.done("redrive", "cancel", "orders-dlq")
    process.expect("penstock: .*cancelled")
    process.wait()
    assert process.exitstatus == 1
    process.close()


def test_errors(penstock: CommandLine, as_root: CommandLine, as_guest: CommandLine) -> None:
    says(penstock.failed("redrive", "cancel", "orders-dlq"), "no task", "orders-dlq")
    says(penstock.failed("redrive", "start", "nothing"), 'no queue "nothing"')
    assert "Source queue must be configured as a Dead Letter Queue" in penstock.failed(
        "redrive", "start", "elsewhere"
    )
    result = penstock("redrive", "start", "orders-dlq", "--rate", "fast")
    assert result.exit_code == 2
    says(result.stderr, '"fast"', "rate", "50")
    result = as_root("redrive", "ls")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "no tasks\n")
    as_root.done("queue", "create", "closed")
    assert as_guest.failed("redrive", "start", "arn:aws:sqs:us-east-1:111122223333:closed").startswith(
        "AccessDenied"
    )
