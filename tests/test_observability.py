"""The alert rules and the dashboard in deploy/ are about metrics that the server has.

`make test-observability` tests the rules with promtool, too.
"""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from penstock.client.api import ApiSession
from penstock.wire.faults import internal_error, service_unavailable
from support.documents import ROOT
from support.process import ServerProcess
from support.rows import every_row

ALERTS = yaml.safe_load((ROOT / "deploy/prometheus/penstock-alerts.yml").read_text())
RULES = [rule for group in ALERTS["groups"] for rule in group["rules"]]
DASHBOARD = json.loads((ROOT / "deploy/grafana/penstock.json").read_text())
ALERT_EXPRESSIONS = {rule["alert"]: rule["expr"] for rule in RULES}
PANEL_EXPRESSIONS = {
    f"{panel['title']} {target['refId']}": target["expr"]
    for panel in DASHBOARD["panels"]
    for target in panel.get("targets", ())
}
# Only with several processes, or after something went wrong.
RARE = {"penstock_forwarded_requests_total", "penstock_requests_refused_total"}


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[set[str]]:
    """The names of all samples of a server on which something happened."""
    with ServerProcess("--data", str(tmp_path_factory.mktemp("data"))) as server:
        api = ApiSession(server.url, "us-east-1")
        url = api.sqs("CreateQueue", QueueName="orders")["QueueUrl"]
        api.sqs("SendMessage", QueueUrl=url, MessageBody="x")
        (message,) = api.sqs("ReceiveMessage", QueueUrl=url)["Messages"]
        api.sqs("DeleteMessage", QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        api.close()
        with urllib.request.urlopen(f"{server.url}/metrics", timeout=30) as response:
            text = response.read().decode()
    families = list(text_string_to_metric_families(text))
    # The age is looked at once a minute, and only of queues that hold messages.
    yield {sample.name for family in families for sample in family.samples} | RARE | {
        "penstock_sqs_oldest_message_age_seconds", "up",
    }  # fmt: skip


@every_row("expression", [*ALERT_EXPRESSIONS.values(), *PANEL_EXPRESSIONS.values()])
def test_every_expression_is_about_metrics_that_exist(expression: str, names: set[str]) -> None:
    asked = set(re.findall(r"\b((?:penstock|process)_\w+|up)\b(?=[\[{)\s]|$)", expression))
    assert asked
    assert asked <= names


def test_every_alert_says_what_to_do() -> None:
    for rule in RULES:
        assert set(rule["annotations"]) == {"summary", "action"}, rule["alert"]
        assert rule["labels"]["severity"] in ("warning", "critical")


def test_the_alert_on_errors_has_the_codes_of_the_server() -> None:
    codes = re.search(r'code=~"([^"]+)"', ALERT_EXPRESSIONS["PenstockErrors"])
    assert codes is not None
    for fault in (internal_error(), service_unavailable("x")):
        assert fault.code in codes[1].split("|")


def test_every_alert_has_a_case_of_promtool() -> None:
    cases = yaml.safe_load((ROOT / "deploy/prometheus/penstock-alerts-test.yml").read_text())
    fired = {
        test["alertname"] for case in cases["tests"] for test in case["alert_rule_test"] if test["exp_alerts"]
    }
    assert fired == ALERT_EXPRESSIONS.keys()


def test_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
