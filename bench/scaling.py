"""What scaling out costs and brings: ``python -m bench.scaling [--rounds 7] [--count 8000] [--only NAME,...]``.

Each case is one SendMessage of 200 bytes, over and over, on 64 connections. CPU is that of all processes of the
server, with its supervisor, and of the database beside it. Cases take turns in every round; the table has
the median of all rounds but the first, and ratios that are taken round by round.

A client cannot choose its process: the kernel does. So connections are opened until there are enough to one of
the two, as /proc shows, and queues are chosen by the process that owns them.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import uvloop
from rich.console import Console
from rich.table import Table

from bench.load_client import Connection, Wrong, connect, encode
from bench.payloads import body
from bench.process import Server, cpu_seconds, family
from penstock.names import QueueName, shard_of

CONNECTIONS = 64
PROCESSES, SHARDS = 2, 8
_OPENED_MAX = 1000
_TESTS = Path(__file__).parent.parent / "tests"  # they start PostgreSQL, too


class Round(NamedTuple):
    cpu_us: float  # of the server, per message
    database_us: float
    rate: float
    generator_busy: float


class Target(NamedTuple):
    """A server, connections to it, and queues to send to."""

    server: Server
    database: int | None  # the process id of its database
    connections: list[Connection]
    queues: list[str]


# -- load ----------------------------------------------------------------------------------------------------


async def send(target: Target, count: int) -> Round:
    """Sends this many messages, as quickly as the answers come. Requests are signed before the clock starts."""
    requests = [
        target.connections[0].signer.request(
            "SendMessage",
            encode({"QueueUrl": target.queues[i % len(target.queues)], "MessageBody": body(i, 200)}),
        )
        for i in range(count)
    ]
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    answered = 0

    def send_next(connection: Connection) -> None:
        if requests:
            connection.send(requests.pop(), lambda answer: on_answer(connection, answer))

    def on_answer(connection: Connection, answer: bytes | Exception) -> None:
        nonlocal answered
        answered += 1
        if isinstance(answer, Exception) and not done.done():
            done.set_exception(answer)
        elif answered == count and not done.done():
            done.set_result(None)
        send_next(connection)

    cpu, database, own = cpu_seconds(target.server.pid), _cpu(target.database), time.process_time()
    begun = time.perf_counter()
    for connection in target.connections:
        send_next(connection)
    await done
    seconds = time.perf_counter() - begun
    return Round(
        1e6 * (cpu_seconds(target.server.pid) - cpu) / count,
        1e6 * (_cpu(target.database) - database) / count,
        count / seconds,
        (time.process_time() - own) / seconds,
    )


def _cpu(pid: int | None) -> float:
    return 0.0 if pid is None else cpu_seconds(pid)


# -- which process --------------------------------------------------------------------------------------------


def serving_process(server: Server, client_port: int) -> int:
    """The process that has accepted the connection from this port."""
    inodes = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        local, remote = (int(address.partition(":")[2], 16) for address in fields[1:3])
        if (local, remote) == (server.port, client_port):
            inodes.add(f"socket:[{fields[9]}]")
    for pid in family(server.pid):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            try:
                if os.readlink(descriptor) in inodes:
                    return pid
            except FileNotFoundError:
                continue
    raise Wrong(f"no process has the connection from port {client_port}")


async def connections_to_one_process(server: Server) -> tuple[int, list[Connection]]:
    """The process id of a process, and enough connections that reached it."""
    by_process: dict[int, list[Connection]] = {}
    for _ in range(_OPENED_MAX):
        connection = await connect(server.url)
        await connection.call("ListQueues", {})  # now it was accepted
        found = by_process.setdefault(serving_process(server, connection.local_port), [])
        found.append(connection)
        if len(found) == CONNECTIONS:
            process = next(pid for pid, connections in by_process.items() if connections is found)
            for pid, connections in by_process.items():
                for each in connections if pid != process else ():
                    each.close()
            return process, found
    raise Wrong(f"{_OPENED_MAX} connections, and too few to one process")


async def queues_by_owner(target: Target) -> dict[int, str]:
    """A queue of each process, by its process id: the one that uses CPU time when only this queue is used."""
    found: dict[int, str] = {}
    for owner in range(PROCESSES):
        name = next(
            name
            for name in (f"queue-{i}" for i in range(1000))
            if shard_of(QueueName("000000000000", "us-east-1", name), SHARDS) % PROCESSES == owner
        )
        url = (await target.connections[0].call("CreateQueue", {"QueueName": name}))["QueueUrl"]
        before = {pid: cpu_seconds(pid) for pid in list(family(target.server.pid))[1:]}
        await send(target._replace(queues=[url]), 2000)
        used = {pid: cpu_seconds(pid) - cpu for pid, cpu in before.items()}
        accepting = serving_process(target.server, target.connections[0].local_port)
        other = next(pid for pid in used if pid != accepting)
        # Passed on, most of the work is still done by the owner: an idle process uses next to nothing.
        found[other if used[other] > 0.2 * used[accepting] else accepting] = url
    if len(found) != PROCESSES:
        raise Wrong("cannot tell which process owns which queue")
    return found


# -- cases ---------------------------------------------------------------------------------------------------


class Servers:
    """Servers that are started when a case needs them, and their connections."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack

    def _start(self, *flags: str) -> Server:
        folder = Path(tempfile.mkdtemp(prefix="penstock-bench-"))
        self._stack.callback(shutil.rmtree, folder, ignore_errors=True)
        server = Server(folder, *flags)
        server.await_answer(f"{server.url}/health/ready")  # of several processes each learns it by itself
        self._stack.callback(server.kill)
        return server

    async def _spread(self, server: Server, database: int | None = None, queues: int = 1) -> Target:
        connections = [await connect(server.url) for _ in range(CONNECTIONS)]
        urls = [
            (await connections[0].call("CreateQueue", {"QueueName": f"spread-{i}"}))["QueueUrl"]
            for i in range(queues)
        ]
        return Target(server, database, connections, urls)

    async def one_process(self) -> dict[str, Target]:
        return {
            "one process": await self._spread(self._start()),
            "one process, 16 queues": await self._spread(self._start(), queues=16),
            "one process, 8 shards, 16 queues": await self._spread(
                self._start("--shards", str(SHARDS)), queues=16
            ),
        }

    async def two_processes(self) -> dict[str, Target]:
        server = self._start("--processes", str(PROCESSES), "--shards", str(SHARDS))
        process, connections = await connections_to_one_process(server)
        reached = Target(server, None, connections, [])
        queues = await queues_by_owner(reached)
        other = next(pid for pid in queues if pid != process)
        return {
            "two processes, queue of the process reached": reached._replace(queues=[queues[process]]),
            "two processes, passed on to the other": reached._replace(queues=[queues[other]]),
            "two processes, 16 queues, any process": await self._spread(server, queues=16),
        }

    async def postgres(self) -> dict[str, Target]:
        sys.path.append(str(_TESTS))
        from support.postgres import running_postgres

        database = self._stack.enter_context(running_postgres(settings={}))
        server = self._start("--store", database.url(database.new_database()))
        return {"one node on PostgreSQL": await self._spread(server, database.pid)}


