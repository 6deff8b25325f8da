"""The structure of the source: which package may import which, and a few rules that hold everywhere.

Imports point inward: shared vocabulary <- store <- queues <- broker <- services <- server <- cli, and
shared vocabulary <- wire, auth <- services.
Each test looks at all files and reports every offender.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import penstock

SOURCE = Path(penstock.__file__).parent

# What a package may import besides itself and the shared vocabulary, which is every module at the top level.
# "store.port" is that module alone; "store" is the whole package.
MAY_IMPORT = {
    "queues": {"store.changes", "store.moving"},
    "store": {"metrics.histogram"},
    "metrics": set[str](),
    "broker": {"metrics", "queues", "store.port", "store.changes", "store.moving"},
    "cluster": {"metrics", "queues", "store.port", "store.changes", "store.leases", "broker", "wire"},
    "monitoring": {"metrics", "queues", "store.changes", "store.moving", "broker"},
    "wire": {"metrics.histogram"},
    "auth": set[str](),
    "outgoing": {"client.http"},
    "services": {
        "metrics",
        "queues",
        "store.changes",
        "store.moving",
        "broker",
        "monitoring",
        "wire",
        "auth",
        "outgoing",
    },
    "server": {
        "metrics",
        "queues",
        "store",
        "broker",
        "monitoring",
        "cluster",
        "wire",
        "auth",
        "outgoing",
        "services",
        "client",
        "testing.controlled_time",
    },
    "migrate": {"metrics", "queues", "broker", "monitoring", "services", "server", "store"},
    "console": set[str](),  # files for browsers
    "client": {"auth.sigv4.canonical"},
    "testing": {"broker", "client", "queues", "server", "store.changes"},
    "cli": {"auth", "client", "cluster", "migrate", "server", "store"},
    "__main__": {"cli"},
}

# Numbers that belong to SQS, and where they could be repeated.
SQS_NUMBERS = {
    900: "the longest delay, in seconds",
    43_200: "the longest visibility timeout, in seconds",
    120_000: "messages in flight",
    1_048_576: "bytes of a message",
    1_209_600: "the longest retention, in seconds",
}
SQS_PLACES = ("limits", "queues", "broker", "services.sqs")


def module_name(file: Path) -> str:
    """``queues.fifo`` for ``queues/fifo.py``, ``queues`` for ``queues/__init__.py``."""
    parts = file.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts) or "penstock"


MODULES = {module_name(file): ast.parse(file.read_text()) for file in sorted(SOURCE.rglob("*.py"))}


def package(module: str) -> str:
    return module.partition(".")[0]


VOCABULARY = {name for name in MODULES if "." not in name} - MAY_IMPORT.keys()


def imported_names(tree: ast.AST) -> Iterator[str]:
    """Every name that a module imports, wherever in the module it does so."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{'.' * node.level}{node.module or ''}.{alias.name}" for alias in node.names)


def may_import(importer: str, imported: str) -> bool:
    if package(imported) in VOCABULARY or imported == "__version__":
        return True
    if package(importer) in VOCABULARY:
        return False
    if package(importer) == package(imported) == "services":
        return importer.split(".")[:2] == imported.split(".")[:2]  # services never import each other
    if package(importer) == package(imported):
        return True
    return any(f"{imported}.".startswith(f"{allowed}.") for allowed in MAY_IMPORT[package(importer)])


def test_imports_point_inward() -> None:
    offenders = [
        f"{module} imports {name}"
        for module, tree in MODULES.items()
        for name in imported_names(tree)
        if name.startswith((".", "penstock."))  # an import is written in full: a relative one never passes
        and not may_import(module, name.removeprefix("penstock."))
    ]
    assert not offenders, "\n".join(offenders)


def test_the_import_rule_refuses_what_it_should() -> None:
    assert not may_import("queues.fifo", "store.port.Store")
    assert not may_import("store.memory", "queues.messages.Entry")
    assert not may_import("broker.broker", "store.sqlite.store.SqliteStore")
    assert not may_import("services.sqs.queues", "services.sns.topics")
    assert not may_import("auth.sigv4.verify", "wire.faults.Fault")
    assert not may_import("errors", "queues.messages")
    assert may_import("broker.broker", "store.port.Store")
    assert may_import("services.sqs.queues", "services.sqs.faults")


def test_every_package_has_an_import_rule() -> None:
    packages = {file.name for file in SOURCE.iterdir() if (file / "__init__.py").exists()}
    assert packages | {"__main__"} == MAY_IMPORT.keys()


def test_every_module_has_a_docstring() -> None:
    assert [module for module, tree in MODULES.items() if not ast.get_docstring(tree)] == []


_FRAGMENT = re.compile(
    "(Of|With|By|So|For|In|As|From|To|At|Up to|Until|Without|Before|After|Both|Not) "
    # A whole sentence may begin with them if a clause with a verb follows: "In a test, the clock is set."
    r"(?![^.:;]*, (?!which |who |that |where |and |or )[^.:;]* "
    "(is|are|was|were|has|have|may|can|cannot|must|does|do|gets|get) )"
)


def is_fragment(docstring: str) -> bool:
    """Whether it begins as the rest of a sentence whose subject and verb are missing."""
    return _FRAGMENT.match(" ".join(docstring.split())) is not None


def test_docstrings_are_sentences() -> None:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    offenders = [
        f"{module}: {text.splitlines()[0]}"
        for module, tree in MODULES.items()
        for node in ast.walk(tree)
        if isinstance(node, kinds) and (text := ast.get_docstring(node)) and is_fragment(text)
    ]
    assert not offenders, "\n".join(offenders)


