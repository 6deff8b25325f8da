"""A run: all systems side by side, case by case, taking turns in every round."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

from bench.cases import Bench, Case
from bench.jobs import Job
from bench.load_client import Wrong
from bench.peers import Absent
from bench.results import CaseRecord, SystemRecord
from bench.systems import System

CASE_LIMIT_S = 300.0  # for all rounds of one system

_FAILURES = (Wrong, RuntimeError, OSError, TimeoutError)
Say = Callable[[str], None]


def start(systems: Iterable[System], say: Say) -> tuple[list[System], list[SystemRecord]]:
    """(those that run, a record of each)."""
    running, records = [], []
    for system in systems:
        say(f"starting {system.name}")
        try:
            system.start()
        except (Absent, *_FAILURES) as reason:
            system.stop()
            records.append(SystemRecord(name=system.name, version=system.version, absent=str(reason)))
        else:
            running.append(system)
            records.append(
                SystemRecord(
                    name=system.name, version=system.version, durability=system.durability, before=system.before,
                    is_peer=system.is_peer,
                )
            )  # fmt: skip
    return running, records


def warm_up(bench: Bench, systems: Iterable[System], say: Say) -> None:
    """Java compiles code that runs often: this happens before the first figure is taken."""
    for system in systems:
        say(f"warming up {system.name}")
        try:
            queue = bench.queue(system)
            load = Job(
                kind="send" if system.is_echo else "life",
                url="", queues=[queue], count=30_000, connections=32, limit_s=bench.plan.warm_s,
            )  # fmt: skip
            bench.run(system, load)
            bench.drop(system, queue)
        except _FAILURES:
            bench.restart(system)  # the cases report the failure


class Turns:
    """One case over all its systems."""

    def __init__(self, bench: Bench, case: Case, systems: Sequence[System], say: Say) -> None:
        self._bench = bench
        self._case = case
        self._systems = list(systems)
        self._spent = dict.fromkeys((system.name for system in self._systems), 0.0)
        self._say = say
        self.record = CaseRecord(name=case.name, title=case.title, headline=case.headline)

    @property
    def rounds(self) -> int:
        return min(self._bench.plan.rounds, self._case.rounds_max or self._bench.plan.rounds)

    def play(self) -> CaseRecord:
        first = -1 if self._case.warm else 0
        for number in range(first, self.rounds):
            # The order changes, so that no system is always measured after the same other one.
            shift = number % max(1, len(self._systems))
            for system in self._systems[shift:] + self._systems[:shift]:
                if system.name not in self.record.failed:
                    self._say(f"{self._case.name}, {self._which(number)}, {system.name}")
                    self._turn(system, counts=number >= 0)
        return self.record

    def _which(self, number: int) -> str:
        return "warm-up" if number < 0 else f"round {number + 1} of {self.rounds}"

    def _turn(self, system: System, counts: bool) -> None:
        if self._spent[system.name] > CASE_LIMIT_S:
            return  # fewer rounds than the others, but valid ones
        begun = time.monotonic()
        try:
            if self._case.fresh:
                self._bench.restart(system)
            figures = self._case.measure(self._bench, system)
        except _FAILURES as reason:
            self.record.failed[system.name] = str(reason) or type(reason).__name__
            self._revive(system)
        else:
            if counts:
                self.record.rounds.setdefault(system.name, []).append(figures)
        self._spent[system.name] += time.monotonic() - begun

    def _revive(self, system: System) -> None:
        """Restarts the system, which may still be busy with what failed."""
        try:
            self._bench.restart(system)
        except (Absent, *_FAILURES) as reason:
            self.record.failed[system.name] += f"; it did not start again: {reason}"
