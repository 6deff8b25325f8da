"""``penstock task``: changes of many messages that run on the server."""

from __future__ import annotations

import re

import pexpect
import pytest

from cli.queues_for_commands import bodies, new_queue
from penstock.cli.messages.task import command
from support.command_line import CommandLine
from support.texts import says


@pytest.fixture
def running(penstock: CommandLine) -> tuple[str, str]:
    """A queue of which one message a second is deleted, and the id of the task that does."""
    queue = new_queue(penstock)
    penstock.done("message", "send", queue, "x", "--count", "200")
    task = penstock.json("grep", queue, "x", "--delete", "--yes", "--no-wait", "--rate", "1")
    return queue, task["id"]


def test_ls_and_show(penstock: CommandLine, running: tuple[str, str]) -> None:
    queue, id = running
    (listed,) = penstock.json_lines("task", "ls", queue)
    assert (listed["id"], listed["status"], listed["total"]) == (id, "running", 200)
    assert id in [task["id"] for task in penstock.json_lines("task", "ls")]
    heading, line = (text.split() for text in penstock.done("task", "ls", queue).splitlines())
    assert heading[:5] == ["ID", "QUEUE", "OPERATION", "TO", "STATUS"]
    assert line[:5] == [id, queue, "delete", "-", "running"]
    text = penstock.done("task", "show", queue, id)
    facts = dict(line.split("  ", maxsplit=1) for line in text.splitlines())
    assert facts["operation"].strip() == f"delete of {queue}" and "regex x" in facts["conditions"]
    assert penstock.json("task", "show", queue, id)["operation"] == "delete"


def test_cancel(penstock: CommandLine, running: tuple[str, str]) -> None:
    queue, id = running
    assert penstock.done("task", "cancel", queue, id).startswith("cancelled after ")
    left = len(bodies(penstock, queue))
    assert left > 100
    line = penstock("task", "show", queue, id, "--wait").stderr
    says(line, "task", "cancelled")
    assert len(bodies(penstock, queue)) >= left - 1  # the chunk that was under way is finished


def test_an_interrupted_command_says_how_to_end_its_task(penstock: CommandLine) -> None:
    queue = new_queue(penstock)
    penstock.done("message", "send", queue, "x", "--count", "200")
    command = penstock.spawn("grep", queue, "x", "--delete", "--yes", "--rate", "1")
    command.expect("delete")  # the progress bar
    command.sendintr()
    command.expect(rf"(penstock task cancel {queue} \S+)")
    assert isinstance(command.match, re.Match)
    ending = command.match.group(1).split()
    command.expect(pexpect.EOF)
    command.close()
    assert command.exitstatus == 130
    assert penstock.json_lines("task", "ls", queue)[0]["status"] == "running"
    penstock.done(*ending[1:])
    assert penstock.json_lines("task", "ls", queue)[0]["status"] == "cancelled"


def test_no_tasks_and_tasks_that_are_missing(penstock: CommandLine, amazon: CommandLine) -> None:
    queue = new_queue(penstock)
    result = penstock("task", "ls", queue)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "no tasks\n")
    for name in ("show", "cancel"):
        assert "TaskDoesNotExist" in penstock.failed("task", name, queue, "nothing")
        assert 'no queue "nowhere"' in penstock.failed("task", name, "nowhere", "x")
        assert f"task {name} needs Penstock" in amazon.failed("task", name, queue, "x", code=2)
    assert "task ls needs Penstock" in amazon.failed("task", "ls", code=2)


@pytest.mark.parametrize("name", sorted(command.commands))
def test_every_help_has_examples(penstock: CommandLine, name: str) -> None:
    assert f"penstock task {name}" in penstock.done("task", name, "--help").partition("Examples:")[2]
