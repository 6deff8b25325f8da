"""Producers and consumers that go on through every crash, and record the answers they got."""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
from collections.abc import Callable
from typing import Any

from support.ledger import Ledger, Ordered

HIDDEN_S = 2
CRASH_S = 0.3  # less than a crash and a restart take
PLAIN, DEAD, FIFO = "plain", "dead", "ordered.fifo"
GROUPS_PER_PRODUCER = 5
BACKLOG_MAX = 1000


class Broken(Exception):
    """The connection ended before the answer: the request was done or not."""


class Refused(Exception):
    """The server said no."""

    def __init__(self, status: int, answer: Any) -> None:
        super().__init__(f"{status} {answer}")
        self.status = status
        self.answer = answer


class ServerAddress:
    """The port of the running server. Clients wait while there is none."""

    def __init__(self) -> None:
        self.over = False
        self.rush = False  # shortly before the end: producers send without pauses
        self.parts_may_die = False  # one of several processes: 503 says that a request was done or not
        self._port = 0
        self._open = threading.Event()

    def open(self, port: int) -> None:
        self._port = port
        self._open.set()

    def close(self) -> None:
        self._open.clear()

    def finish(self) -> None:
        """Clients that wait now or later end."""
        self.over = True
        self._open.set()

    def port(self) -> int:
        self._open.wait()
        return self._port


class Client:
    """One connection at a time, opened again when it breaks. No request is repeated."""

    def __init__(self, address: ServerAddress, service: str = "AmazonSQS") -> None:
        self._server = address
        self._service = service
        self._connection: http.client.HTTPConnection | None = None

    def ask(self, action: str, **request: Any) -> Any:
        if self._connection is None:
            self._connection = http.client.HTTPConnection("127.0.0.1", self._server.port(), timeout=30)
        try:
            headers = {"X-Amz-Target": f"{self._service}.{action}"}
            self._connection.request("POST", "/", json.dumps(request), headers)
            response = self._connection.getresponse()
            body = response.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            self._connection = None
            raise Broken from error
        answer = json.loads(body) if body else None
        if response.status == 503 and self._server.parts_may_die:
            raise Broken
        if response.status != 200:
            raise Refused(response.status, answer)
        return answer


