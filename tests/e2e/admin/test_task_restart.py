"""A bulk task goes on after the server was killed, and does nothing twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from e2e.admin.requests import REGION, make
from penstock.client.api import ApiSession
from support.process import ServerProcess
from support.waiting import until

MESSAGES = 600


def all_bodies(api: ApiSession, name: str) -> list[str]:
    found: list[str] = []
    query: dict[str, object] = {"limit": 1000}
    while True:
        page = api.admin("GET", f"/queues/{name}/messages", query)
        found += [each["body"] for each in page["messages"]]
        if "next" not in page:
            return found
        query["after"] = page["next"]


@pytest.mark.parametrize(("operation", "shards"), [("copy", 8), ("move", 1)])
def test_a_task_goes_on_after_a_kill(tmp_path: Path, operation: str, shards: int) -> None:
    arguments = ("--data", str(tmp_path / "data"), "--shards", str(shards), "--region", REGION)
    sent = [f"m{i:03}" for i in range(MESSAGES)]
    with ServerProcess(*arguments) as server:
        api = ApiSession(server.url, REGION)
        url = make(api, "source")
        make(api, "target")
        for i in range(0, MESSAGES, 10):
            entries = [{"Id": body, "MessageBody": body} for body in sent[i : i + 10]]
            api.sqs("SendMessageBatch", QueueUrl=url, Entries=entries)
        body = {"operation": operation, "to": "target", "rate": 500}
        task = api.admin("POST", "/queues/source/tasks", body=body)
        path = f"/queues/source/tasks/{task['id']}"
        until(lambda: api.admin("GET", path)["done"] > 0, "progress")
        server.kill()
        api.close()
    with ServerProcess(*arguments) as server:
        api = ApiSession(server.url, REGION)
        until(lambda: api.admin("GET", path)["status"] != "running", "the end of the task")
        task = api.admin("GET", path)
        assert (task["status"], task["done"], task["cannot"]) == ("completed", MESSAGES, [])
        assert sorted(all_bodies(api, "target")) == sent
        assert all_bodies(api, "source") == (sent if operation == "copy" else [])
        api.close()
