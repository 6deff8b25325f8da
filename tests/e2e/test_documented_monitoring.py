"""docs/monitoring.md is true: its requests work, and its tables have every metric there is."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from penstock.client.api import ApiSession
from penstock.metrics.queue_rows import QUEUE_METRICS
from penstock.publishing.namespace import NAMESPACE
from support.documents import blocks_of
from support.process import ServerProcess

PAGE = (Path(__file__).parents[2] / "docs/monitoring.md").read_text()
COMMANDS = [
    line
    for block in re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
]


def make_orders(server: ServerProcess) -> None:
    api = ApiSession(server.url, "us-east-1")
    url = api.sqs("CreateQueue", QueueName="orders")["QueueUrl"]
    api.sqs("SendMessage", QueueUrl=url, MessageBody="one espresso")
    api.close()


@pytest.mark.parametrize("command", [each for each in COMMANDS if each.startswith(("curl", "penstock"))])
def test_the_requests_of_the_page_work(command: str) -> None:
    with ServerProcess("--memory") as server:
        make_orders(server)
        line = command.replace("http://127.0.0.1:9324", server.url).replace("curl ", "curl -sS --fail ", 1)
        if line.startswith("penstock "):
            line = f"{sys.executable} -m {line} --endpoint-url {server.url}"
        done = subprocess.run(line, shell=True, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        assert done.stdout


def test_the_alarm_on_a_topic_is_created() -> None:
    (command,) = (block for block in blocks_of(PAGE, "sh") if block.startswith("aws "))
    environment = {
        **os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any", "AWS_DEFAULT_REGION": "us-east-1",
    }  # fmt: skip
    with ServerProcess("--memory") as server:
        script = command.replace("http://127.0.0.1:9324", server.url)
        done = subprocess.run(
            ["bash", "-eu"], input=script, env=environment, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
    (name,) = re.findall(r"--metric-name (\w+)", command)
    assert name in NAMESPACE.units and f"--namespace {NAMESPACE.name} " in command


def test_the_metrics_of_topics_are_in_the_table_with_their_units() -> None:
    table = PAGE.partition("<!-- topics: begin -->")[2].partition("<!-- topics: end -->")[0]
    rows = [
        line.strip("|").split(" | ")
        for line in table.splitlines()
        if line.startswith(("| Number", "| Approximate", "| PublishSize"))
    ]
    listed = {name.strip(): unit.strip() for names, unit, _ in rows for name in names.split(",")}
    assert listed == NAMESPACE.units


def test_the_configuration_of_prometheus_names_the_server() -> None:
    (block,) = re.findall(r"^```yaml\n# prometheus.yml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (job,) = yaml.safe_load(block)["scrape_configs"]
    assert job["static_configs"] == [{"targets": ["127.0.0.1:9324"]}]


def test_keda_reads_a_number_that_the_server_gives() -> None:
    (block,) = re.findall(r"^```yaml\n# keda.yml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (trigger,) = yaml.safe_load(block)["triggers"]
    with ServerProcess("--memory") as server:
        make_orders(server)
        url = trigger["metadata"]["url"].replace("http://penstock:9324", server.url)
        with urllib.request.urlopen(url, timeout=30) as response:
            assert isinstance(json.load(response)[trigger["metadata"]["valueLocation"]], int)


def test_every_metric_of_queues_is_in_the_table_with_its_unit_and_statistic() -> None:
    for metric in QUEUE_METRICS.values():
        row = f"| `{metric.name}` | {metric.published_as} | {metric.unit} | {metric.statistic} |".replace(
            "|  |", "| |"
        )
        assert row in PAGE, row


def test_every_family_is_in_the_table_with_its_type(tmp_path: Path) -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| `p")]
    documented = {
        name for row in rows for name in re.findall(r"`((?:penstock|process)_\w+)`", row.split("|")[1])
    }
    with ServerProcess("--data", str(tmp_path)) as server:
        make_orders(server)
        with urllib.request.urlopen(f"{server.url}/metrics", timeout=30) as response:
            text = response.read().decode()
    for family in text_string_to_metric_families(text):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        assert name in documented
        (row,) = [row for row in rows if f"`{name}`" in row]
        assert row.split("|")[2].strip() in (family.type, ""), name
