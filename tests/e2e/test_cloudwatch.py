"""The CloudWatch API of a running server: boto3, the AWS CLI, restarts, web hooks, permissions and the audit log."""

from __future__ import annotations

import http.server
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from penstock.client.api import ApiSession
from support.identities import HOME
from support.process import ServerProcess
from support.secured import Secured, client, refusal
from support.sqs import sqs_client

ACCOUNT = "200000000001"
AWS = Path(sys.executable).with_name("aws")
VISIBLE = "ApproximateNumberOfMessagesVisible"


def watch_client(url: str, account: str = ACCOUNT) -> Any:
    return client(
        url, "cloudwatch", region_name="us-east-1", aws_access_key_id=account, aws_secret_access_key="any"
    )


@pytest.fixture
def cw(server: ServerProcess, account: str) -> Any:
    return watch_client(server.url, account)


def around_now(minutes: int = 30) -> dict[str, Any]:
    now = datetime.now(UTC)
    return {"StartTime": now - timedelta(minutes=minutes), "EndTime": now + timedelta(minutes=2)}


def total(cw: Any, name: str = "Sales", namespace: str = "App") -> float:
    found = cw.get_metric_statistics(
        Namespace=namespace, MetricName=name, Period=3600, Statistics=["Sum"], **around_now()
    )
    return float(sum(point["Sum"] for point in found["Datapoints"]))


def put_alarm(cw: Any, name: str = "a", **more: Any) -> None:
    members = {
        "AlarmName": name, "Namespace": "App", "MetricName": "Errors", "Statistic": "Sum", "Period": 60,
        "EvaluationPeriods": 1, "Threshold": 1, "ComparisonOperator": "GreaterThanThreshold", **more,
    }  # fmt: skip
    cw.put_metric_alarm(**members)


def set_state(cw: Any, name: str, value: str) -> None:
    cw.set_alarm_state(AlarmName=name, StateValue=value, StateReason="set by a test")


def within(seconds: float, condition: Any) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


def test_metrics_of_clients_and_of_queues(cw: Any, sqs: Any) -> None:
    url = sqs.create_queue(QueueName="orders")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="hello")
    cw.put_metric_data(Namespace="App", MetricData=[{"MetricName": "Sales", "Value": 3.5, "Unit": "Count"}])
    assert total(cw) == 3.5
    found = cw.get_metric_statistics(
        Namespace="AWS/SQS", MetricName="SentMessageSize", Period=60, Statistics=["Average"],
        Dimensions=[{"Name": "QueueName", "Value": "orders"}], **around_now(),
    )["Datapoints"]  # fmt: skip
    assert [(point["Average"], point["Unit"]) for point in found] == [(5.0, "Bytes")]
    namespaces = {metric["Namespace"] for metric in cw.list_metrics()["Metrics"]}
    assert namespaces == {"App", "AWS/SQS"}


def test_an_alarm_sends_to_a_queue(cw: Any, sqs: Any, account: str) -> None:
    url = sqs.create_queue(QueueName="alerts")["QueueUrl"]
    put_alarm(cw, AlarmActions=[f"arn:aws:sqs:us-east-1:{account}:alerts"])
    set_state(cw, "a", "ALARM")
    (message,) = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=20)["Messages"]
    assert json.loads(message["Body"])["NewStateValue"] == "ALARM"


# -- the AWS CLI ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_aws_cli(server: ServerProcess, account: str) -> None:
    environment = os.environ | {"AWS_ACCESS_KEY_ID": account, "AWS_SECRET_ACCESS_KEY": "any"}

    def aws(*arguments: str) -> Any:
        command = [
            str(AWS),
            "--endpoint-url",
            server.url,
            "--region",
            "us-east-1",
            "--output",
            "json",
            "cloudwatch",
        ]
        done = subprocess.run(
            [*command, *arguments], env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout) if done.stdout.strip() else None

    aws(
        "put-metric-data",
        "--namespace",
        "App",
        "--metric-name",
        "Sales",
        "--value",
        "3",
        "--dimensions",
        "Shop=a",
    )
    listed = aws("list-metrics", "--namespace", "App")["Metrics"]
    assert listed == [
        {"Namespace": "App", "MetricName": "Sales", "Dimensions": [{"Name": "Shop", "Value": "a"}]}
    ]
    aws(
        "put-metric-alarm", "--alarm-name", "a", "--namespace", "App", "--metric-name", "Sales", "--statistic", "Sum",
        "--period", "60", "--evaluation-periods", "1", "--threshold", "10",
        "--comparison-operator", "GreaterThanThreshold",
    )  # fmt: skip
    (alarm,) = aws("describe-alarms")["MetricAlarms"]
    assert (alarm["StateValue"], alarm["Threshold"]) == ("INSUFFICIENT_DATA", 10.0)
    assert alarm["StateUpdatedTimestamp"] == alarm["StateTransitionedTimestamp"]
    aws("set-alarm-state", "--alarm-name", "a", "--state-value", "OK", "--state-reason", "test")
    assert (
        aws("describe-alarm-history", "--alarm-name", "a")["AlarmHistoryItems"][0]["HistoryItemType"]
        == "StateUpdate"
    )
    aws("delete-alarms", "--alarm-names", "a")


