"""``penstock queue``, ``redrive`` and ``wait`` on a server of two workers with files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.command_line import CommandLine
from support.process import ServerProcess

NAMES = [f"orders-{number}" for number in range(6)]


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    data = tmp_path_factory.mktemp("workers") / "data"
    with ServerProcess("--workers", "2", "--data", str(data)) as server:
        yield CommandLine(server.url)


def test_queues_of_all_workers(workers: CommandLine, tmp_path: Path) -> None:
    workers.done("wait")
    workers.done("queue", "create", "dead")
    for number, name in enumerate(NAMES):
        workers.done(
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
            workers.sqs("SendMessage", name, MessageBody=f"message {message}")
    listed = workers.json_lines("queue", "ls", "orders-*", "--sort", "visible", "--descending")
    assert [(queue["name"], queue["visible"]) for queue in listed] == [
        (name, number) for number, name in reversed(list(enumerate(NAMES)))
    ]
    assert workers.json("queue", "show", "dead")["sources"] == NAMES
    for name in NAMES:
        while workers.done("queue", "stat", name, "visible") != "0\n":
            workers.sqs("ReceiveMessage", name, MaxNumberOfMessages=10)
    workers.done("wait", "dead", "--messages", "15")
    assert workers.done("redrive", "start", "dead", "--wait") == "completed: 15 messages moved\n"
    workers.done("wait", "dead", "--empty")
    workers.done("wait", NAMES[5], "--messages", "5")
    assert [queue["visible"] for queue in workers.json_lines("queue", "ls", "orders-*")] == list(range(6))
