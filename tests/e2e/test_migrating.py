"""A migration from the configuration of another server to a broker with the same queues, as its clients see them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.server.settings.config import settings
from penstock.server.settings.load import load_config
from support.documents import ROOT
from support.process import ServerProcess
from support.sqs import sqs_client

ELASTICMQ = """
include classpath("application.conf")
node-address.host = "*"
rest-sqs { bind-hostname = "127.0.0.1", bind-port = 0 }
queues {
  orders {
    defaultVisibilityTimeout = 12 seconds
    delay = 0 seconds
    receiveMessageWait = 1 second
    deadLettersQueue { name = "orders-dead", maxReceiveCount = 1 }
    tags { team = "shop" }
  }
  orders-dead { copyTo = audit }
  "payments.fifo" { fifo = true, contentBasedDeduplication = true }
}
aws { region = eu-west-1, accountId = 000000000042 }
"""

GOAWS = """
Local:
  Host: localhost
  Port: 0
  Region: eu-west-1
  AccountId: "000000000042"
  QueueAttributeDefaults: {VisibilityTimeout: 12}
  Queues:
    - Name: orders
      ReceiveMessageWaitTimeSeconds: 1
      RedrivePolicy: '{"maxReceiveCount": 1, "deadLetterTargetArn": "arn:aws:sqs:eu-west-1:000000000042:orders-dead"}'
    - Name: orders-dead
  Topics:
    - Name: news
      Subscriptions:
        - QueueName: readers
