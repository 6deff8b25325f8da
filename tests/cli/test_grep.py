"""``penstock grep``: search, and change what matches by a task of the server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.queues_for_commands import bodies, new_queue
from support.command_line import COLOURS, CommandLine
from support.texts import says
from support.waiting import until


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
    assert "\x1b[31mrefund\x1b[0m" in text
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


def test_a_change_counts_and_asks_first(penstock: CommandLine, queue: str) -> None:
    other = new_queue(penstock)
    assert (
        penstock.done("grep", queue, "refund", "--move-to", other, "--dry-run") == "4 messages of 12 match\n"
    )
    dry_run = penstock.json("grep", queue, "refund", "--delete", "--dry-run")
    assert (dry_run["matched"], dry_run["can"], dry_run["cannot"]) == (4, 4, [])
    result = penstock("grep", queue, "refund", "--delete")
    assert result.exit_code == 2
    assert result.stderr.startswith("4 messages of 12 match\n") and result.stderr.count("\n") == 2
    says(result.stderr, "Delete", queue, "--yes")
    code, text = penstock.in_terminal("grep", queue, "refund", "--delete", answer="n")
    assert code == 1 and "nothing was changed" in text
    assert orders(penstock, queue) == list(range(1, 13))
    code, text = penstock.in_terminal("grep", queue, "refund", "--delete", answer="y")
    assert code == 0 and "4 messages deleted" in text
    assert orders(penstock, queue) == [1, 2, 4, 5, 7, 8, 10, 11]


def test_move_and_copy(penstock: CommandLine, queue: str) -> None:
    moved, copied = new_queue(penstock), new_queue(penstock)
    ids = penstock.done("grep", queue, "refund", "--ids").splitlines()
    assert (
        penstock.done("grep", queue, "refund", "--copy-to", copied, "--yes")
        == f"4 messages copied to {copied}\n"
    )
    assert orders(penstock, copied) == [3, 6, 9, 12] and len(orders(penstock, queue)) == 12
    assert (
        penstock.done("grep", queue, "refund", "--move-to", moved, "--yes")
        == f"4 messages moved to {moved}\n"
    )
    assert orders(penstock, moved) == [3, 6, 9, 12] and len(orders(penstock, queue)) == 8
    assert penstock.done("grep", moved, "refund", "--ids").splitlines() == ids, (
        "moved messages keep their ids"
    )
    assert not set(penstock.done("grep", copied, "refund", "--ids").splitlines()) & set(ids)


def test_a_message_in_flight_is_left_and_counted(penstock: CommandLine, queue: str) -> None:
    penstock.done("message", "receive", queue, "--visibility", "10m")
    held = penstock.json("grep", queue, "sale", "--delete", "--dry-run")
    assert (held["matched"], held["can"]) == (8, 7) and held["cannot"][0]["count"] == 1
    text = penstock.done("grep", queue, "sale", "--delete", "--yes")
    assert text.startswith("7 messages deleted, 1 could not (")
    assert orders(penstock, queue) == [1, 3, 6, 9, 12]
    alone = penstock("grep", queue, "sale", "--delete", "--yes")
    assert alone.exit_code == 1 and "1 message of 5 matches, 1 cannot (" in alone.stderr


def test_a_task_goes_on_by_itself(penstock: CommandLine, queue: str) -> None:
    task = penstock.json("grep", queue, "refund", "--delete", "--yes", "--no-wait", "--rate", "1000")
    assert (task["operation"], task["queue"], task["rate"]) == ("delete", queue, 1000)
    until(lambda: len(orders(penstock, queue)) == 8, "the task has ended")


@pytest.mark.slow
def test_a_long_queue_is_counted_whole(penstock: CommandLine) -> None:
    """Longer than a dry run looks; the last message is of interest."""
    queue = new_queue(penstock)
    penstock.done("message", "send", queue, "{n}", "--template", "--count", "20500")
    text = penstock.done("grep", queue, "20500|20499|^1$", "--delete", "--dry-run")
    assert text == "3 messages match\n"
    assert penstock.done("grep", queue, "20500|20499|^1$", "--delete", "--yes") == "3 messages deleted\n"
    assert penstock.done("tail", queue, "-n", "1").endswith("  20498\n")


def test_a_target_in_another_account(penstock: CommandLine, queue: str) -> None:
    for account, region in (("111122223333", "us-east-1"), ("000000000000", "eu-west-1")):
        arn = f"arn:aws:sqs:{region}:{account}:{queue}"
        line = penstock.failed("grep", queue, "refund", "--copy-to", arn, "--yes", code=2)
        says(line, f'"{arn}"', "not", "account and region", queue)
    own = f"arn:aws:sqs:us-east-1:000000000000:{new_queue(penstock)}"
    penstock.done("grep", queue, "refund", "--copy-to", own, "--yes")
    assert orders(penstock, own) == [3, 6, 9, 12]


def test_a_target_that_is_missing(penstock: CommandLine, queue: str) -> None:
    assert "QueueDoesNotExist" in penstock.failed("grep", queue, "refund", "--move-to", "nowhere", "--yes")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "nothing PATTERN condition --where"),
        (["x", "--regex", "y"], "PATTERN --regex one"),
        (["x", "--delete", "--move-to", "q"], "one --copy-to --move-to --delete --dump"),
        (["x", "--dry-run"], "--dry-run --copy-to --move-to --delete"),
        (["x", "--delete", "--max", "2"], "--max searching all messages"),
    ],
)
def test_what_does_not_fit_together(
    penstock: CommandLine, queue: str, arguments: list[str], words: str
) -> None:
    says(penstock.failed("grep", queue, *arguments, code=2), *words.split())


def test_a_pattern_that_is_wrong(penstock: CommandLine, queue: str) -> None:
    for arguments in (["(unclosed"], ["--where", "order > 3"]):
        assert penstock.failed("grep", queue, *arguments).startswith("InvalidParameter: ")


def test_amazon_sqs_cannot(amazon: CommandLine, queue: str) -> None:
    assert "grep needs Penstock" in amazon.failed("grep", queue, "x", code=2)


def test_help_has_examples(penstock: CommandLine) -> None:
    assert "penstock grep orders" in penstock.done("grep", "--help").partition("Examples:")[2]
