"""The loads of long polls: waking one, and keeping many idle ones."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from bench.jobs import Done, Job
from bench.load import Stopwatch
from bench.load_client import Connection, Wrong, connect
from bench.payloads import body, number_of

_POLL_SETTLES_S = 0.02
_POLLS_SETTLE_S = 3.0
_CONNECTS_AT_ONCE = 100


async def wake(job: Job, ready: Callable[[], None]) -> Done:
    """A message is sent while a poll waits for it, ``count`` times. Latencies: from the send to the receipt."""
    watch = Stopwatch(job, ready)
    sender, poller = await connect(job.url), await connect(job.url)
    queue = {"QueueUrl": job.queues[0]}
    watch.start()
    woken = 0
    while woken < job.count and not watch.over:
        poll = asyncio.ensure_future(poller.call("ReceiveMessage", {**queue, "WaitTimeSeconds": 20}))
        await asyncio.sleep(_POLL_SETTLES_S)
        begun = time.perf_counter()
        sending = sender.call("SendMessage", {**queue, "MessageBody": body(job.first + woken, job.size)})
        sent = asyncio.ensure_future(sending)
        answer = await _timed(poll, begun, watch)
        await sent
        message = answer["Messages"][0]
        if number_of(message, job.size) != job.first + woken:
            raise Wrong("received another message than was sent")
        await sender.call("DeleteMessage", {**queue, "ReceiptHandle": message["ReceiptHandle"]})
        woken += 1
    watch.requests = 3 * woken
    done = watch.stop(woken)
    sender.close()
    poller.close()
    return done


async def _timed(poll: asyncio.Future[dict[str, Any]], begun: float, watch: Stopwatch) -> dict[str, Any]:
    answer = await poll
    watch.latencies.append(time.perf_counter() - begun)
    return answer


async def polls(job: Job, ready: Callable[[], None]) -> Done:
    """``connections`` long polls wait on an empty queue; the CPU over ``limit_s`` seconds. One must still wake."""
    watch = Stopwatch(job, ready)
    connections: list[Connection] = []
    while len(connections) < job.connections:
        some = min(_CONNECTS_AT_ONCE, job.connections - len(connections))
        connections += await asyncio.gather(*(connect(job.url) for _ in range(some)))
    outcome: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def answered(answer: bytes | Exception) -> None:
        if outcome.done():
            return
        if isinstance(answer, Exception):
            outcome.set_exception(answer)
        elif b'"Body"' in answer:
            outcome.set_result(answer)

    signer = connections[0].signer
    ask = b'{"QueueUrl":"%b","WaitTimeSeconds":20}' % job.queues[0].encode()
    for connection in connections:
        connection.send(signer.request("ReceiveMessage", ask), answered)
        await asyncio.sleep(0)
    await asyncio.sleep(_POLLS_SETTLE_S)
    watch.start()
    await asyncio.sleep(job.limit_s)
    done = watch.stop(job.connections)
    if outcome.done():
        outcome.result()
    sender = await connect(job.url)
    await sender.call("SendMessage", {"QueueUrl": job.queues[0], "MessageBody": body(job.first, job.size)})
    await asyncio.wait_for(outcome, 10)
    for connection in [sender, *connections]:
        connection.close()
    return done
