"""Two topics with five queues in three shards and an HTTP endpoint, publishers that go on through every crash, and
what must be where at the end.

A message that was acknowledged is in every queue, and the endpoint has it. No queue has
one twice, whether it was acknowledged or not. The queues of the FIFO topic have the messages of a group in order, and
each that was repeated until it was acknowledged is one message.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import groupby
from typing import Any

from support.ledger import Ordered
from support.load import Broken, Client, ServerAddress
from support.waiting import until

NEWS, ORDERS = "news", "orders.fifo"
STANDARD = ("fan1", "fan2", "fan3")  # of three shards, and of six
FIFO = ("line1.fifo", "line3.fifo")
_ARN = "arn:aws:{}:us-east-1:000000000000:{}"
_GROUPS = 4
_QUICK_RETRIES = {"healthyRetryPolicy": {"minDelayTarget": 1, "maxDelayTarget": 1, "numRetries": 100}}
_FAILS_EVERY = 9  # request
_DELIVERED_WITHIN_S = 45.0


class Endpoint:
    """An HTTP server that is subscribed. It fails now and then."""

    def __init__(self) -> None:
        self.tokens: list[str] = []
        self.texts: set[str] = set()  # of the messages that it took
        self.times = 0
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(200 if endpoint.take(body) else 503)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def take(self, body: dict[str, str]) -> bool:
        if body["Type"] != "Notification":
            self.tokens.append(body["Token"])
            return True
        self.times += 1
        if self.times % _FAILS_EVERY == 0:
            return False
        self.texts.add(body["Message"])
        return True

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class FanOut:
    """The topics, with their publishers."""

    def __init__(self, address: ServerAddress, seed: int) -> None:
        self._address = address
        self.endpoint = Endpoint()
        self.sent: dict[str, str] = {}  # the text of each message that was acknowledged, and its id
        self.unsure: set[str] = set()
        self.wrong: list[str] = []
        self._make(Client(address), Client(address, "AmazonSNS"))
        jobs = (self._publish, self._publish, self._publish_in_order, self._publish_in_order)
        self._threads = [
            threading.Thread(target=self._guarded, args=(job, random.Random(f"{seed} {i}"), i), daemon=True)
            for i, job in enumerate(jobs)
        ]
        for thread in self._threads:
            thread.start()

    def _make(self, sqs: Client, sns: Client) -> None:
        for queue in STANDARD:
            sqs.ask("CreateQueue", QueueName=queue)
        for queue in FIFO:
            sqs.ask("CreateQueue", QueueName=queue, Attributes={"FifoQueue": "true"})
        sns.ask("CreateTopic", Name=NEWS)
        sns.ask("CreateTopic", Name=ORDERS, Attributes={"FifoTopic": "true"})
        for topic, queues in ((NEWS, STANDARD), (ORDERS, FIFO)):
            for number, queue in enumerate(queues):
                raw = {"RawMessageDelivery": "true"} if number == 0 else {}
                sns.ask(
                    "Subscribe", TopicArn=_ARN.format("sns", topic), Protocol="sqs",
                    Endpoint=_ARN.format("sqs", queue), Attributes=raw,
                )  # fmt: skip
        policy = {"DeliveryPolicy": json.dumps(_QUICK_RETRIES)}
        arn = _ARN.format("sns", NEWS)
        sns.ask("Subscribe", TopicArn=arn, Protocol="http", Endpoint=self.endpoint.url, Attributes=policy)
        until(lambda: bool(self.endpoint.tokens), "the endpoint is asked for a confirmation")
        sns.ask("ConfirmSubscription", TopicArn=arn, Token=self.endpoint.tokens[0])

    def stop(self) -> None:
        """End the publishers."""
        self._address.finish()
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive(), "a publisher hangs"

    # -- publishers ------------------------------------------------------------------------------------------

    def _guarded(
        self, job: Callable[[Client, random.Random, int], None], random_: random.Random, i: int
    ) -> None:
        try:
            job(Client(self._address, "AmazonSNS"), random_, i)
        except Exception as error:
            self.wrong.append(f"a publisher ended with {error!r}")

    def _pause(self, random_: random.Random) -> None:
        """Pauses, but not in the moment before a crash, so that more is under way then."""
        if not self._address.rush:
            time.sleep(random_.uniform(0.02, 0.06))

    def _publish(self, client: Client, random_: random.Random, i: int) -> None:
        number = 0
        while not self._address.over:
            texts = [f"p{i}-{number + n}" for n in range(random_.choice((1, 1, 4)))]
            number += len(texts)
            self._publish_once(client, NEWS, [{"Id": text, "Message": text} for text in texts])
            self._pause(random_)

    def _publish_in_order(self, client: Client, random_: random.Random, i: int) -> None:
        numbers = {f"o{i}g{n}": 0 for n in range(_GROUPS)}
        while not self._address.over:
            group = random_.choice(list(numbers))
            first = numbers[group]
            numbers[group] += random_.choice((1, 1, 4))
            entries = [
                {"Id": text, "Message": text, "MessageGroupId": group, "MessageDeduplicationId": text}
                for text in (Ordered(group, n).body for n in range(first, numbers[group]))
            ]
            while not self._publish_once(client, ORDERS, entries) and not self._address.over:
                continue
            self._pause(random_)

    def _publish_once(self, client: Client, topic: str, entries: list[dict[str, str]]) -> bool:
        """Whether it was acknowledged."""
        texts = [entry["Message"] for entry in entries]
        try:
            answer = client.ask(
                "PublishBatch", TopicArn=_ARN.format("sns", topic), PublishBatchRequestEntries=entries
            )
        except Broken:
            self.unsure.update(texts)
            return False
        assert len(answer["Successful"]) == len(entries), answer
        for done in answer["Successful"]:
            self.sent[done["Id"]] = done["MessageId"]
        return True

    # -- the reckoning -----------------------------------------------------------------------------------------

    def settle(self, port: int) -> list[str]:
        """All that is wrong. ``port``: of a server, when no publisher publishes any more."""
        address = ServerAddress()
        address.open(port)
        try:
            wrong = list(self.wrong)
            for queue in (*STANDARD, *FIFO):
                wrong += self._faults_of(queue, _all_of(Client(address), queue, self._wanted(queue in FIFO)))
            return [*wrong, *self._faults_of_endpoint()]
        finally:
            self.endpoint.close()

    def _wanted(self, is_fifo: bool) -> set[str]:
        return {text for text in self.sent if text.startswith("o") == is_fifo}

    def _faults_of(self, queue: str, there: list[str]) -> Iterator[str]:
        wanted = self._wanted(queue in FIFO)
        for text in sorted(wanted - set(there)):
            yield f"{queue} lost {text}"
        for text, times in Counter(there).items():
            if times > 1:
                yield f"{queue} has {text} {times} times"
            if text not in self.sent and text not in self.unsure:
                yield f"{queue} has {text}, which was never published"
        if queue in FIFO:
            ordered = sorted((Ordered.of(text) for text in there), key=lambda each: each.group)
            for group, members in groupby(ordered, key=lambda each: each.group):
                numbers = [each.number for each in members]
                if numbers != list(range(len(numbers))):
                    yield f"{queue} has {group} out of order, or with gaps: {numbers}"

    def _faults_of_endpoint(self) -> Iterator[str]:
        wanted, texts = self._wanted(is_fifo=False), self.endpoint.texts
        # What was under way in a process that was killed is tried again when its visibility timeout has passed.
        give_up = time.monotonic() + _DELIVERED_WITHIN_S
        while not wanted <= texts and time.monotonic() < give_up:
            time.sleep(0.05)
        for text in sorted(wanted - texts):
            yield f"the endpoint lost {text}"
        for text in sorted(texts - wanted - self.unsure):
            yield f"the endpoint has {text}, which was never published"


def _all_of(client: Client, queue: str, wanted: set[str]) -> list[str]:
    """The texts in a queue, in order: all that is there when the wanted ones have come, or when nothing comes."""
    texts: list[str] = []
    quiet = 0
    while quiet < (1 if wanted <= set(texts) else 10):
        answer = client.ask(
            "ReceiveMessage", QueueUrl=queue, MaxNumberOfMessages=10, WaitTimeSeconds=1, VisibilityTimeout=600
        )
        messages = answer.get("Messages", [])
        texts += [_text(message["Body"]) for message in messages]
        quiet = 0 if messages else quiet + 1
        if messages:
            entries = [{"Id": str(i), "ReceiptHandle": m["ReceiptHandle"]} for i, m in enumerate(messages)]
            client.ask("DeleteMessageBatch", QueueUrl=queue, Entries=entries)
    return texts


def _text(body: str) -> str:
    text: str = json.loads(body)["Message"] if body.startswith("{") else body
    return text


@contextmanager
def fan_out(address: ServerAddress, seed: int) -> Iterator[FanOut]:
    """The topics, with publishers that end with the block at the latest."""
    made = FanOut(address, seed)
    try:
        yield made
    finally:
        made.stop()