class Load:
    """All the threads. Each has its own random numbers, so that a seed says as much as it can."""

    def __init__(self, address: ServerAddress, ledger: Ledger, seed: int) -> None:
        self._server = address
        self._ledger = ledger
        jobs: list[Callable[[Client, random.Random, int], None]] = [
            self._produce, self._produce, self._produce_in_order, self._produce_in_order,
            self._consume, self._consume, self._consume_in_order, self._consume_in_order, self._revive,
        ]  # fmt: skip
        self._threads = [
            threading.Thread(target=self._guarded, args=(job, random.Random(f"{seed} {i}"), i), daemon=True)
            for i, job in enumerate(jobs)
        ]
        for thread in self._threads:
            thread.start()

    def finish(self) -> None:
        self._server.finish()
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive(), "a client hangs"

    def _guarded(
        self, job: Callable[[Client, random.Random, int], None], random_: random.Random, i: int
    ) -> None:
        try:
            job(Client(self._server), random_, i)
        except Exception as error:
            self._ledger.failed(f"a client ended with {error!r}")

    def _wanted(self) -> bool:
        """Producers keep to the pace of the consumers, so that messages have a life before the next crash. In the
        moment before it they do not: the more is under way, the more an early acknowledgement would show."""
        while self._ledger.backlog > BACKLOG_MAX and not self._server.rush and not self._server.over:
            time.sleep(0.005)
        return not self._server.over

    # -- standard queues -------------------------------------------------------------------------------------

    def _produce(self, client: Client, random_: random.Random, i: int) -> None:
        number = 0
        while self._wanted():
            bodies = [f"p{i}-{number + n}" for n in range(random_.choice((1, 1, 10)))]
            number += len(bodies)
            delay = random_.choice((0, 0, 0, 1))
            entries = [{"Id": b, "MessageBody": b, "DelaySeconds": delay} for b in bodies]
            try:
                answer = client.ask("SendMessageBatch", QueueUrl=PLAIN, Entries=entries)
            except Broken:
                for body in bodies:
                    self._ledger.maybe_sent(body)
            else:
                assert len(answer["Successful"]) == len(bodies)
                for body in bodies:
                    self._ledger.sent(body)

    def _consume(self, client: Client, random_: random.Random, i: int) -> None:
        while not self._server.over:
            queue = random_.choice((PLAIN, PLAIN, DEAD))
            asked_at = time.monotonic()
            try:
                answer = client.ask(
                    "ReceiveMessage",
                    QueueUrl=queue,
                    MaxNumberOfMessages=10,
                    WaitTimeSeconds=int(queue == PLAIN),
                )
            except Broken:
                continue
            messages = answer.get("Messages", [])
            self._ledger.received(messages, asked_at)
            # Some are left to come back, so that some become dead letters.
            self._delete(client, queue, [m for m in messages if random_.random() < 0.7], asked_at)

    def _delete(self, client: Client, queue: str, messages: list[dict[str, Any]], asked_at: float) -> None:
        for message in messages:
            self._ledger.delete_asked(message["Body"])
            if not self._delete_one(client, queue, message["ReceiptHandle"]):
                continue
            now = time.monotonic()
            if now - asked_at < (HIDDEN_S if queue == FIFO else CRASH_S):
                self._ledger.delete_acknowledged(message["Body"], now)

    def _delete_one(self, client: Client, queue: str, handle: str) -> bool:
        """Tries until there is an answer, through crashes: a handle from before works after."""
        while not self._server.over:
            try:
                client.ask("DeleteMessage", QueueUrl=queue, ReceiptHandle=handle)
                return True
            except Broken:
                continue
            except Refused as refused:
                # SQS: a FIFO queue deletes only what this receive still hides.
                assert queue == FIFO and "The receipt handle has expired." in refused.answer["message"], (
                    refused
                )
                return False
        return False

    def _revive(self, client: Client, random_: random.Random, i: int) -> None:
        """Move dead letters back to where they came from, again and again."""
        account = "000000000000"
        while not self._server.over:
            try:
                client.ask("StartMessageMoveTask", SourceArn=f"arn:aws:sqs:us-east-1:{account}:{DEAD}")
            except Broken:
                continue
            except Refused as refused:
                assert "already a task running" in refused.answer["message"], refused
            time.sleep(random_.uniform(0.05, 0.3))

    # -- FIFO ------------------------------------------------------------------------------------------------

    def _produce_in_order(self, client: Client, random_: random.Random, i: int) -> None:
        numbers = {f"o{i}g{n}": 0 for n in range(GROUPS_PER_PRODUCER)}
        while self._wanted():
            group = random_.choice(list(numbers))
            first = numbers[group]
            numbers[group] += random_.choice((1, 1, 5))
            self._send_in_order(client, [Ordered(group, n) for n in range(first, numbers[group])])

    def _send_in_order(self, client: Client, messages: list[Ordered]) -> None:
        """Sends until there is an answer, with the same deduplication ids: each is one message in the end."""
        entries = [
            {
                "Id": str(i),
                "MessageBody": m.body,
                "MessageGroupId": m.group,
                "MessageDeduplicationId": m.body,
            }
            for i, m in enumerate(messages)
        ]
        while True:
            try:
                answer = client.ask("SendMessageBatch", QueueUrl=FIFO, Entries=entries)
                break
            except Broken:
                for message in messages:
                    self._ledger.maybe_sent(message.body)
                if self._server.over:
                    return
        assert len(answer["Successful"]) == len(messages), answer
        for done in answer["Successful"]:
            self._ledger.sent_in_order(messages[int(done["Id"])].body, done)

    def _consume_in_order(self, client: Client, random_: random.Random, i: int) -> None:
        while not self._server.over:
            asked_at = time.monotonic()
            try:
                answer = client.ask(
                    "ReceiveMessage", QueueUrl=FIFO, MaxNumberOfMessages=10, WaitTimeSeconds=1,
                    AttributeNames=["SequenceNumber"],
                )  # fmt: skip
            except Broken:
                continue
            messages = answer.get("Messages", [])
            self._ledger.received_in_order(messages, asked_at)
            done = [m for m in messages if random_.random() < 0.95]
            random_.shuffle(done)
            self._delete(client, FIFO, done, asked_at)
