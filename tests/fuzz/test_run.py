"""The runner: reading the engine's output, running without an engine, repeating a failure."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fuzz import run
from fuzz.targets import SHARES, load

LOG = """\
slowest: 0.9 ms
#8\tINITED cov: 154 ft: 215 corp: 6/2616b exec/s: 0 rss: 50Mb
#12\tNEW    cov: 162 ft: 223 corp: 8/3368b lim: 535 exec/s: 0 rss: 51Mb L: 339/535 MS: 3
slowest: 12.5 ms
#2000\tDONE   cov: 163 ft: 230 corp: 9/3400b lim: 535 exec/s: 1000 rss: 64Mb
stat::number_of_executed_units: 2000
stat::average_exec_per_sec:     1000
"""


def test_the_table_shows_the_figures_of_the_engine() -> None:
    assert run.Report("sigv4", True, LOG).cells == ["sigv4", "2000", "1000", "163", "50 → 64", "12.5", "ok"]
    assert run.Report("sigv4", False, "").cells[1:] == ["-", "-", "-", "- → -", "-", "FAILED"]


def test_without_the_engine_it_skips_with_a_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["fuzz.run"])
    monkeypatch.setattr(run, "find_spec", lambda name: None)
    assert run.main() == 0
    assert capsys.readouterr().out.startswith("skipped: there is no wheel of atheris for Python 3.")


@pytest.mark.parametrize("asked", [["nothing"], ["--replay", "file"], ["http", "json", "--replay", "file"]])
def test_invalid_arguments_are_refused(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["fuzz.run", *asked])
    with pytest.raises(SystemExit):
        run.main()


def test_a_failing_input_can_be_repeated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    crash = tmp_path / "crash-1"
    crash.write_bytes(load("handles").seeds[0])
    monkeypatch.setattr(sys, "argv", ["fuzz.run", "handles", "--replay", str(crash)])
    assert run.main() == 0
    monkeypatch.setattr("fuzz.targets.handles._GIVEN", [])
    with pytest.raises(AssertionError, match="was never issued"):
        run.main()


def test_inputs_are_divided_by_weight(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given: dict[str, int] = {}

    def ended(command: list[str], **_: object) -> object:
        given[command[3]] = int(command[-1].removeprefix("-runs="))
        return type("Done", (), {"returncode": 0})

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["fuzz.run", "--runs", str(sum(SHARES.values()) * 100_000)])
    monkeypatch.setattr(run, "find_spec", lambda name: True)
    monkeypatch.setattr(subprocess, "run", ended)
    assert run.main() == 0
    assert given == {name: share * 100_000 for name, share in SHARES.items()}
