"""``penstock test``: commands for a server with a test clock."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.command_line import CommandLine
from support.process import ServerProcess


@pytest.fixture(scope="module")
def clocked() -> Iterator[CommandLine]:
    with ServerProcess("--memory", "--test-clock") as running:
        yield CommandLine(running.url)


def test_time_passes_stands_still_and_is_reset(clocked: CommandLine) -> None:
    clocked.done("queue", "create", "orders")
    clocked.done("message", "send", "orders", "soon", "--delay", "10m")
    assert clocked.done("test", "clock").strip().endswith("0s ahead, running")
    assert clocked.done("test", "advance", "15m").strip().endswith("15m ahead, running")
    assert "visible" in clocked.done("message", "ls", "orders")
    assert clocked.json("test", "freeze")["frozen"]
    assert clocked.done("test", "run").strip().endswith("running")
    assert clocked.done("test", "reset").strip().endswith("0s ahead, running")


def test_all_queues_are_deleted_when_that_is_confirmed(clocked: CommandLine) -> None:
    clocked.done("queue", "create", "first")
    other = CommandLine(clocked.endpoint, AWS_ACCESS_KEY_ID="123456789012", AWS_SECRET_ACCESS_KEY="x")
    other.done("queue", "create", "second")
    assert "Delete everything?" in clocked.failed("test", "clear", code=2)
    assert clocked.done("test", "clear", "--account", "123456789012", "--yes") == "queues deleted: 1\n"
    assert "first" in clocked.done("queue", "ls")
    assert clocked.json("test", "clear", "--yes")["deleted_queues"] >= 1
    assert "first" not in clocked.done("queue", "ls")


def test_another_server_says_how_to_start_one(penstock: CommandLine) -> None:
    assert "penstock serve --memory --test-clock" in penstock.failed("test", "advance", "15m")
