"""The order application of docs/examples on boto3 and moto."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[3] / "docs/examples/orders_boto3"


def test_the_orders_on_boto3_pass_their_tests(tmp_path: Path) -> None:
    folder = shutil.copytree(EXAMPLE, tmp_path / "orders")  # away from the settings of this repository
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", ".", "."]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=180, check=False)
    assert "3 passed" in done.stdout, done.stdout + done.stderr