# -- time ----------------------------------------------------------------------------------------------------


def test_the_two_alarms_that_everybody_sets() -> None:
    """On a server whose clock the test advances."""
    with ServerProcess("--memory", "--test-clock", "--shards", "3") as server:
        sqs, cw = sqs_client(server.url, ACCOUNT), watch_client(server.url)
        urls = {name: sqs.create_queue(QueueName=name)["QueueUrl"] for name in ("orders", "orders-dead")}
        common: dict[str, Any] = {
            "Namespace": "AWS/SQS", "MetricName": VISIBLE, "ComparisonOperator": "GreaterThanThreshold",
        }  # fmt: skip
        cw.put_metric_alarm(
            AlarmName="backlog", Dimensions=[{"Name": "QueueName", "Value": "orders"}], Statistic="Average",
            Period=300, EvaluationPeriods=2, Threshold=20, **common,
        )  # fmt: skip
        cw.put_metric_alarm(
            AlarmName="dead", Dimensions=[{"Name": "QueueName", "Value": "orders-dead"}], Statistic="Maximum",
            Period=60, EvaluationPeriods=1, Threshold=0, TreatMissingData="notBreaching", **common,
        )  # fmt: skip
        session = ApiSession(server.url, "us-east-1")

        def states(minutes: int) -> dict[str, str]:
            for _ in range(minutes):
                session.admin("POST", "/test/clock/advance", body={"seconds": 60})
            alarms = cw.describe_alarms()["MetricAlarms"]
            return {alarm["AlarmName"]: alarm["StateValue"] for alarm in alarms}

        sqs.send_message(QueueUrl=urls["orders"], MessageBody="x")
        assert states(12) == {"backlog": "OK", "dead": "OK"}
        for _ in range(5):
            entries = [{"Id": str(n), "MessageBody": "x"} for n in range(10)]
            sqs.send_message_batch(QueueUrl=urls["orders"], Entries=entries)
        sqs.send_message(QueueUrl=urls["orders-dead"], MessageBody="poison")
        assert states(2) == {"backlog": "OK", "dead": "ALARM"}
        assert states(10) == {"backlog": "ALARM", "dead": "ALARM"}
        for url in urls.values():
            sqs.purge_queue(QueueUrl=url)
        assert states(12) == {"backlog": "OK", "dead": "OK"}
        session.close()
        assert server.stop() == 0
        assert not [line for line in server.log if '"error"' in line.lower()]


# -- restarts ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "flags", [(), ("--shards", "4"), ("--processes", "2")], ids=["plain", "shards", "processes"]
)
def test_everything_outlives_a_killed_server(tmp_path: Path, flags: tuple[str, ...]) -> None:
    with ServerProcess("--data", str(tmp_path), *flags) as server:
        cw = watch_client(server.url)
        for number in range(6):
            cw.put_metric_data(Namespace=f"n{number}", MetricData=[{"MetricName": "m", "Value": number}])
        put_alarm(cw, TreatMissingData="ignore")  # an evaluation meanwhile must not change its state
        set_state(cw, "a", "ALARM")
        cw.put_composite_alarm(AlarmName="c", AlarmRule="ALARM(a)")
        cw.put_dashboard(DashboardName="d", DashboardBody='{"widgets":[]}')
        alarms = cw.describe_alarms(AlarmTypes=["CompositeAlarm", "MetricAlarm"])
        server.kill()
    with ServerProcess("--data", str(tmp_path), *flags) as server:
        cw = watch_client(server.url)
        assert [total(cw, "m", f"n{number}") for number in range(6)] == [0, 1, 2, 3, 4, 5]
        again = cw.describe_alarms(AlarmTypes=["CompositeAlarm", "MetricAlarm"])
        assert again["MetricAlarms"] == alarms["MetricAlarms"]
        assert again["CompositeAlarms"] == alarms["CompositeAlarms"]
        assert len(cw.describe_alarm_history()["AlarmHistoryItems"]) == 4
        assert cw.get_dashboard(DashboardName="d")["DashboardBody"] == '{"widgets":[]}'
        assert server.stop() == 0


# -- web hooks -----------------------------------------------------------------------------------------------


class Hook(http.server.BaseHTTPRequestHandler):
    received: list[tuple[str, dict[str, Any]]]
    statuses: list[int]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.received.append((self.path, json.loads(body)))
        status = self.statuses.pop(0) if self.statuses else 200
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "/secret")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def hook() -> Iterator[tuple[str, type[Hook]]]:
    handler = type("OwnHook", (Hook,), {"received": [], "statuses": []})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", handler
    server.shutdown()
    server.server_close()


