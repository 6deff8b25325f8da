"""doctor: what it finds, what it says to change, and its exit codes for monitoring."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from cli.conftest import signed_in
from penstock.cli import main
from penstock.cli.server.doctor_checks import (
    CHECKS,
    QUEUE_CHECKS,
    Finding,
    QueueFacts,
    Site,
    Thresholds,
    access_findings,
    not_allowed,
    server_findings,
)
from support.command_line import AmazonLookalike, CommandLine
from support.process import ServerProcess
from support.secured import Secured
from support.texts import says
from support.waiting import until

ARN = "arn:aws:sqs:us-east-1:000000000000:"
INFO = {
    "visible": 0, "in_flight": 0, "delayed": 0, "sent_rate": 0.0, "received_rate": 0.0, "deleted_rate": 0.0,
    "waiting_receives": 0, "is_dead_letter_queue": False,
}  # fmt: skip


def queue(name: str, attributes: dict[str, str] | None = None, **facts: Any) -> QueueFacts:
    info = {**INFO, **facts.pop("info", {})}
    return QueueFacts(name, {"QueueArn": ARN + name, **(attributes or {})}, info, **facts)


def found(*queues: QueueFacts) -> dict[str, Finding]:
    site = Site({each.arn: each for each in queues}, Thresholds(late_s=300, receives=5))
    findings = [finding for each in queues for check in QUEUE_CHECKS for finding in check(each, site)]
    return {finding.check: finding for finding in findings}


def wired(target: str) -> dict[str, str]:
    return {"RedrivePolicy": json.dumps({"deadLetterTargetArn": ARN + target, "maxReceiveCount": 3})}


# -- checks --------------------------------------------------------------------------------------------------------


def test_a_queue_with_a_dead_letter_queue_and_consumers_is_fine() -> None:
    late = {"oldest_age_s": 400.0, "visible": 5, "sent_rate": 1.0, "received_rate": 2.0, "deleted_rate": 2.0}
    assert found(queue("orders", wired("dead"), info=late), queue("dead")) == {}


def test_a_queue_without_a_dead_letter_queue() -> None:
    assert found(queue("orders")).keys() == {"no-dead-letter-queue"}
    finding = found(queue("orders.fifo"))["no-dead-letter-queue"]
    assert "queue create orders-dlq.fifo" in finding.command


@pytest.mark.parametrize(("retention", "expected"), [("86400", True), ("345600", False), ("1209600", False)])
def test_dead_letters_that_expire_too_early(retention: str, expected: bool) -> None:
    findings = found(
        queue("orders", {**wired("dead"), "MessageRetentionPeriod": "345600"}),
        queue("dead", {"MessageRetentionPeriod": retention}),
    )
    assert ("dead-letter-retention" in findings) == expected
    if expected:
        assert findings["dead-letter-retention"].severity == "problem"
        assert findings["dead-letter-retention"].queue == "dead"


@pytest.mark.parametrize(
    ("statement", "is_open"),
    [
        ({"Principal": "*"}, True),
        ({"Principal": {"AWS": "*"}}, True),
        ({"Principal": {"AWS": ["111122223333", "*"]}}, True),
        ({"Principal": {"AWS": "111122223333"}}, False),
        ({"Principal": "*", "Effect": "Deny"}, False),
        ({"Principal": "*", "Condition": {"ArnEquals": {"aws:SourceArn": "arn:aws:sns:::x"}}}, False),
    ],
)
def test_a_policy_open_to_everyone(statement: dict[str, Any], is_open: bool) -> None:
    policy = {"Statement": [{"Effect": "Allow", "Action": "sqs:SendMessage", "Resource": "*", **statement}]}
    findings = found(queue("orders", {**wired("dead"), "Policy": json.dumps(policy)}))
    assert ("open-policy" in findings) == is_open


def test_messages_that_no_consumer_receives() -> None:
    waiting = {"visible": 3, "oldest_age_s": 400.0}
    assert found(queue("orders", wired("dead"), info=waiting)).keys() == {"no-consumers"}
    assert found(queue("orders", wired("dead"), info={**waiting, "waiting_receives": 1})) == {}
    assert found(queue("orders", wired("dead"), info={**waiting, "oldest_age_s": 200.0})) == {}


def test_an_age_that_grows() -> None:
    late = {"visible": 3, "oldest_age_s": 400.0, "received_rate": 1.0, "sent_rate": 2.0, "deleted_rate": 1.0}
    assert found(queue("orders", wired("dead"), info=late)).keys() == {"growing-age"}
    assert found(queue("orders", wired("dead"), info={**late, "deleted_rate": 3.0})) == {}


def test_messages_that_expire_soon() -> None:
    old = {"visible": 1, "oldest_age_s": 3_200.0, "received_rate": 1.0}
    attributes = {**wired("dead"), "MessageRetentionPeriod": "3600"}
    findings = found(queue("orders", attributes, info=old))
    assert findings["near-expiry"].severity == "problem"
    assert "near-expiry" not in found(queue("orders", attributes, info={**old, "oldest_age_s": 2_800.0}))


def test_short_polling_that_finds_nothing() -> None:
    busy = {"empty_receive_rate": 5.0}
    finding = found(queue("orders", wired("dead"), info=busy))["short-polling"]
    assert finding.severity == "warning" and "5.0 receives a second" in finding.what
    assert found(queue("orders", {**wired("dead"), "ReceiveMessageWaitTimeSeconds": "20"}, info=busy)) == {}
    assert found(queue("orders", wired("dead"), info={**busy, "waiting_receives": 20})) == {}


def test_short_polling_is_seen_by_the_server(fresh: CommandLine) -> None:
    fresh.done("queue", "create", "dead")
    fresh.done("queue", "create", "orders", "--dead-letter-queue", "dead", "--max-receives", "3")
    for _ in range(60):
        assert fresh("message", "receive", "orders").exit_code == 1
    says(fresh("doctor").output, "receives", "nothing", "[short-polling]")


def holder(held_s: float, extended: int) -> tuple[dict[str, Any], ...]:
    return ({"id": "1", "receives": 1, "holder": {"held_s": held_s, "extended": extended}},)


@pytest.mark.parametrize(
    ("held_s", "extended", "visibility"), [(75.0, 1, "150s"), (10.0, 3, "60s"), (10.0, 1, None)]
)
def test_processing_that_takes_longer_than_messages_are_hidden(
    held_s: float, extended: int, visibility: str | None
) -> None:
    finding = found(queue("orders", wired("dead"), in_flight=holder(held_s, extended))).get(
        "short-visibility"
    )
    assert (finding and finding.command) == (
        visibility and f"penstock queue set orders --visibility {visibility}"
    )


def test_a_poison_message() -> None:
    often = ({"id": "abc", "receives": 7}, {"id": "def", "receives": 5})
    finding = found(queue("orders", wired("dead"), often_received=often))["poison-message"]
    assert finding.command == "penstock message show orders abc"
    dead = queue("dead", info={"is_dead_letter_queue": True}, often_received=often)
    assert found(dead) == {}


def test_dead_letters_that_wait() -> None:
    dead = queue("dead", {"ApproximateNumberOfMessages": "2"})
    assert found(queue("orders", wired("dead")), dead)["dead-letters"].queue == "dead"


def test_the_state_of_the_server() -> None:
    def checks(memory_used: int = 50, **store: Any) -> list[tuple[str, str]]:
        state = {"kind": "sqlite", "encryption": "on: 1 key", **store}
        status = {"store": state, "memory_budget": 100, "memory_used": memory_used}
        return [(finding.check, finding.severity) for finding in server_findings(status)]

    assert checks() == []
    assert checks(disk_low="1 MB of 100 MB are free") == [("disk", "warning")]
    assert checks(refuses="the disk is full") == [("store-refuses", "problem")]
    assert checks(memory_used=95) == [("memory", "warning")]
    assert checks(encryption="off: there is no root key") == [("unencrypted", "hint")]
    assert checks(encryption="off: there is no root key", kind="memory") == []


def test_access_to_the_server() -> None:
    def checks(url: str, is_open: bool, is_local: bool) -> list[tuple[str, str]]:
        findings = access_findings(url, is_open=is_open, is_local=is_local)
        return [(finding.check, finding.severity) for finding in findings]

    assert checks("http://127.0.0.1:9324", True, True) == [("open-server", "hint")]
    (finding,) = access_findings("http://127.0.0.1:9324", is_open=True, is_local=True)
    assert finding.command == "penstock user create alice --policy administrator", (
        "who may use the console, too"
    )
    assert checks("https://mq.example.com", True, False) == [("open-server", "problem")]
    assert checks("http://mq.example.com", False, False) == [("no-tls", "warning")]


def test_what_it_advises_exists() -> None:
    """Commands and flags: those about queues are pasted in other tests."""
    store = {"kind": "sqlite", "encryption": "off", "refuses": "it is full", "disk_low": "1 MB is free"}
    status = {"store": store, "memory_budget": 100, "memory_used": 95}
    findings = [
        *server_findings(status),
        *access_findings("http://mq.example.com", is_open=True, is_local=False),
        *not_allowed(["orders"]),
    ]
    serve = main.get_command(click.Context(main), "serve")
    assert serve is not None
    flags = {flag for parameter in serve.params for flag in parameter.opts}
    for finding in findings:
        assert set(re.findall(r"--[a-z-]+", finding.change)) <= flags
        _, *words = shlex.split(finding.command)
        result = CliRunner().invoke(main, words if "--help" in words else [*words, "--help"])
        assert result.exit_code == 0 and result.output.startswith("Usage: "), finding.command
        for flag in re.findall(r"--[a-z-]+", finding.command):
            assert flag in result.output, finding.command


# -- the command ---------------------------------------------------------------------------------------------------


@pytest.fixture
def fresh() -> Iterator[CommandLine]:
    with ServerProcess("--memory") as running:
        yield CommandLine(running.url)


def test_a_fresh_server_is_fine(fresh: CommandLine) -> None:
    output = fresh.done("doctor")
    assert output.startswith("hint     ") and output.splitlines()[0].endswith("[open-server]")
    assert output.endswith("0 queues checked: 1 hint\n")
    assert fresh.done("doctor", "--ignore", "open-server") == "0 queues checked: fine\n"


def test_a_warning_is_exit_code_1_and_its_command_can_be_pasted(fresh: CommandLine) -> None:
    fresh.done("queue", "create", "orders")
    result = fresh("doctor")
    assert result.exit_code == 1
    assert "warning  orders: has no dead-letter queue" in result.output
    assert "1 queue checked: 1 warning, 1 hint" in result.output
    commands = [line.strip() for line in result.output.splitlines() if line.startswith("           ")]
    for command in commands[0].split(" && "):
        fresh.done(*shlex.split(command)[1:])
    assert fresh("doctor").exit_code == 0


def test_a_problem_is_exit_code_3(fresh: CommandLine) -> None:
    fresh.done("queue", "create", "dead", "--retention", "1h")
    fresh.done("queue", "create", "orders", "--dead-letter-queue", "dead", "--max-receives", "3")
    result = fresh("doctor", "--json")
    assert result.exit_code == 3
    findings = {line["check"]: line for line in map(json.loads, result.stdout.splitlines())}
    finding = findings["dead-letter-retention"]
    says(finding.pop("what"), "dead letters", "1h", "orders", "4d")
    says(finding.pop("change"), "dead letters", "longer")
    assert finding == {
        "severity": "problem",
        "check": "dead-letter-retention",
        "queue": "dead",
        "command": "penstock queue set dead --retention 14d",
    }
    fresh.done(*shlex.split(finding["command"])[1:])
    assert fresh("doctor", "orders", "dead").exit_code == 0


def test_a_disk_that_is_nearly_full(tmp_path: Path) -> None:
    with ServerProcess("--data", str(tmp_path / "data"), "--disk-warning", "1000000GB") as running:
        result = CommandLine(running.url)("doctor")
    assert result.exit_code == 1
    assert re.search(r"^warning  .*disk.* full.* free \[disk\]$", result.output, re.M)
    assert "[unencrypted]" in result.output


def test_a_subscription_that_does_not_get_its_messages(fresh: CommandLine) -> None:
    fresh.done("topic", "create", "news")
    fresh.done("queue", "create", "gone")
    fresh.done("topic", "subscribe", "news", "queue:gone")
    fresh.done("queue", "delete", "gone", "--yes")
    assert "[failing-subscription]" not in fresh("doctor").output
    fresh.done("topic", "publish", "news", "lost")
    until(lambda: "[failing-subscription]" in fresh("doctor").output, "it is reported")
    result = fresh("doctor")
    assert result.exit_code == 1
    assert "penstock topic failing news" in result.output


def test_looking_at_messages_changes_nothing(fresh: CommandLine) -> None:
    fresh.done("queue", "create", "dead")
    fresh.done("queue", "create", "orders", "--dead-letter-queue", "dead", "--max-receives", "9")
    fresh.done("shell", "orders", given="et\n" + 5 * "receive\nfail\n")
    result = fresh("doctor", "--receives", "1")
    assert result.exit_code == 1 and "[poison-message]" in result.output
    before = fresh.done("message", "ls", "orders", "--json")
    assert fresh("doctor", "--receives", "1").output == result.output
    assert fresh.done("message", "ls", "orders", "--json") == before
    assert "no consumer receives [no-consumers]" not in result.output  # something has been received just now


def test_against_amazon_sqs_settings_are_looked_at(penstock: CommandLine) -> None:
    penstock.done("queue", "create", "looked-at")
    lookalike = AmazonLookalike(penstock.endpoint)
    try:
        result = CommandLine(lookalike.url)("doctor", "looked-at")
    finally:
        lookalike.stop()
    assert result.exit_code == 1
    assert "[no-dead-letter-queue]" in result.output and "[short-polling]" in result.output
    assert "[open-server]" not in result.output


def test_a_server_that_does_not_answer_is_a_problem() -> None:
    result = CommandLine("http://127.0.0.1:1")("doctor")
    assert result.exit_code == 3
    says(result.output, "problem", "http://127.0.0.1:1")
    assert "endpoint from: AWS_ENDPOINT_URL" in result.output


def test_keys_that_may_not_look_are_a_problem(as_guest: CommandLine) -> None:
    result = as_guest("doctor")
    assert result.exit_code == 3
    assert "AccessDenied" in result.output and "[not-looked-at]" in result.output


def test_keys_without_the_admin_api_see_settings(as_root: CommandLine, as_reader: CommandLine) -> None:
    as_root.done("queue", "create", "settings-only")
    result = as_reader("doctor", "settings-only")
    assert result.exit_code == 1
    assert "[no-dead-letter-queue]" in result.output and "of: settings-only [not-allowed]" in result.output


def test_a_user_who_may_only_look(tmp_path: Path) -> None:
    server = Secured(tmp_path)
    server.add("watcher", "sqs-read-only", "penstock-read-only")
    server.add("root")
    with server.running("--memory"):
        signed_in(server, "root").done("queue", "create", "watched")
        result = signed_in(server, "watcher")("doctor")
    assert result.exit_code == 1, result.output
    assert "[no-dead-letter-queue]" in result.output and "[not-allowed]" not in result.output


def test_a_queue_that_does_not_exist(penstock: CommandLine) -> None:
    says(penstock.failed("doctor", "nothing", code=1), 'no queue "nothing"')


def test_a_check_that_does_not_exist_cannot_be_ignored(penstock: CommandLine) -> None:
    result = penstock("doctor", "--ignore", "short-poling")
    assert result.exit_code == 2
    says(result.stderr, "'short-poling'", "'no-dead-letter-queue'")


def test_all_checks_are_documented() -> None:
    page = Path(__file__).parents[2].joinpath("docs/on-call.md").read_text()
    assert set(re.findall(r"^\| `([a-z-]+)` \| (?:hint|warning|problem)", page, re.MULTILINE)) == set(CHECKS)
