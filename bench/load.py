"""The loads: sending, draining, a full life with producers and consumers at once, creating queues.

Sends are encoded and signed before the clock starts, and their answers are checked after it stops. What depends on
an earlier answer (a delete needs a receipt handle) is signed and checked on the way.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from bench.jobs import Done, Job
from bench.load_client import Connection, Signer, Wrong, connect, encode, together
from bench.payloads import body, md5, number_of
from bench.process import cpu_seconds


class Stopwatch:
    """One measurement: the clock, the server's CPU time and our own, from ``start`` to ``stop``."""

    def __init__(self, job: Job, ready: Callable[[], None]) -> None:
        self._pid = job.pid
        self._ready = ready
        self._limit_s = job.limit_s
        self.latencies: list[float] = []
        self.requests = 0
        self.twice = 0

    def start(self) -> None:
        self._ready()  # all generator processes begin together
        self._own = time.process_time()
        self._cpu = self._server()
        self.begun = time.perf_counter()
        self.deadline = self.begun + self._limit_s

    @property
    def over(self) -> bool:
        return time.perf_counter() > self.deadline

    def stop(self, messages: int) -> Done:
        return Done(
            messages=messages, begun=self.begun, ended=time.perf_counter(), server_cpu=(self._cpu, self._server()),
            own_cpu=time.process_time() - self._own, latencies=self.latencies, requests=self.requests,
            twice=self.twice,
        )  # fmt: skip

    def _server(self) -> float:
        return cpu_seconds(self._pid) if self._pid is not None else 0.0


# -- sending -------------------------------------------------------------------------------------------------


class Sent(msgspec.Struct):
    MessageId: str
    MD5OfMessageBody: str
    Id: str = ""


class SentBatch(msgspec.Struct):
    Successful: list[Sent]


_sent = msgspec.json.Decoder(Sent).decode
_sent_batch = msgspec.json.Decoder(SentBatch).decode


def entry(number: int, job: Job) -> dict[str, Any]:
    made: dict[str, Any] = {"MessageBody": body(number, job.size)}
    if job.groups:
        made["MessageGroupId"] = f"group-{number % job.groups}"
        made["MessageDeduplicationId"] = str(number)
    return made


