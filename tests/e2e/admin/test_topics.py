"""Topics in the admin API of a real server: lists, filters that are tested, and the outbox."""

from __future__ import annotations

from typing import Any

from e2e.admin.requests import REGION, refusal
from penstock.client.api import ApiSession
from support.rows import every_row
from support.waiting import until

ARN = f"arn:aws:sns:{REGION}:000000000000:"


def create(api: ApiSession, name: str) -> str:
    return str(api.sns("CreateTopic", Name=name)["TopicArn"])


def subscribe(api: ApiSession, topic: str, protocol: str, endpoint: str, **attributes: str) -> str:
    answer = api.sns(
        "Subscribe", TopicArn=topic, Protocol=protocol, Endpoint=endpoint, Attributes=attributes or None,
        ReturnSubscriptionArn=True,
    )  # fmt: skip
    return str(answer["SubscriptionArn"])


def pages(api: ApiSession, path: str, member: str, **query: Any) -> list[Any]:
    found: list[Any] = []
    after = None
    while True:
        page = api.admin("GET", path, {**query, "after": after})
        found += page[member]
        after = page.get("next")
        if after is None:
            return found


def test_topics_of_all_shards_are_listed_in_pages(api: ApiSession) -> None:
    arns = [create(api, f"listed-{n}") for n in range(7)]
    subscribe(api, arns[3], "sms", "+4912345678")
    subscribe(api, arns[3], "email", "a@example.com")
    found = pages(api, "/topics", "topics", prefix="listed-", limit=3)
    assert [each["arn"] for each in found] == arns
    assert [(each["confirmed"], each["pending"]) for each in found] == [(0, 0)] * 3 + [(1, 1)] + [(0, 0)] * 3
    assert found[0]["kind"] == "standard" and found[0]["created_at"].endswith("Z")
    assert [each["name"] for each in pages(api, "/topics", "topics", contains="ted-6")] == ["listed-6"]
    assert refusal(api.admin, "GET", "/topics", {"limit": 1001}) == (400, "InvalidParameter")
    assert refusal(api.admin, "GET", "/topics", {"after": "x"}) == (400, "InvalidParameter")


def test_the_filter_of_a_subscription_is_tested_wherever_it_lives(api: ApiSession) -> None:
    """The topics are in several shards, so that some requests reach a process that does not own theirs."""
    for n in range(6):
        policy = f'{{"n": [{{"numeric": ["=", {n}]}}]}}'
        arn = subscribe(api, create(api, f"filtered-{n}"), "sms", "+4912345678", FilterPolicy=policy)
        for value, matched in ((str(n), True), ("99", False)):
            attributes = {"n": {"type": "Number", "value": value}}
            answer = api.admin(
                "POST", "/topics/test-filter", body={"subscription": arn, "attributes": attributes}
            )
            assert answer["matched"] is matched
            (condition,) = answer["conditions"]
            assert (condition["path"], condition["found"], condition["passed"]) == ("n", value, matched)


def test_a_filter_of_a_body(api: ApiSession) -> None:
    asked = {"policy": '{"a": {"b": ["x", {"prefix": "y"}]}}', "scope": "MessageBody"}
    answer = api.admin("POST", "/topics/test-filter", body={**asked, "body": '{"a": {"b": "yes"}}'})
    assert (answer["matched"], answer["outcome"]) == (True, "matched")
    assert [each["passed"] for each in answer["conditions"]] == [False, True]
    answer = api.admin("POST", "/topics/test-filter", body={**asked, "body": "no JSON"})
    assert (answer["matched"], answer["conditions"]) == (False, [])
    assert answer["outcome"] == "invalid body"


def test_a_subscription_without_a_filter_takes_everything(api: ApiSession) -> None:
    arn = subscribe(api, create(api, "unfiltered"), "sms", "+4912345678")
    answer = api.admin("POST", "/topics/test-filter", body={"subscription": arn})
    assert answer["matched"] and "no filter" in answer["why"]


@every_row(
    ("asked", "error"),
    [
        ({}, "InvalidParameter"),
        ({"policy": "{}", "subscription": f"{ARN}a:b"}, "InvalidParameter"),
        ({"policy": "{"}, "InvalidParameter"),
        ({"policy": '{"a": 1}'}, "InvalidParameter"),
        ({"policy": '{"a": {"b": [1]}}'}, "InvalidParameter"),
        ({"policy": '{"a": [1]}', "scope": "body"}, "InvalidParameter"),
        ({"policy": '{"a": [1]}', "scope": "MessageBody", "body": "x" * 1_100_000}, "InvalidParameter"),
        ({"subscription": "x"}, "InvalidParameter"),
        ({"subscription": f"{ARN}gone:1"}, "SubscriptionDoesNotExist"),
        ({"subscription": "arn:aws:sns:us-east-1:999999999999:t:1"}, "SubscriptionDoesNotExist"),
    ],
)
def test_what_cannot_be_tested(asked: dict[str, str], error: str, api: ApiSession) -> None:
    assert refusal(api.admin, "POST", "/topics/test-filter", body=asked)[1] == error


def test_the_outbox_shows_what_cannot_leave(api: ApiSession) -> None:
    api.admin("DELETE", "/outbox")
    topics = [create(api, f"sends-{n}") for n in range(4)]
    for n, topic in enumerate(topics):
        subscribe(api, topic, "sms", f"+491234567{n}")
        api.sns("Publish", TopicArn=topic, Message=f"text {n}", Subject="subject")
    found = pages(api, "/outbox", "entries", limit=1)
    assert [(each["destination"], each["body"], each["topic"]) for each in found] == [
        (f"+491234567{n}", f"text {n}", topics[n]) for n in (3, 2, 1, 0)
    ]
    assert {each["protocol"] for each in found} == {"sms"}
    path = f"/outbox/{found[0]['id']}"
    api.admin("DELETE", path)
    assert refusal(api.admin, "DELETE", path) == (404, "OutboxEntryDoesNotExist")
    assert api.admin("DELETE", "/outbox") == {"deleted": 3}
    assert api.admin("GET", "/outbox") == {"entries": []}


