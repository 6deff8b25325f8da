"""Many messages are changed by a filter."""

from __future__ import annotations

from typing import Any

from e2e.admin.requests import bodies, make, make_with_dead_letters, refusal, send
from penstock.client.api import ApiSession
from support.rows import every_row
from support.waiting import until


def start(api: ApiSession, name: str, operation: str, **members: Any) -> dict[str, Any]:
    return api.admin("POST", f"/queues/{name}/tasks", body={"operation": operation, **members})


def ended(api: ApiSession, task: dict[str, Any]) -> dict[str, Any]:
    path = f"/queues/{task['queue']}/tasks/{task['id']}"
    until(lambda: api.admin("GET", path)["status"] != "running", "the task ends")
    return api.admin("GET", path)


def test_a_dry_run_counts_and_changes_nothing(api: ApiSession) -> None:
    url = make(api, "dry")
    for n in range(4):
        send(api, url, f"message {n}")
    api.sqs("ReceiveMessage", QueueUrl=url)
    found = start(api, "dry", "delete", dry_run=True, filter={"regex": "message [0-2]"})
    assert found["matched"] == found["can"] + sum(each["count"] for each in found["cannot"]) == 3
    assert found["complete"] and found["dry_run"] and found["looked_at"] == 4
    assert "id" not in found and found["filter"] == {"regex": "message [0-2]"}
    assert len(bodies(api, "dry")) == 4


def test_messages_are_deleted_by_a_filter(api: ApiSession) -> None:
    url = make(api, "cleared")
    for n in range(25):
        send(api, url, "odd" if n % 2 else "even")
    task = start(api, "cleared", "delete", filter={"body": "odd"}, rate=100_000)
    assert (task["status"], task["total"], task["rate"]) == ("running", 25, 100_000)
    done = ended(api, task)
    assert (done["status"], done["matched"], done["done"], done["cannot"]) == ("completed", 12, 12, [])
    assert set(bodies(api, "cleared")) == {"even"}


def test_what_cannot_be_changed_is_counted_with_the_reason(api: ApiSession) -> None:
    url = make(api, "partly")
    send(api, url, "a")
    api.sqs("ReceiveMessage", QueueUrl=url)
    send(api, url, "b")
    done = ended(api, start(api, "partly", "delete"))
    assert (done["done"], done["cannot"]) == (1, [{"reason": "in flight", "count": 1}])


def test_messages_are_moved_and_copied_to_queues_of_any_shard(api: ApiSession) -> None:
    url = make(api, "many")
    for n in range(10):
        send(api, url, str(n))
    for n in range(3):
        make(api, f"copies-{n}")
        assert ended(api, start(api, "many", "copy", to=f"copies-{n}"))["done"] == 10
        assert sorted(bodies(api, f"copies-{n}")) == sorted(map(str, range(10)))
    assert ended(api, start(api, "many", "move", to="copies-0"))["done"] == 10
    assert len(bodies(api, "copies-0")) == 20 and bodies(api, "many") == []


def test_dead_letters_there_and_back(api: ApiSession) -> None:
    url = make_with_dead_letters(api, "bulk")
    for n in range(5):
        send(api, url, str(n))
    assert ended(api, start(api, "bulk", "dead-letter"))["done"] == 5
    assert len(bodies(api, "bulk-dead", source="bulk")) == 5
    done = ended(api, start(api, "bulk-dead", "redrive", filter={"source": "bulk"}))
    assert (done["status"], done["done"]) == ("completed", 5)
    assert len(bodies(api, "bulk")) == 5


def test_tasks_are_listed_and_cancelled(api: ApiSession) -> None:
    url = make(api, "slow")
    for _ in range(5):
        send(api, url, "x")
    first = start(api, "slow", "reset", rate=1)
    make(api, "quick")
    second = ended(api, start(api, "quick", "release"))
    listed = {each["id"]: each["queue"] for each in api.admin("GET", "/tasks")["tasks"]}
    assert {first["id"]: "slow", second["id"]: "quick"}.items() <= listed.items()
    of_queue = api.admin("GET", "/tasks", {"queue": "slow"})["tasks"]
    assert {each["queue"] for each in of_queue} == {"slow"}
    assert api.admin("GET", "/status")["running_tasks"] >= 1
    cancelled = api.admin("DELETE", f"/queues/slow/tasks/{first['id']}")
    assert cancelled["status"] == "cancelled" and "ended_at" in cancelled
    assert refusal(api.admin, "DELETE", f"/queues/slow/tasks/{first['id']}") == (409, "NotPossible")
    assert refusal(api.admin, "GET", "/queues/slow/tasks/missing") == (404, "TaskDoesNotExist")
    assert refusal(api.admin, "GET", f"/queues/quick/tasks/{first['id']}") == (404, "TaskDoesNotExist")


def test_lists_come_in_pages_with_short_filters(api: ApiSession) -> None:
    send(api, make(api, "pages"), "x")
    long = {"regex": "x|" + 400 * "y", "id": [f"{n:036}" for n in range(100)]}
    begun = [start(api, "pages", "release", filter=long) for _ in range(3)]
    assert begun[0]["filter"] == long and "filter_cut" not in begun[0]
    assert ended(api, begun[0])["filter_cut"] is True
    listed: list[dict[str, Any]] = []
    after: str | None = None
    while after != "":
        page = api.admin("GET", "/tasks", {"queue": "pages", "limit": 2, "after": after})
        listed, after = listed + page["tasks"], page.get("next", "")
    assert sorted(task["id"] for task in listed) == sorted(task["id"] for task in begun)
    assert all(len(task["filter"]["id"]) == 10 and len(task["filter"]["regex"]) == 101 for task in listed)
    for wrong in ({"limit": 0}, {"limit": 1001}, {"after": "x"}):
        assert refusal(api.admin, "GET", "/tasks", wrong) == (400, "InvalidParameter")


@every_row(
    ("body", "status", "code"),
    [
        ({}, 400, "MissingRequiredParameterException"),
        ({"operation": "paint"}, 400, "InvalidParameter"),
        ({"operation": "move"}, 400, "InvalidParameter"),
        ({"operation": "move", "to": "missing"}, 404, "QueueDoesNotExist"),
        ({"operation": "move", "to": "asked"}, 400, "InvalidParameter"),
        ({"operation": "delete", "to": "asked"}, 400, "InvalidParameter"),
        ({"operation": "delete", "rate": 0}, 400, "InvalidParameter"),
        ({"operation": "delete", "filter": {"regex": "("}}, 400, "InvalidParameter"),
        ({"operation": "delete", "filter": {"state": "colour"}, "dry_run": True}, 400, "InvalidParameter"),
        ({"operation": "delete", "filter": {"regexp": "x"}}, 400, "InvalidParameterValueException"),
        ({"operation": "delete", "dryrun": True}, 400, "InvalidParameterValueException"),
        ({"operation": "delete", "filter": []}, 400, "SerializationException"),
    ],
)
def test_errors(api: ApiSession, body: dict[str, Any], status: int, code: str) -> None:
    make(api, "asked")
    assert refusal(api.admin, "POST", "/queues/asked/tasks", body=body) == (status, code)
