"""The whole server as a process: what it prints, how it stops, what it refuses."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from support.texts import says

ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "penstock", "serve", "--port", "0", *arguments]


class Server:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.ready = json.loads(self._line())
        self.port = int(self.ready["listening"].rpartition(":")[2])

    def _line(self) -> str:
        assert self.process.stderr is not None
        assert select.select([self.process.stderr], [], [], 10)[0], "the server logs nothing"
        return self.process.stderr.readline()

    def ask(self, action: str, timeout: float = 10, **request: Any) -> tuple[int, Any]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        connection.request("POST", "/", json.dumps(request), {"X-Amz-Target": f"AmazonSQS.{action}"})
        response = connection.getresponse()
        body = response.read()
        connection.close()
        return response.status, json.loads(body) if body else None

    def attributes(self, queue: str) -> dict[str, str]:
        status, page = self.ask("GetQueueAttributes", QueueUrl=queue, AttributeNames=["All"])
        assert status == 200, page
        attributes: dict[str, str] = page["Attributes"]
        return attributes

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(10)


@contextmanager
def server(*arguments: str) -> Iterator[Server]:
    process = subprocess.Popen(
        command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT
    )
    try:
        yield Server(process)
    finally:
        process.kill()
        output, _ = process.communicate()
        assert output == "", "nothing is written to standard output"


def refused(*arguments: str, code: int = 2) -> str:
    done = subprocess.run(
        command(*arguments), capture_output=True, text=True, timeout=20, check=False, env=ENVIRONMENT
    )
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith("penstock: ") and done.stderr.count("\n") == 1
    return done.stderr


def test_the_startup_report_and_exit_code_0(tmp_path: Path) -> None:
    with server("--data", str(tmp_path / "data")) as running:
        assert running.ready["message"] == "ready"
        assert running.ready["data"] == str(tmp_path / "data")
        assert "fsync" in running.ready["durability"]
        assert running.ready["recovered"].startswith("0 queues, 0 messages, ")
        assert running.ready["access"].startswith("open: ")
        assert running.ready["try"] == f"aws --endpoint-url http://127.0.0.1:{running.port} sqs list-queues"
        assert running.ask("ListQueues")[0] == 200
        assert running.stop() == 0


def test_the_banner_in_a_terminal() -> None:
    process = subprocess.Popen(
        command("--memory", "--log-format", "human", "--host", "0.0.0.0"),
        stderr=subprocess.PIPE, text=True, env=ENVIRONMENT,
    )  # fmt: skip
    assert process.stderr is not None
    lines: list[str] = []
    while not any(line.startswith("  try ") for line in lines):
        lines.append(process.stderr.readline())
    process.terminate()
    process.communicate(timeout=10)
    text = "".join(lines)
    assert "nothing survives a stop" in text
    assert "WARNING: open to the network" in text
    assert "aws --endpoint-url http://127.0.0.1:" in text


def test_a_stop_answers_a_long_poll_without_messages() -> None:
    with server("--memory") as running:
        running.ask("CreateQueue", QueueName="a")
        answers: list[tuple[int, Any]] = []
        poll = threading.Thread(
            target=lambda: answers.append(running.ask("ReceiveMessage", 30, QueueUrl="a", WaitTimeSeconds=20))
        )
        poll.start()
        time.sleep(0.3)  # nothing else tells that the poll has arrived in the other process
        begun = time.monotonic()
        assert running.stop() == 0
        assert time.monotonic() - begun < 5
        poll.join(5)
        assert answers == [(200, {})]


def test_declared_queues_in_any_order_and_again_with_other_values(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    arguments = ("--data", str(tmp_path / "data"), "--config", str(file))
    file.write_text(
        '[queues.a]\nVisibilityTimeout = 7\ndead_letter = {queue = "b", max_receives = 2}\ntags = {x = "1"}\n'
        '[queues.b]\ndead_letter = {queue = "a", max_receives = 3}\n'
    )
    with server(*arguments) as running:
        assert running.attributes("a")["VisibilityTimeout"] == "7"
        assert json.loads(running.attributes("a")["RedrivePolicy"])["maxReceiveCount"] == 2
        assert json.loads(running.attributes("b")["RedrivePolicy"])["deadLetterTargetArn"].endswith(":a")
        assert running.ask("ListQueueTags", QueueUrl="a")[1] == {"Tags": {"x": "1"}}
        assert running.ask("SendMessage", QueueUrl="a", MessageBody="kept")[0] == 200
        assert running.stop() == 0
    file.write_text("[queues.a]\nVisibilityTimeout = 8\n")
    with server(*arguments) as running:
        assert running.ready["recovered"].startswith("2 queues, 1 message, ")
        assert running.attributes("a")["VisibilityTimeout"] == "8"
        assert json.loads(running.attributes("a")["RedrivePolicy"])["maxReceiveCount"] == 2
        status, page = running.ask("ReceiveMessage", QueueUrl="a")
        assert (status, page["Messages"][0]["Body"]) == (200, "kept")


@pytest.mark.parametrize(
    ("flags", "purged", "created"), [((), 200, 200), (("--no-relaxed-waits",), 403, 400)]
)
def test_in_memory_the_pauses_after_purge_and_delete_are_off_by_default(
    flags: tuple[str, ...], purged: int, created: int
) -> None:
    with server("--memory", *flags) as running:
        assert running.ask("CreateQueue", QueueName="a")[0] == 200
        assert running.ask("PurgeQueue", QueueUrl="a")[0] == 200
        assert running.ask("PurgeQueue", QueueUrl="a")[0] == purged
        assert running.ask("DeleteQueue", QueueUrl="a")[0] == 200
        assert running.ask("CreateQueue", QueueName="a")[0] == created


def test_a_dead_letter_queue_that_does_not_exist(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text('[queues.a]\ndead_letter = {queue = "nowhere", max_receives = 2}\n')
    says(refused("--memory", "--config", str(file)), "declared queues", "invalid queue queues.a")


def test_a_port_in_use() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        line = refused("--memory", "--port", port)
    assert line.count("\n") == 1
    says(line, f"127.0.0.1:{port}", "another process", "--port")


def test_an_address_of_another_machine() -> None:
    assert "192.0.2.1:0" in refused("--memory", "--host", "192.0.2.1")


def test_tls_files_that_cannot_be_used(tmp_path: Path) -> None:
    key = tmp_path / "key.pem"
    key.write_text("nonsense")
    line = refused("--memory", "--tls-certificate", str(tmp_path / "none.pem"), "--tls-key", str(key))
    says(line, f"tls_certificate {tmp_path / 'none.pem'}", "No such file")
    line = refused("--memory", "--tls-certificate", str(key), "--tls-key", str(key))
    says(line, f"tls_certificate {key}", "no certificate", "PEM")


def test_a_root_key_that_is_not_available_yet_exits_with_1(tmp_path: Path) -> None:
    """Service managers restart after a 1, but not after a 2, which means that the operator must act."""
    line = refused("--memory", "--root-key-command", "false", code=1)
    says(line, "root_key_command", "status 1")
    says(refused("--memory", "--root-key-file", str(tmp_path / "none")), "root key", str(tmp_path / "none"))
    line = refused("--memory", "--root-key-command", "no-such-program --token x", code=2)
    assert 'cannot run "no-such-program" of root_key_command: No such file or directory' in line


def test_sighup_during_the_start_does_not_end_the_process(tmp_path: Path) -> None:
    slow = tmp_path / "slow"
    slow.write_text(f"#!/bin/sh\ntouch {tmp_path}/asked; sleep 1; echo {'00' * 32}\n")
    slow.chmod(0o700)
    process = subprocess.Popen(
        command("--memory", "--root-key-command", str(slow)),
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )
    try:
        while not (tmp_path / "asked").exists():
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGHUP)
        assert process.stderr is not None
        assert any('"ready"' in line for line in process.stderr)
    finally:
        process.kill()
        process.communicate()


def test_a_data_directory_in_use(tmp_path: Path) -> None:
    with server("--data", str(tmp_path)):
        assert str(tmp_path) in refused("--data", str(tmp_path))


def test_a_data_directory_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    refused("--data", str(tmp_path / "file"))


AS_ANOTHER_USER = """
import os, sys
import penstock.cli.server.serve, penstock.server.lifecycle, penstock.server.processes.start
from penstock.cli import main
os.setuid(12345)
main(["serve", "--port", "0", "--data", sys.argv[1]])
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_store_that_cannot_be_written_ends_the_start() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        data = Path(place) / "data"
        with server("--data", str(data)) as running:
            assert running.stop() == 0
        Path(place).chmod(0o755)
        data.chmod(0o755)
        for path in data.iterdir():
            path.chmod(0o644 if path.name == "penstock.db" else 0o666)
        python = [sys.executable, "-c", AS_ANOTHER_USER, str(data)]
        done = subprocess.run(python, capture_output=True, text=True, timeout=20, env=ENVIRONMENT)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1 and "penstock.db" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_second_signal_exits_at_once(number: signal.Signals) -> None:
    with server("--memory", "--stop-timeout", "60s") as running:
        # A request that never ends: its body is not sent.
        hanging = socket.create_connection(("127.0.0.1", running.port))
        hanging.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n")
        assert running.ask("ListQueues")[0] == 200
        running.process.send_signal(number)
        with pytest.raises(subprocess.TimeoutExpired):
            running.process.wait(0.3)
        running.process.send_signal(number)
        assert running.process.wait(2) == 1
        hanging.close()


