"""Requests are taken apart when they end. What would wait for the garbage collector instead piles up, and taking
fifty thousand such objects apart at once stalls every connection for tens of milliseconds."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from penstock.names import Space
from penstock.services import sqs
from penstock.wire.dispatch import Dispatcher
from penstock.wire.service import Call, Response
from support.http_requests import json_request
from support.world import World

SPACE = Space("000000000000", "eu-west-1")
TIMES = 20


class Face:
    """SQS over a real broker; each request runs to its end, or waits."""

    def __init__(self, world: World) -> None:
        self._world = world
        context = sqs.Sqs(world.broker, sqs.ACTIONS)
        self._answer = Dispatcher([sqs.SERVICE.with_context(context)]).answer

    def ask(self, action: str, **request: Any) -> Any:
        answers: list[Response] = []
        call = Call(request_id="r", space=SPACE, sender="s", base_url="http://h")
        self._answer(json_request(f"AmazonSQS.{action}", json.dumps(request).encode()), call, answers.append)
        self._world.run()
        return json.loads(answers[0].body or "{}") if answers else None


def send(face: Face, queue: str) -> None:
    face.ask("SendMessage", QueueUrl=queue, MessageBody="m", **_once(queue))


def send_batch(face: Face, queue: str) -> None:
    entries = [{"Id": i, "MessageBody": "m", **_once(queue)} for i in ("a", "b")]
    assert len(face.ask("SendMessageBatch", QueueUrl=queue, Entries=entries)["Successful"]) == 2


def receive_and_delete(face: Face, queue: str) -> None:
    send(face, queue)
    (message,) = face.ask("ReceiveMessage", QueueUrl=queue)["Messages"]
    face.ask("DeleteMessage", QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])


def wait_and_be_served(face: Face, queue: str) -> None:
    assert face.ask("ReceiveMessage", QueueUrl=queue, WaitTimeSeconds=20) is None
    send(face, queue)


def be_refused(face: Face, queue: str) -> None:
    assert "__type" in face.ask("SendMessage", QueueUrl=queue)


_sends = iter(range(10**9))


def _once(queue: str) -> dict[str, str]:
    """On FIFO: no duplicate, and not behind what is in flight."""
    number = str(next(_sends))
    return {"MessageDeduplicationId": number, "MessageGroupId": number} if queue.endswith(".fifo") else {}


@pytest.fixture(scope="module")
def no_collections() -> Iterator[None]:
    """Only what the tests themselves make is looked at: everything else that pytest has loaded takes long."""
    gc.collect()
    gc.freeze()
    gc.disable()
    yield
    gc.enable()
    gc.unfreeze()


@pytest.mark.usefixtures("no_collections")
@pytest.mark.parametrize("queue", ["q", "q.fifo"])
@pytest.mark.parametrize("deed", [send, send_batch, receive_and_delete, wait_and_be_served, be_refused])
def test_a_request_leaves_nothing_to_the_garbage_collector(
    world: World, queue: str, deed: Callable[[Face, str], None]
) -> None:
    world.create(queue)
    face = Face(world)
    deed(face, queue)  # what is made once, and kept
    gc.collect()
    for _ in range(TIMES):
        deed(face, queue)
    assert gc.collect() < TIMES, "less than one object for each"
