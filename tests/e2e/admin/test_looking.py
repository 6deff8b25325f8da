"""The admin API of a real server."""

from __future__ import annotations

from e2e.admin.requests import make, make_with_dead_letters, refusal, send
from penstock.client.api import ApiSession
from support.rows import every_row


def test_queues_have_exact_counts(api: ApiSession) -> None:
    urls = [make(api, f"counted-{n}") for n in range(5)]
    for n, url in enumerate(urls):
        for _ in range(n):
            send(api, url, "x")
    send(api, urls[0], "later", DelaySeconds=60)
    api.sqs("ReceiveMessage", QueueUrl=urls[4])
    found = api.admin("GET", "/queues", {"prefix": "counted-", "sort": "visible", "descending": "true"})
    rows = [(each["name"], each["visible"], each["in_flight"], each["delayed"]) for each in found["queues"]]
    assert rows == [
        ("counted-4", 3, 1, 0),
        ("counted-3", 3, 0, 0),
        ("counted-2", 2, 0, 0),
        ("counted-1", 1, 0, 0),
        ("counted-0", 0, 0, 1),
    ]
    assert found["queues"][0]["oldest_age_s"] >= 0
    assert "next" not in found and "totals" not in found
    one = api.admin("GET", "/queues", {"prefix": "counted-", "limit": 1, "totals": "true"})
    totals = one["totals"]
    assert (totals["queues"], totals["visible"], totals["in_flight"], totals["delayed"]) == (5, 9, 1, 1)
    assert totals["dead_letters"] == 0 and totals["bytes"] > 0 and totals["sent_rate"] > 0


def test_queues_come_in_pages(api: ApiSession) -> None:
    for n in range(7):
        make(api, f"paged-{n}")
    names: list[str] = []
    after = None
    while True:
        page = api.admin("GET", "/queues", {"contains": "aged-", "limit": 3, "after": after})
        names += [each["name"] for each in page["queues"]]
        after = page.get("next")
        if after is None:
            break
    assert names == [f"paged-{n}" for n in range(7)]


def test_a_queue_shows_its_wiring(api: ApiSession) -> None:
    make_with_dead_letters(api, "wired")
    queue, dead = api.admin("GET", "/queues/wired"), api.admin("GET", "/queues/wired-dead")
    assert (queue["dead_letter_queue"], queue["max_receives"]) == ("wired-dead", 3)
    assert dead["is_dead_letter_queue"] and dead["sources"] == ["wired"]
    assert not queue["is_dead_letter_queue"]
    assert dead["attributes"]["VisibilityTimeout"] == "30"
    listed = api.admin("GET", "/queues", {"kind": "dlq", "prefix": "wired"})["queues"]
    assert [each["name"] for each in listed] == ["wired-dead"]
    send(api, dead["url"], "failed")
    totals = api.admin("GET", "/queues", {"prefix": "wired", "totals": "true"})["totals"]
    assert (totals["queues"], totals["dead_letters"]) == (2, 1)


def test_messages_are_shown_in_any_state_and_stay_as_they_are(api: ApiSession) -> None:
    url = make(api, "looked-at")
    first, second = send(api, url, "first"), send(api, url, "second")
    late = send(api, url, "late", DelaySeconds=60)
    (received,) = api.sqs("ReceiveMessage", QueueUrl=url)["Messages"]
    for _ in range(2):
        listed = api.admin("GET", "/queues/looked-at/messages")["messages"]
        states = {each["id"]: (each["state"], each["receives"], each["body"]) for each in listed}
        assert states[late] == ("delayed", 0, "late")
        assert states[received["MessageId"]] == ("in_flight", 1, received["Body"])
        assert {first, second, late} == states.keys()
    message = api.admin("GET", f"/queues/looked-at/messages/{late}")
    assert message["body"] == "late" and message["version"] == 1 and not message["edited"]


@every_row(
    ("path", "query", "status", "code"),
    [
        ("/queues/missing", {}, 404, "QueueDoesNotExist"),
        ("/queues/%00", {}, 404, "QueueDoesNotExist"),
        ("/queues/missing/messages", {}, 404, "QueueDoesNotExist"),
        ("/queues/errors/messages/missing", {}, 404, "MessageDoesNotExist"),
        ("/queues/errors/messages/missing/history", {}, 404, "MessageDoesNotExist"),
        ("/queues/errors/messages", {"sate": "visible"}, 400, "InvalidParameterValueException"),
        ("/queues/errors/messages", {"state": "colour"}, 400, "InvalidParameter"),
        ("/queues/errors/messages", {"order": "colour"}, 400, "InvalidParameter"),
        ("/queues/errors/messages", {"regex": "("}, 400, "InvalidParameter"),
        ("/queues/errors/messages", {"json": "order"}, 400, "InvalidParameter"),
        ("/queues/errors/messages", {"after": "nonsense"}, 400, "InvalidParameter"),
        ("/queues/errors/messages", {"body_bytes": -1}, 400, "InvalidParameter"),
        ("/queues", {"sort": "colour"}, 400, "InvalidParameter"),
        ("/queues", {"kind": "colour"}, 400, "InvalidParameter"),
        ("/queues", {"limit": 0}, 400, "InvalidParameter"),
        ("/queues", {"limit": "many"}, 400, "SerializationException"),
        ("/queues", {"after": "nonsense"}, 400, "InvalidParameter"),
    ],
)
def test_errors(api: ApiSession, path: str, query: dict[str, object], status: int, code: str) -> None:
    make(api, "errors")
    assert refusal(api.admin, "GET", path, query) == (status, code)


