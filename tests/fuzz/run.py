"""Runs the targets under the coverage-guided engine, one after the other: ``make fuzz``.

    python -m fuzz.run                          all targets, a minute together
    python -m fuzz.run policy sigv4 --seconds 600
    python -m fuzz.run --runs 1000000           this many inputs together
    python -m fuzz.run sigv4 --replay FILE      one input of an earlier failure, without the engine

Time and inputs are divided by the targets' weights. All targets run, also after one has failed; then the exit code
is 1. The engine's output is in ``.fuzz/NAME/log``, failing inputs are in ``.fuzz/NAME/crashes``.
"""

from __future__ import annotations

import re
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from importlib.util import find_spec
from pathlib import Path
from platform import machine
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from fuzz.targets import SHARES, load

FOLDER = Path(".fuzz")
SECONDS = 60
LOG_LINES_SHOWN = 40
START_S_MAX = 120  # in addition to its time limit: it reads the corpus first

_EXECUTED = re.compile(r"stat::number_of_executed_units: +(\d+)")
_PER_SECOND = re.compile(r"stat::average_exec_per_sec: +(\d+)")
_COVERED = re.compile(r"cov: (\d+)")
_MEMORY = re.compile(r"rss: (\d+)Mb")
_SLOWEST = re.compile(r"slowest: ([\d.]+) ms")


class Report(NamedTuple):
    name: str
    passed: bool
    log: str

    @property
    def cells(self) -> list[str]:
        begun = self.log.partition("\tINITED ")[2]
        return [
            self.name,
            _last(_EXECUTED, self.log),
            _last(_PER_SECOND, self.log),
            _last(_COVERED, self.log),
            f"{_first(_MEMORY, begun)} → {_last(_MEMORY, begun)}",
            _last(_SLOWEST, self.log),
            "ok" if self.passed else "FAILED",
        ]


def main() -> int:
    asked = _arguments()
    if asked.replay is not None:
        (name,) = asked.targets
        load(name).check(asked.replay.read_bytes())
        print(f"{name}: the input passes every check")
        return 0
    if find_spec("atheris") is None:
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        print(f"skipped: there is no wheel of atheris for Python {version} on {sys.platform} {machine()}")
        return 0
    reports = [_fuzzed(name, asked) for name in asked.targets or SHARES]
    _show(reports)
    return 0 if all(report.passed for report in reports) else 1


def _arguments() -> Namespace:
    parser = ArgumentParser(prog="fuzz.run", description="Fuzz everything that untrusted clients reach.")
    parser.add_argument("targets", nargs="*", help=f"some of: {' '.join(SHARES)}")
    parser.add_argument("--seconds", type=int, help=f"for all together; default {SECONDS}")
    parser.add_argument("--runs", type=int, help="inputs for all together")
    parser.add_argument("--seed", type=int, help="seed of the random generator, to repeat a run")
    parser.add_argument("--replay", type=Path, help="a file with one input, for one target")
    asked = parser.parse_args()
    unknown = set(asked.targets) - set(SHARES)
    if unknown:
        parser.error(f"no such target: {', '.join(sorted(unknown))}")
    if asked.replay is not None and len(asked.targets) != 1:
        parser.error("--replay needs the name of the one target")
    if asked.seconds is None and asked.runs is None:
        asked.seconds = SECONDS
    return asked


def _fuzzed(name: str, asked: Namespace) -> Report:
    share = SHARES[name] / sum(SHARES[each] for each in asked.targets or SHARES)
    limits = []
    if asked.seconds is not None:
        limits.append(f"-max_total_time={max(1, round(asked.seconds * share))}")
    if asked.runs is not None:
        limits.append(f"-runs={max(1, round(asked.runs * share))}")
    if asked.seed is not None:
        limits.append(f"-seed={asked.seed}")
    folder = FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
    print(f"{name} ...", flush=True)
    with (folder / "log").open("w+", errors="replace") as log:
        command = [sys.executable, "-m", "fuzz.engine", name, str(folder), *limits]
        timeout = asked.seconds * share + START_S_MAX if asked.seconds is not None else None
        try:
            code = subprocess.run(command, stdout=log, stderr=log, timeout=timeout).returncode
        except subprocess.TimeoutExpired:
            code = 1
        log.seek(0)
        return Report(name, code == 0, log.read())


def _show(reports: list[Report]) -> None:
    console = Console(soft_wrap=True)
    for report in reports:
        if not report.passed:
            console.print(f"\n{report.name} failed:", style="bold")
            console.print(
                "\n".join(report.log.splitlines()[-LOG_LINES_SHOWN:]), markup=False, highlight=False
            )
            console.print(
                f"To repeat it: python -m fuzz.run {report.name} --replay {FOLDER / report.name}/crashes/..."
            )
    table = Table("target", "inputs", "a second", "coverage", "MiB", "slowest ms", "result")
    for report in reports:
        table.add_row(*report.cells)
    console.print(table)


def _first(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return found[1] if found else "-"


def _last(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.findall(text)
    return found[-1] if found else "-"


if __name__ == "__main__":
    sys.exit(main())
