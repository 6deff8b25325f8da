"""The reports of different test tools, as lists of ``Case``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree


@dataclass(frozen=True)
class Case:
    name: str
    passed: bool


def from_junit(files: Iterable[Path]) -> list[Case]:
    """pytest, Maven and node write this format. A skipped case is not a passed one."""
    cases = []
    for file in sorted(files):
        for case in ElementTree.parse(file).iter("testcase"):
            passed = all(case.find(problem) is None for problem in ("failure", "error", "skipped"))
            cases.append(Case(case.attrib["name"], passed))
    return cases


def from_go(lines: Iterable[str]) -> list[Case]:
    """``go test -json``: an event in each line."""
    events = [json.loads(line) for line in lines if line.startswith("{")]
    ends = [event for event in events if "Test" in event and event["Action"] in ("pass", "fail", "skip")]
    return [Case(event["Test"], event["Action"] == "pass") for event in ends]


def from_cargo(lines: Iterable[str]) -> list[Case]:
    """``cargo test`` has no format for machines in its stable version; its lines read ``test name ... ok``."""
    ends = [re.match(r"test (\S+) \.\.\. (\w+)", line) for line in lines]
    return [Case(end[1], end[2] == "ok") for end in ends if end]
