"""The cost of a backlog: memory, restart, and rates compared with an empty queue in the same run.

    .venv/bin/python -m bench.paging [--messages 1000000] [--scenario one|many|delayed|groups|purge|flow|consumers]

Rates are given as CPU time of the server per message, which is steadier on a shared machine than a rate, and as a
rate; each is compared with an empty queue on the same server, interleaved.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvloop

from bench.load_client import Connection, batches, connect, together
from bench.process import Server, cpu_seconds, memory_mb, peak_mb

BODY = "x" * 200
CONNECTIONS = 16


def entries(numbers: range, **more: Any) -> list[dict[str, Any]]:
    return [{"Id": str(i), "MessageBody": BODY, **more} for i in numbers]


async def create(port: int, name: str, **attributes: str) -> str:
    connection = await connect(port)
    url = await connection.call("CreateQueue", {"QueueName": name, "Attributes": attributes})
    connection.close()
    return str(url["QueueUrl"])


async def fill(port: int, total: int, request: Callable[[range], dict[str, Any]]) -> None:
    """Send ``total`` messages in batches of ten, on a progress line."""
    todo = iter(batches(total))
    done = 0
    begun = time.perf_counter()

    async def work(connection: Connection, _: int) -> None:
        nonlocal done
        for numbers in todo:
            answer = await connection.call("SendMessageBatch", request(numbers))
            assert len(answer["Successful"]) == len(numbers), answer
            done += len(numbers)
            if done % 50_000 == 0:
                rate = done / (time.perf_counter() - begun)
                print(f"\r  filled {done:>9,} of {total:,} ({rate:,.0f}/s)", end="", flush=True)

    await together(port, CONNECTIONS, work)
    print()


async def send_and_drain(
    server: Server, url: str, messages: int, fifo: bool
) -> tuple[float, float, float, float]:
    """(send rate, send CPU us, receive-and-delete rate, its CPU us), per message."""
    todo = iter(batches(messages))
    groups = iter(range(10**9))

    async def send(connection: Connection, _: int) -> None:
        for numbers in todo:
            batch = entries(numbers)
            if fifo:
                for entry in batch:
                    entry["MessageGroupId"] = f"bench-{next(groups) % 5000}"
                    entry["MessageDeduplicationId"] = f"{time.perf_counter_ns()}-{entry['Id']}"
            await connection.call("SendMessageBatch", {"QueueUrl": url, "Entries": batch})

    received = 0

    async def drain(connection: Connection, _: int) -> None:
        nonlocal received
        while received < messages:
            answer = await connection.call("ReceiveMessage", {"QueueUrl": url, "MaxNumberOfMessages": 10})
            found = answer.get("Messages", [])
            if not found:
                return
            received += len(found)
            handles = [{"Id": str(i), "ReceiptHandle": m["ReceiptHandle"]} for i, m in enumerate(found)]
            deleted = await connection.call("DeleteMessageBatch", {"QueueUrl": url, "Entries": handles})
            assert len(deleted["Successful"]) == len(found)

    figures = []
    for work in (send, drain):
        cpu, begun = cpu_seconds(server.pid), time.perf_counter()
        await together(server.port, CONNECTIONS, work)
        figures += [
            messages / (time.perf_counter() - begun),
            (cpu_seconds(server.pid) - cpu) / messages * 1e6,
        ]
    assert received >= messages * 0.99, received
    return figures[0], figures[1], figures[2], figures[3]


async def compare(server: Server, empty: str, full: str, fifo: bool = False, rounds: int = 5) -> None:
    """The same load on an empty queue and on the full one, in turns."""
    names = ("send", "receive+delete")
    ratios: dict[str, list[float]] = {f"{n} {k}": [] for n in names for k in ("rate", "CPU")}
    for _ in range(rounds):
        a = await send_and_drain(server, empty, 10_000, fifo)
        b = await send_and_drain(server, full, 10_000, fifo)
        for i, name in enumerate(names):
            ratios[f"{name} rate"].append(b[2 * i] / a[2 * i])
            ratios[f"{name} CPU"].append(a[2 * i + 1] / b[2 * i + 1])
    for name, values in ratios.items():
        spread = f"{min(values):.2f} to {max(values):.2f}"
        print(f"  {name:<20} {statistics.median(values):.2f} of an empty queue ({spread}, {rounds} rounds)")


def size_of(directory: Path) -> int:
    return sum(file.stat().st_size for file in directory.iterdir())


def restart(server: Server, data: Path) -> Server:
    print(f"  resident {memory_mb(server.pid):.0f} MB, peak {peak_mb(server.pid):.0f} MB")
    server.stop()
    size = size_of(data) / 1e6
    again = Server(data)
    print(f"  restart to serving {again.start_seconds:.2f} s ({again.recovered}); {size:.0f} MB on disk")
    return again


async def first_receive(server: Server, url: str) -> None:
    connection = await connect(server.port)
    begun = time.perf_counter()
    answer = await connection.call("ReceiveMessage", {"QueueUrl": url, "VisibilityTimeout": 0})
    assert answer["Messages"]
    print(f"  first receive after the restart {1000 * (time.perf_counter() - begun):.0f} ms")
    connection.close()


async def one(server: Server, data: Path, messages: int) -> Server:
    url = await create(server.port, "full")
    await fill(server.port, messages, lambda n: {"QueueUrl": url, "Entries": entries(n)})
    server = restart(server, data)
    await first_receive(server, url)
    await compare(server, await create(server.port, "empty"), url)
    return server


async def many(server: Server, data: Path, messages: int) -> Server:
    urls = [await create(server.port, f"many-{i}") for i in range(1000)]
    await fill(
        server.port,
        messages,
        lambda n: {"QueueUrl": urls[n.start // 10 % 1000], "Entries": entries(n)},
    )
    server = restart(server, data)
    await first_receive(server, urls[500])
    await compare(server, await create(server.port, "empty"), urls[7])
    return server


async def delayed(server: Server, data: Path, messages: int) -> Server:
    url = await create(server.port, "delayed")
    await fill(server.port, messages, lambda n: {"QueueUrl": url, "Entries": entries(n, DelaySeconds=900)})
    server = restart(server, data)
    await compare(server, await create(server.port, "empty"), url)
    return server


async def groups(server: Server, data: Path, messages: int) -> Server:
    fifo = {"FifoQueue": "true", "DeduplicationScope": "messageGroup"}
    url = await create(server.port, "groups.fifo", **fifo)

    def request(numbers: range) -> dict[str, Any]:
        batch = entries(numbers)
        for i, entry in zip(numbers, batch, strict=True):
            entry["MessageGroupId"] = f"group-{i % 100_000}"
            entry["MessageDeduplicationId"] = str(i)
        return {"QueueUrl": url, "Entries": batch}

    await fill(server.port, messages, request)
    server = restart(server, data)
    await first_receive(server, url)
    await compare(server, await create(server.port, "empty.fifo", **fifo), url, fifo=True)
    return server


async def purge(server: Server, data: Path, messages: int) -> Server:
    url = await create(server.port, "purged")
    await fill(server.port, messages, lambda n: {"QueueUrl": url, "Entries": entries(n)})
    connection = await connect(server.port)
    before = size_of(data)
    begun = time.perf_counter()
    await connection.call("PurgeQueue", {"QueueUrl": url})
    print(f"  purge answered in {1000 * (time.perf_counter() - begun):.0f} ms")
    slowest = 0.0
    while (size := size_of(data)) > 0.1 * before + 20e6:
        asked = time.perf_counter()
        await connection.call("SendMessage", {"QueueUrl": url, "MessageBody": BODY})
        slowest = max(slowest, time.perf_counter() - asked)
        await asyncio.sleep(0.05)
        if time.perf_counter() - begun > 120:
            break
    took = time.perf_counter() - begun
    print(
        f"  {before / 1e6:.0f} MB shrank to {size / 1e6:.0f} MB in {took:.1f} s; slowest send {1000 * slowest:.0f} ms"
    )
    return server


async def flow(server: Server, data: Path, messages: int) -> Server:
    """Send, receive and delete them all, a little at a time: memory must stay where it was."""
    url = await create(server.port, "flow")
    for part in range(10):
        await send_and_drain(server, url, messages // 10, fifo=False)
        print(f"  resident {memory_mb(server.pid):.0f} MB after {(part + 1) * messages // 10:,} messages")
    return server


async def consumers(server: Server, data: Path, messages: int) -> Server:
    """Thirty consumers on a backlog of ten thousand: how long does one receive take?"""
    url = await create(server.port, "consumers")
    await fill(server.port, 10_000, lambda n: {"QueueUrl": url, "Entries": entries(n)})
    took: list[float] = []

    async def consume(connection: Connection, _: int) -> None:
        while True:
            begun = time.perf_counter()
            answer = await connection.call("ReceiveMessage", {"QueueUrl": url, "MaxNumberOfMessages": 10})
            took.append(time.perf_counter() - begun)
            if not (found := answer.get("Messages", [])):
                return
            for message in found:
                handle = {"QueueUrl": url, "ReceiptHandle": message["ReceiptHandle"]}
                await connection.call("DeleteMessage", handle)

    await together(server.port, 30, consume)
    took.sort()
    median, late = (1000 * took[int(len(took) * share)] for share in (0.5, 0.99))
    print(f"  {len(took):,} receives: p50 {median:.1f} ms, p99 {late:.1f} ms")
    return server


SCENARIOS = {
    "one": one,
    "many": many,
    "delayed": delayed,
    "groups": groups,
    "purge": purge,
    "flow": flow,
    "consumers": consumers,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--scenario", nargs="*", choices=list(SCENARIOS), default=list(SCENARIOS))
    parser.add_argument(
        "--directory", type=Path, default=None, help="where the data goes (default: a temporary one)"
    )
    options = parser.parse_args()
    for name in options.scenario:
        data = Path(tempfile.mkdtemp(prefix="penstock-bench-", dir=options.directory))
        print(f"{name}: {options.messages:,} messages of {len(BODY)} bytes, fsync on every commit")
        server = Server(data)
        try:
            server = uvloop.run(SCENARIOS[name](server, data, options.messages))
            print(f"  resident at the end {memory_mb(server.pid):.0f} MB, peak {peak_mb(server.pid):.0f} MB")
        finally:
            print(server.complaints(), end="")
            server.kill()
            shutil.rmtree(data, ignore_errors=True)


if __name__ == "__main__":
    main()
