"""``penstock grep``: search, and change what matches by a task of the server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.command_line import COLOURS, CommandLine
from cli.queues_for_commands import bodies, new_queue


@pytest.fixture
def queue(penstock: CommandLine) -> str:
    """With orders 1 to 12, of which every third is a refund."""
    name = new_queue(penstock)
    for n in range(1, 13):
        body = json.dumps({"order": n, "kind": "refund" if n % 3 == 0 else "sale"})
        penstock.done("message", "send", name, body, "--attribute", f"n:Number={n}")
    return name


def orders(commands: CommandLine, queue: str) -> list[int]:
    return [json.loads(body)["order"] for body in bodies(commands, queue)]


def test_what_matches_is_printed_with_its_id(penstock: CommandLine, queue: str) -> None:
    lines = penstock.done("grep", queue, "ref.nd").splitlines()
    listed = {message["id"]: message["body"] for message in penstock.json_lines("message", "ls", queue)}
    assert len(lines) == 4
    for line in lines:
        id, _, text = line.partition("  ")
        assert listed[id] == text and "refund" in text


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (["REFUND", "-i"], [3, 6, 9, 12]),
        (["-F", '"order": 1,'], [1]),
        (["-F", "-i", "SALE\"}"], [1, 2, 4, 5, 7, 8, 10, 11]),
        (["--where", "$.order > 10"], [11, 12]),
        (["refund", "--where", "$.order < 7"], [3, 6]),
        (["--attribute", "n=5"], [5]),
        (["sale", "--max", "2"], [1, 2]),
        (["--state", "visible", "--max-receives", "0", "--body", "refund"], [3, 6, 9, 12]),
    ],
)  # fmt: skip
def test_conditions(penstock: CommandLine, queue: str, arguments: list[str], found: list[int]) -> None:
    matches = penstock.json_lines("grep", queue, *arguments)
    assert [json.loads(message["body"])["order"] for message in matches] == found


def test_counts_and_ids(penstock: CommandLine, queue: str) -> None:
    assert penstock.done("grep", queue, "refund", "--count") == "4\n"
    assert penstock.json("grep", queue, "refund", "-c") == {"matched": 4}
    ids = penstock.done("grep", queue, "refund", "--ids").splitlines()
    assert ids == [message["id"] for message in penstock.json_lines("grep", queue, "refund")]


def test_nothing_matches(penstock: CommandLine, queue: str) -> None:
    for flags in ([], ["--json"], ["--ids"], ["--delete", "--yes"]):
        assert penstock("grep", queue, "nothing like it", *flags).exit_code == 1
    assert len(bodies(penstock, queue)) == 12


def test_a_terminal_shows_what_matched_in_colour(penstock: CommandLine, queue: str) -> None:
    code, text = penstock.in_terminal("grep", queue, "refund", "--max", "1")
    assert code == 0
    assert "\x1b[31m\x1b[1mrefund\x1b[0m" in text
    assert COLOURS.sub("", text).strip().endswith('{"order": 3, "kind": "refund"}')


def test_a_long_body_is_shown_around_the_match(penstock: CommandLine) -> None:
    queue = new_queue(penstock)
    penstock.done("message", "send", queue, "a" * 1000 + " needle " + "b" * 1000)
    text = penstock.done("grep", queue, "needle").partition("  ")[2].strip()
    assert text.startswith("…aaa") and text.endswith("bbb…") and " needle " in text and len(text) < 200


def test_dump(penstock: CommandLine, queue: str, tmp_path: Path) -> None:
    file = tmp_path / "found.jsonl"
    result = penstock("grep", queue, "refund", "--dump", str(file))
    assert (result.exit_code, result.stderr) == (0, f'wrote "{file}"\n')
    found = [json.loads(json.loads(line)["body"])["order"] for line in file.read_text().splitlines()]
    assert found == [3, 6, 9, 12]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ([], "nothing to search: give a PATTERN or a condition such as --where"),
        (["x", "--regex", "y"], "PATTERN and --regex are the same condition: give one of them"),
        (["x", "--delete", "--move-to", "q"], "give one of --copy-to, --move-to, --delete, --dump"),
        (["x", "--dry-run"], "--dry-run is for --copy-to, --move-to and --delete"),
        (
            ["x", "--delete", "--max", "2"],
            "--max is for searching: a change is made to all messages that match",
        ),
    ],
)
def test_what_does_not_fit_together(
    penstock: CommandLine, queue: str, arguments: list[str], line: str
) -> None:
    assert penstock.failed("grep", queue, *arguments, code=2) == line


def test_a_pattern_that_is_wrong(penstock: CommandLine, queue: str) -> None:
    for arguments in (["(unclosed"], ["--where", "order > 3"]):
        assert penstock.failed("grep", queue, *arguments).startswith("InvalidParameter: ")


def test_amazon_sqs_cannot(amazon: CommandLine, queue: str) -> None:
    assert "grep needs Penstock" in amazon.failed("grep", queue, "x", code=2)


def test_help_has_examples(penstock: CommandLine) -> None:
    assert "penstock grep orders" in penstock.done("grep", "--help").partition("Examples:")[2]
