"""Runs AWS's libraries for Java as commands."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

TARGET = Path(__file__).resolve().parents[3] / ".clients" / "java_tools" / "target"
_COMMAND_S_MAX = 120


def java(tool: str, *arguments: str, reach: dict[str, str], s3_url: str = "", said: str = "") -> str:
    """What the class prints for these arguments, with ``said`` on its standard input."""
    environment = {
        **os.environ,
        "SQS_ENDPOINT": reach["endpoint_url"],
        "SQS_ACCOUNT": reach["aws_access_key_id"],
        "S3_ENDPOINT": s3_url,
    }
    path = f"{TARGET / 'classes'}{os.pathsep}{TARGET / 'libraries'}{os.sep}*"
    done = subprocess.run(
        ["java", "-Dfile.encoding=UTF-8", "-cp", path, f"penstock.{tool}", *arguments],
        input=said, capture_output=True, encoding="utf-8", env=environment, timeout=_COMMAND_S_MAX, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout
