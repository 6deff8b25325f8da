"""Other servers that speak SQS: installed from the package registries into ``.bench/``, run as their documents say.

In memory and with their own defaults, except for the port. One that cannot be installed is listed with the reason.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

HOME = Path(__file__).parent.parent / ".bench"
INSTALL_LIMIT_S = 600


class Absent(Exception):
    """Why a peer cannot be measured here."""


class Command(NamedTuple):
    version: str
    words: list[str]
    environment: Mapping[str, str]


class Peer(NamedTuple):
    name: str
    prepare: Callable[[int], Command]
    """Install it if it is missing; gives the command that starts it on a port. Raises Absent."""
    has_topics: bool = True


def _do(words: list[str], what: str, directory: Path | None = None) -> str:
    try:
        done = subprocess.run(
            words, cwd=directory, capture_output=True, text=True, timeout=INSTALL_LIMIT_S, check=False
        )
    except FileNotFoundError:
        raise Absent(f"{words[0]} is not installed here") from None
    except subprocess.TimeoutExpired:
        raise Absent(f"{what} took more than {INSTALL_LIMIT_S} s") from None
    if done.returncode:
        output = (done.stderr or done.stdout).strip().splitlines()
        raise Absent(f"{what} failed: {output[-1] if output else done.returncode}")
    return done.stdout


def _from_pypi(package: str, requirement: str, program: str) -> tuple[str, str]:
    """(version, path of the program) in a separate virtual environment."""
    place = HOME / package
    path = place / "bin" / program
    if not path.exists():
        _do([sys.executable, "-m", "venv", str(place)], "making an environment")
        _do([str(place / "bin" / "pip"), "install", "--quiet", requirement], f"installing {requirement}")
    ask = f"from importlib.metadata import version; print(version({package!r}))"
    return _do([str(place / "bin" / "python"), "-c", ask], "asking for the version").strip(), str(path)


def moto(port: int) -> Command:
    version, program = _from_pypi("moto", "moto[server]==5.2.5", "moto_server")
    return Command(version, [program, "-p", str(port)], {})


def ministack(port: int) -> Command:
    version, program = _from_pypi("ministack", "ministack==1.5.33", "ministack")
    return Command(version, [program], {"GATEWAY_PORT": str(port)})


_ELASTICMQ = "1.7.1"
_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>bench</groupId><artifactId>bench</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies><dependency>
    <groupId>org.elasticmq</groupId><artifactId>elasticmq-server_2.13</artifactId><version>{_ELASTICMQ}</version>
  </dependency></dependencies>
</project>
"""


def elasticmq(port: int) -> Command:
    place = HOME / "elasticmq"
    jars = place / "lib"
    if shutil.which("java") is None:
        raise Absent("java is not installed here")
    if not any(jars.glob("elasticmq-server_*.jar")):
        place.mkdir(parents=True, exist_ok=True)
        (place / "pom.xml").write_text(_POM)
        copy = ["mvn", "--quiet", "--batch-mode", "dependency:copy-dependencies", f"-DoutputDirectory={jars}"]
        _do(copy, "getting it from Maven Central", place)
    settings = [f"-Drest-sqs.bind-port={port}", f"-Dnode-address.port={port}", "-Drest-stats.enabled=false"]
    return Command(_ELASTICMQ, ["java", *settings, "-cp", f"{jars}/*", "org.elasticmq.server.Main"], {})


PEERS = (Peer("moto", moto), Peer("MiniStack", ministack), Peer("ElasticMQ", elasticmq, has_topics=False))
