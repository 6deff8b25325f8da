"""The cases: the load of one round, and which figure to look at first."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from bench.generator import Generator
from bench.jobs import Done, Job
from bench.load_client import Wrong
from bench.results import Figures, of_load
from bench.systems import Penstock, System

FIFO = {"FifoQueue": "true"}


class Plan(NamedTuple):
    """How much. A round ends at its count of messages or at its time limit, whichever comes first."""

    rounds: int = 5
    limit_s: float = 4.0
    scale: float = 1.0
    fill_limit_s: float = 120.0
    warm_s: float = 10.0


QUICK = Plan(rounds=3, limit_s=1.0, scale=0.4, fill_limit_s=15.0, warm_s=1.5)


@dataclass
class Bench:
    """The tools a case works with."""

    generator: Generator
    plan: Plan
    _backlogs: dict[tuple[str, int], tuple[str, int]] = field(
        default_factory=dict
    )  # system, groups: queue, messages
    _queues: int = 0

    def run(self, system: System, job: Job) -> Done:
        return self.generator.run(
            replace(job, url=system.url, pid=system.pid, first=system.numbers(job.count))
        )

    def queue(self, system: System, fifo: bool = False) -> str:
        self._queues += 1
        name = f"bench-{self._queues}"
        return system.create(f"{name}.fifo", **FIFO) if fifo else system.create(name)

    def drop(self, system: System, *queues: str) -> None:
        for queue in queues:
            system.call("DeleteQueue", {"QueueUrl": queue})

    def fill(self, system: System, queue: str, count: int, limit_s: float, groups: int = 0) -> int:
        """Gives the number of messages that are there when the time is over."""
        filled, deadline = 0, time.monotonic() + limit_s
        while filled < count and (left := deadline - time.monotonic()) > 0:
            part = min(10_000, count - filled)
            fill = Job(
                kind="send", url="", queues=[queue], count=part, connections=16, batch=10, limit_s=left, groups=groups
            )  # fmt: skip
            filled += self.run(system, fill).messages
        return filled

    def backlog(self, system: System, count: int, limit_s: float, groups: int = 0) -> str:
        """A queue in which that many messages wait. It stays, and only grows, until the system is restarted."""
        queue, there = self._backlogs.get((system.name, groups), ("", 0))
        queue = queue or self.queue(system, fifo=groups > 0)
        if there < count:
            there += self.fill(system, queue, count - there, limit_s, groups)
            self._backlogs[system.name, groups] = queue, there
        if there < count:
            raise Wrong(f"took only {there:,} of {count:,} messages within {limit_s:.0f} s")
        return queue

    def restart(self, system: System) -> None:
        self._backlogs = {key: backlog for key, backlog in self._backlogs.items() if key[0] != system.name}
        system.restart()


@dataclass(frozen=True, kw_only=True)
class Case:
    name: str
    title: str
    measure: Callable[[Bench, System], Figures]
    headline: str = "cpu_us"
    quick: bool = False
    rounds_max: int | None = None
    fresh: bool = False  # each round has a new server
    warm: bool = True  # the first round does not count
    fits: Callable[[System], bool] = lambda system: not system.is_echo


def _sending(
    connections: int = 64, size: int = 200, batch: int = 1, count: int = 10_000
) -> Callable[[Bench, System], Figures]:
    def measure(bench: Bench, system: System) -> Figures:
        plan, queue = bench.plan, bench.queue(system)
        total = max(connections, int(count * plan.scale) // batch) * batch
        job = Job(
            kind="send", url="", queues=[queue], count=total, connections=connections, size=size, batch=batch,
            limit_s=plan.limit_s,
        )  # fmt: skip
        done = bench.run(system, job)
        bench.drop(system, queue)
        return of_load(done, system.pid is not None)

    return measure


def _half_load(bench: Bench, system: System) -> Figures:
    """Sends as many messages as the system takes, then half as many a second, evenly: the latencies are of those."""
    full = _sending()(bench, system)["rate"]
    plan, queue = bench.plan, bench.queue(system)
    job = Job(
        kind="send", url="", queues=[queue], count=max(64, int(full * plan.limit_s / 2)), connections=64,
        rate=full / 2, limit_s=plan.limit_s,
    )  # fmt: skip
    done = bench.run(system, job)
    bench.drop(system, queue)
    return of_load(done, system.pid is not None)


def _draining(bench: Bench, system: System) -> Figures:
    plan, queue = bench.plan, bench.queue(system)
    there = bench.fill(system, queue, int(10_000 * plan.scale), 2 * plan.limit_s)
    done = bench.run(
        system, Job(kind="drain", url="", queues=[queue], count=there, connections=16, limit_s=plan.limit_s)
    )
    bench.drop(system, queue)
    return of_load(done, system.pid is not None)


def _living(groups: int = 0, connections: int = 64, count: int = 6_000) -> Callable[[Bench, System], Figures]:
    def measure(bench: Bench, system: System) -> Figures:
        plan = bench.plan
        parts = 1 if groups == 1 else bench.generator.processes  # one group is one queue's one group
        queues = [bench.queue(system, fifo=groups > 0) for _ in range(parts)]
        job = Job(
            kind="life", url="", queues=queues, count=int(count * plan.scale), connections=connections,
            groups=groups, limit_s=plan.limit_s,
        )  # fmt: skip
        done = bench.run(system, job)
        bench.drop(system, *queues)
        return of_load(done, system.pid is not None)

    return measure


def _waking(bench: Bench, system: System) -> Figures:
    queue = bench.queue(system)
    job = Job(
        kind="wake", url="", queues=[queue], count=int(100 * bench.plan.scale), limit_s=bench.plan.limit_s
    )
    done = bench.run(system, job)
    bench.drop(system, queue)
    figures = of_load(done, False)
    return {"p50_ms": figures["p50_ms"], "p99_ms": figures["p99_ms"]}


def _with_backlog(count: int, groups: int = 0) -> Callable[[Bench, System], Figures]:
    """Receive and delete: on a queue with a backlog, FIFO if it has groups, and on an empty standard one, in turn."""

    def measure(bench: Bench, system: System) -> Figures:
        plan = bench.plan
        full = bench.backlog(system, count, plan.fill_limit_s * max(1, count / 100_000), groups)
        empty = bench.queue(system)
        costs = []
        for queue, its_groups in ((empty, 0), (full, groups)):
            there = bench.fill(system, queue, int(5_000 * plan.scale), plan.limit_s, its_groups)
            job = Job(
                kind="drain", url="", queues=[queue], count=there, connections=16, groups=its_groups,
                limit_s=plan.limit_s,
            )  # fmt: skip
            costs.append(of_load(bench.run(system, job), system.pid is not None))
        bench.drop(system, empty)
        alone, figures = costs
        figures["rate_of_empty"] = figures["rate"] / alone["rate"]
        if "cpu_us" in figures:
            figures["cpu_of_empty"] = figures["cpu_us"] / alone["cpu_us"]
        return figures

    return measure


def _remembering(bench: Bench, system: System) -> Figures:
    """What a waiting message costs in memory."""
    count = 100_000
    before = system.memory_mb()
    bench.backlog(system, count, bench.plan.fill_limit_s)
    return {"bytes": (system.memory_mb() - before) * 2**20 / count, "memory_mb": system.memory_mb()}


def _starting(bench: Bench, system: System) -> Figures:
    """Time to the first answer, and the memory after it."""
    assert system.start_seconds is not None
    system.create("first")
    return {"start_ms": 1000 * system.start_seconds, "memory_mb": system.memory_mb()}


def _starting_full(bench: Bench, system: System) -> Figures:
    assert isinstance(system, Penstock)
    queue = bench.backlog(system, 1_000_000, 10 * bench.plan.fill_limit_s)
    system.start_again()
    assert system.start_seconds is not None
    begun = time.perf_counter()
    if not system.call("ReceiveMessage", {"QueueUrl": queue, "VisibilityTimeout": 0}).get("Messages"):
        raise Wrong("nothing was received after the restart")
    received = time.perf_counter() - begun
    return {"start_ms": 1000 * (system.start_seconds + received), "memory_mb": system.memory_mb()}


def _polling(connections: int) -> Callable[[Bench, System], Figures]:
    def measure(bench: Bench, system: System) -> Figures:
        queue = bench.queue(system)
        job = Job(kind="polls", url="", queues=[queue], count=1, connections=connections, limit_s=5)
        done = bench.run(system, job)
        cpu = done.server_cpu[1] - done.server_cpu[0]
        return {"cpu_percent": 100 * cpu / done.seconds, "memory_mb": system.memory_mb()}

    return measure


def _many_queues(bench: Bench, system: System) -> Figures:
    """Create ten thousand queues, then send to all of them in turn. The figures are those of the sends."""
    names = [f"many-{i}" for i in range(10_000)]
    limit_s = bench.plan.fill_limit_s
    job = Job(kind="queues", url="", queues=names, connections=16, limit_s=limit_s)
    made = bench.run(system, job)
    if made.messages < len(names):
        raise Wrong(f"made only {made.messages:,} of {len(names):,} queues within {limit_s:.0f} s")
    base = system.create(names[0]).removesuffix(names[0])
    urls = [base + name for name in names]
    job = Job(kind="send", url="", queues=urls, count=10_000, connections=64, limit_s=bench.plan.limit_s)
    return {**of_load(bench.run(system, job), system.pid is not None), "memory_mb": system.memory_mb()}


def _any(_: System) -> bool:
    return True


def _is_seen(system: System) -> bool:
    return not system.is_echo and system.pid is not None


def _can_restart(system: System) -> bool:
    return system.start_seconds is not None and not system.is_echo


def _is_penstock(system: System) -> bool:
    return system.is_penstock


CASES = (
    Case(name="send-1", title="Send one message, 1 connection", measure=_sending(1, count=2_000), fits=_any),
    Case(name="send-8", title="Send one message, 8 connections", measure=_sending(8), fits=_any),
    Case(name="send", title="Send one message, 64 connections", measure=_sending(64), fits=_any, quick=True),
    Case(name="send-256", title="Send one message, 256 connections", measure=_sending(256), fits=_any),
    Case(name="send-10kB", title="Send one message of 10 kB", measure=_sending(64, 10_000, count=4_000), fits=_any),
    Case(name="send-256kB", title="Send one message of 256 KiB",
         measure=_sending(16, 262_144, count=300), fits=_any),
    Case(name="half-load", title="Send one message, at half the rate that it takes", measure=_half_load, fits=_any,
         headline="p99_ms"),
    Case(name="batch", title="Send ten messages in a batch", measure=_sending(16, batch=10, count=20_000),
         fits=_any, quick=True),
    Case(name="receive", title="Receive ten messages and delete them", measure=_draining, quick=True),
    Case(name="life", title="Send, receive and delete at once", measure=_living(), quick=True),
    Case(name="fifo", title="The same on a FIFO queue, 1,000 groups", measure=_living(groups=1_000)),
    Case(name="fifo-1", title="The same on a FIFO queue, one group", measure=_living(groups=1)),
    Case(name="wake", title="From a send to the long poll that waits for it", measure=_waking, headline="p50_ms",
         quick=True),
    Case(name="start", title="A fresh start to the first answer", measure=_starting, headline="start_ms", fresh=True,
         warm=False, rounds_max=3, fits=_can_restart, quick=True),
    Case(name="memory", title="Memory of a waiting message (100,000)", measure=_remembering, headline="bytes",
         fresh=True, warm=False, rounds_max=1, fits=_is_seen),
    Case(name="backlog-100k", title="Receive and delete, 100,000 messages waiting", measure=_with_backlog(100_000)),
    Case(name="fifo-100k", title="Receive and delete on a FIFO queue, 100,000 groups waiting",
         measure=_with_backlog(100_000, groups=100_000)),
    Case(name="backlog-1M", title="Receive and delete, 1,000,000 messages waiting",
         measure=_with_backlog(1_000_000), fits=_is_penstock),
    Case(name="start-1M", title="A start with 1,000,000 messages to the first received", measure=_starting_full,
         headline="start_ms", warm=False, rounds_max=3, fits=_is_penstock),
    Case(name="queues", title="Send one message to each of 10,000 queues", measure=_many_queues, fresh=True,
         warm=False, rounds_max=1),
    Case(name="polls-1k", title="1,000 idle long polls", measure=_polling(1_000), headline="cpu_percent",
         fresh=True, warm=False, rounds_max=1, fits=_is_seen),
    Case(name="polls-10k", title="10,000 idle long polls", measure=_polling(10_000), headline="cpu_percent",
         fresh=True, warm=False, rounds_max=1, fits=_is_seen),
)  # fmt: skip

# The cases behind the ratios by which this project judges its speed: see Results.key_figures.
KEY_CASES = ("send", "life", "wake", "backlog-1M")
