"""``penstock dlq``: dead letters in groups, and their way back."""

from __future__ import annotations

import json

import pytest

from cli.queues_for_commands import bodies, new_pair, new_queue, report_failure
from penstock.cli.queues.dlq import command
from support.command_line import CommandLine
from support.texts import says


def with_dead_letters(commands: CommandLine, count: int = 4) -> tuple[str, str]:
    """A queue, and its dead-letter queue with this many messages."""
    queue, dead_letters = new_pair(commands)
    commands.done("message", "send", queue, '{"n": {n}}', "--template", "--count", str(count))
    commands.done("message", "receive", queue, "--max", str(count), "--visibility", "0s")
    assert commands("message", "receive", queue).exit_code == 1, "all were received too often"
    return queue, dead_letters


def test_ls_shows_sources_and_numbers(penstock: CommandLine, amazon: CommandLine) -> None:
    queue, dead_letters = with_dead_letters(penstock)
    rows = {row["name"]: row for row in penstock.json_lines("dlq", "ls")}
    row = rows[dead_letters]
    assert (row["messages"], row["sources"]) == (4, [queue]) and 0 <= row["oldest_age_s"] < 600
    assert queue not in rows
    for text in (penstock.done("dlq", "ls"), penstock.done("dlq")):
        lines = [line.split() for line in text.splitlines()]
        assert lines[0] == ["QUEUE", "MESSAGES", "OLDEST", "SOURCES"]
        assert [(line[1], line[-1]) for line in lines if line[0] == dead_letters] == [("4", queue)]
    by_sqs = {row["name"]: row for row in amazon.json_lines("dlq", "ls")}
    assert by_sqs[dead_letters] == {"name": dead_letters, "messages": 4, "sources": [queue]}


def test_show_groups_by_source_reason_and_age(penstock: CommandLine, amazon: CommandLine) -> None:
    queue, dead_letters = with_dead_letters(penstock)
    penstock.done("message", "send", dead_letters, "not a dead letter")
    groups = penstock.json_lines("dlq", "show", dead_letters)
    assert [(g["source"], g["reason"], g["age"], g["count"]) for g in groups] == [
        (queue, "-", "under 1h", 4), ("-", "-", "under 1h", 1)
    ]  # fmt: skip
    assert groups[0]["first_sent_at"] <= groups[0]["last_sent_at"]
    example = penstock.json("message", "show", dead_letters, groups[1]["example"])
    assert example["body"] == "not a dead letter"
    heading, first, _ = penstock.done("dlq", "show", dead_letters).splitlines()
    assert heading.split() == [
        "SOURCE",
        "REASON",
        "SENT",
        "COUNT",
        "FIRST",
        "SENT",
        "LAST",
        "SENT",
        "EXAMPLE",
    ]
    assert first.split()[0] == queue
    (only,) = penstock.json_lines("dlq", "show", dead_letters, "--by", "age")
    assert (only["age"], only["count"], "source" in only) == ("under 1h", 5, False)
    assert penstock.json_lines("dlq", "show", dead_letters, "--older-than", "1h") == []
    for source in (
        queue,
        f"{penstock.endpoint}/000000000000/{queue}",
        f"arn:aws:sqs:us-east-1:000000000000:{queue}",
    ):
        (group,) = penstock.json_lines("dlq", "show", dead_letters, "--source", source)
        assert group["count"] == 4
    assert "dlq show needs Penstock" in amazon.failed("dlq", "show", dead_letters, code=2)


@pytest.mark.parametrize("server", ["penstock", "amazon"])
def test_redrive_of_all(request: pytest.FixtureRequest, penstock: CommandLine, server: str) -> None:
    commands: CommandLine = request.getfixturevalue(server)
    queue, dead_letters = with_dead_letters(penstock)
    assert commands.done("dlq", "redrive", dead_letters, "--dry-run") == "4 messages\n"
    asked = commands.failed("dlq", "redrive", dead_letters, code=2)
    says(asked, "Move 4 messages", dead_letters, "queues", "--yes")
    assert len(bodies(penstock, dead_letters)) == 4
    assert commands.done("dlq", "redrive", dead_letters, "--yes") == "completed: 4 messages moved\n"
    assert bodies(penstock, dead_letters) == []
    assert [json.loads(body)["n"] for body in bodies(penstock, queue)] == [1, 2, 3, 4]
    assert commands.done("dlq", "redrive", dead_letters) == "0 messages\n"


def test_redrive_to_another_queue(penstock: CommandLine) -> None:
    queue, dead_letters = with_dead_letters(penstock)
    other = new_queue(penstock)
    penstock.done("dlq", "redrive", dead_letters, "--to", other, "--yes")
    assert (bodies(penstock, queue), len(bodies(penstock, other))) == ([], 4)


