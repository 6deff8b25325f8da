"""The image of deploy/Dockerfile, as far as that can be tested without building it."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import tomllib
from collections import defaultdict
from pathlib import Path

import pytest

from penstock.server.settings.load import load_config
from support.documents import ROOT
from support.process import ServerProcess


def dockerfile() -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """The instructions of both stages, by their names."""
    text = re.sub(r"^#.*\n", "", (ROOT / "deploy/Dockerfile").read_text(), flags=re.MULTILINE).replace(
        "\\\n", " "
    )
    stages: list[dict[str, list[str]]] = []
    for line in text.splitlines():
        name, _, rest = line.partition(" ")
        if name == "FROM":
            stages.append(defaultdict(list))
        if name:
            stages[-1][name].append(" ".join(rest.split()))
    build, image = stages
    return build, image


BUILD, IMAGE = dockerfile()
(USER,) = IMAGE["USER"]
(VOLUME,) = IMAGE["VOLUME"]


def test_the_settings_of_the_image() -> None:
    (line,) = IMAGE["ENV"]
    environment = dict(each.split("=", 1) for each in line.split())
    config = load_config({}, {name: value for name, value in environment.items() if name != "PATH"})
    (address,) = config.addresses
    assert address.host == "0.0.0.0"
    assert [str(address.port)] == IMAGE["EXPOSE"]
    assert str(config.data) == VOLUME
    assert f"-m 0700 {VOLUME}" in IMAGE["RUN"][0] and f"--uid {USER} " in IMAGE["RUN"][0]


def test_the_image_runs_the_server_itself_as_its_first_process() -> None:
    assert [json.loads(each) for each in IMAGE["ENTRYPOINT"]] == [["penstock", "serve"]]
    (check,) = IMAGE["HEALTHCHECK"]
    assert json.loads(check.partition(" CMD ")[2]) == ["penstock", "health"]


def test_the_image_is_built_from_nothing_but_what_it_needs() -> None:
    copied = {source for line in BUILD["COPY"] for source in line.split()[:-1]}
    sent = (ROOT / ".dockerignore").read_text().splitlines()
    assert all((ROOT / source).exists() for source in copied)
    assert sent[1] == "*" and {line[1:] for line in sent if line.startswith("!")} == copied
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = set(re.findall(r"\[([\w,]+)\]", BUILD["RUN"][0])[0].split(","))
    assert extras <= project["optional-dependencies"].keys()
    assert [line for line in IMAGE["COPY"] if not line.startswith("--from=build ")] == []


AS_IN_A_CONTAINER = """
for each in /tmp /var/tmp; do mount --bind $each $each && mount -o remount,bind,ro $each || exit; done
mount -t tmpfs -o mode=0700 none "$1" && mount -o remount,bind,ro / || exit
cd "$1" && shift && exec setpriv --no-new-privs --bounding-set=-all "$@"
"""


@pytest.mark.skipif(
    shutil.which("unshare") is None or shutil.which("setpriv") is None, reason="needs unshare and setpriv"
)
@pytest.mark.parametrize("arguments", [(), ("--processes", "2")], ids=["one process", "processes"])
def test_the_server_as_process_1_on_a_read_only_file_system(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    """It runs as in the image: without capabilities, and only the volume is writable."""
    container = ["unshare", "--mount", "--pid", "--fork", "sh", "-c", AS_IN_A_CONTAINER, "sh", str(tmp_path)]
    if subprocess.run([*container, "true"], check=False).returncode != 0:
        pytest.skip("needs permission to mount")
    assert subprocess.run([*container, "touch", str(tmp_path.parent / "x")], check=False).returncode != 0
    with ServerProcess("--data", str(tmp_path), *arguments, prefix=container) as server:
        pid = server.process.pid
        (first,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        status = Path(f"/proc/{first}/status").read_text()
        assert re.search(r"^NSpid:.*\t1$", status, re.MULTILINE), "it is not process 1"
        assert re.search(r"^CapEff:\t0+$", status, re.MULTILINE), "it has capabilities"
        os.kill(int(first), signal.SIGTERM)
        assert server.ended() == 0
