"""The load of topics: publishing to one whose subscribers are queues."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

from bench.jobs import Done, Job
from bench.load import Pump, Stopwatch
from bench.load_client import Connection, Signer, Wrong, connect
from bench.payloads import body

FILTERED = "customer"  # the attribute that filters look at
_LOOK_EVERY_S = 0.01
_MESSAGE_ID = re.compile(rb"<MessageId>([^<]+)</MessageId>")


def filtered_value(number: int) -> str:
    """What filter ``number`` lets pass."""
    return f"customer-{number:04d}"


def signed_publish(signer: Signer, number: int, job: Job) -> bytes:
    parameters = {"TopicArn": job.topic, "Message": body(number, job.size)}
    if job.filters:
        entry = "MessageAttributes.entry.1."
        parameters |= {
            f"{entry}Name": FILTERED,
            f"{entry}Value.DataType": "String",
            f"{entry}Value.StringValue": filtered_value(number % job.filters),
        }
    return signer.query("Publish", parameters)


async def publish(job: Job, ready: Callable[[], None]) -> Done:
    """Publish ``count`` messages. The clock stops when the last ones are in a queue, so that a server that answers
    first and delivers then is measured with its deliveries."""
    watch = Stopwatch(job, ready)
    connections = [await connect(job.url) for _ in range(job.connections)]
    try:
        queue = job.queues[job.first % job.filters] if job.filters else job.queues[-1]
        before = await _count(connections[0], queue)
        pump = Pump(job, watch, signed_publish)
        pump.start(connections)
        await pump.finished
        for_it = (number for number, _ in pump.answers if (number - job.first) % max(1, job.filters) == 0)
        expected = before + sum(1 for _ in for_it)
        while (there := await _count(connections[0], queue)) < expected:  # noqa: ASYNC110
            await asyncio.sleep(_LOOK_EVERY_S)
        watch.requests = len(pump.answers)
        done = watch.stop(len(pump.answers))
        if there > expected:
            raise Wrong(
                f"a queue has {there - before} messages, not the {expected - before} that it was to get"
            )
        _check(pump.answers)
        return done
    finally:
        for connection in connections:
            connection.close()


async def _count(connection: Connection, queue: str) -> int:
    name = "ApproximateNumberOfMessages"
    answer = await connection.call("GetQueueAttributes", {"QueueUrl": queue, "AttributeNames": [name]})
    return int(answer["Attributes"][name])


def _check(answers: list[tuple[int, bytes]]) -> None:
    """No id was given twice."""
    ids = {found for _, answer in answers for found in _MESSAGE_ID.findall(answer)}
    if len(ids) != len(answers):
        raise Wrong(f"{len(answers):,} publications have {len(ids):,} ids")
