"""What tasks leave behind for the test: a line for each run, in the file that RUNS names."""

from __future__ import annotations

import json
import os
import time


def leave_line(name: str) -> None:
    with open(os.environ["RUNS"], "a") as runs:
        runs.write(json.dumps({"name": name, "at": time.time(), "worker": os.getpid()}) + "\n")


def take_time(name: str, seconds: float) -> None:
    """Work that leaves a line at its start and at its end."""
    leave_line(name)
    time.sleep(seconds)
    leave_line(f"{name} done")
