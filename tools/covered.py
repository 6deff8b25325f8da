"""Prints which share of the lines of each package a test run has reached. ``make coverage`` runs it.

It reads what ``coverage json -o -`` writes. The figures are for people: nothing fails because of them.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import PurePath


def main() -> None:
    statements: defaultdict[str, int] = defaultdict(int)
    reached: defaultdict[str, int] = defaultdict(int)
    for name, file in json.load(sys.stdin)["files"].items():
        parts = PurePath(name).parts
        below = parts[parts.index("penstock") + 1 :]
        for package in (below[0] if len(below) > 1 else "(top level)", "all"):
            statements[package] += file["summary"]["num_statements"]
            reached[package] += file["summary"]["covered_lines"]
    for package in sorted(statements, key=lambda each: (each == "all", each)):
        share = reached[package] / (statements[package] or 1)
        print(f"  {package:12} {share:6.1%} of {statements[package]:6,} statements")


if __name__ == "__main__":
    main()