def test_the_status_tells_of_every_shard(api: ApiSession) -> None:
    send(api, make(api, "counted-in-status"), "x")
    status = api.admin("GET", "/status")
    assert status["store"]["kind"] == "sqlite" and status["store"]["used_bytes"] > 0
    assert [each["index"] for each in status["shards"]] == list(range(len(status["shards"])))
    assert all(each["open"] for each in status["shards"])
    assert sum(each["messages"] for each in status["shards"]) >= 1
    assert sum(each["queues"] for each in status["shards"]) >= 1
    assert (len({each.get("owner") for each in status["shards"]}) == 2) == (len(status["shards"]) > 1)


def test_rates_count_what_happened_in_the_last_minute(api: ApiSession) -> None:
    url = make(api, "busy")
    for _ in range(3):
        send(api, url, "x")
    (received,) = api.sqs("ReceiveMessage", QueueUrl=url)["Messages"]
    api.sqs("DeleteMessage", QueueUrl=url, ReceiptHandle=received["ReceiptHandle"])
    queue = api.admin("GET", "/queues/busy")
    assert queue["sent_rate"] > queue["received_rate"] == queue["deleted_rate"] > 0
    first = api.admin("GET", "/queues", {"sort": "sent_rate", "descending": "true", "prefix": "busy"})
    assert first["queues"][0]["sent_rate"] > 0


def test_messages_are_filtered_sorted_and_paged(api: ApiSession) -> None:
    url = make(api, "searched")
    attribute = {"colour": {"DataType": "String", "StringValue": "red"}}
    for n in range(10):
        members = {"MessageAttributes": attribute} if n == 3 else {}
        send(api, url, f'{{"order": {{"id": {n}}}}}', **members)
    path = "/queues/searched/messages"

    def bodies(**query: object) -> list[str]:
        return [each["body"] for each in api.admin("GET", path, query)["messages"]]

    assert bodies(json="$.order.id >= 8") == ['{"order": {"id": 8}}', '{"order": {"id": 9}}']
    assert bodies(attribute="colour=red") == ['{"order": {"id": 3}}']
    assert bodies(regex=r'"id": [45]', body="order") == ['{"order": {"id": 4}}', '{"order": {"id": 5}}']
    assert bodies(state="delayed") == [] and len(bodies(receives_max=0, older_than_s=0)) == 10
    found, after = [], None
    while True:
        page = api.admin("GET", path, {"order": "age", "limit": 4, "after": after})
        found += [each["body"] for each in page["messages"]]
        after = page.get("next")
        if after is None:
            break
    assert found == [f'{{"order": {{"id": {n}}}}}' for n in range(10)]


def test_bodies_are_cut_to_what_was_asked_for(api: ApiSession) -> None:
    url = make(api, "long-bodies")
    for body in ("a" * 10, "b" * 10, "c" * 10):
        send(api, url, body)
    messages = api.admin("GET", "/queues/long-bodies/messages", {"body_bytes": 15})["messages"]
    assert [(each.get("body"), each.get("body_cut")) for each in messages] == [
        ("a" * 10, None), ("b" * 5, True), (None, True),
    ]  # fmt: skip


def test_the_size_of_a_message_is_that_of_body_and_attributes(api: ApiSession) -> None:
    url = make(api, "sized")
    attributes = {"kind": {"DataType": "String", "StringValue": "order"}}
    send(api, url, "é", MessageAttributes=attributes)
    (message,) = api.admin("GET", "/queues/sized/messages")["messages"]
    assert message["size"] == len("é".encode()) + len("kind" + "String" + "order")


def test_a_message_in_flight_says_who_holds_it(api: ApiSession) -> None:
    url = make(api, "held")
    id = send(api, url, "x")
    (received,) = api.sqs("ReceiveMessage", QueueUrl=url, VisibilityTimeout=600)["Messages"]
    holder = api.admin("GET", f"/queues/held/messages/{id}")["holder"]
    assert holder["address"] == "127.0.0.1" and holder["extended"] == 0
    assert holder["since"] < holder["until"]
    api.sqs("DeleteMessage", QueueUrl=url, ReceiptHandle=received["ReceiptHandle"])
    history = api.admin("GET", f"/queues/held/messages/{id}/history")
    assert [each["event"] for each in history["events"]] == ["sent", "received", "deleted"]
    assert history["complete"] is True
