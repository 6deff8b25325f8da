"""Every example of docs/client.md runs and prints what the document says, and its tables are complete."""

from __future__ import annotations

import ast
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.process import ServerProcess
from penstock import client as package
from penstock.client import Client, Retries
from penstock.client.actions import Actions

DOCUMENT = (Path(__file__).parent.parent.parent / "docs/client.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", DOCUMENT, re.DOTALL)


def test_every_example_says_what_it_prints() -> None:
    assert len(EXAMPLES) == DOCUMENT.count("```python")


@pytest.mark.parametrize(("script", "output"), EXAMPLES, ids=range(len(EXAMPLES)))
def test_an_example(server: ServerProcess, tmp_path: Path, script: str, output: str) -> None:
    file = tmp_path / "example.py"
    file.write_text(script)
    environment = {**os.environ, "AWS_ENDPOINT_URL": server.url, "XDG_CONFIG_HOME": str(tmp_path)}
    command = [sys.executable, "-W", "error", "-X", "dev", str(file)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout, done.stderr) == (output, "")


def rows(section: str) -> list[list[str]]:
    text = DOCUMENT.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    lines = [line.strip("|").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line] for line in lines]


def test_settings_have_their_defaults() -> None:
    parameters = inspect.signature(Client.__init__).parameters
    documented = {name.strip("`"): default.strip("`") for name, default, _ in rows("Server and keys")[1:]}
    actual = {name: each.default for name, each in parameters.items() if name != "self"}
    assert {name: ast.literal_eval(default) for name, default in documented.items()} == actual
    fields = {name.strip("`"): default.strip("`") for name, default, _ in rows("Retries")[1:]}
    assert {name: ast.literal_eval(default) for name, default in fields.items()} == Retries()._asdict()


def test_every_method_and_every_error_is_listed() -> None:
    listed = set(re.findall(r"`(\w+)`", " ".join(cell for row in rows("All methods") for cell in row)))
    methods = {
        name for name, _ in inspect.getmembers(Actions, inspect.isfunction) if not name.startswith("_")
    }
    assert methods == listed
    errors = set(re.findall(r"`([A-Z]\w+)`", " ".join(row[0] for row in rows("Errors"))))
    public = {name for module in ("errors", "credentials", "endpoint") for name in package._MODULES[module]}
    assert errors == public - {"KeySource", "SigningKeys"}
