"""/metrics of a real server, read by the parsers of Prometheus' own library."""

from __future__ import annotations

import json
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics_parser
from prometheus_client.parser import text_string_to_metric_families as plain_parser

from penstock.client.api import ApiSession
from support.identities import HOME
from support.process import ServerProcess
from support.secured import Secured
from support.waiting import until

OPEN_METRICS = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"


def read(url: str, **headers: str) -> tuple[str, str]:
    """Content type and text."""
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=30) as response:
        return response.headers["Content-Type"], response.read().decode()


def refused(url: str, **headers: str) -> int:
    with pytest.raises(urllib.error.HTTPError) as caught:
        read(url, **headers)
    return caught.value.code


Metrics = dict[str, dict[frozenset[tuple[str, str]], float]]


def parsed(text: str) -> Metrics:
    """Values by the name of the sample and by its labels; both must occur once."""
    found: Metrics = {}
    for family in open_metrics_parser(text):
        for sample in family.samples:
            labels = frozenset(sample.labels.items())
            assert labels not in found.setdefault(sample.name, {}), (sample.name, sample.labels)
            found[sample.name][labels] = sample.value
    return found


def scrape(server: ServerProcess) -> Metrics:
    return parsed(read(f"{server.url}/metrics", Accept=OPEN_METRICS)[1])


def total(metrics: Metrics, name: str, **labels: str) -> float:
    return sum(
        value for found, value in metrics.get(name, {}).items() if labels.items() <= dict(found).items()
    )