def test_web_hooks(hook: tuple[str, type[Hook]]) -> None:
    url, handler = hook
    with ServerProcess("--memory", "--alarm-webhooks", f"{url}/alarms") as server:
        cw = watch_client(server.url)
        put_alarm(cw, AlarmActions=[f"{url}/alarms/orders?key=1"])
        set_state(cw, "a", "ALARM")
        assert within(20, lambda: handler.received)
        path, body = handler.received[0]
        assert (path, body["AlarmName"]) == ("/alarms/orders?key=1", "a")
        handler.statuses[:] = [500]
        set_state(cw, "a", "OK")
        set_state(cw, "a", "ALARM")
        assert within(20, lambda: len(handler.received) == 3), "it is tried again"
        handler.statuses[:] = [302]
        set_state(cw, "a", "OK")
        set_state(cw, "a", "ALARM")

        def last_action() -> str:
            items = cw.describe_alarm_history(AlarmName="a", HistoryItemType="Action")["AlarmHistoryItems"]
            return str(items[0]["HistorySummary"])

        assert within(20, lambda: "status 302" in last_action())
        assert not [path for path, _ in handler.received if path == "/secret"], "a redirect is not followed"
        for other in (
            f"{url}/other",
            f"{url}/alarms/../other",
            f"{url}/alarmsx",
            "http://169.254.169.254/alarms",
        ):
            status, code, text = refusal(
                cw.put_metric_alarm, AlarmName="b", Namespace="App", MetricName="Errors", Statistic="Sum", Period=60,
                EvaluationPeriods=1, Threshold=1, ComparisonOperator="GreaterThanThreshold", AlarmActions=[other],
            )  # fmt: skip
            assert (status, code, "alarm_webhooks" in text) == (400, "ValidationError", True), other
        assert server.stop() == 0


def test_a_stop_waits_for_no_web_hook_and_logs_no_trouble() -> None:
    """The web hook answers a byte at a time; a task is under way; and the processes are connected."""
    called, ended = threading.Event(), threading.Event()

    def drip(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        called.set()
        with suppress(OSError):
            connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
            while not ended.wait(0.2):
                connection.sendall(b"x")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=drip, args=(listening,), daemon=True).start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        with ServerProcess("--memory", "--processes", "2", "--alarm-webhooks", url) as server:
            api = ApiSession(server.url, "us-east-1")
            for n in range(8):
                queue = api.sqs("CreateQueue", QueueName=f"q{n}")["QueueUrl"]
                api.sqs("SendMessage", QueueUrl=queue, MessageBody="x")
                api.admin("POST", f"/queues/q{n}/tasks", body={"operation": "reset", "rate": 1})
            cw = watch_client(server.url)
            put_alarm(cw, AlarmActions=[f"{url}/x"])
            set_state(cw, "a", "ALARM")
            assert called.wait(20)
            assert server.stop() == 0
            ended.set()
        told = [json.loads(line) for line in server.log]
        assert [each for each in told if each["level"] != "info"] == []
        assert told[-1]["message"] == "stopped"


# -- a secured server ----------------------------------------------------------------------------------------


def test_permissions_and_the_audit_log(tmp_path: Path) -> None:
    secured = Secured(tmp_path)
    policy = tmp_path / "alarms.json"
    statement = {"Effect": "Allow", "Action": "cloudwatch:*", "Resource": "*"}
    policy.write_text(json.dumps({"Version": "2012-10-17", "Statement": [statement]}))
    secured.add("ann", str(policy))
    secured.add("bob", "sqs-full-access")
    with secured.running() as server:
        ann, bob = secured.client("ann", "cloudwatch"), secured.client("bob", "cloudwatch")
        put_alarm(ann)
        status, code, text = refusal(bob.describe_alarms)
        assert (status, code) == (403, "AccessDenied")
        assert "is not authorized to perform: cloudwatch:DescribeAlarms" in text
        queue = f"arn:aws:sqs:eu-west-1:{HOME}:alerts"
        secured.client("bob").create_queue(QueueName="alerts")
        status, code, text = refusal(
            ann.put_metric_alarm, AlarmName="a", Namespace="App", MetricName="Errors", Statistic="Sum", Period=60,
            EvaluationPeriods=1, Threshold=1, ComparisonOperator="GreaterThanThreshold", AlarmActions=[queue],
        )  # fmt: skip
        assert (status, "sqs:sendmessage" in text) == (403, True)
        unsigned = client(
            server.url, "cloudwatch", aws_access_key_id="AKIAUNKNOWN", aws_secret_access_key="any"
        )
        assert refusal(unsigned.list_metrics)[0] == 403
        assert server.stop() == 0
    events = [event for event in secured.audit_log if event["eventSource"] == "monitoring.amazonaws.com"]
    shown = [(event["eventName"], event["additionalEventData"]["decision"]) for event in events]
    assert shown[:3] == [
        ("PutMetricAlarm", "allowed"),
        ("DescribeAlarms", "denied"),
        ("PutMetricAlarm", "denied"),
    ]
    assert events[0]["requestParameters"]["alarmName"] == "a"
