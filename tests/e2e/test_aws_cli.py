"""The commands of the README, run by the AWS CLI."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.process import ServerProcess

AWS = Path(sys.executable).with_name("aws")


class Cli:
    def __init__(self, url: str, account: str, service: str = "sqs") -> None:
        self._command = [
            str(AWS),
            "--endpoint-url",
            url,
            "--region",
            "us-east-1",
            "--output",
            "json",
            service,
        ]
        self._environment = os.environ | {"AWS_ACCESS_KEY_ID": account, "AWS_SECRET_ACCESS_KEY": "any"}

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._command, *arguments], env=self._environment, capture_output=True, text=True, timeout=120,
            check=False,
        )  # fmt: skip

    def __call__(self, *arguments: str) -> Any:
        done = self.run(*arguments)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout) if done.stdout.strip() else None


@pytest.fixture
def aws(server: ServerProcess, account: str) -> Cli:
    return Cli(server.url, account)


def test_send_and_receive_from_the_command_line(aws: Cli, server: ServerProcess, account: str) -> None:
    url = aws("create-queue", "--queue-name", "orders")["QueueUrl"]
    assert url == f"{server.url}/{account}/orders"
    assert aws("list-queues") == {"QueueUrls": [url]}
    sent = aws("send-message", "--queue-url", url, "--message-body", "hello")
    (message,) = aws("receive-message", "--queue-url", url, "--wait-time-seconds", "5")["Messages"]
    assert (message["Body"], message["MessageId"]) == ("hello", sent["MessageId"])
    assert aws("delete-message", "--queue-url", url, "--receipt-handle", message["ReceiptHandle"]) is None
    assert aws("receive-message", "--queue-url", url) is None


def test_batches_attributes_and_errors_from_the_command_line(aws: Cli) -> None:
    fifo = "FifoQueue=true,ContentBasedDeduplication=true"
    url = aws("create-queue", "--queue-name", "q.fifo", "--attributes", fifo)["QueueUrl"]
    entries = [{"Id": str(i), "MessageBody": str(i), "MessageGroupId": "g"} for i in range(3)]
    done = aws("send-message-batch", "--queue-url", url, "--entries", json.dumps(entries))
    assert len(done["Successful"]) == 3
    aws("set-queue-attributes", "--queue-url", url, "--attributes", "VisibilityTimeout=77")
    shown = aws("get-queue-attributes", "--queue-url", url, "--attribute-names", "All")["Attributes"]
    assert (shown["VisibilityTimeout"], shown["ApproximateNumberOfMessages"]) == ("77", "3")
    refused = aws.run("get-queue-url", "--queue-name", "none")
    assert refused.returncode != 0
    assert "(AWS.SimpleQueueService.NonExistentQueue)" in refused.stderr