@pytest.fixture(scope="module", params=[1, 2], ids=["one process", "two processes"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    data = str(tmp_path_factory.mktemp("data"))
    with ServerProcess("--data", data, "--processes", str(request.param)) as process:
        yield process
        assert not [line for line in process.log if '"error"' in line.lower()], "the server logged an error"


def call(server: ServerProcess, action: str, **members: Any) -> dict[str, Any]:
    """On a connection of its own, so that any process may get it."""
    api = ApiSession(server.url, "us-east-1")
    try:
        answer: dict[str, Any] = api.sqs(action, **members)
        return answer
    finally:
        api.close()


def test_queues_of_all_processes(server: ServerProcess) -> None:
    urls = [call(server, "CreateQueue", QueueName=f"seen-{n}")["QueueUrl"] for n in range(6)]
    for n, url in enumerate(urls):
        for _ in range(n):
            call(server, "SendMessage", QueueUrl=url, MessageBody="x" * 100)
    call(server, "SendMessage", QueueUrl=urls[5], MessageBody="later", DelaySeconds=600)
    (message,) = call(server, "ReceiveMessage", QueueUrl=urls[5])["Messages"]
    call(server, "DeleteMessage", QueueUrl=urls[5], ReceiptHandle=message["ReceiptHandle"])
    call(server, "ReceiveMessage", QueueUrl=urls[5])
    call(server, "ReceiveMessage", QueueUrl=urls[0])
    for _ in range(3):  # whichever process answers
        metrics = scrape(server)
        for n in range(5):
            assert total(metrics, "penstock_sqs_messages_sent_total", queue=f"seen-{n}") == n
            assert total(metrics, "penstock_sqs_messages", queue=f"seen-{n}", state="visible") == n
        queue = {"queue": "seen-5", "account": "000000000000", "region": "us-east-1"}
        assert total(metrics, "penstock_sqs_messages_sent_total", **queue) == 6
        assert total(metrics, "penstock_sqs_messages_received_total", **queue) == 2
        assert total(metrics, "penstock_sqs_messages_deleted_total", **queue) == 1
        assert total(metrics, "penstock_sqs_empty_receives_total", queue="seen-0") == 1
        states = {
            state: total(metrics, "penstock_sqs_messages", state=state, **queue)
            for state in ("visible", "in_flight", "delayed")
        }
        assert states == {"visible": 3, "in_flight": 1, "delayed": 1}
        assert total(metrics, "penstock_sqs_sent_message_bytes_bucket", le="64.0", **queue) == 1
        assert total(metrics, "penstock_sqs_sent_message_bytes_count", **queue) == 6
        assert total(metrics, "penstock_sqs_processing_seconds_count", **queue) == 1


def test_fifo_queues_have_metrics_of_their_own(server: ServerProcess) -> None:
    url = call(server, "CreateQueue", QueueName="seen.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
    for _ in range(2):
        call(
            server,
            "SendMessage",
            QueueUrl=url,
            MessageBody="x",
            MessageGroupId="g",
            MessageDeduplicationId="1",
        )
    call(server, "ReceiveMessage", QueueUrl=url)
    metrics = scrape(server)
    assert total(metrics, "penstock_sqs_groups_in_flight", queue="seen.fifo") == 1
    assert total(metrics, "penstock_sqs_duplicate_messages_total", queue="seen.fifo") == 1
    groups = {dict(labels)["queue"] for labels in metrics["penstock_sqs_groups_in_flight"]}
    assert groups == {"seen.fifo"}


def sns(server: ServerProcess, action: str, **members: Any) -> dict[str, Any]:
    api = ApiSession(server.url, "us-east-1")
    try:
        answer: dict[str, Any] = api.sns(action, **members)
        return answer
    finally:
        api.close()


def test_topics_of_all_processes(server: ServerProcess) -> None:
    url = call(server, "CreateQueue", QueueName="reader")["QueueUrl"]
    name = call(server, "GetQueueAttributes", QueueUrl=url, AttributeNames=["QueueArn"])
    reader = name["Attributes"]["QueueArn"]
    filters = [None, '{"kind":["x"]}', None]
    for number in range(4):
        arn = sns(server, "CreateTopic", Name=f"news-{number}")["TopicArn"]
        for filter, endpoint in zip(filters, [reader, f"{reader}2", f"{reader}3"], strict=True):
            attributes = {
                "FilterPolicy": filter,
                "RedrivePolicy": json.dumps({"deadLetterTargetArn": reader}),
            }
            given = {key: value for key, value in attributes.items() if value is not None}
            sns(server, "Subscribe", TopicArn=arn, Protocol="sqs", Endpoint=endpoint, Attributes=given)
        for _ in range(number):
            sns(server, "Publish", TopicArn=arn, Message="x")
    names = [
        "messages_published",
        "notifications_failed",
        "notifications_filtered_out",
        "notifications_redriven",
    ]

    def counted(number: int) -> dict[str, float]:
        metrics = scrape(server)
        about = {"topic": f"news-{number}", "account": "000000000000", "region": "us-east-1"}
        delivered = total(metrics, "penstock_sns_notifications_delivered_total", **about)
        assert delivered >= number, "a message on its way to another shard counts, too"
        return {name: total(metrics, f"penstock_sns_{name}_total", **about) for name in names}

    for number in range(4):
        expected = dict.fromkeys(names, float(number))
        until(lambda: counted(number) == expected, f"{number} of each are counted")  # noqa: B023
    metrics = scrape(server)
    assert total(metrics, "penstock_sns_topics") == 4
    shown = {dict(labels)["topic"] for labels in metrics["penstock_sns_messages_published_total"]}
    assert shown == {f"news-{number}" for number in range(4)}


def test_requests_by_action_and_code(server: ServerProcess) -> None:
    before = scrape(server)
    url = call(server, "CreateQueue", QueueName="asked")["QueueUrl"]
    for _ in range(3):
        call(server, "GetQueueUrl", QueueName="asked")
    api = ApiSession(server.url, "us-east-1")
    for _ in range(2):
        with pytest.raises(Exception, match="does not exist"):
            api.sqs("GetQueueUrl", QueueName="missing")
    api.admin("GET", "/queues/asked")
    api.close()
    metrics = scrape(server)

    def more(**labels: str) -> float:
        name = "penstock_request_duration_seconds_count"
        return total(metrics, name, **labels) - total(before, name, **labels)

    assert more(service="sqs", action="GetQueueUrl", code="OK") == 3
    missing = "AWS.SimpleQueueService.NonExistentQueue"
    assert more(service="sqs", action="GetQueueUrl", code=missing) == 2
    assert more(service="penstock", action="GetQueue", code="OK") == 1
    assert total(metrics, "penstock_request_duration_seconds_sum", action="CreateQueue") > 0
    assert url


def test_what_the_process_measures(server: ServerProcess) -> None:
    call(server, "CreateQueue", QueueName="measured")
    metrics = scrape(server)
    processes = len(metrics["process_resident_memory_bytes"])
    for name in (
        "process_resident_memory_bytes", "process_cpu_seconds_total", "process_open_fds", "penstock_build_info",
        "penstock_connections_accepted_total", "penstock_commits_total", "penstock_commit_duration_seconds_count",
        "penstock_sync_duration_seconds_count", "penstock_store_bytes", "penstock_disk_free_bytes",
        "penstock_shards_owned", "penstock_message_memory_max_bytes", "penstock_connections",
    ):  # fmt: skip
        assert total(metrics, name) > 0, name
        assert len(metrics[name]) == processes, name
    assert total(metrics, "penstock_ready") == total(metrics, "penstock_sends_accepted") == processes
    assert total(metrics, "penstock_shards_owned") == total(metrics, "penstock_shards") / processes
    if processes > 1:
        forwarded = {
            direction: total(metrics, "penstock_forwarded_requests_total", direction=direction)
            for direction in ("in", "out")
        }
        assert forwarded["in"] == forwarded["out"] > 0


def test_both_formats_and_nothing_else(server: ServerProcess) -> None:
    content_type, text = read(f"{server.url}/metrics")
    assert content_type == "text/plain; version=0.0.4; charset=utf-8"
    assert [family.name for family in plain_parser(text)]
    content_type, _ = read(f"{server.url}/metrics", Accept=OPEN_METRICS)
    assert content_type == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    assert refused(f"{server.url}/metrics/queues") == 404
    assert refused(f"{server.url}/metrics", Origin="https://evil.example") == 403


def test_waiting_receives_are_shown(server: ServerProcess) -> None:
    url = call(server, "CreateQueue", QueueName="awaited")["QueueUrl"]
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        body = json.dumps({"QueueUrl": url, "WaitTimeSeconds": 20}).encode()
        head = (
            "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-amz-json-1.0\r\n"
            f"X-Amz-Target: AmazonSQS.ReceiveMessage\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        client.sendall(head.encode() + body)
        until(
            lambda: total(scrape(server), "penstock_sqs_waiting_receives", queue="awaited") == 1,
            "a long poll in the metrics",
        )


def test_queues_beyond_the_limit_are_summed_up(tmp_path: Path) -> None:
    with ServerProcess("--data", str(tmp_path), "--metrics-queues", "3") as server:
        for n in range(8):
            url = call(server, "CreateQueue", QueueName=f"many-{n}")["QueueUrl"]
            call(server, "SendMessage", QueueUrl=url, MessageBody="x")
            if n == 3:
                first = scrape(server)
        metrics = scrape(server)
        sent = {
            dict(labels)["queue"]: value
            for labels, value in metrics["penstock_sqs_messages_sent_total"].items()
        }
        assert sent == {"many-0": 1, "many-1": 1, "many-2": 1, "*": 5}
        assert total(metrics, "penstock_sqs_messages", queue="*", state="visible") == 5
        assert total(metrics, "penstock_sqs_queues") == 8
        assert total(first, "penstock_sqs_messages_sent_total", queue="*") == 1
        # Those that were shown stay.
        call(server, "DeleteQueue", QueueUrl=f"{server.url}/000000000000/many-1")
        names = {dict(labels)["queue"] for labels in scrape(server)["penstock_sqs_messages_sent_total"]}
        assert names == {"many-0", "many-2", "many-3", "*"}


def test_topics_beyond_the_limit_are_summed_up(tmp_path: Path) -> None:
    with ServerProcess("--data", str(tmp_path), "--metrics-queues", "2") as server:
        for number in range(5):
            arn = sns(server, "CreateTopic", Name=f"many-{number}")["TopicArn"]
            sns(server, "Publish", TopicArn=arn, Message="x")
            if number == 2:
                scrape(server)
        metrics = scrape(server)
        published = {
            dict(labels)["topic"]: value
            for labels, value in metrics["penstock_sns_messages_published_total"].items()
        }
        assert published == {"many-0": 1, "many-1": 1, "*": 3}
        assert total(metrics, "penstock_sns_topics") == 5
        # One that is deleted and made again begins anew.
        sns(server, "DeleteTopic", TopicArn=arn.replace("many-4", "many-1"))
        sns(server, "CreateTopic", Name="many-1")
        metrics = scrape(server)
        assert total(metrics, "penstock_sns_messages_published_total", topic="many-1") == 0
        assert total(metrics, "penstock_sns_messages_published_total") == 4


def signed(url: str, key: str, secret: str) -> dict[str, str]:
    """The headers of a signed GET."""
    request = AWSRequest("GET", url)
    SigV4Auth(Credentials(key, secret), "penstock", "us-east-1").add_auth(request)
    return dict(request.headers)


# -- access ----------------------------------------------------------------------------------------------------


def test_a_secured_server_shows_metrics_to_those_who_may_see_them(tmp_path: Path) -> None:
    secured = Secured(tmp_path)
    secured.add("watcher", "penstock-read-only")
    secured.add("sender", "sqs-full-access")
    token = tmp_path / "token"
    token.write_text("s3cret-token\n")
    token.chmod(0o600)
    with secured.running("--metrics-token-file", str(token), "--account", HOME) as server:
        page = f"{server.url}/metrics"
        assert refused(page) == 403
        assert refused(page, Authorization="Bearer wrong") == 401
        assert "penstock_ready 1" in read(page, Authorization="Bearer s3cret-token")[1]
        assert "penstock_ready 1" in read(page, **signed(page, *secured.keys["watcher"]))[1]
        assert refused(page, **signed(page, *secured.keys["sender"])) == 403
    with secured.running("--metrics-networks", "10.0.0.0/8,127.0.0.0/8") as server:
        assert "penstock_ready 1" in read(f"{server.url}/metrics")[1]
    with secured.running("--metrics-networks", "10.0.0.0/8") as server:
        assert refused(f"{server.url}/metrics") == 403
        assert refused(f"{server.url}/metrics", Authorization="Bearer s3cret-token") == 401


@pytest.mark.parametrize("processes", [1, 2])
def test_a_port_of_its_own(tmp_path: Path, processes: int) -> None:
    secured = Secured(tmp_path)
    secured.add("sender", "sqs-full-access")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments = ("--metrics-listen", f"127.0.0.1:{port}", "--processes", str(processes))
    with secured.running(*arguments) as server:
        own = f"http://127.0.0.1:{port}"
        metrics = parsed(read(f"{own}/metrics", Accept=OPEN_METRICS)[1])
        assert total(metrics, "penstock_ready") == processes
        assert json.loads(read(f"{own}/health/ready")[1])["status"] == "ready"
        assert refused(f"{own}/") == refused(f"{own}/admin/v1/queues") == 404
        assert refused(f"{server.url}/metrics") == 403
        assert server.stop() == 0
