"""A warning before the disk is full."""

from __future__ import annotations

import json
import signal
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from penstock.server.disk_space import Disk, DiskSpace, watched_directories
from penstock.server.settings.config import Config
from support.process import ServerProcess
from support.rows import every_row
from support.texts import says
from support.waiting import until

MIB, GIB = 1024**2, 1024**3
HERE = Path("here")


@every_row(
    ("disk", "warn_below", "is_low"),
    [
        (Disk(20 * GIB, 3 * GIB), 0, False),
        (Disk(20 * GIB, 1 * GIB), 0, True),  # less than a tenth
        (Disk(1000 * GIB, 11 * GIB), 0, False),  # never more than 10 GB
        (Disk(1000 * GIB, 9 * GIB), 0, True),
        (Disk(1 * GIB, 120 * MIB), 0, True),  # never less than 128 MB,
        (Disk(64 * MIB, 20 * MIB), 0, False),  # except on a tiny disk
        (Disk(20 * GIB, 3 * GIB), 4 * GIB, True),
        (Disk(20 * GIB, 1 * GIB), 1 * MIB, False),
    ],
)
def test_when_a_disk_is_low(disk: Disk, warn_below: int, is_low: bool) -> None:
    assert bool(DiskSpace([HERE], warn_below, lambda _: disk).shown()) == is_low


def test_the_log_says_it_when_it_begins_every_hour_and_when_it_ends(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "penstock")
    disk = Disk(20 * GIB, 1 * GIB)
    space = DiskSpace([HERE, HERE], 0, lambda _: disk)

    def logged(at_s: float) -> str:
        caplog.clear()
        space.check(at_s)
        return caplog.text

    assert logged(0).count("1.0 GB of 20.0 GB") == 1
    assert not logged(30) and not logged(61) and not logged(3500)
    assert "nearly full" in logged(3700)
    disk = Disk(20 * GIB, 5 * GIB)
    says(logged(3800), "free space", "again")
    assert not logged(3900)


def test_what_is_watched(tmp_path: Path) -> None:
    assert watched_directories(Config(data=tmp_path)) == [tmp_path]
    assert watched_directories(Config(memory=True)) == []
    assert watched_directories(Config(data=tmp_path, audit="/a/b.jsonl")) == [tmp_path, Path("/a")]
    assert DiskSpace([tmp_path / "missing"], GIB).shown() == ""


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_server_warns_and_stays_ready(tmp_path: Path, processes: str) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text('disk_warning = "1000TB"\n')
    arguments = ("--config", str(file), "--data", str(tmp_path / "data"), "--processes", processes)
    with ServerProcess(*arguments) as server:

        def page() -> dict[str, Any]:
            with urllib.request.urlopen(f"{server.url}/health/ready", timeout=20) as answer:
                found: dict[str, Any] = json.load(answer)
                return found

        assert page()["status"] == "ready" and page()["disk"].endswith("are free")
        until(lambda: any("nearly full" in line for line in server.log), "a warning")
        (line,) = (json.loads(line) for line in server.log if "nearly full" in line)
        assert line["level"] == "warning"
        file.write_text('disk_warning = "1"\n')
        server.process.send_signal(signal.SIGHUP)
        until(lambda: all("disk" not in page() for _ in range(6)), "every process has reloaded")
        server.stop()
