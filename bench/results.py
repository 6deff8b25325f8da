"""The outcome of a run, as it is kept in JSON: every round of every case, nothing averaged away."""

from __future__ import annotations

from pathlib import Path

import msgspec

from bench.figures import METRICS, Figures, Spread, spread

PENSTOCK = "Penstock"
ECHO = "HTTP echo"


class SystemRecord(msgspec.Struct, kw_only=True):
    name: str
    version: str = ""
    durability: str = ""  # and how it is guarded
    absent: str | None = None  # why it could not be measured


class CaseRecord(msgspec.Struct, kw_only=True):
    name: str
    title: str
    headline: str
    rounds: dict[str, list[Figures]] = {}  # by system
    failed: dict[str, str] = {}  # by system: why

    def metrics(self) -> list[str]:
        """In the order they are shown, the headline first."""
        there = {name for rounds in self.rounds.values() for figures in rounds for name in figures}
        return sorted(there, key=lambda name: (name != self.headline, list(METRICS).index(name)))

    def value(self, system: str, metric: str) -> Spread | None:
        values = [figures[metric] for figures in self.rounds.get(system, ()) if metric in figures]
        return spread(values) if values else None

    def ratio(self, system: str, base: str) -> Spread | None:
        """The headline of a system, in times of another's, round by round."""
        pairs = zip(self.rounds.get(system, ()), self.rounds.get(base, ()), strict=False)
        metric = self.headline
        ratios = [a[metric] / b[metric] for a, b in pairs if metric in a and metric in b and b[metric] > 0]
        return spread(ratios) if ratios else None


class Results(msgspec.Struct, kw_only=True):
    mode: str
    machine: dict[str, str]
    generator_processes: int
    systems: list[SystemRecord]
    cases: list[CaseRecord] = []

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n")


def load(path: Path) -> Results:
    return msgspec.json.decode(path.read_bytes(), type=Results)
