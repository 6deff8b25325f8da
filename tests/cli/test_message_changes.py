"""``penstock message`` on one message: set, reorder, move, fail, redrive, reset, release, delete, trace."""

from __future__ import annotations

import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from cli.queues_for_commands import bodies, new_pair, new_queue, sqs
from support.command_line import CommandLine
from support.texts import says

MISSING = "2f1c7e6a-0000-4000-8000-000000000000"


@pytest.fixture
def queue(penstock: CommandLine) -> str:
    return new_queue(penstock)


def sent(commands: CommandLine, queue: str, body: str = "hello", *flags: str) -> str:
    """The id of a new message."""
    return commands.done("message", "send", queue, body, *flags).strip()


def got(commands: CommandLine, queue: str, id: str) -> dict[str, Any]:
    message: dict[str, Any] = commands.json("message", "show", queue, id)
    return message


def editor(folder: Path, script: str) -> str:
    """A command that changes the file that it is given as ``script`` says, which works on ``text``."""
    program = folder / "editor"
    program.write_text(
        f"#!{sys.executable}\nimport sys, pathlib\nfile = pathlib.Path(sys.argv[-1])\ntext = file.read_text()\n"
        f"{script}\nfile.write_text(text)\n"
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return str(program)


def test_edit_of_the_body(penstock: CommandLine, queue: str, tmp_path: Path) -> None:
    id = sent(penstock, queue, "old")
    before = got(penstock, queue, id)["version"]
    assert (
        penstock.done("message", "set", queue, id, "--body", "new") == f"edited {id}, version {before + 1}\n"
    )
    message = got(penstock, queue, id)
    assert (message["body"], message["edited"], message["version"]) == ("new", True, before + 1)
    file = tmp_path / "body.json"
    file.write_text('{"a": 1}')
    changed = penstock.json("message", "set", queue, id, "--file", str(file))
    assert (changed["id"], changed["body"]) == (id, '{"a": 1}')
    assert "(edited)" in penstock.done("message", "show", queue, id)


def test_edit_of_attributes_keeps_the_others(penstock: CommandLine, queue: str) -> None:
    id = sent(penstock, queue, "x", "--attribute", "a=1", "--attribute", "b=2")
    penstock.done("message", "set", queue, id, "--attribute", "c:Number=3", "--remove-attribute", "a")
    message = got(penstock, queue, id)
    assert message["attributes"] == {
        "b": {"type": "String", "value": "2"}, "c": {"type": "Number", "value": "3"}
    }  # fmt: skip
    assert message["body"] == "x"
    line = penstock.failed("message", "set", queue, id, "--remove-attribute", "z", code=2)
    says(line, 'no attribute "z"')


def test_edit_of_the_delay(penstock: CommandLine, queue: str) -> None:
    id = sent(penstock, queue)
    penstock.done("message", "set", queue, id, "--delay", "10m")
    assert got(penstock, queue, id)["state"] == "delayed"
    penstock.done("message", "set", queue, id, "--delay", "0s")
    assert got(penstock, queue, id)["state"] == "visible"


def test_edit_in_an_editor(penstock: CommandLine, queue: str, tmp_path: Path) -> None:
    id = sent(penstock, queue, '{"a": 1}')
    program = editor(tmp_path, "assert file.suffix == '.json'; text = text.replace('1', '2')")
    code, text = penstock.in_terminal("message", "set", queue, id, VISUAL=program, EDITOR=program)
    assert code == 0 and '{"a": 2}' in text
    assert got(penstock, queue, id)["body"] == '{"a": 2}', "an editor ends the last line, the body need not"
    unchanged = editor(tmp_path, "pass")
    code, text = penstock.in_terminal("message", "set", queue, id, VISUAL=unchanged, EDITOR=unchanged)
    assert code == 0
    says(text, "not changed")


def test_what_was_typed_is_kept_if_the_message_changed_meanwhile(
    penstock: CommandLine, queue: str, tmp_path: Path
) -> None:
    id = sent(penstock, queue, "old")
    meanwhile = f"{sys.executable} -m penstock message set {queue} {id} --body theirs"
    program = editor(tmp_path, f"import subprocess; subprocess.run({meanwhile.split()!r}); text = 'mine'")
    code, text = penstock.in_terminal(
        "message", "set", queue, id, VISUAL=program, EDITOR=program, TMPDIR=str(tmp_path)
    )
    assert code == 1
    says(text, "VersionMismatch", "changed", "body")
    (kept,) = tmp_path.glob("penstock-*.txt")
    assert kept.read_text() == "mine" and str(kept) in text
    assert got(penstock, queue, id)["body"] == "theirs"


def test_a_stale_version_is_refused(penstock: CommandLine, queue: str) -> None:
    id = sent(penstock, queue, "old")
    version = got(penstock, queue, id)["version"]
    penstock.done("message", "set", queue, id, "--body", "new", "--version", str(version))
    for arguments in (
        ["set", queue, id, "--body", "x"], ["reset", queue, id], ["reorder", queue, id, "--front"],
        ["delete", queue, id, "--yes"],
    ):  # fmt: skip
        assert "VersionMismatch" in penstock.failed("message", *arguments, "--version", str(version))
    assert got(penstock, queue, id)["body"] == "new"


def test_a_message_in_flight_is_not_changed(penstock: CommandLine, queue: str) -> None:
    id = sent(penstock, queue)
    penstock.done("message", "receive", queue, "--visibility", "10m")
    for arguments in (
        ["set", queue, id, "--body", "x"], ["delete", queue, id, "--yes"], ["reorder", queue, id, "--back"],
        ["reset", queue, id], ["move", queue, id, "--to", queue],
    ):  # fmt: skip
        assert "MessageInFlight" in penstock.failed("message", *arguments)
    assert got(penstock, queue, id)["holder"]["until"]
    assert "held by" in penstock.done("message", "show", queue, id)


def test_reorder(penstock: CommandLine, queue: str) -> None:
    ids = [sent(penstock, queue, body) for body in "abcd"]
    says(penstock.done("message", "reorder", queue, ids[3], "--front"), ids[3], "front")
    assert bodies(penstock, queue) == ["d", "a", "b", "c"]
    penstock.done("message", "reorder", queue, ids[0], "--back")
    penstock.done("message", "reorder", queue, ids[2], "--before", ids[1])
    assert bodies(penstock, queue) == ["d", "c", "b", "a"]
    received = penstock.json_lines("message", "receive", queue, "--max", "4")
    assert [message["Body"] for message in received] == ["d", "c", "b", "a"]
    line = penstock.failed("message", "reorder", queue, ids[0], "--front", "--back", code=2)
    assert line == "give one of --front, --back, --before ID"


def test_move(penstock: CommandLine, queue: str) -> None:
    other = new_queue(penstock)
    ids = [sent(penstock, queue, body) for body in "abc"]
    text = penstock.done("message", "move", queue, *ids[:2], "--to", other)
    assert text == "".join(f"{id}: now in {other}\n" for id in ids[:2])
    assert (bodies(penstock, queue), bodies(penstock, other)) == (["c"], ["a", "b"])
    assert got(penstock, other, ids[0])["id"] == ids[0]
    assert "QueueDoesNotExist" in penstock.failed("message", "move", queue, ids[2], "--to", "nowhere")


def test_what_is_refused_does_not_keep_the_others_from_it(penstock: CommandLine, queue: str) -> None:
    other = new_queue(penstock)
    ids = [sent(penstock, queue, body) for body in "ab"]
    result = penstock("message", "move", queue, ids[0], MISSING, ids[1], "--to", other, "--json")
    assert result.exit_code == 1 and result.stdout.count("\n") == 2
    assert result.stderr.startswith(f"penstock: {MISSING}: MessageDoesNotExist: ")
    assert bodies(penstock, other) == ["a", "b"]


def test_fail_and_redrive(penstock: CommandLine) -> None:
    queue, dead_letters = new_pair(penstock)
    id = sent(penstock, queue)
    assert penstock.done("message", "fail", queue, id) == f"{id}: now in {dead_letters}\n"
    assert got(penstock, dead_letters, id)["source"].endswith(f":{queue}")
    assert penstock.done("message", "redrive", dead_letters, id) == f"{id}: now in {queue}\n"
    assert bodies(penstock, queue) == ["hello"]
    line = penstock.failed("message", "fail", dead_letters, sent(penstock, dead_letters))
    assert "NotPossible" in line, "it has no dead-letter queue"


def test_reset_and_release(penstock: CommandLine, queue: str) -> None:
    id = sent(penstock, queue)
    penstock.done("message", "receive", queue, "--visibility", "0s")
    assert got(penstock, queue, id)["receives"] == 1
    penstock.done("message", "reset", queue, id)
    message = got(penstock, queue, id)
    assert message["receives"] == 0 and "first_received_at" not in message
    later = sent(penstock, queue, "later", "--delay", "10m")
    assert penstock.done("message", "release", queue, later).startswith(f"{later}: visible, version ")
    assert [each["state"] for each in penstock.json_lines("message", "ls", queue)] == ["visible", "visible"]


def test_delete_asks(penstock: CommandLine, queue: str) -> None:
    ids = [sent(penstock, queue, body) for body in "abc"]
    asked = penstock.failed("message", "delete", queue, *ids[:2], code=2)
    says(asked, "Delete 2 messages", queue, "--yes")
    code, text = penstock.in_terminal("message", "delete", queue, ids[0], answer="n")
    assert code == 1 and "nothing was changed" in text and len(bodies(penstock, queue)) == 3
    code, _ = penstock.in_terminal("message", "delete", queue, ids[0], answer="y")
    assert code == 0 and bodies(penstock, queue) == ["b", "c"]
    assert penstock.done("message", "delete", queue, ids[1], "--yes") == f"{ids[1]}: deleted\n"
    assert bodies(penstock, queue) == ["c"]
    assert "MessageDoesNotExist" in penstock.failed("message", "delete", queue, ids[1], "--yes")
    says(penstock.failed("message", "delete", queue, code=2), "ids", "--receipt-handle")


def test_delete_by_receipt_handle_works_with_amazon_sqs(amazon: CommandLine, queue: str) -> None:
    amazon.done("message", "send", queue, "x")
    (received,) = amazon.json_lines("message", "receive", queue)
    amazon.done("message", "delete", queue, "--receipt-handle", received["ReceiptHandle"])
    url = sqs(amazon, "GetQueueUrl", QueueName=queue)["QueueUrl"]
    counts = sqs(amazon, "GetQueueAttributes", QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert counts["ApproximateNumberOfMessagesNotVisible"] == "0"


@pytest.mark.parametrize(
    "arguments",
    [
        ["set", "--body", "x"], ["move", "--to", "q"], ["reorder", "--front"], ["fail"], ["redrive"], ["reset"],
        ["release"], ["delete", "--yes"],
    ],
    ids=lambda arguments: str(arguments[0]),
)  # fmt: skip
def test_a_message_that_is_missing_and_amazon_sqs(
    penstock: CommandLine, amazon: CommandLine, queue: str, arguments: list[str]
) -> None:
    name, *flags = [queue if part == "q" else part for part in arguments]
    line = penstock.failed("message", name, queue, MISSING, *flags)
    assert "MessageDoesNotExist: " in line or (name in ("fail", "redrive") and "NotPossible" in line)
    line = penstock.failed("message", name, "nowhere", MISSING, *flags)
    assert 'no queue "nowhere"' in line or (name in ("move", "reorder") and "QueueDoesNotExist" in line)
    assert f"message {name}" in amazon.failed("message", name, queue, MISSING, *flags, code=2)


def test_trace(penstock: CommandLine, queue: str) -> None:
    id = sent(penstock, queue)
    penstock.done("message", "receive", queue, "--visibility", "0s")
    penstock.done("message", "receive", queue, "--visibility", "10m")
    traced = penstock.json("message", "trace", queue, id)
    assert [event["event"] for event in traced["events"]][:2] == ["sent", "received"]
    assert traced["complete"] is True and traced["message"]["holder"]["since"]
    text = penstock.done("message", "trace", queue, id)
    facts, _, events = text.partition("\n\n")
    assert "held by" in facts and "in flight" in facts
    assert events.split()[:4] == ["AT", "EVENT", "BY", "ADDRESS"]
    assert "127.0.0.1" in events


def test_trace_of_a_message_that_is_gone(penstock: CommandLine, queue: str) -> None:
    id = sent(penstock, queue)
    penstock.done("message", "receive", queue, "--delete")
    traced = penstock.json("message", "trace", queue, id)
    assert traced["message"] is None
    assert [event["event"] for event in traced["events"]] == ["sent", "received", "deleted"]
    assert f"{id} is not in {queue} any more" in penstock.done("message", "trace", queue, id)
    assert "MessageDoesNotExist" in penstock.failed("message", "trace", queue, MISSING)
