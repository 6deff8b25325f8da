"""The outcome of a run: its figures, every round of every case as it is kept in JSON, and their ratios."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from bench.jobs import Done

PENSTOCK = "Penstock"
OPEN = "Penstock, open"
UNMETERED = f"{OPEN}, no metrics"
BARE_ECHO = "bare echo"

Figures = dict[str, float]
"""One round of one case on one system, by the names in METRICS."""


class Metric(NamedTuple):
    title: str
    more_is_better: bool = False


METRICS = {
    "cpu_us": Metric("CPU µs"),
    "rate": Metric("per second", more_is_better=True),
    "p50_ms": Metric("p50 ms"),
    "p99_ms": Metric("p99 ms"),
    "cpu_percent": Metric("CPU %"),
    "rate_of_empty": Metric("rate, of an empty queue's", more_is_better=True),
    "cpu_of_empty": Metric("CPU, of an empty queue's"),
    "cpu_of_sends": Metric("CPU, of as many SendMessages"),
    "cpu_of_one": Metric("CPU, of a topic with one"),
    "memory_mb": Metric("memory MB"),
    "bytes": Metric("bytes a message"),
    "start_ms": Metric("start ms"),
    "twice": Metric("delivered twice"),
    "generator_busy": Metric("generator busy"),
}
GENERATOR_BUSY_MAX = 0.8  # above this a rate says more about the generator than about the server


class Spread(NamedTuple):
    median: float
    least: float
    most: float


def spread(values: Sequence[float]) -> Spread:
    return Spread(statistics.median(values), min(values), max(values))


def of_load(done: Done, server_is_seen: bool) -> Figures:
    """Per message. The latencies are those of the requests, or what the job says."""
    figures = {
        "rate": done.messages / done.seconds,
        "generator_busy": done.own_cpu / done.seconds,
    }
    if done.twice:
        figures["twice"] = done.twice
    if done.latencies:
        figures["p50_ms"] = 1000 * _quantile(done.latencies, 0.50)
        figures["p99_ms"] = 1000 * _quantile(done.latencies, 0.99)
    if server_is_seen:
        figures["cpu_us"] = 1e6 * (done.server_cpu[1] - done.server_cpu[0]) / done.messages
    return figures


def _quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


class SystemRecord(msgspec.Struct, kw_only=True):
    name: str
    version: str = ""
    durability: str = ""  # and how it is secured
    absent: str | None = None  # why it could not be measured
    before: str | None = None  # the same system from another checkout
    is_peer: bool = False


class CaseRecord(msgspec.Struct, kw_only=True):
    name: str
    title: str
    headline: str
    rounds: dict[str, list[Figures]] = {}  # by system
    failed: dict[str, str] = {}  # by system: why

    def metrics(self) -> list[str]:
        """Returns the metrics in the order they are shown, the headline first."""
        there = {name for rounds in self.rounds.values() for figures in rounds for name in figures}
        return sorted(there, key=lambda name: (name != self.headline, list(METRICS).index(name)))

    def value(self, system: str, metric: str) -> Spread | None:
        values = [figures[metric] for figures in self.rounds.get(system, ()) if metric in figures]
        return spread(values) if values else None

    def ratio(self, system: str, base: str) -> Spread | None:
        """The headline of a system as a multiple of another's, round by round."""
        pairs = zip(self.rounds.get(system, ()), self.rounds.get(base, ()), strict=False)
        metric = self.headline
        ratios = [a[metric] / b[metric] for a, b in pairs if metric in a and metric in b and b[metric] > 0]
        return spread(ratios) if ratios else None


class KeyFigure(NamedTuple):
    title: str
    value: Spread


class Results(msgspec.Struct, kw_only=True):
    mode: str
    machine: dict[str, str]
    generator_processes: int
    systems: list[SystemRecord]
    cases: list[CaseRecord] = []

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n")

    def ratios(self, case: CaseRecord) -> dict[str, dict[str, Spread | None]]:
        """Returns, by the title of a column, the headline of each system compared with the bare echo, with Penstock,
        and with the same system of another checkout."""
        before = {record.name: record.before for record in self.systems if record.before in case.rounds}
        columns = {
            f"of {base}": {name: case.ratio(name, base) for name in case.rounds if name != base}
            for base in (BARE_ECHO, PENSTOCK)
            if base in case.rounds
        }
        if before:
            columns["of before"] = {name: case.ratio(name, old) for name, old in before.items() if old}
        return columns

    def key_figures(self) -> list[KeyFigure]:
        """The ratios by which this project judges its speed, as far as their cases were run."""
        cases = {case.name: case for case in self.cases}
        found: list[tuple[str, Spread | None]] = []
        if send := cases.get("send"):
            for name in (OPEN, PENSTOCK):
                found.append(
                    (f"{send.title}: CPU of {name} / of the {BARE_ECHO}", send.ratio(name, BARE_ECHO))
                )
        for case in self.cases:
            for record in self.systems:
                if record.before and case.headline == "cpu_us":
                    title = f"{case.title}: CPU of {record.name} / of {record.before}"
                    found.append((title, case.ratio(record.name, record.before)))
        for case in self.cases:
            if case.headline == "cpu_us":
                title = f"{case.title}: CPU of {OPEN} / of {UNMETERED}"
                found.append((title, case.ratio(OPEN, UNMETERED)))
        if wake := cases.get("wake"):
            peers = [record.name for record in self.systems if record.is_peer]
            latencies = {name: value.median for name in peers if (value := wake.value(name, "p50_ms"))}
            best = min(latencies, key=latencies.__getitem__, default="")
            for name in (OPEN, PENSTOCK):
                found.append((f"{wake.title}: latency of {name} / of {best}", wake.ratio(name, best)))
        for name in ("backlog-100k", "backlog-1M"):
            if backlog := cases.get(name):
                title = f"{backlog.title}: rate of {PENSTOCK} / of its empty queue"
                found.append((title, backlog.value(PENSTOCK, "rate_of_empty")))
        return [KeyFigure(title, value) for title, value in found if value is not None]


def load(path: Path) -> Results:
    return msgspec.json.decode(path.read_bytes(), type=Results)