@pytest.mark.parametrize("queue", ["standard", "ordered.fifo"])
def test_a_poll_of_a_disconnected_client_does_not_count_as_a_receive(queue: str) -> None:
    fifo: dict[str, Any] = {"Attributes": {"FifoQueue": "true"}} if queue.endswith(".fifo") else {}
    ids: dict[str, Any] = {"MessageGroupId": "g", "MessageDeduplicationId": "d"} if fifo else {}
    with server("--memory") as running:
        assert running.ask("CreateQueue", QueueName=queue, **fifo)[0] == 200
        body = json.dumps({"QueueUrl": queue, "WaitTimeSeconds": 20}).encode()
        head = b"POST / HTTP/1.1\r\nHost: a\r\nX-Amz-Target: AmazonSQS.ReceiveMessage\r\nContent-Length: %d\r\n\r\n"
        with socket.create_connection(("127.0.0.1", running.port)) as dead:
            dead.sendall(head % len(body) + body)
            time.sleep(0.2)  # until the poll waits
        assert running.ask("SendMessage", QueueUrl=queue, MessageBody="once", **ids)[0] == 200
        status, page = running.ask(
            "ReceiveMessage", QueueUrl=queue, WaitTimeSeconds=2, AttributeNames=["ApproximateReceiveCount"]
        )
        assert status == 200
        assert page["Messages"][0]["Attributes"] == {"ApproximateReceiveCount": "1"}
