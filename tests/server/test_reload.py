"""Settings and declared queues that change while a server runs, on SIGHUP."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from penstock.server.reload import RUN_TIME, adopt
from penstock.server.settings.config import Config, settings
from support.process import ServerProcess
from support.sqs import sqs_client
from support.texts import says
from support.waiting import until

ACCOUNT = "000000000000"
SERVERS = pytest.mark.parametrize("server", [1, 2], ids=["one process", "two processes"], indirect=True)


class Reloaded:
    """A server with a config file, and what it logs."""

    def __init__(self, folder: Path, processes: int) -> None:
        self.file = folder / "penstock.toml"
        self.file.write_text("[queues.orders]\nVisibilityTimeout = 30\n")
        self.processes = processes
        arguments = (
            "--config",
            str(self.file),
            "--memory",
            "--processes",
            str(processes),
            "--quota-queues",
            "50",
        )
        self.process = ServerProcess(*arguments)
        self.sqs = sqs_client(self.process.url, ACCOUNT)

    def reload(self, text: str) -> None:
        """Returns when every process has."""
        before = len(self.lines("reloaded"))
        self.file.write_text(text)
        self.process.process.send_signal(signal.SIGHUP)
        until(
            lambda: len(self.lines("reloaded")) == before + self.processes,
            "the log says that it was reloaded",
        )

    def lines(self, message: str) -> list[dict[str, Any]]:
        found = [json.loads(line) for line in self.process.log]
        return [line for line in found if line["message"].startswith(message)]

    def timeout_of(self, queue: str) -> str:
        url = f"{self.process.url}/{ACCOUNT}/{queue}"
        attributes = self.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["VisibilityTimeout"])
        return str(attributes["Attributes"]["VisibilityTimeout"])


@pytest.fixture
def server(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Reloaded]:
    found = Reloaded(tmp_path, getattr(request, "param", 1))
    yield found
    assert found.process.stop() == 0


@SERVERS
def test_declared_queues_are_created_and_changed(server: Reloaded) -> None:
    server.reload(
        "[queues.orders]\nVisibilityTimeout = 45\n" + "".join(f"[queues.n-{n}]\n" for n in range(9))
    )
    assert server.timeout_of("orders") == "45"
    assert all(server.timeout_of(f"n-{n}") == "30" for n in range(9))
    assert "declared queues" in server.lines("reloaded")[0]["reloaded"]


@SERVERS
def test_a_file_that_cannot_be_used_changes_nothing(server: Reloaded) -> None:
    server.reload('log_level = "loud"\n[queues.orders]\nVisibilityTimeout = 45\n')
    (line, *_) = server.lines("not reloaded")
    assert "settings: invalid value" in line["message"] and line["level"] == "warning"
    assert server.timeout_of("orders") == "30"
    server.reload('[queues.orders]\ndead_letter = {queue = "nowhere", max_receives = 3}\n')
    assert "declared queues: " in server.lines("not reloaded")[-1]["message"]


@SERVERS
def test_a_rate_limit_and_the_log_level(server: Reloaded) -> None:
    server.reload('requests_per_second = 1\nlog_level = "debug"\n')
    assert set(server.lines("reloaded")[0]["reloaded"]) == {
        "log_level",
        "requests_per_second",
        "declared queues",
    }
    with pytest.raises(ClientError, match="RequestThrottled"):
        for _ in range(20):
            server.sqs.list_queues()

    def is_logged() -> bool:
        with suppress(ClientError):
            server.sqs.list_queues()
        return any('"debug"' in line for line in server.process.log)

    until(is_logged, "requests are logged within a second")
    server.reload("requests_per_second = 1000000\n")
    for _ in range(20):
        server.sqs.list_queues()


@SERVERS
def test_what_needs_a_restart_is_refused_and_flags_have_precedence(server: Reloaded) -> None:
    server.reload("port = 1\nquota_messages = 5\nquota_queues = 1\nmax_connections = 100\n")
    (refused,) = {line["message"] for line in server.lines("not reloaded")}
    says(refused, "not reloaded: quota_messages", "restart")
    assert "port" not in refused and "quota_queues" not in refused, "flags, which override the file"
    assert server.lines("reloaded")[-1]["reloaded"] == ["max_connections", "declared queues"]
    server.reload('region = "eu-west-1"\n')
    assert server.lines("not reloaded: region")


def test_other_connections_than_before_are_accepted(server: Reloaded) -> None:
    server.reload("max_connections = 1\n")
    with socket.create_connection(("127.0.0.1", server.process.port)) as first:
        first.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert first.recv(12) == b"HTTP/1.1 200"
        with socket.create_connection(("127.0.0.1", server.process.port)) as second:
            second.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert second.recv(12) == b"HTTP/1.1 503"
        server.reload("max_connections = 100\n")
        with socket.create_connection(("127.0.0.1", server.process.port)) as second:
            second.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert second.recv(12) == b"HTTP/1.1 200"


def test_a_process_that_is_restarted_has_the_new_settings(tmp_path: Path) -> None:
    server = Reloaded(tmp_path, 2)
    server.reload("requests_per_second = 1\n[queues.later]\n")
    for process in os.popen(f"pgrep -P {server.process.process.pid}").read().split():
        os.kill(int(process), signal.SIGKILL)
    until(lambda: len(server.lines("process ")) >= 4, "both processes are restarted and ready")
    with pytest.raises(ClientError, match="RequestThrottled"):
        for _ in range(20):
            server.sqs.list_queues()
    server.process.stop()


def test_the_settings_that_can_change_exist() -> None:
    assert settings().keys() >= RUN_TIME


def test_what_is_adopted() -> None:
    present = Config(quota_bytes=10, port=1)
    adopted = adopt(present, Config(quota_messages=5, quota_bytes=0, port=2, stop_timeout=3.0))
    assert adopted.config == Config(quota_messages=5, port=1, stop_timeout=3.0)
    assert [name for name, _ in adopted.refused] == ["port"]
