"""The cluster of three nodes in docs/scaling.md starts by copy and paste."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("psycopg", reason="run make setup: it brings psycopg")

from support.documents import ROOT, blocks, committable
from support.postgres import running_postgres
from support.process import free_port
from support.texts import says

_BLOCKS = blocks(ROOT / "docs/scaling.md", "sh")
_STARTED_WITHIN_S = 60


def block(containing: str) -> str:
    (found,) = [block for block in _BLOCKS if containing in block]
    return found


class Shell:
    """Runs what a reader would paste, with other ports and another database."""

    def __init__(self, folder: Path, replaced: dict[str, str]) -> None:
        self._folder = folder
        self._replaced = replaced
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self._environment = {**os.environ, "PATH": path}

    def command(self, script: str) -> str:
        for old, new in self._replaced.items():
            assert old in "".join(_BLOCKS), f"{old} is no longer in the document"
            script = script.replace(old, new)
        return script

    def run(self, script: str) -> str:
        done = subprocess.run(
            ["bash", "-eu"], input=self.command(script), cwd=self._folder, env=self._environment, text=True,
            capture_output=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start(self, script: str) -> subprocess.Popen[str]:
        """Stays until its background processes end."""
        return subprocess.Popen(
            ["bash", "-euc", f"{self.command(script)}\nwait"], cwd=self._folder, env=self._environment, text=True,
            stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with running_postgres() as database:
        ports = ("9324", "9325", "9326", "9401", "9402", "9403")
        url = "postgresql://penstock:penstock@127.0.0.1:5432/penstock"
        replaced = {port: str(free_port()) for port in ports}
        yield Shell(tmp_path, {url: database.url(database.new_database()), **replaced})


def test_three_nodes_by_copy_and_paste(shell: Shell, tmp_path: Path) -> None:
    settings, starting = block("PENSTOCK_STORE=postgresql://penstock:"), block("--advertise 127.0.0.1:9401")
    using, steering = block("three ristretti"), block("cluster drain 127.0.0.1:9402")
    nodes = shell.start(f"{settings}\n{starting}")
    try:
        deadline = time.monotonic() + _STARTED_WITHIN_S
        while not _all_serve(shell, settings):
            assert nodes.poll() is None and time.monotonic() < deadline, "the nodes did not start"
            time.sleep(0.2)
        output = shell.run(f"{settings}\n{using}")
        assert '"Body": "three ristretti"' in output
        drained, undrained, moved = shell.run(f"{settings}\n{steering}").splitlines()
        assert drained.endswith("is drained") and undrained.endswith("gets shards again")
        says(moved, "shard 7", "served by")
        assert committable({file.name + "/" * file.is_dir() for file in tmp_path.iterdir()}) == set()
    finally:
        os.killpg(nodes.pid, signal.SIGKILL)
        nodes.wait(30)


def _all_serve(shell: Shell, settings: str) -> bool:
    status = shell.run(f"{settings}\npenstock cluster status --json || true")
    if not status:
        return False
    view = json.loads(status)
    owners = {shard["owner"] for shard in view["shards"]}
    return len(owners - {None}) == 3 and all(shard["served"] for shard in view["shards"])