"""


def moved(tmp_path: Path, name: str, text: str) -> str:
    """The path of the configuration made from it by the command itself."""
    source, target = tmp_path / name, tmp_path / "penstock.toml"
    source.write_text(text)
    command = [sys.executable, "-m", "penstock", "import-config", str(source), "--output", str(target)]
    subprocess.run(command, check=True, timeout=60, capture_output=True)
    return str(target)


def attributes(sqs: Any, queue: str) -> dict[str, str]:
    found: dict[str, str] = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])["Attributes"]
    return found


@pytest.mark.parametrize(
    ("name", "text", "queues"),
    [
        ("elasticmq.conf", ELASTICMQ, ["orders", "orders-dead", "payments.fifo"]),
        ("goaws.yaml", GOAWS, ["orders", "orders-dead", "readers"]),
    ],
)
def test_a_server_starts_with_imported_queues(
    name: str, text: str, queues: list[str], tmp_path: Path
) -> None:
    with ServerProcess("--memory", "--config", moved(tmp_path, name, text)) as server:
        sqs = sqs_client(server.url, "any", "eu-west-1")
        urls = sqs.list_queues()["QueueUrls"]
        assert sorted(urls) == [f"{server.url}/000000000042/{queue}" for queue in queues]
        orders = attributes(sqs, "orders")
        assert orders["VisibilityTimeout"] == "12"
        assert orders["ReceiveMessageWaitTimeSeconds"] == "1"
        assert json.loads(orders["RedrivePolicy"]) == {
            "deadLetterTargetArn": attributes(sqs, "orders-dead")["QueueArn"],
            "maxReceiveCount": 1,
        }
        assert server.stop() == 0


def test_attributes_of_an_elasticmq_queue_are_imported(tmp_path: Path) -> None:
    with ServerProcess("--memory", "--config", moved(tmp_path, "elasticmq.conf", ELASTICMQ)) as server:
        sqs = sqs_client(server.url, "any", "eu-west-1")
        assert sqs.list_queue_tags(QueueUrl="orders")["Tags"] == {"team": "shop"}
        assert attributes(sqs, "payments.fifo")["ContentBasedDeduplication"] == "true"
        sqs.send_message(QueueUrl="payments.fifo", MessageBody="one", MessageGroupId="a")
        sqs.send_message(QueueUrl="payments.fifo", MessageBody="one", MessageGroupId="a")
        assert attributes(sqs, "payments.fifo")["ApproximateNumberOfMessages"] == "1"
        sqs.send_message(QueueUrl="orders", MessageBody="never done")
        sqs.receive_message(QueueUrl="orders", VisibilityTimeout=0)
        assert "Messages" not in sqs.receive_message(QueueUrl="orders", WaitTimeSeconds=0)
        assert sqs.receive_message(QueueUrl="orders-dead")["Messages"][0]["Body"] == "never done"


def test_a_setup_made_for_localstack() -> None:
    """Its port beside ours, its health page, an access key called "test"."""
    with ServerProcess("--memory", "--listen", "127.0.0.1:0", "--listen", "127.0.0.1:0") as server:
        ours, theirs = server.facts["addresses"]
        with urllib.request.urlopen(f"{theirs}/_localstack/health", timeout=10) as page:
            assert json.load(page)["services"]["sqs"] == "running"
        url = sqs_client(theirs, "test").create_queue(QueueName="orders")["QueueUrl"]
        assert url == f"{theirs}/000000000000/orders"
        sqs_client(theirs, "test").send_message(QueueUrl=url, MessageBody="from there")
        (message,) = sqs_client(ours, "test").receive_message(QueueUrl=url)["Messages"]
        assert message["Body"] == "from there"


@pytest.mark.parametrize(
    "base",
    [
        "http://sqs.us-east-1.localhost.localstack.cloud:4566",
        "http://us-east-1.queue.localhost.localstack.cloud:4566",
        "http://localhost:4566/queue/us-east-1",
        "http://localhost:4566",
        "http://goaws.com:4100",
    ],
)
def test_a_queue_url_of_another_server_still_names_the_queue(base: str, sqs: Any, account: str) -> None:
    sqs.create_queue(QueueName="orders")
    sqs.send_message(QueueUrl=f"{base}/{account}/orders", MessageBody="found")
    assert attributes(sqs, "orders")["ApproximateNumberOfMessages"] == "1"


def test_a_region_of_elasticmqs_name() -> None:
    with ServerProcess("--memory", "--region", "elasticmq") as server:
        sqs_client(server.url, "x", "elasticmq").create_queue(QueueName="orders")
        assert "QueueUrls" not in sqs_client(server.url, "x", "us-east-1").list_queues()


def document() -> str:
    return (Path(__file__).parents[2] / "docs/migrating.md").read_text()


def test_every_setting_that_the_document_names_exists() -> None:
    known = {setting.variable for setting in settings().values()}
    assert set(re.findall(r"PENSTOCK_[A-Z_]+", document())) <= known


def test_the_compose_file_of_the_document_gives_settings_that_are_taken() -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", document(), re.DOTALL)
    service = yaml.safe_load(text)["services"]["queues"]
    config = load_config({}, service["environment"])
    published = {int(port.rpartition(":")[2]) for port in service["ports"]}
    assert published == {address.port for address in config.addresses}
    assert service["volumes"] == [f"queues:{config.data}"]
    assert service["healthcheck"]["test"] == ["CMD", "penstock", "health"]


def test_what_the_page_names_in_place_of_others_is_served() -> None:
    """Each address in the right column of its tables, such as `POST /admin/v1/test/clear`."""
    cells = re.findall(r"^\| .* \| (.*) \|$", (ROOT / "docs/migrating.md").read_text(), re.MULTILINE)
    named = {each for cell in cells for each in re.findall(r"`((?:[A-Z]+ )?/[a-z_][^` ]*)`", cell)}
    assert {"POST /admin/v1/test/clear", "/metrics"} <= named
    wrong = {}
    with ServerProcess("--memory", "--test-clock") as server:
        url = sqs_client(server.url, "000000000000").create_queue(QueueName="orders")["QueueUrl"]
        for address in sorted(named, key=lambda each: each.startswith("POST")):  # what clears is last
            method, _, path = address.rpartition(" ")
            path = path.replace("{queue}", "orders")
            query = f"?QueueUrl={url}" if "/sqs/messages" in path else ""
            request = urllib.request.Request(f"{server.url}{path}{query}", method=method or "GET")
            try:
                urllib.request.urlopen(request, timeout=30).close()
            except urllib.error.HTTPError as error:
                wrong[address] = error.code
                error.close()
    assert not wrong
