"""The systemd unit keeps the sandbox that the documents promise, as far as systemd itself can tell."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
UNIT = ROOT / "docs/examples/penstock.service"
OFFLINE_SINCE = 250  # the version of systemd that can judge a unit that is not loaded
EXPOSURE_MAX = 1.5


def analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", *arguments], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.fixture(scope="module", autouse=True)
def _systemd() -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    version = re.search(r"systemd (\d+)", analyze("--version").stdout)
    if version is None or int(version[1]) < OFFLINE_SINCE:
        pytest.skip(f"systemd-analyze is older than {OFFLINE_SINCE}")


def test_the_unit_exposes_little() -> None:
    done = analyze("security", "--offline=yes", f"--threshold={EXPOSURE_MAX * 10:.0f}", str(UNIT))
    assert done.returncode == 0, done.stdout + done.stderr
    document = (ROOT / "docs/hardening.md").read_text()
    assert f"a test keeps it below {EXPOSURE_MAX}" in document


def test_the_service_may_write_where_the_documents_put_the_trail() -> None:
    paths = set(
        re.findall(r'audit = "(/[^"]+)"', "".join(page.read_text() for page in ROOT.glob("docs/*.md")))
    )
    assert paths
    writable = [Path("/var/log") / name for name in re.findall(r"(?m)^LogsDirectory=(.*)", UNIT.read_text())]
    assert all(Path(path).parent in writable for path in paths)


def test_systemd_understands_every_line(tmp_path: Path) -> None:
    """It wants the program to be there, so another one stands in."""
    text, replaced = re.subn(r"(?m)^ExecStart=.*", "ExecStart=/bin/true", UNIT.read_text())
    assert replaced == 1
    text = re.sub(r"(?m)^#(?=[A-Z]\w+=)", "", text)  # also those that are there to be uncommented
    unit = tmp_path / UNIT.name
    unit.write_text(text)
    done = analyze("verify", "--man=no", str(unit))
    complaints = [line for line in done.stderr.splitlines() if UNIT.name in line]
    assert done.returncode == 0 and not complaints, done.stderr
