"""Commands about messages against a server of two processes, with queues on both."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.queues_for_commands import bodies, new_pair, new_queue
from support.command_line import CommandLine
from support.process import ServerProcess


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    folder = tmp_path_factory.mktemp("processes")
    with ServerProcess("--processes", "2", "--data", str(folder)) as running:
        yield CommandLine(running.url)
        assert running.stop() == 0


def test_messages_move_between_queues_of_all_processes(processes: CommandLine) -> None:
    queues = [new_queue(processes) for _ in range(6)]
    id = processes.done("message", "send", queues[0], "hello").strip()
    for source, target in itertools.pairwise(queues):
        processes.done("message", "move", source, id, "--to", target)
        assert bodies(processes, target) == ["hello"], "it is there when the command ends"
    assert processes.json("message", "show", queues[-1], id)["version"] == 6
    processes.done("message", "set", queues[-1], id, "--body", "bye")
    assert [bodies(processes, queue) for queue in queues] == [[], [], [], [], [], ["bye"]]
    events = [event["event"] for event in processes.json("message", "trace", queues[-1], id)["events"]]
    assert "edited" in events


def test_dead_letters_of_all_processes(processes: CommandLine) -> None:
    pairs = [new_pair(processes) for _ in range(4)]
    for queue, dead_letters in pairs:
        id = processes.done("message", "send", queue, "x").strip()
        processes.done("message", "reset", queue, id)
        processes.done("message", "fail", queue, id)
        assert bodies(processes, dead_letters) == ["x"]
        assert processes.json("message", "show", dead_letters, id)["version"] == 2
    listed = {row["name"]: row for row in processes.json_lines("dlq", "ls")}
    for queue, dead_letters in pairs:
        assert (listed[dead_letters]["messages"], listed[dead_letters]["sources"]) == (1, [queue])
        (group,) = processes.json_lines("dlq", "show", dead_letters)
        assert (group["source"], group["count"]) == (queue, 1)
        assert "1 message moved" in processes.done("dlq", "redrive", dead_letters, "--yes")
        assert bodies(processes, queue) == ["x"]


def test_the_shell_moves_messages_between_processes(processes: CommandLine) -> None:
    for queue, dead_letters in [new_pair(processes) for _ in range(4)]:
        id = processes.done("message", "send", queue, "x").strip()
        shown = processes.done("shell", queue, given=f"id {id}\ninvalid\n")
        assert "ERROR" not in shown and bodies(processes, dead_letters) == ["x"]
        shown = processes.done("shell", queue, given=f"id {id}\nredrive\n")
        assert "ERROR" not in shown and bodies(processes, queue) == ["x"]


def test_search_dump_and_load(processes: CommandLine, tmp_path: Path) -> None:
    source, target, file = new_queue(processes), new_queue(processes), tmp_path / "dump.jsonl"
    processes.done("message", "send", source, '{"n": {n}}', "--template", "--count", "120")
    found = processes.json_lines("grep", source, "--where", "$.n > 117")
    assert [json.loads(message["body"])["n"] for message in found] == [118, 119, 120]
    processes.done("dump", source, str(file))
    processes.done("load", target, str(file))
    assert bodies(processes, target) == bodies(processes, source)
    assert [message["body"] for message in processes.json_lines("tail", target, "-n", "1")] == ['{"n": 120}']


def test_tasks_move_messages_to_queues_of_all_processes(processes: CommandLine) -> None:
    source, targets = new_queue(processes), [new_queue(processes) for _ in range(3)]
    processes.done("message", "send", source, "{n}", "--template", "--count", "30")
    for digit, target in zip("123", targets, strict=True):
        text = processes.done("grep", source, f"^{digit}.$", "--move-to", target, "--yes")
        assert text == f"{1 if digit == '3' else 10} message{'' if digit == '3' else 's'} moved to {target}\n"
    assert [len(bodies(processes, queue)) for queue in (source, *targets)] == [9, 10, 10, 1]


def test_top_counts_queues_of_all_processes(processes: CommandLine) -> None:
    queues = [new_queue(processes) for _ in range(6)]
    for queue in queues:
        processes.done("message", "send", queue, "x", "--count", "3")
    visible = {row["name"]: row["visible"] for row in processes.json_lines("top", "--once")}
    assert [visible[queue] for queue in queues] == [3] * 6
