"""Every example of docs/worker.md runs and prints what the document says, and its tables are complete."""

from __future__ import annotations

import dataclasses
import inspect
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.client.consumer.context import MessageContext
from penstock.client.consumer.settings import ConsumerSettings
from support.process import ServerProcess
from support.waiting import until

DOCUMENT = (Path(__file__).parent.parent.parent.parent / "docs/worker.md").read_text()
_PYTHON, _SHELL, _TEXT = (rf"```{kind}\n((?:(?!```).)*)```" for kind in ("python", "sh", "text"))
APPLICATIONS = re.findall(f"{_PYTHON}\n\n{_SHELL}\n\n{_TEXT}", DOCUMENT, re.DOTALL)
PROGRAMS = re.findall(f"{_PYTHON}\n\n{_TEXT}", DOCUMENT, re.DOTALL)
PATIENCE_S = 60.0


def test_every_example_is_run() -> None:
    assert len(APPLICATIONS) + len(PROGRAMS) == DOCUMENT.count("```python") > 8


class Reader:
    """Follows an example in a folder of its own."""

    def __init__(self, folder: Path, server: ServerProcess) -> None:
        self.folder = folder
        environment = {
            "AWS_ENDPOINT_URL": server.url,
            "XDG_CONFIG_HOME": str(folder),
        }
        self._environment = {**os.environ, **environment}

    def run(self, *command: str) -> str:
        done = subprocess.run(
            [sys.executable, *command], cwd=self.folder, env=self._environment, capture_output=True, text=True,
            timeout=PATIENCE_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start(self, *command: str) -> subprocess.Popen[bytes]:
        with (self.folder / "output").open("w") as output, (self.folder / "log").open("w") as log:
            return subprocess.Popen(
                [sys.executable, *command], cwd=self.folder, env=self._environment, stdout=output, stderr=log
            )

    def work(self, *command: str, lines: int) -> str:
        """A worker that is stopped when it has printed enough."""
        process = self.start(*command)
        try:
            until(
                lambda: self.printed().count("\n") >= lines or process.poll() is not None,
                "output",
                PATIENCE_S,
            )
            process.terminate()
            assert process.wait(PATIENCE_S) == 0, (self.folder / "log").read_text()
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        return self.printed()

    def printed(self) -> str:
        return (self.folder / "output").read_text()


@pytest.mark.parametrize(("source", "commands", "expected"), APPLICATIONS, ids=range(len(APPLICATIONS)))
def test_an_application(
    server: ServerProcess, tmp_path: Path, source: str, commands: str, expected: str
) -> None:
    reader = Reader(tmp_path, server)
    (tmp_path / "jobs.py").write_text(source)
    *preparation, start = commands.splitlines()
    for command in preparation:
        reader.run("-m", *shlex.split(command))
    lines = len(expected.splitlines()) - ("@app.on_stop" in source)  # that one is printed after the signal
    printed = reader.work("-m", *shlex.split(start), lines=lines)
    assert sorted(printed.splitlines()) == sorted(expected.splitlines())
    if "GiveUp(" in source:
        (show,) = re.findall(r"^penstock dlq show .*$", DOCUMENT, re.MULTILINE)
        until(lambda: "unknown country" in reader.run("-m", *shlex.split(show)), "the reason", PATIENCE_S)


@pytest.mark.parametrize(("source", "expected"), PROGRAMS, ids=range(len(PROGRAMS)))
def test_a_program(server: ServerProcess, tmp_path: Path, source: str, expected: str) -> None:
    (tmp_path / "program.py").write_text(source)
    assert Reader(tmp_path, server).run("program.py") == expected


def rows(section: str) -> list[list[str]]:
    text = DOCUMENT.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    lines = [line.strip("|").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line] for line in lines]


def test_every_setting_is_documented_with_its_default() -> None:
    documented = {row[0].strip("`"): row[1] for row in rows("Settings")[1:]}
    defaults = ConsumerSettings()
    actual = {field.name: getattr(defaults, field.name) for field in dataclasses.fields(defaults)}
    assert documented.pop("retry") == "RetryPolicy()" and actual.pop("retry")
    assert documented == {name: str(value) for name, value in actual.items()}


def test_everything_of_the_context_is_documented() -> None:
    listed = {name for row in rows("Handlers") for name in re.findall(r"`(\w+)(?:\(.*?\))?`", row[0])}
    methods = {name for name in vars(MessageContext) if not name.startswith("_")}
    assigned = set(
        re.findall(r"^        self\.([a-z]\w*)\b", inspect.getsource(MessageContext.__init__), re.MULTILINE)
    )
    assert (methods | assigned) - {"visibility_timeout", "lease_lost"} <= listed
