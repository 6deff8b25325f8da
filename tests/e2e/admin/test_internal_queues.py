"""Work that waits in internal queues, as operators see it: the admin API and the command line."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import boto3
import pytest

from e2e.admin.requests import REGION, refusal
from monitoring.alarms import put_alarm, set_state
from penstock.client.api import ApiSession
from support.command_line import CommandLine
from support.process import ServerProcess
from support.waiting import until

ACCOUNTS = ["000000000000", "111111111111"]


def cloudwatch(server: ServerProcess, account: str) -> Any:
    return boto3.client(
        "cloudwatch", endpoint_url=server.url, region_name=REGION, aws_access_key_id=account,
        aws_secret_access_key="any",
    )  # fmt: skip


@pytest.fixture(params=[1, 2], ids=["one process", "two processes"])
def running(request: pytest.FixtureRequest) -> Iterator[ServerProcess]:
    """With an action of an alarm in each of two accounts, whose web hook does not answer."""
    with socket.create_server(("127.0.0.1", 0)) as hook:
        url = f"http://127.0.0.1:{hook.getsockname()[1]}"
        with ServerProcess(
            "--memory", "--processes", str(request.param), "--region", REGION, "--alarm-webhooks", url
        ) as server:
            for account in ACCOUNTS:
                cw = cloudwatch(server, account)
                put_alarm(cw, AlarmActions=[url])
                set_state(cw, "a", "ALARM")
            yield server


def test_internal_queues_are_listed_in_pages(running: ServerProcess) -> None:
    api = ApiSession(running.url, REGION)

    def calls() -> list[int]:
        return [each["running"] for each in api.admin("GET", "/internal-queues")["queues"]]

    until(lambda: calls() == [1, 1], "both web hooks are called")
    listed = api.admin("GET", "/internal-queues")
    for each in listed["queues"]:
        assert 0 <= each.pop("oldest_age_s") < 60
    assert listed == {
        "queues": [
            {"kind": "alarm-actions", "account": account, "region": REGION, "waiting": 0, "running": 1, "put_off": 0}
            for account in ACCOUNTS
        ]
    }  # fmt: skip
    first = api.admin("GET", "/internal-queues?limit=1")
    second = api.admin("GET", f"/internal-queues?limit=1&after={first['next']}")
    assert [page["queues"][0]["account"] for page in (first, second)] == ACCOUNTS
    assert "next" not in second
    for wrong in ("limit=0", "limit=1001", "after=x"):
        assert refusal(api.admin, "GET", f"/internal-queues?{wrong}") == (400, "InvalidParameter")
    api.close()
    commands = CommandLine(running.url)
    heading, *rows = [line.split() for line in commands.done("queue", "ls", "--internal").splitlines()]
    assert heading == ["KIND", "ACCOUNT", "REGION", "WAITING", "RUNNING", "PUT", "OFF", "OLDEST"]
    assert [row[:6] for row in rows] == [
        ["alarm-actions", account, REGION, "0", "1", "0"] for account in ACCOUNTS
    ]
    (only,) = commands.json_lines("queue", "ls", "--internal", "--limit", "1")
    assert only["account"] == ACCOUNTS[0]
