"""Messages are changed without receiving them."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.admin.requests import bodies, make, make_with_dead_letters, refusal, send
from penstock.client.api import ApiError, ApiSession
from support.rows import every_row


def path(name: str, id: str, change: str = "") -> str:
    return f"/queues/{name}/messages/{id}{change}"


def test_an_edited_message_keeps_its_id_and_says_so(api: ApiSession) -> None:
    url = make(api, "edited")
    id = send(api, url, "wrong")
    attributes = {
        "colour": {"type": "String", "value": "red"},
        "picture": {"type": "Binary.png", "value": "aGk="},
    }
    body = {"version": 1, "body": "right", "attributes": attributes, "group": "g"}
    edited = api.admin("PATCH", path("edited", id), body=body)
    assert (edited["id"], edited["version"], edited["edited"]) == (id, 2, True)
    assert (edited["body"], edited["attributes"], edited["group"]) == ("right", attributes, "g")
    (received,) = api.sqs("ReceiveMessage", QueueUrl=url, MessageAttributeNames=["All"])["Messages"]
    assert (received["MessageId"], received["Body"]) == (id, "right")
    assert received["MessageAttributes"]["colour"]["StringValue"] == "red"


def test_an_outdated_version_is_refused(api: ApiSession) -> None:
    id = send(api, make(api, "versions"), "one")
    api.admin("PATCH", path("versions", id), body={"body": "two"})
    for method, change, body in [
        ("PATCH", "", {"version": 1, "body": "three"}),
        ("POST", "/reorder", {"version": 1, "to": "front"}),
        ("POST", "/release", {"version": 1}),
        ("POST", "/reset", {"version": 1}),
        ("POST", "/move", {"version": 1, "to": "versions-other"}),
        ("DELETE", "?version=1", None),
    ]:
        make(api, "versions-other")
        assert refusal(api.admin, method, path("versions", id, change), body=body) == (
            409, "VersionMismatch",
        )  # fmt: skip
    assert bodies(api, "versions") == ["two"]


def test_messages_are_put_into_another_order(api: ApiSession) -> None:
    url = make(api, "ordered.fifo", FifoQueue="true", ContentBasedDeduplication="true")
    a, _b, c = (send(api, url, text, MessageGroupId="g") for text in "abc")
    api.admin("POST", path("ordered.fifo", c, "/reorder"), body={"to": "front"})
    assert bodies(api, "ordered.fifo") == ["c", "a", "b"]
    api.admin("POST", path("ordered.fifo", c, "/reorder"), body={"to": "back"})
    assert bodies(api, "ordered.fifo") == ["a", "b", "c"]
    moved = api.admin("POST", path("ordered.fifo", c, "/reorder"), body={"to": "before", "before": a})
    assert moved["version"] == 4 and not moved["edited"]
    assert bodies(api, "ordered.fifo") == ["c", "a", "b"]
    received = api.sqs("ReceiveMessage", QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    assert [each["Body"] for each in received] == ["c", "a", "b"]


def test_a_delayed_message_is_released(api: ApiSession) -> None:
    url = make(api, "released")
    id = send(api, url, "x", DelaySeconds=600)
    assert "Messages" not in api.sqs("ReceiveMessage", QueueUrl=url)
    assert api.admin("POST", path("released", id, "/release"))["state"] == "visible"
    assert api.sqs("ReceiveMessage", QueueUrl=url)["Messages"][0]["MessageId"] == id


def test_counts_are_reset(api: ApiSession) -> None:
    url = make(api, "reset")
    id = send(api, url, "x")
    api.sqs("ReceiveMessage", QueueUrl=url, VisibilityTimeout=0)
    assert api.admin("GET", path("reset", id))["receives"] == 1
    reset = api.admin("POST", path("reset", id, "/reset"))
    assert reset["receives"] == 0 and "first_received_at" not in reset


def test_to_the_dead_letter_queue_and_back(api: ApiSession) -> None:
    make_with_dead_letters(api, "failing")
    id = send(api, make_with_dead_letters(api, "failing"), "x")
    report = {"reason": "timeout", "detail": "no answer", "attempt": 2, "worker": "w1"}
    assert api.admin("POST", path("failing", id, "/failures"), body=report) == {}
    moved = api.admin("POST", path("failing", id, "/dead-letter"))
    assert moved == {"queue": "failing-dead", "id": id}
    letter = arrived(api, "failing-dead", id)
    assert letter["source"].endswith(":failing")
    assert {name: letter["failure"][name] for name in report} == report
    assert api.admin("POST", path("failing-dead", id, "/redrive")) == {"queue": "failing", "id": id}
    assert arrived(api, "failing", id)["receives"] == 0
    assert bodies(api, "failing-dead") == []


def test_its_receiver_gives_a_message_up(api: ApiSession) -> None:
    url = make_with_dead_letters(api, "held")
    id = send(api, url, "x")
    (received,) = api.sqs("ReceiveMessage", QueueUrl=url)["Messages"]
    api.admin("POST", path("held", id, "/failures"), body={"reason": "poison"})
    give_up = path("held", id, "/dead-letter")
    for body, expected in [
        ({}, (409, "MessageInFlight")),
        ({"receipt_handle": "x"}, (400, "InvalidParameter")),
        ({"receipt_handle": received["ReceiptHandle"], "version": 1}, (400, "InvalidParameter")),
    ]:
        assert refusal(api.admin, "POST", give_up, body=body) == expected
    body = {"receipt_handle": received["ReceiptHandle"]}
    assert api.admin("POST", give_up, body=body) == {"queue": "held-dead", "id": id}
    letter = arrived(api, "held-dead", id)
    assert letter["source"].endswith(":held") and letter["failure"]["reason"] == "poison"
    assert bodies(api, "held") == []


def test_a_receiver_that_was_too_slow_gives_nothing_up(api: ApiSession) -> None:
    url = make_with_dead_letters(api, "slow")
    id = send(api, url, "x")
    (received,) = api.sqs("ReceiveMessage", QueueUrl=url, VisibilityTimeout=0)["Messages"]
    body = {"receipt_handle": received["ReceiptHandle"]}
    assert refusal(api.admin, "POST", path("slow", id, "/dead-letter"), body=body) == (
        409, "ReceiptHandleExpired",
    )  # fmt: skip
    assert bodies(api, "slow") == ["x"]


def test_a_message_is_moved_to_another_queue(api: ApiSession) -> None:
    id = send(api, make(api, "left"), "x")
    for n in range(4):  # of several shards
        make(api, f"joined-{n}")
        there = f"joined-{n - 1}" if n else "left"
        moved = api.admin("POST", path(there, id, "/move"), body={"to": f"joined-{n}"})
        assert moved == {"queue": f"joined-{n}", "id": id}
        assert arrived(api, f"joined-{n}", id)["body"] == "x"
    assert bodies(api, "left") == []


def arrived(api: ApiSession, name: str, id: str) -> dict[str, Any]:
    """A message that was moved is there when the answer comes, also in another shard."""
    (message,) = api.admin("GET", f"/queues/{name}/messages", {"id": id})["messages"]
    found: dict[str, Any] = message
    return found


def test_a_message_is_deleted(api: ApiSession) -> None:
    url = make(api, "deleted")
    id = send(api, url, "x")
    assert api.admin("DELETE", path("deleted", id, "?version=1")) == {}
    assert refusal(api.admin, "GET", path("deleted", id)) == (404, "MessageDoesNotExist")
    events = api.admin("GET", path("deleted", id, "/history"))["events"]
    assert [each["event"] for each in events] == ["sent", "deleted"]


def test_a_message_in_flight_is_not_changed(api: ApiSession) -> None:
    url = make_with_dead_letters(api, "taken")
    id = send(api, url, "x")
    api.sqs("ReceiveMessage", QueueUrl=url)
    for method, change, body in [
        ("PATCH", "", {"body": "y"}),
        ("POST", "/reorder", {"to": "front"}),
        ("POST", "/release", {}),
        ("POST", "/reset", {}),
        ("POST", "/dead-letter", {}),
        ("POST", "/move", {"to": "taken-dead"}),
        ("DELETE", "", None),
    ]:
        with pytest.raises(ApiError, match=r"127\.0\.0\.1 .* until 20") as error:
            api.admin(method, path("taken", id, change), body=body)
        assert (error.value.status, error.value.code) == (409, "MessageInFlight")


@every_row(
    ("method", "change", "body", "status", "code"),
    [
        ("PATCH", "", {}, 400, "InvalidParameter"),
        ("PATCH", "", {"body": ""}, 400, "InvalidParameter"),
        ("PATCH", "", {"body": "\x00"}, 400, "InvalidParameter"),
        ("PATCH", "", {"delay_s": 901}, 400, "InvalidParameter"),
        ("PATCH", "", {"delay_s": -1}, 400, "InvalidParameter"),
        ("PATCH", "", {"group": "a b"}, 400, "InvalidParameter"),
        ("PATCH", "", {"attributes": {"a": {"type": "Colour", "value": "x"}}}, 400, "InvalidParameter"),
        ("PATCH", "", {"attributes": {"a": {"type": "Binary", "value": "!"}}}, 400, "InvalidParameter"),
        ("PATCH", "", {"attributes": {"a": {"type": "String"}}}, 400, "MissingRequiredParameterException"),
        ("PATCH", "", {"body": {}}, 400, "SerializationException"),
        ("POST", "/reorder", {}, 400, "MissingRequiredParameterException"),
        ("POST", "/reorder", {"to": "up"}, 400, "InvalidParameter"),
        ("POST", "/reorder", {"to": "before"}, 400, "InvalidParameter"),
        ("POST", "/reorder", {"to": "before", "before": "missing"}, 404, "MessageDoesNotExist"),
        ("POST", "/dead-letter", {}, 409, "NotPossible"),
        ("POST", "/redrive", {}, 409, "NotPossible"),
        ("POST", "/move", {}, 400, "MissingRequiredParameterException"),
        ("POST", "/move", {"to": "missing"}, 404, "QueueDoesNotExist"),
        ("POST", "/move", {"to": "refused"}, 409, "NotPossible"),
        ("POST", "/failures", {"reason": ""}, 400, "InvalidParameter"),
        ("POST", "/failures", {"reason": "x", "attempt": -1}, 400, "InvalidParameter"),
    ],
)
def test_errors(
    api: ApiSession, method: str, change: str, body: dict[str, Any], status: int, code: str
) -> None:
    url = make(api, "refused")
    id = send(api, url, "x")
    assert refusal(api.admin, method, path("refused", id, change), body=body) == (status, code)
    assert api.admin("GET", path("refused", id))["version"] == 1


@every_row(
    ("method", "change", "body"),
    [
        ("PATCH", "", {"body": "y"}),
        ("POST", "/reorder", {"to": "front"}),
        ("POST", "/release", {}),
        ("POST", "/reset", {}),
        ("POST", "/redrive", {}),
        ("POST", "/failures", {"reason": "x"}),
        ("DELETE", "", None),
    ],
)
def test_a_missing_message(api: ApiSession, method: str, change: str, body: dict[str, Any] | None) -> None:
    make(api, "without")
    assert refusal(api.admin, method, path("without", "missing", change), body=body) == (
        404, "MessageDoesNotExist",
    )  # fmt: skip
    assert refusal(api.admin, method, path("no-queue", "missing", change), body=body) == (
        404, "QueueDoesNotExist",
    )  # fmt: skip
