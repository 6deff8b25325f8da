"""The stories of docs/on-call.md can be played by copy and paste, with one process and with two processes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.documents import ROOT, blocks_of
from support.process import ServerProcess, free_port

_TEXT = (ROOT / "docs/on-call.md").read_text()
_SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", _TEXT, re.MULTILINE | re.DOTALL))
_PREPARATION = "".join(blocks_of(_TEXT.partition("\n## ")[0], "sh"))
_REPORT = (
    "trap 'echo \"failed: $BASH_COMMAND\" >&2' ERR\n"  # commands go on after one that fails, as in a terminal
)


class Reader:
    """Pastes the examples of a section, with other ports, into a shell in the directory of the server."""

    def __init__(self, folder: Path, server: ServerProcess) -> None:
        self._folder = folder
        self._server = server

    def play(self, section: str) -> tuple[str, list[str]]:
        """What was printed, and the commands that failed."""
        script = _REPORT + _PREPARATION + "".join(blocks_of(_SECTIONS[section], "sh"))
        script = script.replace("9324", str(self._server.port)).replace("9325", str(free_port()))
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-u"], input=script, cwd=self._folder, env={**os.environ, "PATH": path}, text=True,
            capture_output=True, timeout=300, check=False,
        )  # fmt: skip
        failed = [line.removeprefix("failed: ") for line in done.stderr.splitlines() if "failed: " in line]
        assert "unbound variable" not in done.stderr, done.stderr
        return done.stdout + done.stderr, failed

    def json(self, *command: str) -> list[dict[str, object]]:
        done = subprocess.run(
            [sys.executable, "-m", "penstock", *command, "--json", "--endpoint-url", self._server.url],
            text=True, capture_output=True, timeout=60, check=True,
        )  # fmt: skip
        return [json.loads(line) for line in done.stdout.splitlines()]

    def counts(self, pattern: str) -> dict[str, tuple[object, object]]:
        """Visible and in flight, by queue."""
        queues = self.json("queue", "ls", pattern)
        return {str(queue["name"]): (queue["visible"], queue["in_flight"]) for queue in queues}


@pytest.fixture(scope="module", params=[(), ("--processes", "2")], ids=["one process", "two processes"])
def reader(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    folder = tmp_path_factory.mktemp("on-call")
    with ServerProcess("--data", str(folder / "penstock-data"), *request.param) as server:
        yield Reader(folder, server)


def test_a_queue_grows(reader: Reader) -> None:
    output, failed = reader.play("A queue grows")
    assert failed == ["penstock doctor orders --late 0s"]
    assert "[no-consumers]" in output and "100 messages" in output
    assert reader.counts("orders*") == {"orders": (100, 0), "orders-dlq": (0, 0), "orders-later": (0, 0)}


def test_a_poison_message(reader: Reader) -> None:
    output, failed = reader.play("A poison message")
    assert failed == ["penstock doctor payments"]
    assert "[poison-message]" in output
    (message,) = reader.json("message", "ls", "payments")
    assert (message["body"], message["edited"], message["receives"]) == ('{"amount": 12}', True, 0)


def test_redrive_a_thousand(reader: Reader) -> None:
    output, failed = reader.play("Redrive a thousand")
    assert failed == []
    assert "1000" in output
    assert reader.counts("invoices*") == {"invoices": (990, 0), "invoices-dlq": (0, 0)}


def test_who_has_my_message(reader: Reader) -> None:
    output, failed = reader.play("Who has my message?")
    assert failed == []
    assert "127.0.0.1" in output and "received" in output
    assert reader.counts("shipments") == {"shipments": (0, 1)}


def test_restore_a_backup(reader: Reader) -> None:
    _, failed = reader.play("Restore a backup")
    assert failed == []
    assert reader.counts("stock") == {"stock": (50, 0)}


def test_the_shell(reader: Reader) -> None:
    output, failed = reader.play("The shell")
    assert failed == []
    assert "ERROR" not in output
    assert reader.counts("test*") == {"test": (4, 0), "test-dlq": (0, 0)}


def test_every_check_of_the_doctor_is_documented() -> None:
    source = (ROOT / "src/penstock/cli/server").glob("doctor*.py")
    names = re.compile(r'(?:PROBLEM|WARNING|HINT)[^"\n]*,\s+"([a-z-]+)"')
    checks = {name for file in source for name in names.findall(file.read_text())}
    documented = set(re.findall(r"^\| `([a-z-]+)` \| (?:hint|warning|problem)", _TEXT, re.MULTILINE))
    assert checks == documented
