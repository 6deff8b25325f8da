"""``penstock dump`` and ``penstock load``: JSON lines, going on after an interruption, errors of lines."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from cli.queues_for_commands import bodies, new_queue
from penstock.cli.messages import admin_queue, load
from penstock.cli.messages.sending import send_all
from support.command_line import CommandLine
from support.texts import says


def read(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def written(file: Path, *lines: Any) -> str:
    file.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return str(file)


def test_what_was_dumped_can_be_loaded(penstock: CommandLine, tmp_path: Path) -> None:
    source, target, file = new_queue(penstock), new_queue(penstock), tmp_path / "dump.jsonl"
    penstock.done(
        "message", "send", source, "ä {n}", "--template", "--count", "23", "--attribute", "b:Binary=AAE="
    )
    penstock.done("message", "send", source, "later", "--delay", "10m")
    result = penstock("dump", source, str(file))
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "wrote 24 messages\n")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and not list(tmp_path.glob("*.state"))
    assert all(message["receives"] == 0 for message in penstock.json_lines("message", "ls", source, "--all"))
    assert penstock.done("load", target, str(file)) == "sent 24 messages\n"
    assert bodies(penstock, target) == bodies(penstock, source)
    listed = penstock.json_lines("message", "ls", target)
    assert listed[0]["attributes"] == {"b": {"type": "Binary", "value": "AAE="}}
    assert not list(tmp_path.glob("*.loaded"))


def test_a_dump_in_a_pipe(penstock: CommandLine) -> None:
    source, target = new_queue(penstock), new_queue(penstock)
    penstock.done("message", "send", source, "{n}", "--template", "--count", "3")
    text = penstock.done("dump", source, "-")
    assert [json.loads(line)["body"] for line in text.splitlines()] == ["1", "2", "3"]
    assert penstock.json("load", target, "-", given=text) == {"sent": 3, "refused": 0}
    assert bodies(penstock, target) == ["1", "2", "3"]


def test_long_bodies_are_dumped_whole(penstock: CommandLine, tmp_path: Path) -> None:
    queue, file = new_queue(penstock), tmp_path / "dump.jsonl"
    for letter in "abcdef":
        penstock.done("message", "send", queue, given=letter * 1_000_000)
    penstock.done("dump", queue, str(file))
    assert [message["body"] for message in read(file)] == [letter * 1_000_000 for letter in "abcdef"]


def test_a_dump_goes_on_after_an_interruption(
    penstock: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, file = new_queue(penstock), tmp_path / "dump.jsonl"
    penstock.done("message", "send", queue, "{n}", "--template", "--count", "35")
    monkeypatch.setattr(admin_queue, "PAGE", 10)
    pages = admin_queue.AdminQueue.pages

    def interrupted(self: Any, *arguments: Any) -> Any:
        for n, page in enumerate(pages(self, *arguments)):
            if n == 2:
                raise KeyboardInterrupt
            yield page

    monkeypatch.setattr(admin_queue.AdminQueue, "pages", interrupted)
    assert penstock("dump", queue, str(file)).exit_code == 130
    assert (tmp_path / "dump.jsonl.state").exists()
    with file.open("a") as stream:
        stream.write('{"half a li')
    monkeypatch.setattr(admin_queue.AdminQueue, "pages", pages)
    other = penstock.failed("dump", queue, str(file), "--resume", "--state", "visible", code=2)
    assert "with other conditions" in other
    assert penstock("dump", queue, str(file), "--resume").stderr == "wrote 35 messages\n"
    assert [message["body"] for message in read(file)] == [str(n) for n in range(1, 36)]
    assert "no interrupted dump" in penstock.failed("dump", queue, str(file), "--resume", code=2)


def test_a_load_goes_on_after_an_interruption(
    penstock: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = new_queue(penstock)
    file = written(tmp_path / "load.jsonl", *({"body": str(n)} for n in range(1, 36)))

    def interrupted(*arguments: Any) -> Any:
        for n, batch in enumerate(send_all(*arguments)):
            yield batch
            if n == 1:
                raise KeyboardInterrupt

    monkeypatch.setattr(load, "send_all", interrupted)
    assert penstock("load", queue, file).exit_code == 130
    monkeypatch.setattr(load, "send_all", send_all)
    says(penstock.failed("load", new_queue(penstock), file, code=2), "another file", f"{file}.loaded")
    result = penstock("load", queue, file)
    assert (result.exit_code, result.stdout) == (0, "sent 15 messages\n")
    says(result.stderr, "after line 20", "remove", f"{file}.loaded")
    assert bodies(penstock, queue) == [str(n) for n in range(1, 36)]
    assert not Path(f"{file}.loaded").exists()


def test_skip(penstock: CommandLine, tmp_path: Path) -> None:
    queue = new_queue(penstock)
    file = written(tmp_path / "load.jsonl", {"body": "1"}, {"body": "2"}, {"body": "3"})
    penstock.done("load", queue, file, "--skip", "2")
    assert bodies(penstock, queue) == ["3"]


def test_lines_that_cannot_be_sent(penstock: CommandLine, tmp_path: Path) -> None:
    queue, errors = new_queue(penstock), tmp_path / "errors.jsonl"
    bad = [
        "no json",
        '{"text": "no body"}',
        '{"body": "x", "attributes": {"a": [1]}}',
        '{"body": "x", "delay_s": 901}',
    ]
    file = written(tmp_path / "load.jsonl", {"body": "1"}, *bad, "", {"body": {"a": 2}})
    result = penstock("load", queue, file, "--errors", str(errors))
    assert (result.exit_code, result.stdout) == (1, "sent 2 messages\n")
    lines = result.stderr.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["line 2", "line 3", "line 4", "line 5", "penstock"]
    assert "not JSON" in lines[0] and '"body"' in lines[1] and '"a"' in lines[2] and "901" in lines[3]
    says(lines[4], "4 lines", "refused")
    assert errors.read_text().splitlines() == bad
    assert bodies(penstock, queue) == ["1", '{"a": 2}']


def test_no_line_ends_a_load(penstock: CommandLine, tmp_path: Path) -> None:
    """Lines for which SQS would refuse the whole request are refused beforehand, each with its number."""
    queue = new_queue(penstock)
    wrong = ["1e400", "NaN", "-1", "0.5", "true", '"soon"', "9" * 400, "[]", "{}"]
    bad = [f'{{"body": "x", "delay_s": {value}}}' for value in wrong]
    bad += [f'{{"body": "x", "attributes": {value}}}' for value in ("[]", "0", '""', "false", '{"a": 1e400}')]
    bad += [f'{{"body": "x", "attributes": {{"a": {"9" * 400}}}}}']
    bad += [f'{{"body": "x", "{name}": 5}}' for name in ("group", "dedup_id", "trace")]
    bad += ['{"body": [1e400]}', json.dumps({"body": "ä" * 524_289})]
    bad += [json.dumps({"body": "x", "attributes": {"a": "x" * 1_048_576}})]
    good = [
        {"body": "x" * 1_048_576},
        {"body": "z", "delay_s": None, "attributes": None},
        {"body": "y", "delay_s": 0.0},
    ]
    offenders = []
    for line in bad:
        result = penstock("load", queue, written(tmp_path / "f", {"body": "first"}, line, {"body": "last"}))
        if (result.exit_code, result.stdout) != (1, "sent 2 messages\n") or "line 2: " not in result.stderr:
            offenders.append((line[:60], result.output[:200]))
    assert offenders == []
    assert penstock.done("load", queue, written(tmp_path / "g", *good)) == "sent 3 messages\n"


def test_members_of_a_line(penstock: CommandLine, tmp_path: Path) -> None:
    queue = new_queue(penstock)
    trace = "Root=1-5759e988-bd862e3fe1be46a994272793"
    line = {"body": "x", "attributes": {"a": "b", "n": 3}, "delay_s": 600, "trace": trace, "receives": 7}
    penstock.done("load", queue, written(tmp_path / "load.jsonl", line))
    (message,) = penstock.json_lines("message", "ls", queue)
    assert (message["state"], message["trace"], message["receives"]) == ("delayed", trace, 0)
    assert message["attributes"] == {
        "a": {"type": "String", "value": "b"}, "n": {"type": "Number", "value": "3"}
    }  # fmt: skip


def test_lines_that_are_nested_too_deeply_are_refused(penstock: CommandLine, tmp_path: Path) -> None:
    queue = new_queue(penstock)
    members = ("body", "group", "delay_s", "other", "attributes", "trace")
    lines = [
        f'{{"body": "x", "{member}": {"[" * depth}{"]" * depth}}}'
        for member in members
        for depth in (500, 950, 985, 995, 100_000)
    ]
    file = written(tmp_path / "f", {"body": "first"}, *lines, {"body": "last"})
    result = penstock("load", queue, file, "--errors", str(tmp_path / "refused"))
    assert result.exit_code == 1, result.output
    says(result.stderr, "line 6", "JSON", "nested")
    assert {"first", "last"} <= set(bodies(penstock, queue))


def test_a_dump_in_a_terminal_does_not_control_it(penstock: CommandLine) -> None:
    queue, body = new_queue(penstock), "a\x9b2J\u202e\x85\x7fä\U000e0001"
    penstock.sqs("SendMessage", queue, MessageBody=body)
    code, printed = penstock.in_terminal("dump", queue, "-")
    line = printed[printed.index("{") : printed.rindex("}") + 1]
    assert code == 0 and line.isprintable() and json.loads(line)["body"] == body
    in_a_pipe = penstock.done("dump", queue, "-")
    assert "\u202e" in in_a_pipe and json.loads(in_a_pipe)["body"] == body


def test_load_into_a_fifo_queue(penstock: CommandLine, tmp_path: Path) -> None:
    queue, file = new_queue(penstock, "fifo"), tmp_path / "load.jsonl"
    written(file, {"body": "1", "group": "g", "dedup_id": "d"}, {"body": "2", "dedup_id": "d"})
    penstock.done("load", queue, str(file), "--group", "h", "--new-dedup-ids")
    listed = penstock.json_lines("message", "ls", queue)
    assert [(message["body"], message["group"]) for message in listed] == [("1", "g"), ("2", "h")]


def test_amazon_sqs_is_dumped_by_receiving(
    amazon: CommandLine, penstock: CommandLine, tmp_path: Path
) -> None:
    queue, file = new_queue(penstock), tmp_path / "dump.jsonl"
    amazon.done("message", "send", queue, "{n}", "--template", "--count", "12", "--attribute", "a=b")
    assert "give --receive" in amazon.failed("dump", queue, str(file), code=2)
    amazon.done("dump", queue, str(file), "--receive")
    assert sorted(int(message["body"]) for message in read(file)) == list(range(1, 13))
    assert all(message["attributes"] == {"a": {"type": "String", "value": "b"}} for message in read(file))
    listed = penstock.json_lines("message", "ls", queue)
    assert {(message["state"], message["receives"]) for message in listed} == {("visible", 1)}
    target = new_queue(penstock)
    assert amazon.done("load", target, str(file)) == "sent 12 messages\n"


def test_files_that_are_missing(penstock: CommandLine) -> None:
    queue = new_queue(penstock)
    assert "does not exist" in penstock("load", queue, "/nowhere/x").stderr
    assert "cannot use" in penstock.failed("dump", queue, "/nowhere/x", code=2)


@pytest.mark.parametrize("name", ["load", "dump"])
def test_help_has_examples(penstock: CommandLine, name: str) -> None:
    assert f"penstock {name} orders" in penstock.done(name, "--help").partition("Examples:")[2]