def test_deliveries_that_wait(api: ApiSession) -> None:
    """Nothing listens on the port, so that each attempt fails."""
    topics = [create(api, f"waits-{n}") for n in range(3)]
    arns = [subscribe(api, topic, "https", "https://user:secret@127.0.0.1:9/hook") for topic in topics]

    def waiting(**query: Any) -> list[Any]:
        found = pages(api, "/topics/deliveries", "deliveries", **query)
        return [each for each in found if each["topic"] in topics]

    until(lambda: len([each for each in waiting() if "last_error" in each]) == 3, "the first attempts failed")
    found = waiting(limit=1)
    assert sorted(each["subscription"] for each in found) == sorted(arns)
    assert {each["endpoint"] for each in found} == {"https://user:****@127.0.0.1:9/hook"}
    assert all(each["attempt"] == 1 and each["due_ms"] > 0 and each["age_ms"] >= 0 for each in found)
    (one,) = waiting(topic="waits-1")
    assert one["topic"] == topics[1]
    (same,) = waiting(subscription=arns[1])
    assert same["subscription"] == arns[1] and same["message_id"] == one["message_id"]
    both = {"topic": "waits-1", "subscription": arns[1]}
    for path in ("/topics/deliveries", "/topics/failing", "/topics/recent"):
        assert refusal(api.admin, "GET", path, both)[1] == "InvalidParameter"
        assert refusal(api.admin, "GET", path, {"subscription": "x"})[1] == "InvalidParameter"
    failing = pages(api, "/topics/failing", "subscriptions", limit=1)
    assert sorted(each["subscription"] for each in failing if each["topic"] in topics) == sorted(arns)
    (shown,) = pages(api, "/topics/failing", "subscriptions", topic="waits-1")
    assert shown["attempt"]["number"] == 1 and shown["endpoint"] == "https://user:****@127.0.0.1:9/hook"
    assert "undelivered" not in shown
    listed = api.admin("GET", "/topics", {"prefix": "waits-"})["topics"]
    assert [(each["waiting"], each["failing"]) for each in listed] == [(1, 1)] * 3
    assert refusal(api.admin, "GET", "/topics/deliveries", {"topic": "a b"})[1] == "InvalidParameter"
    assert refusal(api.admin, "GET", "/topics/deliveries", {"after": "?"})[1] == "InvalidParameter"


def test_what_queues_do_not_take(api: ApiSession) -> None:
    """The queue of the subscription is missing, and then its dead-letter queue, too."""
    topic = create(api, "refused")
    missing, dead = (f"arn:aws:sqs:{REGION}:000000000000:refused-{each}" for each in ("gone", "dead"))
    redrive = f'{{"deadLetterTargetArn": "{dead}"}}'
    arn = subscribe(api, topic, "sqs", missing, RedrivePolicy=redrive)

    def undelivered() -> Any:
        found = api.admin("GET", "/topics/failing", {"subscription": arn})["subscriptions"]
        return found[0]["undelivered"] if found else None

    api.sqs("CreateQueue", QueueName="refused-dead")
    api.sns("Publish", TopicArn=topic, Message="one")
    until(lambda: undelivered() is not None, "the failure is remembered")
    found = undelivered()
    assert (found["reason"], found["count"], found["dead_letter_queue"]) == (
        "the queue does not exist",
        1,
        dead,
    )
    api.sqs("DeleteQueue", QueueUrl=api.sqs("GetQueueUrl", QueueName="refused-dead")["QueueUrl"])
    api.sns("Publish", TopicArn=topic, Message="two")
    until(lambda: "dead_letter_queue" not in undelivered(), "the message is lost")
    assert "the dead-letter queue did not take it: " in undelivered()["reason"]


def test_the_last_messages_of_a_topic(api: ApiSession) -> None:
    topic = create(api, "remembered")
    policy = '{"n": [{"numeric": [">", 10]}]}'
    arn = subscribe(api, topic, "sms", "+4912345678", FilterPolicy=policy)
    for number in range(9, 12):
        attributes = {"n": {"DataType": "Number", "StringValue": str(number)}}
        text = f'{{"default": "d{number}", "sms": "s{number}"}}'
        api.sns(
            "Publish", TopicArn=topic, Message=text, MessageStructure="json", MessageAttributes=attributes
        )
    found = api.admin("GET", "/topics/recent", {"subscription": arn})["messages"]
    assert [(each["body"], each["passes"]) for each in found] == [
        ("s11", True),
        ("s10", False),
        ("s9", False),
    ]
    assert found[0]["attributes"] == {"n": {"type": "Number", "value": "11"}}
    whole = api.admin("GET", "/topics/recent", {"topic": "remembered"})["messages"]
    assert [each["id"] for each in whole] == [each["id"] for each in found]
    assert "passes" not in whole[0] and whole[0]["published_at"].endswith("Z")
    missing = refusal(api.admin, "GET", "/topics/recent", {"topic": "missing"})
    assert missing == (404, "TopicDoesNotExist")
    missing = refusal(api.admin, "GET", "/topics/recent", {"subscription": f"{topic}:gone"})
    assert missing == (404, "SubscriptionDoesNotExist")
    assert refusal(api.admin, "GET", "/topics/recent") == (400, "InvalidParameter")
    api.sns("DeleteTopic", TopicArn=topic)
    create(api, "remembered")
    assert api.admin("GET", "/topics/recent", {"topic": "remembered"}) == {"messages": []}
