"""The shape of the house: which room may see which, and that it is kept tidy.

Imports point inward: shared vocabulary <- queues <- store, broker <- wire, services <- server <- cli.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock

HOUSE = Path(penstock.__file__).parent
FILES = sorted(HOUSE.rglob("*.py"))
LINES_MAX = 450

VOCABULARY = {"penstock", "cache", "clock", "errors", "promise", "limits", "names", "toml"}
# What each room may see besides itself and the vocabulary. "store.port" is the contract alone, not the engines.
SEES = {
    "queues": {"store.changes"},
    "store": {"queues"},
    "broker": {"queues", "store.port", "store.changes"},
    "wire": set[str](),
    "auth": {"wire"},
    "services": {"queues", "store.changes", "broker", "wire", "auth"},
    "server": {"queues", "store", "broker", "wire", "auth", "services"},
    "migrate": {"services", "server"},
    "cli": {"auth", "migrate", "server"},
    "__main__": {"cli"},
}


def name_of(file: Path) -> str:
    """``queues.fifo`` for ``queues/fifo.py``, ``queues`` for ``queues/__init__.py``."""
    parts = file.relative_to(HOUSE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts) or "penstock"


def imports(file: Path) -> Iterator[str]:
    """Every module of ours that a file imports, wherever in the file it does so."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: write imports in full"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            if name == "penstock" or name.startswith("penstock."):
                yield name.removeprefix("penstock.")


def room(module: str) -> str:
    return module.partition(".")[0]


def is_visible(seer: str, seen: str) -> bool:
    if room(seen) in VOCABULARY or seen.startswith("__version__"):
        return True
    if room(seer) in VOCABULARY:
        return False
    if room(seer) == room(seen) == "services":
        return seer.split(".")[:2] == seen.split(".")[:2]  # faces never see each other
    if room(seer) == room(seen):
        return True
    return any(f"{seen}.".startswith(f"{allowed}.") for allowed in SEES[room(seer)])


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_imports_point_inward(file: Path) -> None:
    outward = [seen for seen in imports(file) if not is_visible(name_of(file), seen)]
    assert not outward, f"{name_of(file)} must not see {outward}"


def test_every_room_is_known() -> None:
    rooms = {room(name_of(file)) for file in FILES}
    assert rooms == VOCABULARY | SEES.keys()


def test_the_rule_itself_refuses() -> None:
    assert not is_visible("queues.fifo", "store.port.Store")
    assert not is_visible("broker.broker", "store.sqlite.store.SqliteStore")
    assert not is_visible("services.sqs.queues", "services.sns.topics")
    assert not is_visible("errors", "queues.message")
    assert is_visible("broker.broker", "store.port.Store")
    assert is_visible("services.sqs.queues", "services.sqs.faults")


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_files_can_be_held_in_the_head(file: Path) -> None:
    assert len(file.read_text().splitlines()) <= LINES_MAX


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_modules_say_what_they_are(file: Path) -> None:
    assert ast.get_docstring(ast.parse(file.read_text())), "a module opens with a docstring"


@pytest.mark.parametrize("file", [file for file in FILES if room(name_of(file)) != "cli"], ids=name_of)
def test_only_the_command_line_prints(file: Path) -> None:
    calls = [node.func for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)]
    assert not any(isinstance(call, ast.Name) and call.id == "print" for call in calls)


def test_the_core_reads_no_clock_and_throws_no_dice() -> None:
    """Rules are pure: time and ids are arguments."""
    forbidden = {"asyncio", "datetime", "random", "secrets", "socket", "sqlite3", "threading", "time", "uuid"}
    for file in FILES:
        if room(name_of(file)) != "queues":
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            assert not {name.partition(".")[0] for name in names} & forbidden, name_of(file)
