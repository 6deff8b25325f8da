"""Every example of the documents of the client runs and prints what they say, and their tables are complete."""

from __future__ import annotations

import ast
import inspect
import itertools
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock import client as package
from penstock.client import Client, LargePayloads, Producer, Publisher, Retries
from penstock.client.actions import Actions
from penstock.client.consumer.retry import Exponential
from support.fake_s3 import FakeS3
from support.process import ServerProcess

FOLDER = Path(__file__).parent.parent.parent / "docs"
PAGES = {name: (FOLDER / f"{name}.md").read_text()
         for name in ("client", "producer", "publisher", "request-response", "large-payloads")}  # fmt: skip
_EXAMPLE = re.compile(r"```python\n(.*?)```\n\n```text\n(.*?)```", re.DOTALL)
EXAMPLES = [
    pytest.param(*example, id=f"{name}-{place}")
    for name, text in PAGES.items()
    for place, example in enumerate(_EXAMPLE.findall(text))
]


_accounts = itertools.count(300_000_000_000)  # one for each example, so that queues are its own


@pytest.mark.parametrize("page", PAGES)
def test_every_example_says_what_it_prints(page: str) -> None:
    assert len(_EXAMPLE.findall(PAGES[page])) == PAGES[page].count("```python") > 0


@pytest.fixture(scope="module")
def s3() -> Iterator[FakeS3]:
    with FakeS3() as running:
        yield running


@pytest.mark.parametrize(("script", "output"), EXAMPLES)
def test_an_example(server: ServerProcess, s3: FakeS3, tmp_path: Path, script: str, output: str) -> None:
    file = tmp_path / "example.py"
    file.write_text(script)
    environment = {
        **os.environ, "AWS_ENDPOINT_URL": server.url, "AWS_ENDPOINT_URL_S3": s3.url, "XDG_CONFIG_HOME": str(tmp_path),
        "AWS_ACCESS_KEY_ID": str(next(_accounts)), "AWS_SECRET_ACCESS_KEY": "any",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-W", "error", "-X", "dev", str(file)], env=environment, cwd=tmp_path,
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    # On a busy machine, asyncio in its debug mode remarks that a step took long.
    problems = [line for line in done.stderr.splitlines() if not re.search(r" took [\d.]+ seconds$", line)]
    assert (done.stdout, problems) == (output, [])


def rows(section: str, page: str = "client") -> list[list[str]]:
    text = PAGES[page].partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    lines = [line.strip("|").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line] for line in lines]


def test_settings_have_their_defaults() -> None:
    parameters = inspect.signature(Client.__init__).parameters
    documented = {name.strip("`"): default.strip("`") for name, default, _ in rows("Server and keys")[1:]}
    actual = {name: each.default for name, each in parameters.items() if name != "self"}
    assert {name: ast.literal_eval(default) for name, default in documented.items()} == actual
    fields = {name.strip("`"): default.strip("`") for name, default, _ in rows("Retries")[1:]}
    assert {name: ast.literal_eval(default) for name, default in fields.items()} == Retries()._asdict()


@pytest.mark.parametrize(
    ("page", "kind"), [("producer", Producer), ("publisher", Publisher), ("large-payloads", LargePayloads)]
)
def test_settings_of_other_pages_have_their_defaults(page: str, kind: type) -> None:
    documented = {name.strip("`"): default.strip("`") for name, default, _ in rows("Settings", page)[1:]}
    parameters = inspect.signature(kind).parameters.values()
    actual = {each.name: each.default for each in parameters if each.kind is each.KEYWORD_ONLY}
    assert {
        name: eval(default, {"Exponential": Exponential}) for name, default in documented.items()
    } == actual


def test_every_method_and_every_error_is_listed() -> None:
    listed = set(re.findall(r"`(\w+)`", " ".join(cell for row in rows("All methods") for cell in row)))
    methods = {
        name for name, _ in inspect.getmembers(Actions, inspect.isfunction) if not name.startswith("_")
    }
    assert methods == listed
    errors = set(re.findall(r"`([A-Z]\w+)`", " ".join(row[0] for row in rows("Errors"))))
    public = {name for module in ("errors", "credentials", "endpoint") for name in package._MODULES[module]}
    assert errors == public - {"KeySource", "SigningKeys"}
