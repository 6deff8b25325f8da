"""docs/admin-api.md is true: every action, parameter and error is on it, and its requests work."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from penstock.client.api import ApiSession
from penstock.services.admin import ACTIONS
from penstock.services.admin.faults import STATUS
from penstock.services.admin.structs import Filter
from support.documents import ROOT, blocks_of
from support.process import ServerProcess

PAGE = (ROOT / "docs/admin-api.md").read_text()
COMMANDS = [line for block in blocks_of(PAGE, "sh") for line in block.replace("\\\n", " ").splitlines()]


def test_every_action_is_on_the_page_with_its_request() -> None:
    for name, row in ACTIONS.items():
        found = re.search(rf"^\| `{name}` \| `(\w+) ([^`]+)`", PAGE, re.MULTILINE)
        assert found, name
        method, _, path = row.http.partition(" ")
        assert (found[1], found[2].replace("…", "/admin/v1/queues/{queue}")) == (method, path)


def test_every_condition_of_a_filter_and_every_error_is_on_the_page() -> None:
    for name in (*Filter.__struct_fields__, *STATUS):
        assert f"`{name}`" in PAGE, name


def test_the_requests_of_the_page_work(subtests: pytest.Subtests, tmp_path: Path) -> None:
    with ServerProcess("--data", str(tmp_path / "data")) as server:
        api = ApiSession(server.url, "us-east-1")
        url = api.sqs("CreateQueue", QueueName="orders")["QueueUrl"]
        for command in COMMANDS:
            if not command.startswith("curl") or "KEY" in command:
                continue
            with subtests.test(command):
                id = api.sqs("SendMessage", QueueUrl=url, MessageBody='{"customer": "c-17"}')["MessageId"]
                line = command.replace("http://127.0.0.1:9324", server.url).replace("$ID", id)
                line = line.replace("curl ", "curl --silent --show-error --fail ", 1)
                done = subprocess.run(
                    line, shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=60
                )
                assert done.returncode == 0, done.stderr
                assert done.stdout or (tmp_path / "monday.tar").stat().st_size
        api.close()
