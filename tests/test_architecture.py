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

import pytest

import penstock

SOURCE = Path(penstock.__file__).parent

# What a package may import besides itself and the shared vocabulary, which is every module at the top level.
# "store.port" is that module alone; "store" is the whole package.
MAY_IMPORT = {
    "queues": {"store.changes", "store.moving"},
    "store": {"metrics.histogram"},
    "metrics": set[str](),
    "patterns": set[str](),
    "broker": {"metrics", "queues", "store.port", "store.changes", "store.moving"},
    "cluster": {"metrics", "queues", "store.port", "store.changes", "store.leases", "broker", "wire"},
    "monitoring": {"metrics", "queues", "store.changes", "store.moving", "broker"},
    "topics": {"queues.messages", "store.changes", "store.moving", "patterns"},
    "publishing": {
        "topics",
        "patterns",
        "metrics",
        "queues",
        "store.changes",
        "store.moving",
        "broker",
        "monitoring",
        "outgoing",
    },
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
        "patterns",
        "topics",
        "publishing",
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
        "patterns",
        "topics",
        "publishing",
        "cluster",
        "wire",
        "auth",
        "outgoing",
        "services",
        "client",
        "testing.controlled_time",
    },
    "migrate": {"metrics", "queues", "broker", "monitoring", "services", "server", "store", "topics"},
    "console": set[str](),  # files for browsers
    "client": {"auth.sigv4.canonical"},
    "testing": {
        "broker",
        "client",
        "patterns",
        "publishing",
        "queues",
        "server",
        "store.changes",
        "topics",
    },
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
# The client has them a second time, because it works without the server.
CLIENT_PLACES = ("client", "cli")


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


def test_the_example_of_a_service_needs_no_more_than_services_may_import() -> None:
    files = sorted((Path(__file__).parent / "services/toy").glob("*.py"))
    imported = {
        name.removeprefix("penstock.")
        for file in files
        for name in imported_names(ast.parse(file.read_text()))
        if name.startswith("penstock.")
    }
    assert "broker.parts.Part" in imported
    assert [name for name in sorted(imported) if not may_import("services.toy", name)] == []


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


_QUESTION = re.compile(
    "(Is|Are|Was|Were|Has|Have|Had|Do|Does|Did|Can|Could|May|Must|Shall|Should|Will|Would) "
    r"[^.?!]*\?(\W|$)"  # in the first sentence
)


def is_question(docstring: str) -> bool:
    """Whether it asks what the function tells: "Is it empty?" is for "Whether it is empty."."""
    return _QUESTION.match(" ".join(docstring.split())) is not None


