"""A client does not see that its messages were migrated to another store while the server was down."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from e2e.conftest import sqs_client
from e2e.process import ServerProcess

ACCOUNT = "200000000000"
KINDS = {"kind": {"DataType": "Binary", "BinaryValue": b"\x00\x01"}}


class Filled:
    """What a client did before the migration, and what it still knows."""

    def __init__(self, sqs: Any) -> None:
        self.sqs = sqs
        self.orders = [self._create(f"orders-{i}") for i in range(6)]
        self.fifo = [self._create(f"steps-{i}.fifo", FifoQueue="true") for i in range(6)]
        self.sent = {
            queue: sqs.send_message(QueueUrl=queue, MessageBody="first", MessageAttributes=KINDS)["MessageId"]
            for queue in self.orders
        }
        self.firsts = {queue: self.send_step(queue, "one") for queue in self.fifo}
        for queue in self.fifo:
            self.send_step(queue, "two")
        self.held = {queue: receive(sqs, queue)[0] for queue in (*self.orders, *self.fifo)}
        for queue in self.orders:
            sqs.send_message(QueueUrl=queue, MessageBody="x" * 10_000)

    def _create(self, name: str, **attributes: str) -> str:
        settings = {"VisibilityTimeout": "600", **attributes}
        url: str = self.sqs.create_queue(QueueName=name, Attributes=settings, tags={"a": "b"})["QueueUrl"]
        return url

    def send_step(self, queue: str, body: str) -> dict[str, Any]:
        answer = self.sqs.send_message(
            QueueUrl=queue, MessageBody=body, MessageGroupId="g", MessageDeduplicationId=body
        )
        return {name: answer[name] for name in ("MessageId", "SequenceNumber")}

    def check(self, sqs: Any) -> None:
        self.sqs = sqs
        found = sqs.list_queues()["QueueUrls"]
        assert sorted(name(url) for url in found) == sorted(map(name, (*self.orders, *self.fifo)))
        for queue in self.orders:
            (waiting,) = receive(sqs, queue)
            assert waiting["Body"] == "x" * 10_000
            assert sqs.list_queue_tags(QueueUrl=queue)["Tags"] == {"a": "b"}
            self._delete_held(queue)
        for queue in self.fifo:
            assert self.send_step(queue, "one") == self.firsts[queue], "a duplicate is answered as before"
            assert receive(sqs, queue) == [], "the group is still locked by the message in flight"
            self._delete_held(queue)
            (second,) = receive(sqs, queue)
            assert second["Body"] == "two"
            newest = self.send_step(queue, "three")
            assert int(newest["SequenceNumber"]) > int(self.firsts[queue]["SequenceNumber"])

    def _delete_held(self, queue: str) -> None:
        message = self.held[queue]
        counts = attributes(self.sqs, queue)
        self.sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
        after = attributes(self.sqs, queue)
        assert int(after["ApproximateNumberOfMessagesNotVisible"]) == (
            int(counts["ApproximateNumberOfMessagesNotVisible"]) - 1
        )


def name(url: str) -> str:
    return url.rpartition("/")[2]


def receive(sqs: Any, queue: str) -> list[dict[str, Any]]:
    answer = sqs.receive_message(
        QueueUrl=queue, AttributeNames=["All"], MessageAttributeNames=["All"], MaxNumberOfMessages=1
    )
    messages: list[dict[str, Any]] = answer.get("Messages", [])
    return messages


def attributes(sqs: Any, queue: str) -> dict[str, str]:
    shown: dict[str, str] = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])["Attributes"]
    return shown


def penstock(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "penstock", *arguments], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(("before", "after"), [(1, 4), (4, 1), (4, 6)])
def test_nothing_changes_for_a_client(before: int, after: int, tmp_path: Path) -> None:
    old, new = str(tmp_path / "old"), str(tmp_path / "new")
    with ServerProcess("--data", old, "--shards", str(before)) as server:
        filled = Filled(sqs_client(server.url, ACCOUNT))
        assert server.stop() == 0
    done = penstock("migrate", "--from", f"sqlite:{old}", "--to", f"sqlite:{new}", "--shards", str(after))
    assert done.returncode == 0, done.stderr
    with ServerProcess("--data", new) as server:
        filled.check(sqs_client(server.url, ACCOUNT))
        assert server.stop() == 0


def test_to_postgresql_and_back(tmp_path: Path) -> None:
    pytest.importorskip("psycopg", reason="run make setup: it brings psycopg")
    from postgres import running_postgres

    old, new = str(tmp_path / "old"), str(tmp_path / "new")
    with running_postgres() as postgres:
        url = postgres.url(postgres.new_database())
        with ServerProcess("--data", old) as server:
            filled = Filled(sqs_client(server.url, ACCOUNT))
            assert server.stop() == 0
        done = penstock("migrate", "--from", f"sqlite:{old}", "--to", url, "--shards", "4")
        assert done.returncode == 0, done.stderr
        node = ("--store", url, "--data", str(tmp_path / "node"))
        with ServerProcess(*node) as server:
            refused = penstock("migrate", "--from", url, "--to", f"sqlite:{new}")
            assert refused.returncode == 2
            assert "connected to the database, from 127.0.0.1" in refused.stderr
            assert sqs_client(server.url, ACCOUNT).list_queues()["QueueUrls"], "it still serves"
            assert server.stop() == 0
        done = penstock("migrate", "--from", url, "--to", f"sqlite:{new}")
        assert done.returncode == 0, done.stderr
    with ServerProcess("--data", new) as server:
        filled.check(sqs_client(server.url, ACCOUNT))
        assert server.stop() == 0
