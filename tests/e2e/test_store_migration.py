"""A client does not see that its messages were migrated to another store while the server was down."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest

from support.postgres import PostgresServer, running_postgres
from support.process import ServerProcess
from support.sqs import sqs_client
from support.texts import says

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


def fill_pages(sqs: Any, messages: int) -> str:
    """More than one page of a copy: a page is at most 8 MiB."""
    queue: str = sqs.create_queue(QueueName="large")["QueueUrl"]
    for number in range(messages):
        sqs.send_message(QueueUrl=queue, MessageBody=f"{number:<250000}")
    return queue


def killed_in_the_middle(command: list[str], postgres: PostgresServer, database: str, before: int) -> int:
    """Run a migration and kill it with SIGKILL while it writes. Returns how many messages the target has then."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    with process, psycopg.connect(postgres.url(database), autocommit=True) as target:
        while count_entries(target) <= before:
            assert process.poll() is None, process.stderr and process.stderr.read()
            time.sleep(0.001)
        with target.transaction():
            # It cannot end meanwhile: it waits for this lock, in a transaction that has begun.
            target.execute("LOCK TABLE penstock.entries IN SHARE MODE")
            assert process.poll() is None
            process.kill()
            process.wait()
        return count_entries(target)


def count_entries(target: psycopg.Connection[Any]) -> int:
    (there,) = target.execute("SELECT to_regclass('penstock.entries') IS NOT NULL").fetchone() or (False,)
    (count,) = (target.execute("SELECT count(*) FROM penstock.entries").fetchone() or (0,)) if there else (0,)
    return int(count)


def wait_until_alone(postgres: PostgresServer) -> None:
    """PostgreSQL notices a moment later that a client was killed; until then the database counts as used."""
    users = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'penstock'"
    while postgres.execute(users) != [(0,)]:
        time.sleep(0.01)


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


def test_a_migration_that_is_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    source, messages = str(tmp_path / "old"), 160
    with ServerProcess("--data", source, "--durability", "system") as server:
        sqs = sqs_client(server.url, ACCOUNT)
        filled, large = Filled(sqs), fill_pages(sqs, messages)
        assert server.stop() == 0
    with running_postgres() as postgres:
        database = postgres.new_database()
        url = postgres.url(database)
        arguments = ["migrate", "--from", f"sqlite:{source}", "--to", url, "--shards", "4", "--json"]
        copied = 0
        for _ in range(2):
            copied = killed_in_the_middle(
                [sys.executable, "-m", "penstock", *arguments], postgres, database, copied
            )
            assert 0 < copied < messages
            wait_until_alone(postgres)
            refused = penstock("serve", "--store", url, "--data", str(tmp_path / "node"), "--port", "0")
            assert (refused.returncode, "unfinished copy" in refused.stderr) == (2, True), refused.stderr
        done = penstock(*arguments)
        assert done.returncode == 0, done.stderr
        report = json.loads(done.stdout)
        assert report["resumed"] and report["complete"]
        with ServerProcess("--store", url, "--data", str(tmp_path / "node")) as server:
            sqs = sqs_client(server.url, ACCOUNT)
            assert attributes(sqs, large)["ApproximateNumberOfMessages"] == str(messages)
            bodies = {message["Body"] for _ in range(messages) for message in receive(sqs, large)}
            assert {int(body) for body in bodies} == set(range(messages))
            sqs.delete_queue(QueueUrl=large)
            filled.check(sqs)
            assert server.stop() == 0


def test_to_postgresql_and_back(tmp_path: Path) -> None:
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
            says(refused.stderr, "connected", "127.0.0.1")
            assert sqs_client(server.url, ACCOUNT).list_queues()["QueueUrls"], "it still serves"
            assert server.stop() == 0
        done = penstock("migrate", "--from", url, "--to", f"sqlite:{new}")
        assert done.returncode == 0, done.stderr
    with ServerProcess("--data", new) as server:
        filled.check(sqs_client(server.url, ACCOUNT))
        assert server.stop() == 0
