"""``penstock worker``: applications that cannot be used, and a worker that starts again when its source changes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.command_line import CommandLine
from support.process import ServerProcess
from support.texts import says
from support.waiting import until
from support.worker_programs import PATIENCE_S, Application

HANDLER = """
from penstock.client import Worker
app = Worker()
@app.handler({queue!r})
async def handle(body: str):
    note({text!r}, body)
"""


def worker(folder: Path, endpoint: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "penstock", "worker", *arguments]
    environment = {**os.environ, "AWS_ENDPOINT_URL": endpoint}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["missing:app"], 'no module "missing"'),
        (["missing"], 'no module "missing"'),
        (["jobs:other"], '"other" "jobs" nothing penstock.client.Worker'),
        (["jobs:number"], '"number" "jobs" int'),
        (["broken:app"], '"broken" ZeroDivisionError: division by zero'),
        (["incomplete:app"], "\"incomplete\" ModuleNotFoundError: 'nix'"),
        (["jobs:app", "--queue", "bills"], 'no handler queue "bills" nowhere'),
        (["jobs:app"], 'no queue "nowhere"'),
        (["empty"], "application no handlers"),
        (["jobs:app", "--endpoint-url", "nonsense"], '"nonsense" not endpoint'),
        (["jobs:app", "--profile", "nobody"], 'no profile "nobody"'),
    ],
)
def test_an_application_that_cannot_be_used(
    broker: ServerProcess, tmp_path: Path, arguments: list[str], problem: str
) -> None:
    Application(tmp_path, HANDLER.format(queue="nowhere", text="") + "number = 17\n", broker.url)
    (tmp_path / "broken.py").write_text("1 / 0\n")
    (tmp_path / "incomplete.py").write_text("import nix\n")
    (tmp_path / "empty.py").write_text("from penstock.client import Worker\napp = Worker()\n")
    done = worker(tmp_path, broker.url, *arguments)
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]
    assert last.startswith("penstock: "), done.stderr
    says(last, *problem.split())
    assert ("Traceback" in done.stderr) == (arguments[0] in ("broken:app", "incomplete:app"))


def test_the_application_is_required(tmp_path: Path) -> None:
    done = worker(tmp_path, "http://127.0.0.1:1")
    assert done.returncode == 2 and "Missing argument 'MODULE:APP'" in done.stderr


def test_flags_take_precedence_over_the_application(
    broker: ServerProcess, penstock: CommandLine, tmp_path: Path
) -> None:
    penstock.done("queue", "create", "chosen")
    source = HANDLER.format(queue="chosen", text="got").replace(
        "Worker()", 'Worker(endpoint_url="http://127.0.0.1:1")'
    )
    jobs = Application(tmp_path, source, "http://127.0.0.1:2")
    arguments = ("--endpoint-url", broker.url, "--concurrency", "3", "--log-level", "debug")
    with jobs.start(*arguments) as running:
        (line,) = [line for line in running.log if line["message"] == "consuming"]
        assert (line["queue"], line["concurrency"]) == ("chosen", 3)
        penstock.done("message", "send", "chosen", "x")
        jobs.until_noted("got x")
        assert running.stop() == 0


def test_in_a_terminal_logs_are_for_people(penstock: CommandLine, tmp_path: Path) -> None:
    penstock.done("queue", "create", "shown")
    source = (
        HANDLER.format(queue="shown", text="got")
        + "import logging\nlogging.getLogger('shop').info('imported')\n"
    )
    Application(tmp_path, source, penstock.endpoint)
    process = penstock.spawn("worker", "jobs:app", PYTHONPATH=str(tmp_path))
    process.expect("info    imported")
    process.expect("info    consuming  queue=shown")
    process.sendintr()
    process.expect("info    SIGINT: finishing")
    process.expect("info    stopped")
    process.wait()
    assert process.exitstatus == 0


def test_it_starts_again_when_a_file_changes(penstock: CommandLine, tmp_path: Path) -> None:
    penstock.done("queue", "create", "edited")
    jobs = Application(tmp_path, HANDLER.format(queue="edited", text="first"), penstock.endpoint)
    with jobs.start("--reload") as running:
        penstock.done("message", "send", "edited", "a")
        jobs.until_noted("first a")
        jobs.write("this is no Python")
        running.until_logged("the worker ended")
        jobs.write(HANDLER.format(queue="edited", text="second"))
        running.until_logged("consuming", times=2)
        penstock.done("message", "send", "edited", "b")
        jobs.until_noted("second b")
        running.signal(signal.SIGINT)
        assert running.ended() == 0
    assert running.messages().count("a file changed: starting again") == 2


def test_reloading_passes_a_second_signal_on(penstock: CommandLine, tmp_path: Path) -> None:
    penstock.done("queue", "create", "hanging")
    source = (
        HANDLER.format(queue="hanging", text="begins") + "    import asyncio\n    await asyncio.sleep(600)\n"
    )
    jobs = Application(tmp_path, source, penstock.endpoint)
    with jobs.start("--reload") as running:
        penstock.done("message", "send", "hanging", "x")
        jobs.until_noted("begins x")
        running.signal(signal.SIGTERM)
        running.until_logged("SIGTERM: finishing")
        running.signal(signal.SIGTERM)
        assert running.ended() == 128 + signal.SIGTERM
    until(lambda: penstock.json("queue", "show", "hanging")["visible"] == 1, "it is given back")
