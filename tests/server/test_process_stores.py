"""Processes over a store on disk: what they share, what a failure of one means for all."""

from __future__ import annotations

import shutil
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from penstock.names import QueueName, shard_of
from support.certificates import ServerFiles, write_certificate
from support.process import ServerProcess
from support.server_processes import alive, processes_of
from support.sqs import sqs_client
from support.texts import says
from support.waiting import until

ACCOUNT = "400000000001"


def client(server: ServerProcess) -> Any:
    return sqs_client(server.url, ACCOUNT)


def with_processes(data: Path, processes: int, *arguments: str) -> ServerProcess:
    return ServerProcess("--data", str(data), "--processes", str(processes), *arguments)


def refused(*arguments: str) -> str:
    command = [sys.executable, "-m", "penstock", "serve", "--port", "0", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def test_a_store_is_served_by_fewer_processes_later_and_never_by_more_than_it_has_shards(
    tmp_path: Path,
) -> None:
    with with_processes(tmp_path, 2, "--shards", "3") as server:
        urls = [client(server).create_queue(QueueName=f"q{number}")["QueueUrl"] for number in range(8)]
        for url in urls:
            client(server).send_message(QueueUrl=url, MessageBody="kept")
        assert server.stop() == 0
    for processes in (3, 1):
        with with_processes(tmp_path, processes) as server:
            assert server.facts["recovered"].startswith("8 queues, 8 messages, ")
            assert len(client(server).list_queues()["QueueUrls"]) == 8
            assert server.stop() == 0
    said = refused("--data", str(tmp_path), "--processes", "4")
    says(said, "3 shards", "4 processes", "--processes 3")
    assert f"penstock migrate --from sqlite:{tmp_path} --to sqlite:NEW_DIRECTORY --shards 16" in said


def test_a_store_of_one_process_has_one_shard(tmp_path: Path) -> None:
    with ServerProcess("--data", str(tmp_path)) as server:
        assert server.stop() == 0
    says(refused("--data", str(tmp_path), "--processes", "2"), "1 shard", "2 processes")


def test_a_data_directory_in_use(tmp_path: Path) -> None:
    with with_processes(tmp_path, 2):
        assert str(tmp_path) in refused("--data", str(tmp_path), "--processes", "2")
        assert str(tmp_path) in refused("--data", str(tmp_path))


def test_a_start_right_after_the_supervisor_was_killed(tmp_path: Path) -> None:
    for _ in range(3):
        with with_processes(tmp_path, 2) as server:
            pids = processes_of(server).values()
            server.process.kill()
            server.process.wait()
            with with_processes(tmp_path, 2) as second:
                assert not any(map(alive, pids))
                assert second.stop() == 0
            server.ended()


def test_a_store_that_fails_in_one_process_stops_all(tmp_path: Path) -> None:
    with with_processes(tmp_path, 2) as server:
        sqs = client(server)
        url = sqs.create_queue(QueueName="q")["QueueUrl"]
        shutil.rmtree(tmp_path / f"shard-{shard_of(QueueName(ACCOUNT, 'us-east-1', 'q'), 8):04d}")
        with pytest.raises((BotoCoreError, ClientError)):
            sqs.send_message(QueueUrl=url, MessageBody="would be lost")
        assert server.ended() == 1
        says(server.log[-1], "penstock:", "stopped", "store")


def test_declared_queues_in_shards_of_different_processes(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    names = [f"work-{number}" for number in range(6)]
    file.write_text(
        "".join(
            f'[queues.{name}]\nVisibilityTimeout = 7\ndead_letter = {{queue = "dead", max_receives = 2}}\n'
            for name in names
        )
        + "[queues.dead]\n"
    )
    for _ in range(2):
        with with_processes(tmp_path / "data", 2, "--config", str(file), "--account", ACCOUNT) as server:
            sqs = client(server)
            dead = sqs.get_queue_url(QueueName="dead")["QueueUrl"]
            sources = sqs.list_dead_letter_source_queues(QueueUrl=dead)["queueUrls"]
            assert [url.rpartition("/")[2] for url in sources] == names
            assert server.stop() == 0


def certificate_of(server: ServerProcess) -> bytes:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection(("127.0.0.1", server.port), timeout=10) as raw,
        context.wrap_socket(raw) as sock,
    ):
        return sock.getpeercert(binary_form=True) or b""


def certificates(server: ServerProcess) -> set[bytes]:
    """Returns the certificates of so many connections that each process has some."""
    return {certificate_of(server) for _ in range(24)}


@pytest.fixture
def secure(server_files: ServerFiles) -> Callable[..., ServerProcess]:
    tls = ("--tls-certificate", str(server_files.certificate), "--tls-key", str(server_files.key))
    return lambda *arguments: ServerProcess("--processes", "2", *tls, *arguments)


def test_every_process_reloads_its_certificate(
    secure: Callable[..., ServerProcess], server_files: ServerFiles, tmp_path: Path
) -> None:
    with secure("--memory") as server:
        (before,) = certificates(server)
        renewed = write_certificate(tmp_path / "renewed")
        shutil.copy(renewed.certificate, server_files.certificate)
        shutil.copy(renewed.key, server_files.key)
        server.process.send_signal(signal.SIGHUP)
        until(lambda: before not in certificates(server), "both show the new certificate")
        assert len(certificates(server)) == 1
        assert server.stop() == 0


def test_a_rolling_restart_that_cannot_start_a_process_keeps_the_old_ones(
    secure: Callable[..., ServerProcess], server_files: ServerFiles, tmp_path: Path
) -> None:
    with secure("--data", str(tmp_path / "data")) as server:
        before = processes_of(server)
        server_files.key.unlink()
        server.process.send_signal(signal.SIGUSR2)
        until(lambda: any("rolling restart stopped" in line for line in server.log), "it gives up")
        assert any(str(server_files.key) in line for line in server.log)
        assert processes_of(server) == before
        assert certificate_of(server)
        assert server.stop() == 0


def test_no_rolling_restart_in_memory() -> None:
    with ServerProcess("--memory", "--processes", "2") as server:
        before = processes_of(server)
        server.process.send_signal(signal.SIGUSR2)
        until(lambda: any("no rolling restart" in line for line in server.log), "it says so")
        assert processes_of(server) == before
        assert server.stop() == 0
