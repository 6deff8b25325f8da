"""Runs every client against a real server: ``make test-clients``, or some of them: ``ARGS="go rust"``.

As many suites run at once as there are processors. A suite whose tool is missing is skipped with the reason.
Everything else that does not pass is a failure, also a client that cannot be installed and a suite without cases. The
results are shown as a table and kept in ``.clients/results.json``, the output of each suite in ``.clients/NAME.log``;
its end is shown after a failure.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from clients.reports import Case
from clients.suites import CACHE, SUITES, Suite
from support.certificates import write_certificate
from support.process import ServerProcess

COMMAND_S_MAX = 600
LOG_LINES_SHOWN = 60
WHY_SHOWN = 100


@dataclass
class Result:
    client: str
    result: str
    version: str = ""
    cases: int = 0
    names: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    why: str = ""


class Failed(Exception):
    """A command ended with an error or not at all."""


class Runner:
    """Runs the commands of one suite and keeps their output."""

    def __init__(self, log: Path, endpoint: str | None, authority: Path | None = None) -> None:
        """``authority``: of the server's certificate."""
        self.log = log
        self.strict = True
        self.code = 0  # what the last command ended with
        # Settings of the user must not reach a client: no profile, no key, no endpoint.
        self._environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "PENSTOCK_"))
        }
        self._environment |= {"AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": os.devnull}
        if endpoint is not None:
            self._environment["SQS_ENDPOINT"] = endpoint
        if authority is not None:
            self._environment["NODE_EXTRA_CA_CERTS"] = str(authority)

    def __call__(self, command: Sequence[str | Path], folder: Path) -> str:
        process = subprocess.Popen(
            command, cwd=folder, env=self._environment, stdin=subprocess.DEVNULL, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        )  # fmt: skip
        try:
            said, _ = process.communicate(timeout=COMMAND_S_MAX)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            said = process.communicate()[0] + f"\nended after {COMMAND_S_MAX} s\n"
        with self.log.open("a") as log:
            log.write(f"$ {' '.join(map(str, command))}\n{said}")
        self.code = process.returncode
        if self.strict and self.code != 0:
            raise Failed(f"{command[0]} {command[1]} ended with {self.code}")
        return said


def try_client(suite: Suite) -> Result:
    for tool in suite.tools:
        if (why := tool.missing()) is not None:
            return Result(suite.client, "skipped", why=why)
    log = CACHE / f"{suite.name}.log"
    log.write_text("")
    try:
        tls = write_certificate(CACHE / f"{suite.name}-tls") if suite.needs_tls else None
        flags = () if tls is None else ("--tls-certificate", str(tls.certificate), "--tls-key", str(tls.key))
        with ServerProcess("--memory", *flags) if suite.needs_server else nullcontext() as server:
            endpoint = server.facts["listening"] if server is not None else None
            run = Runner(log, endpoint, None if tls is None else tls.authority)
            suite.install(run)
            version = suite.version(run)
            run.strict = False  # a tool ends with an error when a case failed: the report says which
            cases = suite.cases(run)
            if server is not None and server.process.poll() is not None:
                raise Failed("the server died")
    except (
        Failed,
        AssertionError,
        OSError,
        ValueError,
        SyntaxError,
    ) as error:  # also: the server did not start
        with log.open("a") as file:
            file.write(f"{error}\n")
        return Result(suite.client, "failed", why=str(error)[:WHY_SHOWN])
    return judge(suite, version, cases, run.code)


def judge(suite: Suite, version: str, cases: list[Case], code: int) -> Result:
    names = [case.name for case in cases]
    failed = [case.name for case in cases if not case.passed]
    why = ""
    if not cases:
        why = "no case was run"
    elif code != 0 and not failed:
        why = f"no case failed, but the tool ended with {code}"
    return Result(
        suite.client, "failed" if failed or why else "passed", version, len(cases), names, failed, why
    )


def try_and_show(console: Console, suite: Suite) -> Result:
    started = time.monotonic()
    result = try_client(suite)
    took = f"{time.monotonic() - started:.0f} s"
    said = f"{suite.client} {result.version}: {result.result}, {result.cases} cases, {took}"
    if result.result == "failed":
        said += "\n" + end_of_log(suite)
    console.print(said, markup=False, highlight=False)  # in one go: others print, too
    return result


def end_of_log(suite: Suite) -> str:
    return "\n".join((CACHE / f"{suite.name}.log").read_text().splitlines()[-LOG_LINES_SHOWN:])


def show_table(console: Console, results: list[Result]) -> None:
    table = Table("client", "version", "cases", "result")
    for one in results:
        about = ", ".join(one.failed) or one.why
        table.add_row(one.client, one.version, str(one.cases), f"{one.result}{': ' if about else ''}{about}")
    console.print(table)


def main(wanted: list[str]) -> int:
    console = Console(width=None if sys.stdout.isatty() else 110)
    suites = [
        suite
        for suite in SUITES
        if not wanted or any(word.lower() in suite.name.split("-") for word in wanted)
    ]
    if not suites:
        console.print(f"No such client. There are: {', '.join(suite.client for suite in SUITES)}")
        return 2
    CACHE.mkdir(exist_ok=True)

    def try_those(several: list[Suite]) -> list[Result]:
        return [try_and_show(console, suite) for suite in several]

    groups: dict[str, list[Suite]] = {}
    for suite in suites:
        groups.setdefault(suite.alone_in or suite.name, []).append(suite)
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        # The largest groups come first, so that none of them is left for the end.
        tried = threads.map(try_those, sorted(groups.values(), key=len, reverse=True))
        by_client = {one.client: one for group in tried for one in group}
    results = [by_client[suite.client] for suite in suites]
    (CACHE / "results.json").write_text(json.dumps([asdict(one) for one in results], indent=2) + "\n")
    show_table(console, results)
    return 1 if any(one.result == "failed" for one in results) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
