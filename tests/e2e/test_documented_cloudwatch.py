"""The examples of docs/cloudwatch.md, as a reader copies them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from e2e.test_cloudwatch import watch_client
from support.documents import ROOT, blocks
from support.process import ServerProcess
from support.secured import Secured, refusal
from support.sqs import sqs_client

PAGE = ROOT / "docs" / "cloudwatch.md"
ACCOUNT = "000000000000"


def test_the_examples_run() -> None:
    with ServerProcess("--memory") as server:
        sqs = sqs_client(server.url, ACCOUNT)
        url = sqs.create_queue(QueueName="orders")["QueueUrl"]
        for _ in range(8):
            sqs.send_message(QueueUrl=url, MessageBody="x")
        program = "\n".join(blocks(PAGE, "python")).replace("http://127.0.0.1:9324", server.url)
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr
        workers, backlog = done.stdout.splitlines()
        assert workers == "Workers"
        assert 2.0 in json.loads(backlog), "eight messages for four workers"
        alarms = watch_client(server.url, ACCOUNT).describe_alarms()["MetricAlarms"]
        assert [alarm["AlarmName"] for alarm in alarms] == ["orders-backlog", "orders-dead-letters"]
        (commands,) = blocks(PAGE, "sh")
        folder = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        environment = os.environ | {
            "PATH": folder, "AWS_ACCESS_KEY_ID": ACCOUNT, "AWS_SECRET_ACCESS_KEY": "any",
            "AWS_DEFAULT_REGION": "us-east-1",
        }  # fmt: skip
        script = "set -e\n" + commands.replace("http://127.0.0.1:9324", server.url)
        shown = subprocess.run(
            ["sh", "-c", script], env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        assert shown.returncode == 0, shown.stderr
        assert '"orders-dead-letters"' in shown.stdout and "created" in shown.stdout


def test_the_policy_allows_what_it_says(tmp_path: Path) -> None:
    (policy,) = blocks(PAGE, "json")
    file = tmp_path / "shop.json"
    file.write_text(policy)
    secured = Secured(tmp_path)
    secured.add("ann", str(file))
    with secured.running() as server:
        ann = secured.client("ann", "cloudwatch")
        data = [{"MetricName": "Workers", "Value": 4}]
        ann.put_metric_data(Namespace="Shop", MetricData=data)
        assert len(ann.list_metrics()["Metrics"]) == 1
        assert ann.describe_alarms()["MetricAlarms"] == []
        assert refusal(ann.put_metric_data, Namespace="Other", MetricData=data)[0] == 403
        assert refusal(ann.delete_alarms, AlarmNames=["a"])[0] == 403
        assert server.stop() == 0
