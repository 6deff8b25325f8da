"""The order application of docs/examples, on Penstock; the one on boto3 and moto is run by ``make test-clients``."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest

from support.documents import ROOT

EXAMPLES = ROOT / "docs/examples"
_NOT_COUNTED = (
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING,
    tokenize.ENDMARKER,
)  # fmt: skip


def lines_of(file: Path) -> int:
    """Counts lines without blank lines, comments and documentation strings."""
    counted: set[int] = set()
    begins = True  # of a statement
    for token in tokenize.tokenize(io.BytesIO(file.read_bytes()).readline):
        if token.type not in _NOT_COUNTED and not (begins and token.type == tokenize.STRING):
            counted.update(range(token.start[0], token.end[0] + 1))
        begins = token.type in _NOT_COUNTED
    return len(counted)


def rows() -> list[str]:
    """Returns the rows of the table in docs/examples.md."""
    found = []
    for name, folder in (("Penstock", "orders_penstock"), ("boto3 and moto", "orders_boto3")):
        application, tests = (lines_of(EXAMPLES / folder / file) for file in ("orders.py", "test_orders.py"))
        found.append(f"| {name} | {application} | {tests} | {application + tests} |")
    return found


@pytest.mark.slow
def test_the_orders_on_penstock_pass_their_tests(tmp_path: Path) -> None:
    folder = shutil.copytree(EXAMPLES / "orders_penstock", tmp_path / "orders")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", ".", "."]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=180, check=False)
    assert "3 passed" in done.stdout, done.stdout + done.stderr


def test_both_applications_are_tested_alike() -> None:
    ours, theirs = (
        re.findall(r"^def (test_\w+)", (EXAMPLES / folder / "test_orders.py").read_text(), re.MULTILINE)
        for folder in ("orders_penstock", "orders_boto3")
    )
    assert ours == theirs and len(ours) == 3


def test_the_lines_are_counted_and_those_on_penstock_are_fewer() -> None:
    table = (ROOT / "docs/examples.md").read_text().partition("<!-- lines: begin -->")[2]
    assert rows() == [
        line for line in table.partition("<!-- lines: end -->")[0].splitlines() if line[2:3].isalpha()
    ]
    ours, theirs = (int(row.split(" | ")[-1].strip(" |")) for row in rows())
    assert ours < theirs
