"""The tutorial and the pages about patterns: every example runs and prints what its page says.

Workers that are killed in the middle are tested in tests/e2e/worker and tests/e2e/client, and here for what only
these pages have.
"""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from client.consumer.test_documented import PATIENCE_S, Reader
from penstock.client import SyncClient
from support.documents import ROOT, blocks
from support.process import ServerProcess
from support.waiting import until

PAGES = sorted((ROOT / "docs/patterns").glob("*.md"))
TUTORIAL = ROOT / "docs/tutorial.md"
_PYTHON, _SHELL, _TEXT = (rf"```{kind}\n((?:(?!```).)*)```" for kind in ("python", "sh", "text"))
APPLICATIONS = {
    page.stem: re.findall(f"{_PYTHON}\n\n{_SHELL}\n\n{_TEXT}", page.read_text(), re.DOTALL) for page in PAGES
}
PROGRAMS = {page.stem: re.findall(f"{_PYTHON}\n\n{_TEXT}", page.read_text(), re.DOTALL) for page in PAGES}


def test_every_page_begins_with_code_and_every_example_is_run() -> None:
    assert len(PAGES) == 8
    for page in PAGES:
        assert re.match(r"# [^\n]+\n\n```python\n", page.read_text()), page.name
        run = len(APPLICATIONS[page.stem]) + len(PROGRAMS[page.stem]) + (page.stem == "testing")
        assert run == len(blocks(page, "python")), page.name


@pytest.mark.parametrize("page", [name for name, found in APPLICATIONS.items() if found])
def test_an_application(server: ServerProcess, tmp_path: Path, page: str) -> None:
    ((source, commands, expected),) = APPLICATIONS[page]
    reader = prepared(Reader(tmp_path, server), source, commands)
    lines = len(expected.splitlines()) - ("@app.on_stop" in source)  # that one is printed after the signal
    assert sorted(reader.work("-m", "penstock", "worker", "jobs:app", lines=lines).splitlines()) == sorted(
        expected.splitlines()
    )


@pytest.mark.parametrize("page", [name for name, found in PROGRAMS.items() if found])
def test_a_program(server: ServerProcess, tmp_path: Path, page: str) -> None:
    for source, expected in PROGRAMS[page]:
        (tmp_path / "program.py").write_text(source)
        assert Reader(tmp_path, server).run("program.py") == expected


def test_the_tests_of_the_page_about_testing(tmp_path: Path) -> None:
    (source,) = blocks(ROOT / "docs/patterns/testing.md", "python")
    (tmp_path / "test_orders.py").write_text(source)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        ".",
        "test_orders.py",
    ]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert "3 passed" in done.stdout, done.stdout + done.stderr


def prepared(reader: Reader, source: str, commands: str) -> Reader:
    """All commands but the last, which starts the worker."""
    (reader.folder / "jobs.py").write_text(source)
    *preparation, start = commands.splitlines()
    assert start == "penstock worker jobs:app"
    for command in preparation:
        reader.run("-m", *shlex.split(command))
    return reader


# -- killed workers --------------------------------------------------------------------------------------------------


def killed_then_finished(reader: Reader, queues: list[str], server: ServerProcess, lines: int) -> list[str]:
    """What is printed after a worker of the first queue was killed in the middle of a message, and another one was
    started."""
    with SyncClient(endpoint_url=server.url) as client:
        for queue in queues:
            client.set_queue_attributes(queue, {"VisibilityTimeout": 2})
    victim = reader.start("-m", "penstock", "worker", "jobs:app", "--queue", queues[0])
    until((reader.folder / "begun").exists, "the handler has begun", PATIENCE_S)
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    assert reader.printed() == ""
    return sorted(reader.work("-m", "penstock", "worker", "jobs:app", lines=lines).splitlines())


HANG_ONCE = """
import pathlib
import time


def hang_once():
    if not pathlib.Path("begun").exists():
        pathlib.Path("begun").touch()
        time.sleep(3600)
"""


def test_a_reader_that_is_killed_gets_the_event_again_and_no_other_reader_does(
    server: ServerProcess, tmp_path: Path
) -> None:
    ((source, commands, _),) = APPLICATIONS["fan-out"]
    for name in ("placed", "bills", "parcels"):
        source = source.replace(f'"{name}"', f'"killed-{name}"')
        commands = re.sub(rf"\b{name}\b", f"killed-{name}", commands)
    handler = "async def bill(event: str):\n"
    assert handler in source
    source = source.replace(handler, f"{handler}    hang_once()\n")
    reader = prepared(Reader(tmp_path, server), HANG_ONCE + source, commands)
    printed = killed_then_finished(reader, ["killed-bills"], server, 3)
    assert printed == ["bill order 17", "bill order 18", "ship order 17"]


def test_a_large_payload_survives_a_worker_that_is_killed(server: ServerProcess, tmp_path: Path) -> None:
    ((source, commands, expected),) = APPLICATIONS["large-payloads"]
    source, commands = (text.replace("scans-in", "killed-scans") for text in (source, commands))
    handler, hook = "async def read_scan(body: str):\n", "async def send_one():\n"
    assert handler in source and hook in source
    source = source.replace(handler, f"{handler}    hang_once()\n")
    source = source.replace(hook, f'{hook}    if pathlib.Path("begun").exists():\n        return\n')
    reader = prepared(Reader(tmp_path, server), HANG_ONCE + source, commands)
    assert killed_then_finished(reader, ["killed-scans"], server, 1) == expected.splitlines()


# -- the tutorial ----------------------------------------------------------------------------------------------------


def test_the_tutorial(server: ServerProcess, tmp_path: Path) -> None:
    """Copy and paste, from the first terminal on. ``make serve`` is what runs already."""
    reader = Reader(tmp_path, server)
    jobs, send = blocks(TUTORIAL, "python")
    first, second = blocks(TUTORIAL, "text")
    (tmp_path / "jobs.py").write_text(jobs)
    (tmp_path / "send.py").write_text(send)
    outputs = iter([first, second])
    shown = ""
    for script in blocks(TUTORIAL, "sh")[2:]:
        for line in script.splitlines():
            program, *arguments = shlex.split(line)
            if line == "penstock worker jobs:app":
                expected = next(outputs)
                printed = reader.work("-m", program, *arguments, lines=len(expected.splitlines()))
                assert sorted(printed.splitlines()) == sorted(expected.splitlines())
            else:
                shown += reader.run(*(["-m", program] if program == "penstock" else []), *arguments)
    assert next(outputs, None) is None
    assert re.search(r"^coffee +standard +3\b", shown, re.MULTILINE), shown
