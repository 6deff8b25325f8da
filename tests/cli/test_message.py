"""``penstock message``: sending, receiving, and looking without receiving."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.queues_for_commands import bodies, new_queue
from penstock.cli.messages.message import command
from support.command_line import COLOURS, CommandLine
from support.texts import says


@pytest.fixture
def queue(penstock: CommandLine) -> str:
    return new_queue(penstock)


def test_send_prints_the_id_of_the_message(penstock: CommandLine, queue: str) -> None:
    id = penstock.done("message", "send", queue, "hello").strip()
    (listed,) = penstock.json_lines("message", "ls", queue)
    assert (listed["id"], listed["body"], listed["state"], listed["receives"]) == (id, "hello", "visible", 0)


def test_a_body_comes_from_a_file_or_standard_input(
    penstock: CommandLine, queue: str, tmp_path: Path
) -> None:
    file = tmp_path / "body.txt"
    file.write_text("line 1\nline 2\n")
    penstock.done("message", "send", queue, f"@{file}")
    penstock.done("message", "send", queue, "--file", str(file))
    penstock.done("message", "send", queue, given="from a pipe")
    assert bodies(penstock, queue) == ["line 1\nline 2\n", "line 1\nline 2\n", "from a pipe"]


def test_attributes_have_types(penstock: CommandLine, queue: str) -> None:
    given = ("--attribute", "kind=a=b", "--attribute", "n:Number=3", "--attribute", "raw:Binary.png=AAE=")
    penstock.done("message", "send", queue, "x", *given)
    (listed,) = penstock.json_lines("message", "ls", queue)
    assert listed["attributes"] == {
        "kind": {"type": "String", "value": "a=b"},
        "n": {"type": "Number", "value": "3"},
        "raw": {"type": "Binary.png", "value": "AAE="},
    }


def test_many_messages_from_a_template(penstock: CommandLine, queue: str) -> None:
    text = penstock.done(
        "message", "send", queue, '{"n": {n}, "id": "{uuid}", "at": "{now}", "x": {}}', "--template",
        "--count", "25", "--attribute", "number:Number={n}",
    )  # fmt: skip
    assert text.startswith("sent 25 messages in ")
    listed = penstock.json_lines("message", "ls", queue, "--all")
    parsed = [json.loads(message["body"]) for message in listed]
    assert [each["n"] for each in parsed] == list(range(1, 26))
    assert len({each["id"] for each in parsed}) == 25
    assert all(each["at"].endswith("Z") and each["x"] == {} for each in parsed)
    assert [message["attributes"]["number"]["value"] for message in listed] == [str(n) for n in range(1, 26)]


def test_braces_stay_without_template(penstock: CommandLine, queue: str) -> None:
    penstock.done("message", "send", queue, '{"n": {n}}')
    assert bodies(penstock, queue) == ['{"n": {n}}']


def test_send_with_json_prints_a_line_for_each_message(penstock: CommandLine, queue: str) -> None:
    sent = penstock.json_lines("message", "send", queue, "x", "--count", "12")
    listed = penstock.json_lines("message", "ls", queue, "--all")
    assert [each["MessageId"] for each in sent] == [message["id"] for message in listed]


def test_a_fifo_queue_needs_a_group(penstock: CommandLine) -> None:
    queue = new_queue(penstock, "fifo")
    assert "MessageGroupId" in penstock.failed("message", "send", queue, "x")
    (sent,) = penstock.json_lines("message", "send", queue, "x", "--group", "g", "--dedup-id", "1")
    assert sent["SequenceNumber"]
    penstock.done(
        "message", "send", queue, "{n}", "--template", "--group", "g", "--dedup-id", "d{n}", "--count", "3"
    )
    assert bodies(penstock, queue) == ["x", "1", "2", "3"]


def test_a_delayed_message_is_listed(penstock: CommandLine, queue: str) -> None:
    penstock.done("message", "send", queue, "later", "--delay", "5m")
    (listed,) = penstock.json_lines("message", "ls", queue)
    assert listed["state"] == "delayed"
    assert penstock("message", "receive", queue).exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["x", "--file", "y"], 2, "BODY --file"),
        ([""], 2, "body empty SQS"),
        (["-"], 2, "body empty SQS"),
        (["@/nowhere"], 2, "/nowhere No such file"),
        (["x", "--attribute", "n"], 2, '"n" attribute name=value name:Number=3'),
        (["x", "--attribute", "n:Float=1"], 2, '"n:Float=1" attribute'),
        (["x", "--attribute", "n:Number=z"], 1, "message 1 was refused: InvalidParameterValue"),
        (["x", "--delay", "20m"], 1, "message 1 was refused: InvalidParameterValue"),
    ],
)  # fmt: skip
def test_what_send_refuses(
    penstock: CommandLine, queue: str, arguments: list[str], code: int, words: str
) -> None:
    says(penstock.failed("message", "send", queue, *arguments, code=code), *words.split())


def test_a_body_must_be_text(penstock: CommandLine, queue: str) -> None:
    line = penstock.failed("message", "send", queue, given=b"\xff\xfe", code=2)
    says(line, "standard input", "UTF-8")


def test_a_queue_that_is_missing(penstock: CommandLine) -> None:
    for arguments in (
        ("send", "nowhere", "x"),
        ("receive", "nowhere"),
        ("ls", "nowhere"),
        ("peek", "nowhere"),
    ):
        assert "queue" in penstock.failed("message", *arguments)


def test_queues_by_url_and_arn(penstock: CommandLine, queue: str) -> None:
    penstock.done("message", "send", f"{penstock.endpoint}/000000000000/{queue}", "by URL")
    penstock.done("message", "send", f"arn:aws:sqs:us-east-1:000000000000:{queue}", "by ARN")
    for name in (
        f"{penstock.endpoint}/000000000000/{queue}",
        f"arn:aws:sqs:us-east-1:000000000000:{queue}",
    ):
        assert bodies(penstock, name) == ["by URL", "by ARN"]


def test_receive_hides_and_counts(penstock: CommandLine, queue: str) -> None:
    penstock.done("message", "send", queue, "hello", "--attribute", "a=b")
    text = penstock.done("message", "receive", queue, "--visibility", "10m")
    assert "\n\nhello\n" in text and "attribute a" in text and "receipt handle" in text
    nothing = penstock("message", "receive", queue)
    assert (nothing.exit_code, nothing.stdout, nothing.stderr) == (1, "", "no message\n")
    (listed,) = penstock.json_lines("message", "ls", queue)
    assert (listed["state"], listed["receives"]) == ("in_flight", 1)


def test_receive_deletes_what_it_printed(penstock: CommandLine, queue: str) -> None:
    penstock.done("message", "send", queue, "{n}", "--template", "--count", "25")
    received = penstock.json_lines("message", "receive", queue, "--max", "22", "--delete")
    assert [message["Body"] for message in received] == [str(n) for n in range(1, 23)]
    assert bodies(penstock, queue) == ["23", "24", "25"]


def test_looking_changes_nothing(penstock: CommandLine, queue: str) -> None:
    penstock.done("message", "send", queue, "{n}", "--template", "--count", "12")
    before = penstock.json_lines("message", "ls", queue, "--all")
    text = penstock.done("message", "peek", queue, "--max", "2")
    assert "\n\n1\n" in text and "\n\n2\n" in text and "\n\n3\n" not in text
    for _ in range(3):
        penstock.done("message", "peek", queue, "--json")
        penstock.done("message", "show", queue, before[0]["id"])
    assert penstock.json_lines("message", "ls", queue, "--all") == before


def test_an_empty_queue_says_so(penstock: CommandLine, queue: str) -> None:
    listed, peeked = penstock("message", "ls", queue), penstock("message", "peek", queue)
    assert (listed.exit_code, listed.stdout, listed.stderr) == (0, "", "no messages\n")
    assert (peeked.exit_code, peeked.stdout) == (0, "") and peeked.stderr.startswith("no visible messages: ")


def test_ls_as_a_table(penstock: CommandLine, queue: str) -> None:
    penstock.done("message", "send", queue, "evil \x9b31m" + "x" * 500, "--count", "3")
    result = penstock("message", "ls", queue, "--max", "2")
    heading, first, second = result.stdout.splitlines()
    assert heading.split() == ["ID", "STATE", "AGE", "RECEIVES", "SIZE", "BODY"]
    assert "evil \\x9b31mx" in first and first.endswith("…") and "\x9b" not in result.stdout
    assert len(second) < 200
    says(result.stderr, "first 2", "--all", "--max")


def test_ls_in_a_terminal_fits_its_width(penstock: CommandLine, queue: str) -> None:
    penstock.done("message", "send", queue, "y" * 500)
    code, text = penstock.in_terminal("message", "ls", queue)
    heading, line = COLOURS.sub("", text).splitlines()
    assert code == 0 and heading.startswith("ID") and line.endswith("y…")
    assert len(line) == 160


def test_get_shows_all_of_a_message(penstock: CommandLine, queue: str) -> None:
    body = "z" * 300_000
    id = penstock.done("message", "send", queue, given=body).strip()
    assert penstock.done("message", "show", queue, id, "--raw") == body
    assert penstock.json("message", "show", queue, id)["body"] == body
    text = penstock.done("message", "show", queue, id)
    facts = dict(line.split(maxsplit=1) for line in text.split("\n\n")[0].splitlines())
    assert (facts["id"], facts["state"], facts["receives"]) == (id, "visible", "0")


def test_get_of_a_message_that_is_missing(penstock: CommandLine, queue: str) -> None:
    line = penstock.failed("message", "show", queue, "2f1c7e6a-0000-4000-8000-000000000000")
    assert line.startswith("MessageDoesNotExist: ")


def test_amazon_sqs_sends_and_receives_but_does_not_look(amazon: CommandLine, queue: str) -> None:
    amazon.done("message", "send", queue, "{n}", "--template", "--count", "11")
    assert len(amazon.json_lines("message", "receive", queue, "--max", "11", "--delete")) == 11
    says(amazon.failed("message", "peek", queue, code=2), "receiving", "counts")
    for arguments in (("ls", queue), ("show", queue, "x"), ("trace", queue, "x"), ("set", queue, "x")):
        assert f"message {arguments[0]} needs Penstock" in amazon.failed("message", *arguments, code=2)


def test_a_secured_server(as_root: CommandLine, as_guest: CommandLine) -> None:
    queue = new_queue(as_root)
    as_guest.done("message", "send", queue, "secret")
    assert "AccessDenied" in as_guest.failed("message", "ls", queue)
    assert bodies(as_root, queue) == ["secret"]


@pytest.mark.parametrize("name", sorted(command.commands))
def test_every_help_has_examples(penstock: CommandLine, name: str) -> None:
    assert f"penstock message {name} " in penstock.done("message", name, "--help").partition("Examples:")[2]
