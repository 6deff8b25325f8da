"""``penstock queue``, ``redrive`` and ``wait`` on a server of two processes with files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.command_line import CommandLine
from support.process import ServerProcess

NAMES = [f"orders-{number}" for number in range(6)]


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    data = tmp_path_factory.mktemp("processes") / "data"
    with ServerProcess("--processes", "2", "--data", str(data)) as server:
        yield CommandLine(server.url)


def test_queues_of_all_processes(processes: CommandLine, tmp_path: Path) -> None:
    processes.done("wait")
    processes.done("queue", "create", "dead")
    for number, name in enumerate(NAMES):
        processes.done(
            "queue",
            "create",
            name,
            "--dead-letter-queue",
            "dead",
            "--max-receives",
            "1",
            "--visibility",
            "0s",
        )
        for message in range(number):
            processes.sqs("SendMessage", name, MessageBody=f"message {message}")
    listed = processes.json_lines("queue", "ls", "orders-*", "--sort", "visible", "--descending")
    assert [(queue["name"], queue["visible"]) for queue in listed] == [
        (name, number) for number, name in reversed(list(enumerate(NAMES)))
    ]
    assert processes.json("queue", "show", "dead")["sources"] == NAMES
    for name in NAMES:
        while processes.done("queue", "stat", name, "visible") != "0\n":
            processes.sqs("ReceiveMessage", name, MaxNumberOfMessages=10)
    processes.done("wait", "dead", "--messages", "15")
    assert processes.done("redrive", "start", "dead", "--wait") == "completed: 15 messages moved\n"
    processes.done("wait", "dead", "--empty")
    processes.done("wait", NAMES[5], "--messages", "5")
    assert [queue["visible"] for queue in processes.json_lines("queue", "ls", "orders-*")] == list(range(6))
