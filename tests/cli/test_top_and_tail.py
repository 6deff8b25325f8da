"""``penstock top`` and ``penstock tail``: once in a pipe, live in a terminal."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pexpect
import pytest

from cli.queues_for_commands import new_pair, new_queue
from penstock.cli.messages import tail
from support.command_line import CommandLine
from support.process import ServerProcess


def test_top_once(penstock: CommandLine) -> None:
    small, large, empty = (new_queue(penstock) for _ in range(3))
    queue, dead_letters = new_pair(penstock)
    penstock.done("message", "send", small, "x", "--count", "2")
    penstock.done("message", "send", large, "x", "--count", "20", "--delay", "5m")
    lines = [line.split() for line in penstock.done("top", "--sort", "name").splitlines()]
    assert " ".join(lines[0]).startswith("QUEUE VISIBLE IN FLIGHT DELAYED OLDEST SENT/S")
    rows = {line[0]: line for line in lines[1:]}
    assert rows[small][1:4] == ["2", "0", "0"] and rows[large][1:4] == ["0", "0", "20"]
    assert rows[empty][4] == "-" and rows[queue][-1] == dead_letters
    by_delayed = penstock.json_lines("top", "--once", "--sort", "delayed", "--max", "1")
    assert [each["name"] for each in by_delayed] == [large]
    smallest = penstock.json_lines("top", "--sort", "bytes", "--reverse")
    assert smallest[-1]["name"] == large
    assert [each["name"] for each in penstock.json_lines("top", "--contains", small)] == [small]


def test_top_is_live_in_a_terminal(penstock: CommandLine) -> None:
    queue = new_queue(penstock)
    top = penstock.spawn("top", "--contains", queue, "--interval", "0.2s")
    top.expect("q end")
    top.expect(rf"{queue} +0")
    penstock.done("message", "send", queue, "x", "--count", "7")
    top.expect(rf"{queue} +7")
    top.send("a")
    top.expect(rf"{queue} +7")
    top.send("q")
    top.expect(pexpect.EOF)
    top.close()
    assert top.exitstatus == 0
    assert top.before is not None and top.before.endswith("\x1b[?1049l"), "the screen is as it was before"


def test_top_ends_with_an_interruption(penstock: CommandLine) -> None:
    top = penstock.spawn("top")
    top.expect("q end")
    top.sendintr()
    top.expect(pexpect.EOF)
    top.close()
    assert top.exitstatus == 130


def test_tail_prints_the_last_messages(penstock: CommandLine) -> None:
    queue = new_queue(penstock)
    penstock.done("message", "send", queue, "body {n}", "--template", "--count", "25")
    lines = penstock.done("tail", queue, "-n", "3").splitlines()
    assert [line.split("  ")[-1] for line in lines] == ["body 23", "body 24", "body 25"]
    last = penstock.json_lines("tail", queue)
    assert [message["body"] for message in last] == [f"body {n}" for n in range(16, 26)]
    assert {message["receives"] for message in penstock.json_lines("message", "ls", queue, "--all")} == {0}
    assert penstock.done("tail", queue, "-n", "0") == ""


def test_the_last_messages_of_a_long_queue(penstock: CommandLine) -> None:
    """More than the server looks at in one request."""
    queue = new_queue(penstock)
    penstock.done("message", "send", queue, "{n}", "--template", "--count", "4130")
    last = penstock.json_lines("tail", queue, "-n", "300")
    assert [message["body"] for message in last] == [str(n) for n in range(3831, 4131)]


def test_tail_follows(penstock: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whenever it looks again, some messages have come, at last more than a page."""
    queue = new_queue(penstock)
    rounds = iter([3, 0, 250, 1])
    sent = 0

    def send_some(seconds: float) -> None:
        nonlocal sent
        count = next(rounds, None)
        if count is None:
            raise KeyboardInterrupt
        for _ in range(count):
            sent += 1
            penstock.done("message", "send", queue, f"message {sent}")

    monkeypatch.setattr(tail, "time", SimpleNamespace(sleep=send_some))
    result = penstock("tail", "-f", queue, "--json")
    assert result.exit_code == 130
    seen = [json.loads(line)["body"] for line in result.stdout.splitlines()]
    assert seen == [f"message {n}" for n in range(1, 255)]


def test_tail_follows_dead_letters_and_a_filter(
    penstock: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, dead_letters = new_pair(penstock)
    for n in range(4):
        penstock.done("message", "send", queue, f"{'odd' if n % 2 else 'even'} {n}")
    rounds = iter([True, True])

    def receive_all(seconds: float) -> None:
        if not next(rounds, False):
            raise KeyboardInterrupt
        penstock("message", "receive", queue, "--max", "4", "--visibility", "0s")

    monkeypatch.setattr(tail, "time", SimpleNamespace(sleep=receive_all))
    result = penstock("tail", "-f", dead_letters, "--body", "odd", "--json")
    assert [json.loads(line)["body"] for line in result.stdout.splitlines()] == ["odd 1", "odd 3"]


def test_tail_outlives_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = ServerProcess("--data", str(tmp_path))
    commands = CommandLine(server.url)
    queue = new_queue(commands)
    commands.done("message", "send", queue, "before")
    again: list[ServerProcess] = []

    def restart() -> None:
        again.append(ServerProcess("--data", str(tmp_path), "--port", str(server.port)))
        commands.done("message", "send", queue, "after")

    def end() -> None:
        raise KeyboardInterrupt

    steps = iter([server.stop, lambda: None, restart, end])
    monkeypatch.setattr(tail, "time", SimpleNamespace(sleep=lambda seconds: next(steps)()))
    try:
        result = commands("tail", "-f", queue, "--json")
    finally:
        for process in again:
            process.kill()
    assert [json.loads(line)["body"] for line in result.stdout.splitlines()] == ["before", "after"]
    assert result.stderr.count("trying again") == 1


def test_tail_in_a_terminal(penstock: CommandLine) -> None:
    queue = new_queue(penstock)
    penstock.done("message", "send", queue, "first \x9b31m")
    following = penstock.spawn("tail", "-f", queue, "--interval", "0.2s")
    following.expect(r"\(\d+s ago\)  .*  first \\x9b31m")
    penstock.done("message", "send", queue, "second\nline")
    following.expect(r"second\\nline")
    following.sendintr()
    following.expect(pexpect.EOF)
    following.close()
    assert following.exitstatus == 130


def test_amazon_sqs_cannot(amazon: CommandLine) -> None:
    assert "top needs Penstock" in amazon.failed("top", code=2)
    assert "tail needs Penstock" in amazon.failed("tail", "x", code=2)


def test_a_queue_that_is_missing(penstock: CommandLine) -> None:
    assert "queue" in penstock.failed("tail", "nowhere")


@pytest.mark.parametrize("name", ["top", "tail"])
def test_help_has_examples(penstock: CommandLine, name: str) -> None:
    assert f"penstock {name} " in penstock.done(name, "--help").partition("Examples:")[2]