def test_redrive_by_a_filter(penstock: CommandLine) -> None:
    queue, dead_letters = with_dead_letters(penstock)
    chosen = ("dlq", "redrive", dead_letters, "--where", "$.n > 2")
    assert penstock.done(*chosen, "--dry-run") == "2 messages of 4 match\n"
    asked = penstock(*chosen)
    assert asked.exit_code == 2
    says(asked.stderr, "Move", "queues", "--yes")
    assert penstock.done(*chosen, "--rate", "100", "--yes") == "2 messages moved back\n"
    assert bodies(penstock, queue) == ['{"n": 3}', '{"n": 4}']
    assert bodies(penstock, dead_letters) == ['{"n": 1}', '{"n": 2}']
    other = new_queue(penstock)
    task = penstock.json("dlq", "redrive", dead_letters, "--source", queue, "--to", other, "--yes")
    assert (task["operation"], task["to"], task["done"], task["status"]) == ("move", other, 2, "completed")
    assert bodies(penstock, other) == ['{"n": 1}', '{"n": 2}']


def test_what_cannot_be_redriven_is_counted(penstock: CommandLine) -> None:
    dead_letters = with_dead_letters(penstock)[1]
    penstock.done("message", "send", dead_letters, "not a dead letter")
    dry_run = penstock.json("dlq", "redrive", dead_letters, "--state", "visible", "--dry-run")
    assert (dry_run["matched"], dry_run["can"], sum(each["count"] for each in dry_run["cannot"])) == (5, 4, 1)


def test_groups_by_the_reported_reason(penstock: CommandLine) -> None:
    dead_letters = with_dead_letters(penstock)[1]
    ids = [message["id"] for message in penstock.json_lines("message", "ls", dead_letters)]
    for id, reason in zip(ids, ["timeout", "timeout", "bad data"], strict=False):
        report_failure(penstock, dead_letters, id, reason)
    groups = penstock.json_lines("dlq", "show", dead_letters, "--by", "reason")
    assert {group["reason"]: group["count"] for group in groups} == {"timeout": 2, "bad data": 1, "-": 1}
    assert "timeout" in penstock.done("message", "show", dead_letters, ids[0])
    assert "FAILURE" in penstock.done("message", "ls", dead_letters)


def test_a_terminal_asks(penstock: CommandLine) -> None:
    _, dead_letters = with_dead_letters(penstock)
    code, text = penstock.in_terminal("dlq", "redrive", dead_letters, answer="n")
    assert code == 1 and "nothing was changed" in text
    assert len(bodies(penstock, dead_letters)) == 4
    code, text = penstock.in_terminal("dlq", "redrive", dead_letters, answer="y")
    assert code == 0 and "4 messages moved" in text
    assert bodies(penstock, dead_letters) == []


def test_queues_that_are_missing(penstock: CommandLine, amazon: CommandLine) -> None:
    assert "nowhere" in penstock.failed("dlq", "redrive", "nowhere", "--yes")
    assert "queue" in penstock.failed("dlq", "show", "nowhere")
    filtered = amazon.failed("dlq", "redrive", "nowhere", "--body", "x", code=2)
    says(filtered, "dlq redrive", "filter", "Penstock")


def test_a_queue_that_is_no_dead_letter_queue(penstock: CommandLine) -> None:
    queue = new_queue(penstock)
    penstock.done("message", "send", queue, "x")
    for flag in ("--dry-run", "--yes"):
        text = penstock.failed("dlq", "redrive", queue, flag, code=2)
        says(text, queue, "not", "dead-letter queue")
    assert bodies(penstock, queue) == ["x"]


def test_one_message_is_not_many(penstock: CommandLine) -> None:
    _, dead_letters = with_dead_letters(penstock, 1)
    assert penstock.done("dlq", "redrive", dead_letters, "--dry-run") == "1 message\n"
    question = penstock.failed("dlq", "redrive", dead_letters, code=2)
    assert question.startswith(f"Move 1 message of {dead_letters} to ")


def test_an_empty_dead_letter_queue(penstock: CommandLine) -> None:
    _, dead_letters = new_pair(penstock)
    shown = penstock("dlq", "show", dead_letters)
    assert (shown.exit_code, shown.stdout, shown.stderr) == (0, "", "no messages\n")


@pytest.mark.parametrize("name", sorted(command.commands))
def test_every_help_has_examples(penstock: CommandLine, name: str) -> None:
    assert f"penstock dlq {name}" in penstock.done("dlq", name, "--help").partition("Examples:")[2]
