"""What is published works without a checkout: ``make test-package`` builds dist/ and runs this.

Not part of ``make test``, because it installs packages from PyPI into new environments.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.message import Message
from email.parser import Parser
from importlib.metadata import version
from pathlib import Path

import pytest

from penstock import __version__
from support.documents import ROOT, blocks, links
from support.process import ServerProcess

(WHEEL,) = (ROOT / "dist").glob("*.whl")
(SOURCES,) = (ROOT / "dist").glob("*.tar.gz")
MAN_PAGE = "share/man/man1/penstock.1"

IMPORT_ALL = """
import importlib, pkgutil, penstock
from django.conf import settings

settings.configure(INSTALLED_APPS=["django_tasks"])  # Django can be used in an application only
for module in pkgutil.walk_packages(penstock.__path__, "penstock."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
print(penstock.__file__)
"""


class Environment:
    """A new virtual environment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    def run(self, command: str, *arguments: str | Path, stdin: str = "") -> str:
        """Somewhere else than in the checkout."""
        done = subprocess.run(
            [self.folder / "bin" / command, *arguments], input=stdin, cwd=self.folder, text=True, timeout=600,
            capture_output=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def install(self, *requirements: str | Path) -> None:
        self.run("pip", "install", "--quiet", "--disable-pip-version-check", *requirements)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    environment = Environment(tmp_path_factory.mktemp("installed"))
    environment.install(WHEEL)
    return environment


def project() -> dict[str, dict[str, list[str]]]:
    settings: dict[str, dict[str, list[str]]] = tomllib.loads((ROOT / "pyproject.toml").read_text())[
        "project"
    ]
    return settings


def metadata() -> Message:
    with zipfile.ZipFile(WHEEL) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode())


# -- what is in the files ------------------------------------------------------------------------------------


def tracked(folder: str) -> set[str]:
    listed = subprocess.run(["git", "ls-files", folder], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(listed.stdout.split())


def test_the_wheel_has_every_file_of_the_package() -> None:
    with zipfile.ZipFile(WHEEL) as archive:
        names = set(archive.namelist())
    assert {name.removeprefix("src/") for name in tracked("src/penstock")} == {
        name for name in names if name.startswith("penstock/")
    }
    assert "penstock/py.typed" in names
    assert any(name.endswith(f".data/data/{MAN_PAGE}") for name in names)


def test_the_source_distribution_has_what_a_build_needs_and_nothing_private() -> None:
    with tarfile.open(SOURCES) as archive:
        names = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    about = {"README.md", "CHANGELOG.md", "LICENSE", "pyproject.toml", "PKG-INFO", ".gitignore", MAN_PAGE}
    assert names == tracked("src/penstock") | about


def test_the_checkout_and_the_source_distribution_build_the_same_wheel(tmp_path: Path) -> None:
    """The wheel in dist/ was built from the source distribution."""
    build = ROOT / ".tools/package/bin/python"
    subprocess.run([build, "-m", "build", "--wheel", "--outdir", tmp_path, ROOT], check=True, timeout=600)
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name == WHEEL.name
    assert wheel.read_bytes() == WHEEL.read_bytes()


def test_links_of_the_description_lead_somewhere_from_anywhere() -> None:
    description = metadata().get_payload()
    assert isinstance(description, str)
    found = links(description)
    assert len(found) == len(links((ROOT / "README.md").read_text())) > 10
    assert [link for link in found if not link.startswith("https://")] == []


# -- what is installed ---------------------------------------------------------------------------------------


def test_the_command_and_the_module_tell_the_version(installed: Environment) -> None:
    for said in (
        installed.run("penstock", "--version"),
        installed.run("python", "-m", "penstock", "--version"),
    ):
        assert said.strip() == f"penstock {__version__}"
    assert f"-{__version__}-" in WHEEL.name


def test_the_man_page_is_where_man_looks(installed: Environment) -> None:
    assert (installed.folder / MAN_PAGE).read_text() == (ROOT / MAN_PAGE).read_text()


def test_only_dependencies_of_the_server_are_installed(installed: Environment) -> None:
    names = {each["name"].lower() for each in json.loads(installed.run("pip", "list", "--format", "json"))}
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    tools = {
        re.split(r"[^\w-]", requirement)[0].lower() for group in groups.values() for requirement in group
    }
    assert names & tools == set()
    installed.run("pip", "check")


def test_the_first_example_of_the_readme(
    installed: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (script,) = blocks(ROOT / "README.md", "python")
    client = Environment(tmp_path / "client")
    client.install(f"boto3=={version('boto3')}")
    with ServerProcess("--memory", python=installed.python) as server:
        assert server.facts["version"] == __version__
        installed.run("penstock", "health", "--url", server.url)
        assert client.run("python", "-", stdin=script.replace("9324", str(server.port))) == "one espresso\n"
        assert server.stop() == 0


def test_every_module_can_be_imported_with_the_extras_and_no_tools(tmp_path: Path) -> None:
    environment = Environment(tmp_path)
    environment.install(f"{WHEEL}[{','.join(project()['optional-dependencies'])}]")
    environment.run("pip", "check")
    assert environment.run("python", "-c", IMPORT_ALL).startswith(str(tmp_path))
