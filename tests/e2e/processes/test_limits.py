"""Limits that hold for all processes together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from support.process import ServerProcess
from support.sqs import sqs_client

NAMES = [f"queue-{number}" for number in range(12)]  # in shards of both processes
ACCOUNT = "123456789012"


def fresh_client(server: ServerProcess) -> Any:
    """Opens a connection of its own, which may reach another process than the one before."""
    return sqs_client(server.url, ACCOUNT)


def test_a_quota_of_queues() -> None:
    with ServerProcess("--memory", "--processes", "2", "--quota-queues", "5") as server:
        for name in NAMES[:5]:
            fresh_client(server).create_queue(QueueName=name)
        for name in NAMES[5:]:
            with pytest.raises(ClientError, match="OverLimit"):
                fresh_client(server).create_queue(QueueName=name)


def test_a_quota_of_messages(tmp_path: Path) -> None:
    arguments = ("--data", str(tmp_path), "--processes", "2", "--quota-messages", "10")
    with ServerProcess(*arguments) as server:
        urls = [fresh_client(server).create_queue(QueueName=name)["QueueUrl"] for name in NAMES]
        for url in urls[:10]:
            fresh_client(server).send_message(QueueUrl=url, MessageBody="x")
        for url in urls:
            with pytest.raises(ClientError, match="OverLimit"):
                fresh_client(server).send_message(QueueUrl=url, MessageBody="x")
        fresh_client(server).purge_queue(QueueUrl=urls[0])
        fresh_client(server).send_message(QueueUrl=urls[11], MessageBody="x")
        assert server.stop() == 0
    with ServerProcess(*arguments) as server:  # counted again at the start
        for name in NAMES:
            url = fresh_client(server).get_queue_url(QueueName=name)["QueueUrl"]
            with pytest.raises(ClientError, match="OverLimit"):
                fresh_client(server).send_message(QueueUrl=url, MessageBody="x")


def test_a_rate_limit() -> None:
    """One allowance, whichever process is reached. Two of them would let twice as many pass."""
    with ServerProcess(
        "--memory", "--processes", "2", "--requests-per-second", "1", "--requests-burst", "9"
    ) as server:
        refused = 0
        for _ in range(40):
            try:
                fresh_client(server).list_queues()
            except ClientError as error:
                assert error.response["Error"]["Code"] == "RequestThrottled"
                refused += 1
        assert refused >= 15, "each process had an allowance of its own"
