"""What a request costs the client: ``python -m bench.client``.

Each client sends, receives and deletes one message after the other, on one connection to the same server, which keeps
messages in memory and accepts every signature; an asynchronous one also several at once. Then messages are only sent:
one by one, in batches, and by producers. Clients run in processes of their own and take turns in every round; the
first round does not count. CPU time is that of the client's process.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import multiprocessing
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import boto3
import uvloop

from bench.document import DOCUMENT, write_between
from bench.machine import described
from bench.payloads import body
from bench.peers import HOME
from bench.process import Server
from bench.report import shown_spread
from bench.results import spread
from penstock.client import Client, Producer, SigningKeys, SyncClient, SyncProducer

BEGIN, END = "<!-- client: begin -->", "<!-- client: end -->"
PRODUCER_BEGIN, PRODUCER_END = "<!-- producer: begin -->", "<!-- producer: end -->"
KEYS = SigningKeys("bench", "bench-secret")
BOTO3 = "boto3"
BODY_BYTES = 200
REQUESTS = 3  # of each message that is sent, received and deleted
BATCH = 10
AT_ONCE = 10  # requests of one thread
SENT_PER_MESSAGE = 10  # this many times as many messages are sent where they are only sent

Round = tuple[float, float]  # CPU µs of each, how many per second
Work = Callable[[str, str, int], Round]


class Stopwatch:
    def __init__(self) -> None:
        self._cpu, self._wall = time.process_time(), time.perf_counter()

    def round(self, count: int) -> Round:
        cpu_s, wall_s = time.process_time() - self._cpu, time.perf_counter() - self._wall
        return 1e6 * cpu_s / count, count / wall_s


def boto3_client(url: str) -> Any:
    return boto3.client(
        "sqs", endpoint_url=url, region_name="us-east-1",
        aws_access_key_id=KEYS.access_key, aws_secret_access_key=KEYS.secret_key,
    )  # fmt: skip


def with_boto3(url: str, queue: str, messages: int) -> Round:
    sqs = boto3_client(url)
    target = sqs.get_queue_url(QueueName=queue)["QueueUrl"]
    watch = Stopwatch()
    for number in range(messages):
        text = body(number, BODY_BYTES)
        sqs.send_message(QueueUrl=target, MessageBody=text)
        (message,) = sqs.receive_message(QueueUrl=target)["Messages"]
        assert message["Body"] == text
        sqs.delete_message(QueueUrl=target, ReceiptHandle=message["ReceiptHandle"])
    return watch.round(REQUESTS * messages)


def with_sync_client(url: str, queue: str, messages: int) -> Round:
    with SyncClient(endpoint_url=url, credentials=KEYS) as client:
        target = client.get_queue_url(queue)
        watch = Stopwatch()
        for number in range(messages):
            text = body(number, BODY_BYTES)
            client.send_message(target, text)
            (message,) = client.receive_message(target)
            assert message.body == text
            client.delete_message(target, message.receipt_handle)
        return watch.round(REQUESTS * messages)


async def _with_client(url: str, queue: str, messages: int, at_once: int = 1) -> Round:
    numbers = iter(range(messages))

    async def work() -> None:
        for number in numbers:
            text = body(number, BODY_BYTES)
            await client.send_message(target, text)
            (message,) = await client.receive_message(target)
            assert at_once > 1 or message.body == text
            await client.delete_message(target, message.receipt_handle)

    async with Client(endpoint_url=url, credentials=KEYS) as client:
        target = await client.get_queue_url(queue)
        watch = Stopwatch()
        await asyncio.gather(*(work() for _ in range(at_once)))
        return watch.round(REQUESTS * messages)


def with_client(url: str, queue: str, messages: int) -> Round:
    return asyncio.run(_with_client(url, queue, messages))


def with_client_on_uvloop(url: str, queue: str, messages: int) -> Round:
    return uvloop.run(_with_client(url, queue, messages))


def with_client_at_once(url: str, queue: str, messages: int) -> Round:
    return uvloop.run(_with_client(url, queue, messages, AT_ONCE))


CLIENTS: dict[str, Work] = {
    BOTO3: with_boto3,
    "`SyncClient`": with_sync_client,
    "`Client`": with_client,
    "`Client`, uvloop": with_client_on_uvloop,
    f"`Client`, uvloop, {AT_ONCE} at once": with_client_at_once,
}


def batches_with_boto3(url: str, queue: str, messages: int) -> Round:
    sqs = boto3_client(url)
    target = sqs.get_queue_url(QueueName=queue)["QueueUrl"]
    watch = Stopwatch()
    for start in range(0, messages, BATCH):
        numbers = range(start, min(start + BATCH, messages))
        entries = [{"Id": str(number), "MessageBody": body(number, BODY_BYTES)} for number in numbers]
        assert len(sqs.send_message_batch(QueueUrl=target, Entries=entries)["Successful"]) == len(numbers)
    return watch.round(messages)


async def _with_producer(url: str, queue: str, messages: int) -> Round:
    async with Client(endpoint_url=url, credentials=KEYS) as client:
        target = await client.get_queue_url(queue)
        watch = Stopwatch()
        async with Producer(client, target) as producer:
            for number in range(messages):
                await producer.submit(body(number, BODY_BYTES))
        return watch.round(messages)


def with_producer(url: str, queue: str, messages: int) -> Round:
    return asyncio.run(_with_producer(url, queue, messages))


def with_producer_on_uvloop(url: str, queue: str, messages: int) -> Round:
    return uvloop.run(_with_producer(url, queue, messages))


def with_sync_producer(url: str, queue: str, messages: int) -> Round:
    with SyncClient(endpoint_url=url, credentials=KEYS) as client:
        target = client.get_queue_url(queue)
        watch = Stopwatch()
        with SyncProducer(client, target) as producer:
            for number in range(messages):
                producer.submit(body(number, BODY_BYTES))
        return watch.round(messages)


SENDERS: dict[str, Work] = {
    BOTO3: batches_with_boto3,
    "`SyncProducer`": with_sync_producer,
    "`Producer`": with_producer,
    "`Producer`, uvloop": with_producer_on_uvloop,
}


def measured(clients: Mapping[str, Work], messages: int, rounds: int) -> dict[str, list[Round]]:
    """The rounds of each client, without the first."""
    found: dict[str, list[Round]] = {name: [] for name in clients}
    with running_server() as server, ExitStack() as stack:
        apart = multiprocessing.get_context("spawn")
        processes = {name: stack.enter_context(ProcessPoolExecutor(1, apart)) for name in clients}
        queues = (f"client-{number}" for number in itertools.count())
        for turn in range(rounds + 1):
            for name, work in clients.items():
                queue = next(queues)
                with SyncClient(endpoint_url=server.url, credentials=KEYS) as client:
                    client.create_queue(queue)
                done = processes[name].submit(work, server.url, queue, messages).result()
                if turn:
                    found[name].append(done)
    return found


@contextmanager
def running_server() -> Iterator[Server]:
    server = Server(None)
    try:
        yield server
    finally:
        server.kill()


def table(found: dict[str, list[Round]], what: str) -> str:
    lines = [
        f"| client | CPU µs per {what} | boto3's / its CPU | {what}s per second | its rate / boto3's |",
        "|---|--:|--:|--:|--:|",
    ]
    for name, rounds in found.items():
        cpu, rate = (spread([each[figure] for each in rounds]) for figure in (0, 1))
        pairs = list(zip(rounds, found[BOTO3], strict=True))
        cheaper = spread([other[0] / own[0] for own, other in pairs])
        faster = spread([own[1] / other[1] for own, other in pairs])
        ratios = ["", ""] if name == BOTO3 else [shown_spread(cheaper), shown_spread(faster)]
        lines.append(f"| {name} | {shown_spread(cpu)} | {ratios[0]} | {shown_spread(rate)} | {ratios[1]} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.client", description=__doc__)
    parser.add_argument("--messages", type=int, default=1000, help="in each round")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--document", action="store_true", help="write the figures into docs/benchmark.md")
    given = parser.parse_args()
    machine = described(HOME)
    requests = table(measured(CLIENTS, given.messages, given.rounds), "request")
    print(requests)
    messages = table(measured(SENDERS, SENT_PER_MESSAGE * given.messages, given.rounds), "message")
    print(messages)
    if given.document:
        facts = ", ".join(machine[name] for name in ("processor", "system"))
        setting = f"{machine['date']}, {facts}, Python {machine['Python']}, boto3 {boto3.__version__}"
        load = machine["load at the start"]
        for begin, end, count, text in (
            (BEGIN, END, given.messages, requests),
            (PRODUCER_BEGIN, PRODUCER_END, SENT_PER_MESSAGE * given.messages, messages),
        ):
            note = f"{given.rounds} rounds of {count} messages; load {load}"
            write_between(DOCUMENT, begin, end, f"{setting}; {note}.\n\n{text}\n")


if __name__ == "__main__":
    main()
