"""What commands print: columns that fit, colours only in a terminal, and no control characters of others."""

from __future__ import annotations

import json
import re

import pytest

from penstock.cli.arguments import short_duration, short_size
from penstock.cli.failure import Failure
from penstock.cli.output import Cell, Output, Styled, safe, shortened

HOSTILE = "\x1b]0;owned\x07\x9b2J\u202e\x7f\r"
CONTROLS = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]")


def test_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    rows: list[list[Cell]] = [
        ["a", 5, None, "end"],
        ["日本", 1000, 1.25, ""],
        ["b", Styled(7, "red"), 10.0, "x"],
    ]
    Output().table(["NAME", "COUNT", "RATE", "_"], rows)
    assert capsys.readouterr().out.splitlines() == [
        "NAME  COUNT  RATE",
        "a         5     -  end",
        "日本   1000   1.2",
        "b         7  10.0  x",
    ]


def test_a_table_without_rows(capsys: pytest.CaptureFixture[str]) -> None:
    Output().table(["A", "B"], [])
    assert capsys.readouterr().out == "A  B\n"


def test_a_record_leaves_out_what_is_not_known(capsys: pytest.CaptureFixture[str]) -> None:
    Output().facts([("one", 1), ("longer", "text"), ("missing", None)])
    assert capsys.readouterr().out == "one     1\nlonger  text\n"


def test_control_characters_of_others_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    out = Output()
    out.table(["NAME"], [[HOSTILE], [Styled(HOSTILE, "red")]])
    out.facts([(HOSTILE, HOSTILE)])
    out.note(HOSTILE)
    out.line(HOSTILE, Styled(HOSTILE, "red"), bold=True)
    out.is_terminal = True
    out.json({HOSTILE: HOSTILE})
    out.json_line({HOSTILE: HOSTILE})
    printed = capsys.readouterr()
    assert printed.out.count("owned") == 10 and printed.err.count("owned") == 1
    assert not CONTROLS.search(printed.out + printed.err)
    assert not CONTROLS.search(safe(HOSTILE)) and not CONTROLS.search(shortened(HOSTILE, 10))


def test_lines_of_a_body_stay_lines() -> None:
    assert safe("a\n\tb\r\x00", lines=True) == "a\n\tb\\r\\x00"
    assert safe("a\nb") == "a\\nb"


def test_json_is_one_line_in_a_pipe_and_indented_in_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    out = Output(as_json=True)
    out.json({"a": "ä"})
    assert capsys.readouterr().out == '{"a": "ä"}\n'
    out.is_terminal = True
    out.json({"a": "ä"})
    printed = capsys.readouterr().out
    assert printed.count("\n") > 1 and json.loads(printed) == {"a": "ä"}
    out.json_lines([{"a": 1}, {"b": 2}])
    assert capsys.readouterr().out == '{"a": 1}\n{"b": 2}\n'


def test_a_question_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    Output().confirm("Delete all?", yes=True)
    with pytest.raises(Failure, match=r"Delete all\? .*--yes"):
        Output().confirm("Delete all?", yes=False)


def test_progress_is_drawn_in_a_terminal_only(capsys: pytest.CaptureFixture[str]) -> None:
    with Output().progress("work", 3) as progress:
        progress(1)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(None, None), (0, "0s"), (0.25, "250ms"), (59, "59s"), (60, "1m"), (5400, "1h 30m"), (345600, "4d")],
)  # fmt: skip
def test_durations(seconds: float | None, shown: str | None) -> None:
    assert short_duration(seconds) == shown


@pytest.mark.parametrize(
    ("size", "shown"),
    [(None, None), (0, "0B"), (999, "999B"), (1024, "1KB"), (1536, "1.5KB"), (5 << 40, "5TB")],
)
def test_sizes(size: int | None, shown: str | None) -> None:
    assert short_size(size) == shown