CASES = {"process": Servers.one_process, "processes": Servers.two_processes, "postgres": Servers.postgres}
COMPARED_WITH = {
    "one process, 8 shards, 16 queues": "one process, 16 queues",
    "two processes, queue of the process reached": "one process",
    "two processes, passed on to the other": "two processes, queue of the process reached",
    "two processes, 16 queues, any process": "one process, 8 shards, 16 queues",
    "one node on PostgreSQL": "one process",
}


Results = dict[str, list[Round]]


async def measure(names: Sequence[str], rounds: int, count: int, say: Callable[[str], None]) -> Results:
    with ExitStack() as stack:
        servers, targets = Servers(stack), dict[str, Target]()
        for name in names:
            say(f"starting {name}")
            targets |= await CASES[name](servers)
        results: Results = {name: [] for name in targets}
        for number in range(rounds + 1):
            for name, target in targets.items():
                say(f"round {number} of {rounds}: {name}")
                result = await send(target, count)
                if number:  # the first one warms up
                    results[name].append(result)
        return results


def table(results: Results) -> Table:
    shown = Table(
        "SendMessage, 64 connections", "CPU µs", "database CPU µs", "per second", "generator busy", "compared with",
        "CPU", "per second",
    )  # fmt: skip
    for name, rounds in results.items():
        base = COMPARED_WITH.get(name, "")
        ratios = [
            (each.cpu_us / other.cpu_us, each.rate / other.rate)
            for each, other in zip(rounds, results.get(base, ()), strict=False)
        ]
        cpu, rate = map(_spread, zip(*ratios, strict=True)) if ratios else ("", "")
        database = _median(each.database_us for each in rounds)
        shown.add_row(
            name, f"{_median(each.cpu_us for each in rounds):.1f}", f"{database:.1f}" if database else "",
            f"{_median(each.rate for each in rounds):,.0f}",
            f"{_median(each.generator_busy for each in rounds):.0%}", base if ratios else "", cpu, rate,
        )  # fmt: skip
    return shown


def _median(values: Iterator[float]) -> float:
    return statistics.median(values)


def _spread(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f}-{max(values):.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.scaling", description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--count", type=int, default=8000, help="messages of a round")
    parser.add_argument("--only", metavar="NAME,...", default=",".join(CASES), help=f"of {', '.join(CASES)}")
    given = parser.parse_args()
    names = given.only.split(",")
    if unknown := set(names) - CASES.keys():
        raise SystemExit(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(CASES)}")
    console = Console()
    with console.status("") as status:
        results = uvloop.run(measure(names, given.rounds, given.count, status.update))
    (console if console.is_terminal else Console(width=180)).print(table(results))


if __name__ == "__main__":
    main()
