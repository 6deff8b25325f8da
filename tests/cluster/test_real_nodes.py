"""``penstock serve`` as a node: what clients, probes and operators see of two processes on one PostgreSQL."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from support.arrivals import MOVES, Clients
from support.load import Client, Refused, ServerAddress
from support.postgres import PostgresServer, running_postgres
from support.process import ServerProcess, free_port
from support.raw import Raw
from support.texts import says
from support.waiting import until

ACCOUNT = "123456789012"
SHARDS = 4
CONFIG = """
[queues.jobs]
dead_letter = {queue = "dead-jobs", max_receives = 3}
[queues.dead-jobs]
[queues."mail.fifo"]
"""


@pytest.fixture(scope="module")
def database() -> Iterator[PostgresServer]:
    with running_postgres() as server:
        yield server


class Nodes:
    def __init__(self, url: str, directory: Path) -> None:
        self.url = url
        self.secret = directory / "cluster.secret"
        self.write_secret("the secret of this test")
        self.config = directory / "penstock.toml"
        self.config.write_text(CONFIG)
        self.running: list[ServerProcess] = []

    def write_secret(self, text: str) -> None:
        self.secret.touch(0o600)
        self.secret.write_text(text)

    def arguments(self, address: str) -> tuple[str, ...]:
        return (
            "--store", self.url, "--shards", str(SHARDS), "--advertise", address, "--cluster-listen", address,
            "--cluster-secret-file", str(self.secret), "--config", str(self.config),
        )  # fmt: skip

    def start(self) -> tuple[ServerProcess, str]:
        address = f"127.0.0.1:{free_port()}"
        self.running.append(ServerProcess(*self.arguments(address)))
        return self.running[-1], address

    def cluster(self, *arguments: str) -> str:
        command = [sys.executable, "-m", "penstock", "cluster", *arguments, "--store", self.url]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout

    def wait_until_balanced(self) -> None:
        few, more = divmod(SHARDS, len(self.running))

        def is_balanced() -> bool:
            nodes = json.loads(self.cluster("status", "--json"))["nodes"]
            shares = sorted(len(node["shards"]) for node in nodes)
            return shares == [few] * (len(self.running) - more) + [few + 1] * more

        until(is_balanced, "all nodes have as many shards")

    def owner_of(self, shard: int) -> str:
        owner: str = json.loads(self.cluster("status", "--json"))["shards"][shard]["owner"]
        return owner

    def shards_of(self, address: str) -> list[int]:
        nodes = json.loads(self.cluster("status", "--json"))["nodes"]
        return next((node["shards"] for node in nodes if node["address"] == address), [])


@pytest.fixture
def nodes(database: PostgresServer, tmp_path: Path) -> Iterator[Nodes]:
    nodes = Nodes(database.url(database.new_database()), tmp_path)
    yield nodes
    for process in nodes.running:
        if process.process.poll() is None:
            process.kill()


def client_of(process: ServerProcess) -> Client:
    address = ServerAddress()
    address.open(process.port)
    return Client(address)


def ready(process: ServerProcess) -> tuple[int, dict[str, Any]]:
    try:
        with urllib.request.urlopen(f"{process.url}/health/ready") as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_two_nodes_share_the_queues_and_a_drained_one_passes_everything_on(nodes: Nodes) -> None:
    (a, address_a), (b, _) = nodes.start(), nodes.start()
    nodes.wait_until_balanced()
    names = [f"q{number}" for number in range(8)]
    for number, name in enumerate(names):
        client_of((a, b)[number % 2]).ask("CreateQueue", QueueName=name)
        client_of(a).ask("SendMessage", QueueUrl=name, MessageBody=name)
    declared = ["dead-jobs", "jobs", "mail.fifo"]
    for process in (a, b):
        urls = client_of(process).ask("ListQueues")["QueueUrls"]
        assert [url.rpartition("/")[2] for url in urls] == sorted([*names, *declared])

    nodes.cluster("drain", address_a, "--wait")
    assert nodes.shards_of(address_a) == []
    until(lambda: ready(a)[0] == 503, "the probe fails")
    assert any("draining" in reason for reason in ready(a)[1]["reasons"])
    assert ready(b)[0] == 200
    for name in names:
        (message,) = client_of(a).ask("ReceiveMessage", QueueUrl=name)["Messages"]
        assert message["Body"] == name
        client_of(b).ask("DeleteMessage", QueueUrl=name, ReceiptHandle=message["ReceiptHandle"])

    nodes.cluster("undrain", address_a)
    nodes.wait_until_balanced()
    until(lambda: ready(a)[0] == 200, "the probe succeeds")


@pytest.mark.slow
def test_the_first_receive_finds_a_dead_letter_whichever_node_has_its_queue(nodes: Nodes) -> None:
    for _ in range(3):
        nodes.start()
    nodes.wait_until_balanced()
    raws = [Raw(process.port, ACCOUNT) for process in nodes.running]
    clients = Clients(raws, nodes.running[0].url, ACCOUNT)
    wrong: dict[Any, list[str]] = {}
    for ending in ("", ".fifo"):
        pairs = clients.make_pairs(SHARDS, range(SHARDS), ending)
        for move in MOVES:
            wrong |= clients.found_by_each(move, pairs)
    clients.close()
    assert wrong == {}


def test_a_receipt_handle_and_a_locked_group_survive_a_move(nodes: Nodes) -> None:
    (a, address_a), (_, address_b) = nodes.start(), nodes.start()
    client = client_of(a)
    for body in ("1", "2"):
        client.ask(
            "SendMessage",
            QueueUrl="mail.fifo",
            MessageBody=body,
            MessageGroupId="g",
            MessageDeduplicationId=body,
        )
    (first,) = client.ask("ReceiveMessage", QueueUrl="mail.fifo")["Messages"]
    for shard in range(SHARDS):
        before = nodes.owner_of(shard)
        nodes.cluster("move", str(shard), address_b if before == address_a else address_a, "--wait")
    assert "Messages" not in client.ask("ReceiveMessage", QueueUrl="mail.fifo")
    again = client.ask(
        "SendMessage", QueueUrl="mail.fifo", MessageBody="1", MessageGroupId="g", MessageDeduplicationId="1"
    )
    assert again["MessageId"] == first["MessageId"], "the first send is remembered"
    client.ask("DeleteMessage", QueueUrl="mail.fifo", ReceiptHandle=first["ReceiptHandle"])
    (second,) = client.ask("ReceiveMessage", QueueUrl="mail.fifo")["Messages"]
    assert second["Body"] == "2"


def test_a_long_poll_of_a_paused_node_gets_no_message_that_another_has_deleted_since(nodes: Nodes) -> None:
    (a, address_a), (b, _) = nodes.start(), nodes.start()
    for shard in range(SHARDS):
        nodes.cluster("move", str(shard), address_a, "--wait")
    client = client_of(a)
    client.ask("SendMessage", QueueUrl="jobs", MessageBody="once", DelaySeconds=3)
    with ThreadPoolExecutor(1) as threads:
        poll = threads.submit(client.ask, "ReceiveMessage", QueueUrl="jobs", WaitTimeSeconds=20)
        time.sleep(0.5)
        a.process.send_signal(signal.SIGSTOP)
        try:
            until(lambda: nodes.shards_of(address_a) == [], "the other node takes the shards")
            (message,) = client_of(b).ask("ReceiveMessage", QueueUrl="jobs", WaitTimeSeconds=20)["Messages"]
            client_of(b).ask("DeleteMessage", QueueUrl="jobs", ReceiptHandle=message["ReceiptHandle"])
        finally:
            a.process.send_signal(signal.SIGCONT)
        try:
            assert "Messages" not in poll.result()
        except Refused as error:
            assert error.status == 503


def test_a_node_that_is_stopped_gives_its_shards_to_others_first(nodes: Nodes) -> None:
    (a, address_a), (b, address_b) = nodes.start(), nodes.start()
    nodes.wait_until_balanced()
    assert a.stop() == 0
    assert nodes.shards_of(address_b) == list(range(SHARDS))
    assert nodes.shards_of(address_a) == []
    client_of(b).ask("SendMessage", QueueUrl="jobs", MessageBody="there")
    assert b.stop() == 0
    c, address_c = nodes.start()
    assert nodes.shards_of(address_c) == list(range(SHARDS)), (
        "no node has to wait for a lease that was given back"
    )
    (message,) = client_of(c).ask("ReceiveMessage", QueueUrl="jobs")["Messages"]
    assert message["Body"] == "there"


def test_a_node_with_another_secret_does_not_start(nodes: Nodes) -> None:
    _, address = nodes.start()
    nodes.write_secret("another secret altogether")
    problem = failed_start(*nodes.arguments(f"127.0.0.1:{free_port()}"))
    says(problem, f"node {address}", "another cluster secret")
    assert nodes.shards_of(address) == list(range(SHARDS))


@pytest.mark.parametrize(
    ("secret", "mode", "problem"),
    [("short", 0o600, "fewer than 16 characters"), ("a long secret for tests", 0o644, "run chmod")],
)
def test_a_secret_that_protects_nothing_is_refused(
    nodes: Nodes, secret: str, mode: int, problem: str
) -> None:
    nodes.write_secret(secret)
    nodes.secret.chmod(mode)
    assert problem in failed_start(*nodes.arguments("127.0.0.1:1"))


def test_a_server_that_is_no_node_does_not_take_the_shards_of_a_cluster(nodes: Nodes) -> None:
    _, address = nodes.start()
    says(failed_start("--store", nodes.url), "cluster", address)


def failed_start(*arguments: str) -> str:
    command = [sys.executable, "-m", "penstock", "serve", "--port", "0", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2
    return done.stderr