def signed_send(signer: Signer, number: int, job: Job) -> bytes:
    """The send that begins with message ``number``."""
    queue = {"QueueUrl": job.queues[number // job.batch % len(job.queues)]}
    if job.batch == 1:
        return signer.request("SendMessage", encode({**queue, **entry(number, job)}))
    entries = [{"Id": str(n), **entry(n, job)} for n in range(number, number + job.batch)]
    return signer.request("SendMessageBatch", encode({**queue, "Entries": entries}))


def check_sends(answers: list[tuple[int, bytes]], job: Job) -> None:
    """Every digest fits its body, and no id was given twice."""
    ids = set()
    for first, answer in answers:
        sent = [_sent(answer)] if job.batch == 1 else _sent_batch(answer).Successful
        if len(sent) != job.batch:
            raise Wrong(f"{job.batch - len(sent)} of {job.batch} entries were refused: {answer[:300]!r}")
        for i, one in enumerate(sent):
            number = int(one.Id) if one.Id else first + i
            if one.MD5OfMessageBody != md5(body(number, job.size)):
                raise Wrong("MD5OfMessageBody does not fit the body")
            ids.add(one.MessageId)
    if len(ids) != len(answers) * job.batch:
        raise Wrong(f"message ids were given twice: {len(answers) * job.batch - len(ids)}")


class Pump:
    """Sends from the callback of the answer before; no task per request. ``make`` makes the request that begins with
    a message."""

    def __init__(
        self, job: Job, watch: Stopwatch, make: Callable[[Signer, int, Job], bytes] = signed_send
    ) -> None:
        self._job = job
        self._watch = watch
        self._make = make
        self._todo: Iterator[tuple[int, bytes]]
        self._running = 0
        self._begun = 0
        self.answers: list[tuple[int, bytes]] = []
        self.finished = asyncio.get_running_loop().create_future()

    def start(self, connections: list[Connection]) -> None:
        signer = connections[0].signer
        job = self._job
        numbers = range(job.first, job.first + job.count, job.batch)
        requests = [(number, self._make(signer, number, job)) for number in numbers]
        self._todo = iter(requests)
        self._watch.start()
        self._running = len(connections)
        for connection in connections:
            self._next(connection)

    def _next(self, connection: Connection) -> None:
        todo = None if self._watch.over else next(self._todo, None)
        if todo is None:
            self._running -= 1
            if not self._running and not self.finished.done():
                self.finished.set_result(None)
            return
        number, request = todo
        begun = time.perf_counter()
        if self._job.rate:
            due = self._watch.begun + self._begun / self._job.rate
            self._begun += 1
            if due > begun:
                asyncio.get_running_loop().call_later(
                    due - begun, self._send, connection, number, request, due
                )
                return
            begun = due  # it should have left then: the time it waited for its turn counts
        self._send(connection, number, request, begun)

    def _send(self, connection: Connection, number: int, request: bytes, begun: float) -> None:

        def answered(answer: bytes | Exception) -> None:
            if isinstance(answer, Exception):
                if not self.finished.done():
                    self.finished.set_exception(answer)
                return
            self._watch.latencies.append(time.perf_counter() - begun)
            self.answers.append((number, answer))
            self._next(connection)

        connection.send(request, answered)


async def send(job: Job, ready: Callable[[], None]) -> Done:
    watch = Stopwatch(job, ready)
    connections = [await connect(job.url) for _ in range(job.connections)]
    pump = Pump(job, watch)
    pump.start(connections)
    await pump.finished
    watch.requests = len(pump.answers)
    done = watch.stop(len(pump.answers) * job.batch)
    for connection in connections:
        connection.close()
    check_sends(pump.answers, job)
    return done


# -- receiving -----------------------------------------------------------------------------------------------


class Consumer:
    """Receives ten, checks them, deletes them. Shared by the connections that drain one queue."""

    def __init__(self, job: Job, watch: Stopwatch, wait_s: int) -> None:
        self._job = job
        self._watch = watch
        self._ask: dict[str, Any] = {
            "QueueUrl": job.queues[0], "MaxNumberOfMessages": 10, "WaitTimeSeconds": wait_s,
        }  # fmt: skip
        if job.groups:
            self._ask["MessageSystemAttributeNames"] = ["MessageGroupId", "SequenceNumber"]
        self._last: dict[str, int] = {}
        self.seen: set[int] = set()
        self.deleted = 0

    async def turn(self, connection: Connection) -> list[int]:
        """The numbers of the messages that came and went."""
        begun = time.perf_counter()
        answer = await connection.call("ReceiveMessage", self._ask)
        messages = answer.get("Messages") or []
        self._watch.requests += 1
        if not messages:
            return []
        self._watch.latencies.append(time.perf_counter() - begun)
        numbers = [self._check(message) for message in messages]
        entries = [{"Id": str(i), "ReceiptHandle": m["ReceiptHandle"]} for i, m in enumerate(messages)]
        gone = await connection.call(
            "DeleteMessageBatch", {"QueueUrl": self._job.queues[0], "Entries": entries}
        )
        self._watch.requests += 1
        if len(gone.get("Successful", ())) != len(messages):
            raise Wrong(f"deletes were refused: {gone}")
        news = set(numbers) - self.seen
        self.seen |= news
        # SQS: a standard queue may deliver a message more than once. It is counted, not refused.
        self._watch.twice += len(numbers) - len(news)
        self.deleted += len(news)
        return numbers

    def _check(self, message: dict[str, Any]) -> int:
        number = number_of(message, self._job.size)
        if self._job.groups and number in self.seen:
            raise Wrong(f"message {number} of a FIFO queue was delivered twice")
        attributes = message.get("Attributes", {})
        if self._job.groups and "SequenceNumber" in attributes:
            group, sequence = attributes["MessageGroupId"], int(attributes["SequenceNumber"])
            if sequence <= self._last.get(group, -1):
                raise Wrong(f"{group} was delivered out of order")
            self._last[group] = sequence
        return number


async def drain(job: Job, ready: Callable[[], None]) -> Done:
    """Receive and delete ``count`` messages that are there."""
    watch = Stopwatch(job, ready)
    consumer = Consumer(job, watch, wait_s=0)
    waiting = asyncio.Event()
    connected = 0

    async def work(connection: Connection, _: int) -> None:
        nonlocal connected
        connected += 1
        if connected == job.connections:
            watch.start()
            waiting.set()
        await waiting.wait()
        empty = 0
        while consumer.deleted < job.count and not watch.over and empty < 3:
            empty = 0 if await consumer.turn(connection) else empty + 1

    await together(job.url, job.connections, work)
    done = watch.stop(consumer.deleted)
    if not consumer.deleted:
        raise Wrong("nothing was received from a queue that is not empty")
    return done


async def life(job: Job, ready: Callable[[], None]) -> Done:
    """Half of the connections send, half receive and delete. Latencies are from the send to the receipt."""
    watch = Stopwatch(job, ready)
    consumer = Consumer(job, watch, wait_s=1)
    todo = iter(range(job.first, job.first + job.count))
    sent_at: dict[int, float] = {}
    latencies: list[float] = []
    outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def produce(connection: Connection) -> None:
        for number in todo:
            if watch.over:
                return
            sent_at[number] = time.perf_counter()
            queue = {"QueueUrl": job.queues[0]}
            answer = await connection.call("SendMessage", {**queue, **entry(number, job)})
            watch.requests += 1
            check_sends([(number, encode(answer))], job)

    async def consume(connection: Connection) -> None:
        while not watch.over and consumer.deleted < job.count:
            for number in await consumer.turn(connection):
                if number in sent_at:  # else another generator process sent it
                    latencies.append(time.perf_counter() - sent_at[number])
        if not outcome.done():
            outcome.set_result(None)

    async def work(connection: Connection, index: int) -> None:
        try:
            await (produce(connection) if index % 2 else consume(connection))
        except (Wrong, OSError) as error:
            if not outcome.done():
                outcome.set_exception(error)

    connections = [await connect(job.url) for _ in range(max(2, job.connections))]
    watch.start()
    tasks = [asyncio.ensure_future(work(each, i)) for i, each in enumerate(connections)]
    try:
        await outcome
        done = watch.stop(consumer.deleted)
    finally:  # polls that still wait are left alone: the last message has been counted
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for connection in connections:
            connection.close()
    if not consumer.deleted:
        raise Wrong("nothing was received")
    done.latencies = latencies
    return done


# -- creating ------------------------------------------------------------------------------------------------


async def create_queues(job: Job, ready: Callable[[], None]) -> Done:
    """Create the queues that the job names."""
    watch = Stopwatch(job, ready)
    todo = iter(job.queues)
    made = 0
    started = False

    async def work(connection: Connection, _: int) -> None:
        nonlocal made, started
        if not started:
            started = True
            watch.start()
        for name in todo:
            if watch.over:
                return
            begun = time.perf_counter()
            answer = await connection.call("CreateQueue", {"QueueName": name})
            watch.latencies.append(time.perf_counter() - begun)
            if not answer["QueueUrl"].endswith(f"/{name}"):
                raise Wrong(f"created {name}, got {answer['QueueUrl']}")
            made += 1

    await together(job.url, job.connections, work)
    watch.requests = made
    return watch.stop(made)
