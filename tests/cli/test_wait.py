"""``penstock wait``: servers that start, queues that appear, messages that come and go."""

from __future__ import annotations

import socket

import pytest

from support.command_line import CommandLine
from support.process import ServerProcess
from support.texts import says


def test_a_server_that_starts_while_it_is_waited_for() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    process = CommandLine(f"http://127.0.0.1:{port}").spawn("wait", "--timeout", "60s")
    with ServerProcess("--memory", "--port", str(port)):
        process.wait()
    assert process.exitstatus == 0
    process.close()


@pytest.mark.parametrize("server", ["penstock", "amazon"])
def test_a_server_that_is_ready(server: str, request: pytest.FixtureRequest) -> None:
    command: CommandLine = request.getfixturevalue(server)
    assert command.done("wait") == ""
    assert command.json("wait") == {"ready": True}


@pytest.mark.parametrize("server", ["penstock", "amazon"])
def test_a_queue(server: str, penstock: CommandLine, request: pytest.FixtureRequest) -> None:
    command: CommandLine = request.getfixturevalue(server)
    name = f"{server}-jobs"
    missing = command.failed("wait", name, "--timeout", "50ms")
    says(missing, f'no queue "{name}"', "default region", command.endpoint, "0.05 seconds")
    process = command.spawn("wait", name)
    penstock.done("queue", "create", name)
    process.wait()
    assert process.exitstatus == 0
    process.close()
    assert command.done("wait", name, "--empty") == ""
    assert command.failed("wait", name, "--messages", "2", "--timeout", "0s").startswith(
        f"{name} has 0 visible messages"
    )
    penstock.sqs("SendMessage", name, MessageBody="first")
    waiting = command.spawn("wait", name, "--messages", "2")
    penstock.sqs("SendMessage", name, MessageBody="second")
    waiting.wait()
    assert waiting.exitstatus == 0
    waiting.close()
    assert command.failed("wait", name, "--empty", "--timeout", "0s") == (
        f"{name} has 2 visible, 0 in flight, 0 delayed, after 0 seconds"
    )
    assert command.json("wait", name) == {"name": name, "ready": True}


def test_a_server_that_never_answers() -> None:
    nowhere = CommandLine("http://127.0.0.1:1")
    refused = nowhere.failed("wait", "--timeout", "50ms")
    says(refused, "http://127.0.0.1:1", "Connection refused", "0.05 seconds")


def test_a_refusal_ends_it_at_once(as_root: CommandLine, as_guest: CommandLine) -> None:
    as_root.done("queue", "create", "closed")
    result = as_guest("wait", "closed", "--empty", "--timeout", "20s")
    assert (
        result.exit_code == 1 and "penstock: AccessDenied" in result.stderr and "after" not in result.stderr
    )


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--empty"], "--empty --messages need queue"),
        (["q", "--empty", "--messages", "1"], "--empty --messages exclude"),
        (["q", "--timeout", "later"], '"later" duration'),
    ],
)
def test_wrong_usage(penstock: CommandLine, arguments: list[str], problem: str) -> None:
    result = penstock("wait", *arguments)
    assert result.exit_code == 2
    says(result.stderr, *problem.split())
