"""Damage while the server runs: a damaged file, a removed data directory."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from support.process import ServerProcess
from support.sqs import sqs_client
from support.texts import says


def _filled(directory: Path) -> None:
    server = ServerProcess("--data", str(directory))
    client = sqs_client(server.url, "400000000001")
    client.create_queue(QueueName="q")
    for i in range(100):
        client.send_message(QueueUrl="q", MessageBody=f"{i}" + "x" * 3000)
    server.stop()


def test_a_damaged_page_found_while_running_stops_the_server(tmp_path: Path) -> None:
    _filled(tmp_path)
    file = tmp_path / "penstock.db"
    with file.open("r+b") as data:
        data.seek(file.stat().st_size // 2)
        data.write(b"\xa5" * 40_960)
    server = ServerProcess("--data", str(tmp_path))
    client = sqs_client(server.url, "400000000001")
    for _ in range(30):
        try:
            if not client.receive_message(QueueUrl="q", MaxNumberOfMessages=10).get("Messages"):
                break
        except (BotoCoreError, ClientError):
            break
    assert server.ended() == 1
    says("".join(server.log), "stopped", "trusted")


def test_a_data_directory_that_is_removed_is_noticed_by_the_next_send(tmp_path: Path) -> None:
    data = tmp_path / "data"
    server = ServerProcess("--data", str(data))
    client = sqs_client(server.url, "400000000002")
    client.create_queue(QueueName="q")
    shutil.rmtree(data)
    with pytest.raises((BotoCoreError, ClientError)):
        client.send_message(QueueUrl="q", MessageBody="would be lost")
    assert server.ended() == 1


def test_a_damaged_log_is_refused_until_its_loss_is_accepted(tmp_path: Path) -> None:
    arguments = ("--data", str(tmp_path))
    with ServerProcess(*arguments) as server:
        client = sqs_client(server.url, "400000000003")
        client.create_queue(QueueName="q")
        for number in range(20):
            client.send_message(QueueUrl="q", MessageBody=f"{number}")
        server.kill()
    log = tmp_path / "penstock.db-wal"
    with log.open("r+b") as data:
        data.seek(log.stat().st_size // 2)
        data.write(b"\xa5" * 64)
    command = [sys.executable, "-m", "penstock", "serve", "--port", "0", *arguments]
    refused = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert refused.returncode == 2
    assert "--accept-data-loss" in refused.stderr
    with ServerProcess(*arguments, "--accept-data-loss") as server:
        client = sqs_client(server.url, "400000000003")
        found = client.get_queue_attributes(QueueUrl="q", AttributeNames=["ApproximateNumberOfMessages"])
        assert 0 < int(found["Attributes"]["ApproximateNumberOfMessages"]) < 20
        says("".join(server.log), "penstock.db-wal", "damaged", "lost")
        assert server.stop() == 0