def docstrings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yields each string that is a statement with its line: also those after an attribute."""
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield node.lineno, text


def test_docstrings_are_sentences() -> None:
    root = Path(__file__).parent.parent
    offenders = [
        f"{file.relative_to(root)}:{line}: {text.splitlines()[0]}"
        for folder in ("bench", "docs", "src", "tests", "tools", "website")
        for file in sorted((root / folder).rglob("*.py"))
        for line, text in docstrings(ast.parse(file.read_text()))
        if is_fragment(text) or is_question(text)
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


def test_the_rule_of_sentences_refuses_questions() -> None:
    assert is_question("Is every message of the queue in memory?")
    assert is_question("Has the server an admin API? It is asked once.")
    assert is_question("Are there messages past their retention\n    that only the store has?")
    assert is_question("Do the conditions hold that need no content?")
    assert is_question("Does the same request get the same answer again?")
    assert is_question("May messages be left to the store? Not while a read may contradict it.")
    assert not is_question("Whether every message of the queue is in memory.")
    assert not is_question("Do what takes long, in turns.")
    assert not is_question("Do a piece of work. Returns what is left: is there more?")
    assert not is_question("Has the keys of all accounts. Patterns have ``*`` and ``?``.")
    assert not is_question("A URL as it may be shown; what follows ? can hold a password, too.")


def test_docstrings_of_attributes_are_read() -> None:
    code = '"""Of a module."""\nLIMIT = 1\n"""Of a queue."""\nclass A:\n    x: int\n    """Of a row."""\n'
    assert [line for line, text in docstrings(ast.parse(code)) if is_fragment(text)] == [1, 3, 6]


def test_only_the_command_line_prints() -> None:
    offenders = {
        module
        for module, tree in MODULES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    }
    assert {module for module in offenders if package(module) != "cli"} == set()


def test_rules_read_no_clock_and_do_no_io() -> None:
    """Time and ids are arguments of the rules, of metrics and of patterns."""
    forbidden = {"asyncio", "datetime", "random", "secrets", "socket", "sqlite3", "threading", "time", "uuid"}
    offenders = [
        f"{module} imports {name}"
        for module, tree in MODULES.items()
        for name in imported_names(tree)
        if package(module) in ("queues", "metrics", "patterns") and package(name) in forbidden
    ]
    assert offenders == []


# Who reads the wall clock of the machine, besides clock.py (``real_s``, ``real_utc``): packages that do without that.
WALL_CLOCK_READERS = {
    "clock": "the place for it",
    "auth": "judges signatures, and is the same in a client and in a server",
    "client": "users bring their own clocks, and it works without a server",
}

# Who takes the real time from clock.py instead of the clock of the broker: modules, and why.
REAL_TIME_READERS = {
    "cli": "a command is a process of its own, without a broker",
    "publishing.signing": "subscribers check certificates by the real time",
    "server.backup": "when a backup was made: without a broker, too",
    "server.callers": "signatures are judged by the real time",
    "server.console": "signs requests, and sessions end by the real time",
    "server.control": "times of the audit log are real ones",
    "server.http.response": "the Date of a response",
    "server.metrics.process": "when the process began",
    "server.security": "when certificates expire",
    "store.sqlite.file": "since when a process has the file",
    "testing.controlled_time": "the clock that tests control starts at it",
}

# Who reads a clock that is never set, to measure or to wait: modules, and why the clock of the broker is not for it.
MONOTONIC_READERS = {
    "auth.secret_files": "how long a lock of a file is waited for",
    "broker.runtime": "the timers of the loop, by which the clock of the broker advances",
    "cli": "commands wait for a server, in a process of their own",
    "client": "a client of any server",
    "cluster.membership": "leases, which the rules of a queue know nothing of",
    "migrate.stores.opened": "waits for files to be released, in a process of its own",
    "server.compose": "how often the disk is looked at",
    "server.console": "when signed in pages are forgotten",
    "server.console_streams": "how often an open page is told of changes",
    "server.control": "how long the process runs",
    "server.http.connection": "connections that are silent",
    "server.http.listener": "connections that are silent",
    "server.processes.supervisor": "how often a process has crashed lately",
    "server.routes": "rate limits",
    "server.systemd": "the protocol of systemd wants it",
    "services.admin.totals": "how long the computing of sums took, and so for how long they serve",
    "store.postgres.connection": "when a connection is tried again",
    "testing": "the clock that tests control is built on it",
}
_WALL_CLOCKS = {"time", "time_ns", "clock_gettime", "clock_gettime_ns"}
_MONOTONIC_CLOCKS = {"monotonic", "monotonic_ns", "boot_s"}
_REAL_TIMES = {"real_s", "real_utc"}
_NOW_WITHOUT = {"gmtime": 1, "localtime": 1, "strftime": 2}  # the time is now with fewer arguments


def clock_reads(tree: ast.AST, clocks: set[str]) -> Iterator[int]:
    """Lines that name time.time, time.monotonic or another one of these, also if imported by name."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="time"), attr=name) if name in clocks:
                yield node.lineno
            case ast.ImportFrom(module="time" | "penstock.clock", names=names):
                if any(each.name in clocks for each in names):
                    yield node.lineno