def test_the_rule_of_sentences_refuses_what_it_should() -> None:
    assert is_fragment("For whom a page asks.")
    assert is_fragment("In order of name, beyond the last one of the page before.")
    assert is_fragment("Without control characters, which could control the terminal.")
    assert is_fragment("Until a receive that waits is empty. It is, however, read once.")
    assert not is_fragment("In a test, the clock is set by hand.")
    assert not is_fragment("Format a value for the log.")
    assert not is_fragment("Asks the owner, for a client that waits.")


def test_only_the_command_line_prints() -> None:
    offenders = {
        module
        for module, tree in MODULES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    }
    assert {module for module in offenders if package(module) != "cli"} == set()


def test_rules_read_no_clock_and_do_no_io() -> None:
    """Time and ids are arguments of the rules, and of metrics."""
    forbidden = {"asyncio", "datetime", "random", "secrets", "socket", "sqlite3", "threading", "time", "uuid"}
    offenders = [
        f"{module} imports {name}"
        for module, tree in MODULES.items()
        for name in imported_names(tree)
        if package(module) in ("queues", "metrics") and package(name) in forbidden
    ]
    assert offenders == []


# Where the clock of the machine is read, besides clock.py and the code of clients: prefixes of modules, and why.
CLOCK_READERS = {
    "auth": "signatures, sessions and locks of files are judged by the real time",
    "broker.runtime": "the timers of the loop",
    "cli": "commands wait for a server, in a process of their own",
    "client": "a client of any server",
    "migrate": "waits for files to be released, in a process of its own",
    "server.callers": "signatures are judged by the real time",
    "server.compose": "how often the disk is looked at",
    "server.console": "signs requests, as a client does",
    "server.console_streams": "how often an open page is told of changes",
    "server.control": "how long the process runs",
    "server.http": "connections that are silent, and the Date of a response",
    "server.metrics.process": "when the process began",
    "server.routes": "rate limits",
    "server.security": "when certificates expire",
    "server.systemd": "the protocol of systemd wants it",
    "server.processes.supervisor": "how often a process has crashed lately",
    "services.admin.totals": "how long the computing of sums took, and so for how long they serve",
    "store.postgres.connection": "when a connection is tried again",
    "testing": "the clock that tests control is built on it",
}
_WALL_CLOCKS = {"time", "time_ns"}
_CLOCKS = {*_WALL_CLOCKS, "monotonic", "monotonic_ns", "real_s"}


def clock_reads(tree: ast.AST, clocks: set[str] = _CLOCKS) -> Iterator[int]:
    """Lines that name time.time, time.monotonic or another one of these, also if imported by name."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="time"), attr=name) if name in clocks:
                yield node.lineno
            case ast.ImportFrom(module="time" | "penstock.clock", names=names):
                if any(each.name in clocks for each in names):
                    yield node.lineno


def test_the_wall_clock_of_the_machine_is_read_in_few_places() -> None:
    """The others take ``clock.real_s``, or the clock of the broker."""
    readers = {package(module) for module, tree in MODULES.items() if list(clock_reads(tree, _WALL_CLOCKS))}
    assert readers == {"clock", "auth", "client", "testing"}


def test_time_is_read_from_the_clock_of_the_broker() -> None:
    """Or a test that advances its clock would see two times."""
    readers = {module: lines for module, tree in MODULES.items() if (lines := list(clock_reads(tree)))}
    del readers["clock"]
    allowed = {reader for reader in readers for name in CLOCK_READERS if f"{reader}.".startswith(f"{name}.")}
    assert {reader: readers[reader] for reader in readers.keys() - allowed} == {}
    unused = {
        name for name in CLOCK_READERS if not any(f"{each}.".startswith(f"{name}.") for each in readers)
    }
    assert unused == set(), "these read no clock any more"


def test_the_broker_has_no_words_of_aws() -> None:
    """Each service has its own words for what happens; comments may cite SQS."""
    words = re.compile("amazon|aws|sqs", re.IGNORECASE)
    offenders = [
        f"{module}:{node.lineno} {text}"
        for module, tree in MODULES.items()
        if package(module) in ("queues", "store", "broker")
        for node, text in names_and_texts(tree)
        if words.search(text)
    ]
    assert offenders == []


def names_and_texts(tree: ast.AST) -> Iterator[tuple[Any, str]]:
    """Identifiers and string constants, without docstrings."""
    prose = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=text) | ast.Attribute(attr=text) | ast.arg(arg=text):
                yield node, text
            case ast.ClassDef(name=text) | ast.FunctionDef(name=text) | ast.AsyncFunctionDef(name=text):
                yield node, text
            case ast.Constant(value=str(text)) if id(node) not in prose:
                yield node, text


def test_no_class_name_is_used_twice() -> None:
    """But for the client, whose names are for its users: they never see a class of the server."""
    places = defaultdict(list)
    for module, tree in MODULES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[package(module) == "client", node.name].append(module)
    twice = {name: at for name, at in places.items() if len(at) > 1}
    assert twice == {}


def test_each_number_of_sqs_stands_in_one_module() -> None:
    places = defaultdict[Any, set[str]](set)
    for module, tree in MODULES.items():
        if any(f"{module}.".startswith(f"{place}.") for place in SQS_PLACES):
            for node in ast.walk(tree):
                if isinstance(node, ast.Constant) and node.value in SQS_NUMBERS:
                    places[node.value].add(module)
    repeated = {f"{SQS_NUMBERS[number]}: {number}": at for number, at in places.items() if len(at) > 1}
    assert repeated == {}
