"""What a client finds that looks into the dead-letter queue as soon as a move has answered.

SQS: a short poll may be empty although the queue has messages. This broker promises more: the first one finds the
dead letter, also in another shard.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from penstock.client.api import ApiSession, quoted
from penstock.client.credentials import SigningKeys
from penstock.names import QueueName, shard_of
from support.command_line import CommandLine
from support.raw import Raw

REGION = "us-east-1"


class Pair(NamedTuple):
    """A queue and its dead-letter queue, to which the second receive moves a message."""

    source: str
    dead: str


class Clients:
    """Those of one account, each with a server of its own."""

    def __init__(self, raws: Sequence[Raw], url: str, account: str) -> None:
        """``url``: of the server that operators use."""
        self.raws = raws
        self.account = account
        self.api = ApiSession(url, REGION, SigningKeys(account, "any"))
        self.penstock = CommandLine(url, AWS_ACCESS_KEY_ID=account, AWS_SECRET_ACCESS_KEY="any")

    def close(self) -> None:
        for raw in self.raws:
            raw.close()
        self.api.close()

    def make_pairs(self, shards: int, distances: Iterable[int], ending: str = "") -> list[Pair]:
        """Make a queue in every shard for each distance, whose dead-letter queue is that many shards further."""
        pairs = []
        for distance, shard in itertools.product(distances, range(shards)):
            there = (shard + distance) % shards
            pair = Pair(
                self._name(f"work-{shard}-{distance}", shard, shards, ending),
                self._name(f"dead-{shard}-{distance}", there, shards, ending),
            )
            fifo = {"FifoQueue": "true", "ContentBasedDeduplication": "true"} if ending else {}
            arn = QueueName(self.account, REGION, pair.dead).arn
            policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})
            own = {"RedrivePolicy": policy, "VisibilityTimeout": "0"}
            for name, attributes in ((pair.dead, fifo), (pair.source, fifo | own)):
                self.raws[0].done("CreateQueue", {"QueueName": name, "Attributes": attributes})
            pairs.append(pair)
        return pairs

    def _name(self, stem: str, shard: int, shards: int, ending: str) -> str:
        """The name of a queue that belongs to this shard."""
        names = (f"{stem}-{number}{ending}" for number in range(1000))
        return next(
            name for name in names if shard_of(QueueName(self.account, REGION, name), shards) == shard
        )

    def found_by_each(self, move: Move, pairs: Iterable[Pair]) -> dict[tuple[Pair, int, int], list[str]]:
        """The bodies that the first receive finds in the dead-letter queue, for every pair, with the move asked of
        each server and the receive of each: those where it is not the message that was moved."""
        servers = list(enumerate(self.raws))
        wrong = {}
        for pair, (here, mover), (there, looker) in itertools.product(pairs, servers, servers):
            body = f"{move.__name__}-{here}-{there}"
            move(self, mover, pair, body)
            found = received(looker, pair.dead, VisibilityTimeout=60)
            if [message["Body"] for message in found] != [body]:
                wrong[pair, here, there] = [message["Body"] for message in found]
            for message in found:
                looker.done(
                    "DeleteMessage", {"QueueUrl": pair.dead, "ReceiptHandle": message["ReceiptHandle"]}
                )
        return wrong


Move = Callable[[Clients, Raw, Pair, str], None]


def received(raw: Raw, queue: str, **more: Any) -> list[dict[str, Any]]:
    request = {"QueueUrl": queue, "WaitTimeSeconds": 0, "MaxNumberOfMessages": 10, **more}
    found: list[dict[str, Any]] = raw.done("ReceiveMessage", request).get("Messages", [])
    return found


def send(raw: Raw, queue: str, body: str) -> str:
    group = {"MessageGroupId": body} if queue.endswith(".fifo") else {}
    id: str = raw.done("SendMessage", {"QueueUrl": queue, "MessageBody": body, **group})["MessageId"]
    return id


# -- moves: each makes a message with this body a dead letter ------------------------------------------------------


def an_empty_receive(clients: Clients, raw: Raw, pair: Pair, body: str) -> None:
    send(raw, pair.source, body)
    assert len(received(raw, pair.source)) == 1
    assert received(raw, pair.source) == [], "this receive moves it"


def a_receive_of_another_message(clients: Clients, raw: Raw, pair: Pair, body: str) -> None:
    send(raw, pair.source, body)
    assert len(received(raw, pair.source)) == 1
    send(raw, pair.source, f"{body}-next")
    (other,) = received(raw, pair.source, VisibilityTimeout=60)
    assert other["Body"] == f"{body}-next", "this receive moves the first one"
    raw.done("DeleteMessage", {"QueueUrl": pair.source, "ReceiptHandle": other["ReceiptHandle"]})


def its_receiver(clients: Clients, raw: Raw, pair: Pair, body: str) -> None:
    id = send(raw, pair.source, body)
    (message,) = received(raw, pair.source, VisibilityTimeout=60)
    path = f"/queues/{pair.source}/messages/{quoted(id)}/dead-letter"
    clients.api.admin("POST", path, body={"receipt_handle": message["ReceiptHandle"]})


def an_operator(clients: Clients, raw: Raw, pair: Pair, body: str) -> None:
    clients.penstock.done("message", "fail", pair.source, send(raw, pair.source, body))


MOVES: tuple[Move, ...] = (an_empty_receive, a_receive_of_another_message, its_receiver, an_operator)
