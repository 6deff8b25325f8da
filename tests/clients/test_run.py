"""``make test-clients`` itself: the report of each tool is read correctly, and every failure is reported."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from clients import run
from clients.reports import Case, from_cargo, from_go, from_junit
from clients.suites import Run, Suite, Tool
from support.texts import says


class Fake(Suite):
    client = "fake"
    needs_server = False

    def __init__(self, cases: Callable[[Run], list[Case]], tools: tuple[Tool, ...] = ()) -> None:
        self._cases = cases
        self.tools = tools

    def install(self, run: Run) -> None: ...

    def cases(self, run: Run) -> list[Case]:
        return self._cases(run)

    def version(self, run: Run) -> str:
        return "1"


@pytest.fixture
def outcome(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[Suite], tuple[int, str]]:
    def try_one(suite: Suite) -> tuple[int, str]:
        monkeypatch.setattr(run, "SUITES", (suite,))
        monkeypatch.setattr(run, "CACHE", tmp_path)
        code = run.main([])
        (result,) = json.loads((tmp_path / "results.json").read_text())
        return code, result["result"]

    return try_one


def test_only_cases_that_pass_pass(outcome: Callable[[Suite], tuple[int, str]]) -> None:
    assert outcome(Fake(lambda run: [Case("a", True)])) == (0, "passed")
    assert outcome(Fake(lambda run: [Case("a", True), Case("b", False)])) == (1, "failed")
    assert outcome(Fake(lambda run: [])) == (1, "failed")


def test_a_report_that_is_missing_is_a_failure(outcome: Callable[[Suite], tuple[int, str]]) -> None:
    assert outcome(Fake(lambda run: from_junit([Path("/nowhere/report.xml")]))) == (1, "failed")


def test_a_tool_that_ends_with_an_error_is_a_failure(outcome: Callable[[Suite], tuple[int, str]]) -> None:
    def cases(run: Run) -> list[Case]:
        run([sys.executable, "-c", "raise SystemExit(3)"], Path("/"))
        return [Case("a", True)]

    assert outcome(Fake(cases)) == (1, "failed")


def test_a_client_that_cannot_be_installed_is_a_failure(outcome: Callable[[Suite], tuple[int, str]]) -> None:
    class Uninstallable(Fake):
        def install(self, run: Run) -> None:
            run([sys.executable, "-c", "raise SystemExit(3)"], Path("/"))

    assert outcome(Uninstallable(lambda run: [Case("a", True)])) == (1, "failed")


def test_a_missing_tool_is_reported(
    outcome: Callable[[Suite], tuple[int, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    tool = Tool("no-such-tool", ("--version",), (9, 1))
    assert outcome(Fake(lambda run: [], (tool,))) == (0, "skipped")
    says(capsys.readouterr().out, "no-such-tool 9.1", "not installed")


def test_an_outdated_tool_is_reported() -> None:
    assert Tool(sys.executable, ("--version",), (3, 11)).missing() is None
    assert "is needed, here is 3." in str(Tool(sys.executable, ("--version",), (99,)).missing())


def test_reports_of_junit(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(
        "<testsuites><testsuite><testcase name='a'/><testcase name='b'><failure/></testcase>"
        "<testcase name='c'><skipped/></testcase></testsuite></testsuites>"
    )
    assert from_junit([report]) == [Case("a", True), Case("b", False), Case("c", False)]


def test_reports_of_go_and_cargo() -> None:
    events = ['{"Action":"run","Test":"A"}', '{"Action":"pass","Test":"A"}', '{"Action":"fail","Test":"B"}']
    assert from_go([*events, '{"Action":"fail"}', "noise"]) == [Case("A", True), Case("B", False)]
    lines = ["running 2 tests", "test a ... ok", "test b ... FAILED", "test result: FAILED. 1 passed"]
    assert from_cargo(lines) == [Case("a", True), Case("b", False)]
