"""Start and stop of the process, as an operator sees it."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from support.process import ServerProcess, free_port
from support.sqs import Background, sqs_client

ACCOUNT = "000000000000"


def health(port: int) -> tuple[int, Any]:
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", "/health/ready")
    response = connection.getresponse()
    page = json.loads(response.read())
    connection.close()
    return response.status, page


def test_a_stop_under_load_answers_its_polls_and_loses_nothing(tmp_path: Path) -> None:
    data = ("--data", str(tmp_path / "data"))
    sent: set[str] = set()
    with ServerProcess(*data) as server:
        sqs = sqs_client(server.url, ACCOUNT)
        for name in ("idle", "busy"):
            sqs.create_queue(QueueName=name)
        polls = [Background(sqs.receive_message, QueueUrl="idle", WaitTimeSeconds=20) for _ in range(12)]

        def produce(worker: int) -> None:
            number = 0
            while True:
                body = f"{worker}-{number}"
                number += 1
                try:
                    sqs.send_message(QueueUrl="busy", MessageBody=body)
                except (BotoCoreError, ClientError):
                    return
                sent.add(body)

        producers = [threading.Thread(target=produce, args=(i,), daemon=True) for i in range(4)]
        for producer in producers:
            producer.start()
        while len(sent) < 50:
            time.sleep(0.01)
        begun = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - begun < 8, "a stop waits for no long poll to end by itself"
        for poll in polls:
            assert "Messages" not in poll.result()
        for producer in producers:
            producer.join(10)
    with ServerProcess(*data) as server:
        sqs = sqs_client(server.url, ACCOUNT)
        there: set[str] = set()
        while messages := sqs.receive_message(QueueUrl="busy", MaxNumberOfMessages=10).get("Messages"):
            there |= {message["Body"] for message in messages}
    assert sent <= there


def test_a_second_server_on_one_directory_is_refused_and_the_first_continues(tmp_path: Path) -> None:
    with ServerProcess("--data", str(tmp_path)) as server:
        command = [sys.executable, "-m", "penstock", "serve", "--port", "0", "--data", str(tmp_path)]
        second = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert second.returncode == 2
        assert str(tmp_path) in second.stderr
        assert sqs_client(server.url, ACCOUNT).create_queue(QueueName="q")["QueueUrl"].endswith("/q")


@pytest.mark.parametrize("backwards", [False, True])
def test_declared_queues_exist_when_the_server_is_ready_in_any_order(tmp_path: Path, backwards: bool) -> None:
    tables = [
        '[queues.orders]\nVisibilityTimeout = 45\ndead_letter = {queue = "orders-dead", max_receives = 4}\n',
        "[queues.orders-dead]\nMessageRetentionPeriod = 1209600\n",
        '[queues."events.fifo"]\nContentBasedDeduplication = true\ntags = {team = "core"}\n',
    ]
    file = tmp_path / "penstock.toml"
    file.write_text("".join(reversed(tables) if backwards else tables))
    with ServerProcess("--memory", "--config", str(file)) as server:
        assert health(server.port) == (200, {"status": "ready", "sends": "accepted"})
        sqs = sqs_client(server.url, ACCOUNT)
        assert len(sqs.list_queues()["QueueUrls"]) == 3
        orders = sqs.get_queue_attributes(QueueUrl="orders", AttributeNames=["All"])["Attributes"]
        assert orders["VisibilityTimeout"] == "45"
        assert json.loads(orders["RedrivePolicy"]) == {
            "deadLetterTargetArn": f"arn:aws:sqs:us-east-1:{ACCOUNT}:orders-dead",
            "maxReceiveCount": 4,
        }
        events = sqs.get_queue_attributes(QueueUrl="events.fifo", AttributeNames=["All"])["Attributes"]
        assert events["ContentBasedDeduplication"] == "true"
        assert sqs.list_queue_tags(QueueUrl="events.fifo")["Tags"] == {"team": "core"}


def test_requests_before_the_server_is_ready_get_503(tmp_path: Path) -> None:
    port = free_port()
    outcomes: set[int | str] = set()
    over = threading.Event()

    def knock() -> None:
        while not over.is_set():
            connection = HTTPConnection("127.0.0.1", port, timeout=30)
            try:
                connection.request("POST", "/", b"{}", {"X-Amz-Target": "AmazonSQS.ListQueues"})
                outcomes.add(connection.getresponse().status)
            except ConnectionRefusedError:
                outcomes.add("refused")
            finally:
                connection.close()

    knockers = [threading.Thread(target=knock, daemon=True) for _ in range(4)]
    for knocker in knockers:
        knocker.start()
    with ServerProcess("--data", str(tmp_path), "--port", str(port)) as server:
        assert sqs_client(server.url, ACCOUNT).create_queue(QueueName="q")
        while 200 not in outcomes:
            time.sleep(0.01)
        over.set()
        for knocker in knockers:
            knocker.join(30)
    assert outcomes <= {"refused", 503, 200}, "503 if one came between listening and being ready"
