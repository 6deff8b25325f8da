"""A whole server on PostgreSQL: what a client sees, also while the database is away."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from e2e.test_cloudwatch import watch_client
from penstock.client.api import ApiSession
from support.postgres import PostgresServer, running_postgres
from support.process import ServerProcess, free_port
from support.sqs import sqs_client
from support.texts import says

pytestmark = pytest.mark.postgres

BACK_WITHIN_S = 30


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with running_postgres() as server:
        yield server


@pytest.fixture
def store(postgres: PostgresServer, tmp_path: Path) -> tuple[str, ...]:
    url = postgres.url(postgres.new_database()).replace("penstock@", "penstock:secret@")
    return "--store", url, "--data", str(tmp_path), "--shards", "2"


def names(count: int) -> list[str]:
    return [f"q{number}" for number in range(count)]


def bodies(sqs: Any, queue: str) -> list[str]:
    found = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages", [])
    for message in found:
        sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
    return [message["Body"] for message in found]


def health(server: ServerProcess) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(f"{server.url}/health") as answer:
            found: dict[str, Any] = json.load(answer)
    except urllib.error.HTTPError as unready:
        found = json.load(unready)
    return found


def test_messages_outlive_the_server(store: tuple[str, ...]) -> None:
    with ServerProcess(*store) as server:
        sqs = sqs_client(server.url, "200000000000")
        urls = [sqs.create_queue(QueueName=name)["QueueUrl"] for name in names(6)]
        for url in urls:
            sqs.send_message(QueueUrl=url, MessageBody="kept")
            sqs.send_message(QueueUrl=url, MessageBody="too")
        assert health(server)["durability"].startswith("fsync is off")
        server.kill()
    with ServerProcess(*store) as server:
        sqs = sqs_client(server.url, "200000000000")
        for name in names(6):
            url = sqs.get_queue_url(QueueName=name)["QueueUrl"]
            assert sorted(bodies(sqs, url) + bodies(sqs, url)) == ["kept", "too"]
        assert server.stop() == 0
        assert not [line for line in server.log if "secret" in line]


def test_metrics_and_alarms_outlive_the_server(store: tuple[str, ...]) -> None:
    with ServerProcess(*store) as server:
        cw = watch_client(server.url)
        for name in names(4):
            cw.put_metric_data(Namespace=name, MetricData=[{"MetricName": "m", "Value": 2.5}])
        cw.put_metric_alarm(
            AlarmName="a", Namespace="q0", MetricName="m", Statistic="Sum", Period=60, EvaluationPeriods=1,
            Threshold=1, ComparisonOperator="GreaterThanThreshold",
        )  # fmt: skip
        cw.set_alarm_state(AlarmName="a", StateValue="ALARM", StateReason="set by a test")
        cw.put_dashboard(DashboardName="d", DashboardBody='{"widgets":[]}')
        server.kill()
    with ServerProcess(*store) as server:
        cw = watch_client(server.url)
        assert {metric["Namespace"] for metric in cw.list_metrics()["Metrics"]} == set(names(4))
        (alarm,) = cw.describe_alarms()["MetricAlarms"]
        assert (alarm["StateValue"], alarm["StateReason"]) == ("ALARM", "set by a test")
        assert len(cw.describe_alarm_history(AlarmName="a")["AlarmHistoryItems"]) == 2
        assert len(cw.list_dashboards()["DashboardEntries"]) == 1
        assert server.stop() == 0


def test_a_database_that_goes_away_and_comes_back(postgres: PostgresServer, store: tuple[str, ...]) -> None:
    with ServerProcess(*store) as server:
        sqs = sqs_client(server.url, "200000000000")
        urls = [sqs.create_queue(QueueName=name)["QueueUrl"] for name in names(6)]
        postgres.stop()
        texts = set()
        for url in urls * 2:
            with pytest.raises(ClientError) as refused:
                sqs.send_message(QueueUrl=url, MessageBody="refused")
            answer = refused.value.response
            assert answer["ResponseMetadata"]["HTTPStatusCode"] == 503
            texts.add(answer["Error"]["Message"])
        assert all("Nothing was changed" in text or "not known" in text for text in texts), texts
        assert any("database" in text and "Nothing was changed" in text for text in texts), texts
        says(health(server)["sends"], "database")
        (reason,) = health(server)["reasons"]
        says(reason, "database")
        postgres.start()
        sent = [url for url in urls if _sends(sqs, url)]
        assert sent == urls
        for url in urls:
            assert "back" in bodies(sqs, url)
        assert (health(server)["sends"], health(server)["status"]) == ("accepted", "ready")
        assert server.stop() == 0


def test_a_start_without_the_database_exits_with_1_so_that_a_supervisor_tries_again(tmp_path: Path) -> None:
    url = f"postgresql://penstock:secret@127.0.0.1:{free_port()}/penstock"
    command = [
        sys.executable,
        "-m",
        "penstock",
        "serve",
        "--port",
        "0",
        "--data",
        str(tmp_path),
        "--store",
        url,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1, "systemd does not restart after 2"
    says(done.stderr, "address", "user", "password")
    assert "secret" not in done.stderr


def _sends(sqs: Any, url: str) -> bool:
    deadline = time.monotonic() + BACK_WITHIN_S
    while time.monotonic() < deadline:
        try:
            sqs.send_message(QueueUrl=url, MessageBody="back")
            return True
        except ClientError:
            time.sleep(0.1)
    return False


def test_metrics_of_queues_survive_a_restart(store: tuple[str, ...]) -> None:
    for _ in range(2):
        with ServerProcess(*store) as server:
            api = ApiSession(server.url, "us-east-1")
            url = api.sqs("CreateQueue", QueueName="metered")["QueueUrl"]
            api.sqs("SendMessage", QueueUrl=url, MessageBody="x")
            (sent,) = api.admin("GET", "/queues/metered/metrics", {"metrics": "sent"})["series"]
            api.close()
            assert server.stop() == 0
    assert sum(sent["values"]) == 2