def wall_clock_reads(tree: ast.AST) -> Iterator[int]:
    """Does the same as :func:`clock_reads`, with what else gives the date and time of now."""
    yield from clock_reads(tree, _WALL_CLOCKS)
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr="utcnow" | "today"):
                yield node.lineno
            case ast.Attribute(value=ast.Name(id="datetime") | ast.Attribute(attr="datetime"), attr="now"):
                yield node.lineno
            case ast.Call(func=ast.Attribute(value=ast.Name(id="time"), attr=name), args=given):
                if len(given) < _NOW_WITHOUT.get(name, 0):
                    yield node.lineno


def check_readers(readers: dict[str, list[int]], allowed: dict[str, str]) -> None:
    used = {reader: {name for name in allowed if f"{reader}.".startswith(f"{name}.")} for reader in readers}
    assert {reader: lines for reader, lines in readers.items() if not used[reader]} == {}
    assert allowed.keys() - set().union(*used.values()) == set(), "these read no clock any more"


def test_the_wall_clock_of_the_machine_is_read_in_few_places() -> None:
    """The others take ``real_s`` or ``real_utc`` of clock.py, or the clock of the broker."""
    readers = {module: lines for module, tree in MODULES.items() if (lines := list(wall_clock_reads(tree)))}
    check_readers(readers, WALL_CLOCK_READERS)


@pytest.mark.parametrize(
    ("clocks", "allowed"), [(_REAL_TIMES, REAL_TIME_READERS), (_MONOTONIC_CLOCKS, MONOTONIC_READERS)]
)
def test_time_is_read_from_the_clock_of_the_broker(clocks: set[str], allowed: dict[str, str]) -> None:
    """Or a test that advances its clock would see two times."""
    readers = {
        module: lines for module, tree in MODULES.items() if (lines := list(clock_reads(tree, clocks)))
    }
    readers.pop("clock", None)
    check_readers(readers, allowed)


def test_every_way_to_read_the_wall_clock_is_seen() -> None:
    for code in (
        "time.time()", "time.time_ns", "from time import time", "time.clock_gettime(0)", "time.localtime()",
        "time.strftime('%H')", "datetime.now(UTC)", "datetime.datetime.now()", "datetime.utcnow()", "date.today()",
    ):  # fmt: skip
        assert list(wall_clock_reads(ast.parse(code))), code
    for code in (
        "time.gmtime(1)",
        "time.strftime('%H', moment)",
        "loop.time()",
        "clock.now()",
        "time.monotonic()",
    ):
        assert not list(wall_clock_reads(ast.parse(code))), code


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
    """But for the client, whose names are for its users: they never see a class of the server. And but for requests
    and responses of services, which have the names of Amazon's models."""
    places = defaultdict(list)
    for module, tree in MODULES.items():
        of = module if module.startswith("services.") and module.endswith(".structs") else ""
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places["client" if package(module) == "client" else of, node.name].append(module)
    twice = {name: at for name, at in places.items() if len(at) > 1}
    assert twice == {}


def repeated_numbers(modules: dict[str, ast.Module], places: tuple[str, ...]) -> dict[str, set[str]]:
    """The numbers of SQS that stand in several modules."""
    found = defaultdict[Any, set[str]](set)
    for module, tree in modules.items():
        if any(f"{module}.".startswith(f"{place}.") for place in places):
            for node in ast.walk(tree):
                if isinstance(node, ast.Constant) and node.value in SQS_NUMBERS:
                    found[node.value].add(module)
    return {f"{SQS_NUMBERS[number]}: {number}": at for number, at in found.items() if len(at) > 1}


@pytest.mark.parametrize("places", [SQS_PLACES, CLIENT_PLACES], ids=["server", "client"])
def test_each_number_of_sqs_stands_in_one_module(places: tuple[str, ...]) -> None:
    assert repeated_numbers(MODULES, places) == {}


def test_a_number_of_sqs_in_two_modules_is_found() -> None:
    modules = {"client.a": ast.parse("LONGEST_S = 43_200"), "cli.b": ast.parse("wait(43200)")}
    assert list(repeated_numbers(modules, CLIENT_PLACES).values()) == [{"client.a", "cli.b"}]
    assert repeated_numbers(modules, SQS_PLACES) == {}
