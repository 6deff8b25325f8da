"""Deliveries to HTTP endpoints, mail and the outbox: when they are tried again, delayed, counted, stopped, shown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from penstock.limits import DAY, HOUR, MINUTE, SECOND
from penstock.promise import Promise
from penstock.publishing.deliveries import HTTP_DELIVERIES
from penstock.publishing.email_delivery import MailFailed
from penstock.publishing.http_delivery import HttpAnswer
from penstock.publishing.namespace import DELIVERED, FAILED
from penstock.publishing.unsent import UnsentDeletion, UnsentQuestion
from penstock.publishing.waiting import WaitingDeliveriesQuestion
from penstock.topics.delivery_policy import parse_subscription_policy
from penstock.topics.records import SubscriptionState
from publishing.deliveries_world import BASE, OK, SERVER, Counted, DeliveriesWorld
from publishing.log_lines import Lines, records

HOOK = "https://hooks.example.com/a"
DOWN = HttpAnswer(503, "Service Unavailable")
SILENT = HttpAnswer(0, "no answer within 15 seconds")


@pytest.fixture(params=[1, 3], ids=["one shard", "three shards"])
def world(request: pytest.FixtureRequest) -> Iterator[DeliveriesWorld]:
    with DeliveriesWorld(request.param) as made:
        yield made


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    return Counted(monkeypatch)


def policy(**retries: Any) -> str:
    document = {"healthyRetryPolicy": {"minDelayTarget": 1, "maxDelayTarget": 1, "numRetries": 0, **retries}}
    return parse_subscription_policy(json.dumps(document), is_raw=False)


def throttle(per_second: int) -> str:
    document = {"throttlePolicy": {"maxReceivesPerSecond": per_second}}
    return parse_subscription_policy(json.dumps(document), is_raw=False)


# -- one delivery --------------------------------------------------------------------------------------------------


def test_an_endpoint_gets_a_signed_envelope(world: DeliveriesWorld, counted: Counted) -> None:
    topic = world.topic()
    subscription = world.subscribe(topic)
    assert world.notify(topic, subscription, attributes={"k": ("String", "v")})
    assert world.urls == [], "the commit is not durable"
    world.run()
    ((url, message),) = world.http.posted
    body = json.loads(message.body)
    assert url == HOOK
    assert message.headers == {
        "x-amz-sns-message-type": "Notification",
        "x-amz-sns-message-id": body["MessageId"],
        "x-amz-sns-topic-arn": topic.name.arn,
        "x-amz-sns-subscription-arn": subscription.name.arn,
        "Content-Type": "text/plain; charset=UTF-8",
        "User-Agent": "Amazon Simple Notification Service Agent",
        "Accept-Encoding": "gzip,deflate",
    }
    assert (body["Message"], body["MessageAttributes"]["k"]["Value"]) == ("hello", "v")
    assert body["SigningCertURL"].startswith(f"{BASE}/SimpleNotificationService-") and body["Signature"]
    world.advance(HOUR)
    assert len(world.urls) == 1
    assert counted.values == {DELIVERED: [1], FAILED: [0]}


def test_raw_delivery_is_the_bare_message(world: DeliveriesWorld) -> None:
    topic = world.topic()
    document = json.dumps({"requestPolicy": {"headerContentType": "text/csv"}})
    subscription = world.subscribe(
        topic, RawMessageDelivery="true", DeliveryPolicy=parse_subscription_policy(document, is_raw=True)
    )
    world.notify(topic, subscription, "a,b", subject="s", attributes={"k": ("String", "v")})
    world.run()
    ((_, message),) = world.http.posted
    assert message.body == b"a,b"
    assert message.headers["x-amz-sns-rawdelivery"] == "true"
    assert message.headers["Content-Type"] == "text/csv"


def test_the_policy_of_the_topic_chooses_the_type_of_notifications(world: DeliveriesWorld) -> None:
    request = {"http": {"defaultRequestPolicy": {"headerContentType": "application/json"}}}
    topic = world.topic(DeliveryPolicy=json.dumps(request))
    world.notify(topic, world.subscribe(topic))
    pending = world.subscribe(topic, "https://other.example.com/", SubscriptionState.PENDING)
    world.deliveries(topic).confirm(topic, pending, "ab" * 128)
    world.run()
    types = {url: message.headers["Content-Type"] for url, message in world.http.posted}
    assert types == {HOOK: "application/json", "https://other.example.com/": "text/plain; charset=UTF-8"}


def test_a_confirmation(world: DeliveriesWorld, counted: Counted) -> None:
    topic = world.topic(SignatureVersion="2")
    subscription = world.subscribe(topic, state=SubscriptionState.PENDING)
    world.deliveries(topic).confirm(topic, subscription, "ab" * 128)
    world.run()
    ((_, message),) = world.http.posted
    body = json.loads(message.body)
    assert message.headers["x-amz-sns-message-type"] == body["Type"] == "SubscriptionConfirmation"
    assert "x-amz-sns-subscription-arn" not in message.headers
    assert body["SubscribeURL"] == (
        f"{BASE}/?Action=ConfirmSubscription&TopicArn={topic.name.arn}&Token={'ab' * 128}"
    )
    assert (body["SignatureVersion"], body["MessageId"][14]) == ("2", "4")
    assert counted.values == {}, "a confirmation is no notification"


def test_the_confirmation_of_an_end(world: DeliveriesWorld) -> None:
    topic = world.topic()
    subscription = world.subscribe(topic, state=SubscriptionState.DELETED)
    world.deliveries(topic).unsubscribed(topic, subscription, "ab" * 128)
    world.run()
    ((_, message),) = world.http.posted
    assert message.headers["x-amz-sns-message-type"] == "UnsubscribeConfirmation"
    assert message.headers["x-amz-sns-subscription-arn"] == subscription.name.arn


# -- answers and retries -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [200, 204, 301, 302, 400, 403, 404, 410, 499])
def test_answers_that_complete_a_delivery(status: int, counted: Counted) -> None:
    with DeliveriesWorld() as world:
        topic = world.topic()
        world.http.answers[HOOK] = [HttpAnswer(status, "")]
        world.notify(topic, world.subscribe(topic))
        world.advance(HOUR)
        assert len(world.urls) == 1
        assert counted.values == {DELIVERED: [1], FAILED: [0]}
        assert world.failed == []


@pytest.mark.parametrize(
    "answer", [HttpAnswer(429, ""), HttpAnswer(500, ""), DOWN, HttpAnswer(599, ""), SILENT]
)
def test_answers_after_which_a_delivery_is_tried_again(answer: HttpAnswer, counted: Counted) -> None:
    with DeliveriesWorld() as world:
        topic = world.topic()
        world.http.answers[HOOK] = [answer, answer, OK]
        world.notify(topic, world.subscribe(topic))
        world.run()
        assert len(world.urls) == 1
        world.advance(20 * SECOND - 1)
        assert len(world.urls) == 1
        world.advance(1)
        assert len(world.urls) == 2
        world.advance(20 * SECOND)
        assert len(world.urls) == 3
        world.advance(HOUR)
        assert len(world.urls) == 3
        assert counted.values == {FAILED: [1, 1, 0], DELIVERED: [1]}
        assert len({message.body for _, message in world.http.posted}) == 1, (
            "each attempt is the same message"
        )


def test_what_is_not_tried_again_is_given_back_once(world: DeliveriesWorld, counted: Counted) -> None:
    topic = world.topic()
    world.http.answers[HOOK] = [DOWN]
    world.notify(topic, world.subscribe(topic), "lost")
    world.advance(61 * SECOND)
    assert len(world.urls) == 4, "three retries"
    ((notice, reason),) = world.failed
    assert (notice.text, reason) == ("lost", "503 Service Unavailable")
    world.advance(HOUR)
    assert (len(world.urls), len(world.failed)) == (4, 1)
    assert counted.values == {FAILED: [1, 1, 1]}, "who gets the message counts the last one"


def test_the_phases_of_a_policy_are_kept(world: DeliveriesWorld) -> None:
    topic = world.topic()
    phases = policy(
        maxDelayTarget=9, numRetries=8, numNoDelayRetries=1, numMinDelayRetries=2, numMaxDelayRetries=2
    )
    world.http.answers[HOOK] = [DOWN]
    world.notify(topic, world.subscribe(topic, DeliveryPolicy=phases))
    world.advance(MINUTE)
    times = world.http.times_ms
    assert [later - earlier for earlier, later in pairwise(times)] == [
        0, 1000, 1000, 1000, 5000, 9000, 9000, 9000,
    ]  # fmt: skip
    assert len(world.failed) == 1


def test_a_policy_that_changes_applies_to_what_waits(world: DeliveriesWorld) -> None:
    topic = world.topic()
    subscription = world.subscribe(topic, DeliveryPolicy=policy(numRetries=50))
    world.http.answers[HOOK] = [DOWN]
    world.notify(topic, subscription)
    world.advance(1500)
    assert (len(world.urls), world.failed) == (2, [])
    world.change_subscription(subscription, attributes={"DeliveryPolicy": policy(numRetries=1)})
    world.advance(1000)
    assert (len(world.urls), len(world.failed)) == (3, 1)


def test_a_confirmation_is_tried_again_and_never_given_back(world: DeliveriesWorld) -> None:
    topic = world.topic()
    world.http.answers[HOOK] = [DOWN]
    world.deliveries(topic).confirm(
        topic, world.subscribe(topic, state=SubscriptionState.PENDING), "ab" * 128
    )
    world.advance(HOUR)
    assert len(world.urls) == 4
    assert world.failed == []


@pytest.mark.parametrize("end", ["gone", "deleted", "topic"])
def test_nothing_more_is_sent_when_the_subscription_has_ended(world: DeliveriesWorld, end: str) -> None:
    topic = world.topic()
    subscription = world.subscribe(topic)
    world.http.answers[HOOK] = [DOWN]
    world.notify(topic, subscription)
    world.run()
    if end == "gone":
        del world.subscriptions[subscription.name]
    elif end == "deleted":
        world.change_subscription(subscription, state=SubscriptionState.DELETED)
    else:
        del world.topics[topic.name]
    world.advance(HOUR)
    assert (len(world.urls), world.failed) == (1, [])
    assert world.ask(WaitingDeliveriesQuestion(10)) == []


def test_a_confirmation_ends_when_the_subscription_is_confirmed(world: DeliveriesWorld) -> None:
    topic = world.topic()
    subscription = world.subscribe(topic, state=SubscriptionState.PENDING)
    world.http.answers[HOOK] = [DOWN]
    world.deliveries(topic).confirm(topic, subscription, "ab" * 128)
    world.run()
    world.change_subscription(subscription, state=SubscriptionState.CONFIRMED)
    world.advance(HOUR)
    assert len(world.urls) == 1


# -- crashes -------------------------------------------------------------------------------------------------------


def test_what_was_not_delivered_is_delivered_after_a_crash(world: DeliveriesWorld) -> None:
    topic = world.topic()
    subscription = world.subscribe(topic)
    world.http.answers[HOOK] = [DOWN, OK]
    world.notify(topic, subscription, "first")
    world.run()
    world.http.hanging[HOOK] = Promise()
    world.notify(topic, subscription, "second")
    world.run()
    del world.http.hanging[HOOK]
    world.crash()
    world.advance(2 * MINUTE)
    messages = [json.loads(body)["Message"] for body in world.posted_bodies()]
    assert sorted(messages) == ["first", "first", "second", "second"]
    world.crash()
    world.advance(HOUR)
    assert len(world.urls) == 4


def test_an_account_cannot_flood_a_host_with_confirmations(world: DeliveriesWorld) -> None:
    topic = world.topic()
    for number in range(150):
        subscription = world.subscribe(topic, f"{HOOK}?{number}", SubscriptionState.PENDING)
        world.deliveries(topic).confirm(topic, subscription, "ab" * 128)
    world.advance(SECOND)
    assert len(world.http.posted) <= 106
    world.advance(MINUTE)
    assert len(world.http.posted) == 150, "none is lost"


def test_an_account_cannot_flood_a_mailbox_with_confirmations(world: DeliveriesWorld) -> None:
    world.mail.server = SERVER
    topic = world.topic()
    for number in range(30):
        subscription = world.subscribe(topic, f"a+{number}@example.com", SubscriptionState.PENDING)
        world.deliveries(topic).confirm(topic, subscription, "ab" * 128)
    world.advance(SECOND)
    assert len(world.mail.sent) == 21
    world.advance(9 * MINUTE)
    assert len(world.mail.sent) == 30


def test_a_throttle_that_is_taken_away_leaves_nothing_in_memory(world: DeliveriesWorld) -> None:
    topic = world.topic()
    subscription = world.subscribe(topic, DeliveryPolicy=throttle(1))
    for number in range(5):
        world.notify(topic, subscription, str(number))
    world.advance(SECOND)
    world.change_subscription(subscription, attributes={})
    world.advance(MINUTE)
    assert len(world.http.posted) == 5
    assert world.deliveries(topic)._throttles._reserved == {}


# -- throttles -----------------------------------------------------------------------------------------------------


def test_a_throttle_delays_and_drops_nothing(world: DeliveriesWorld) -> None:
    topic = world.topic()
    subscription = world.subscribe(topic, DeliveryPolicy=throttle(2))
    for number in range(30):
        world.notify(topic, subscription, str(number))
    world.advance(30 * SECOND)
    assert sorted(int(json.loads(body)["Message"]) for body in world.posted_bodies()) == list(range(30))
    times = world.http.times_ms
    assert all(later - earlier >= 499 for earlier, later in pairwise(times))
    assert times[-1] - times[0] <= 16 * SECOND


def test_a_throttle_counts_retries_too_but_no_waits(world: DeliveriesWorld) -> None:
    document = {
        "healthyRetryPolicy": {
            "minDelayTarget": 1,
            "maxDelayTarget": 1,
            "numRetries": 2,
            "numNoDelayRetries": 2,
        },
        "throttlePolicy": {"maxReceivesPerSecond": 1},
    }
    topic = world.topic()
    text = parse_subscription_policy(json.dumps(document), is_raw=False)
    subscription = world.subscribe(topic, DeliveryPolicy=text)
    world.http.answers[HOOK] = [DOWN]
    for _ in range(10):
        world.notify(topic, subscription)
    world.advance(MINUTE)
    assert len(world.urls) == 30, "each has three attempts, however often it waited"
    assert len(world.failed) == 10
    times = world.http.times_ms
    assert all(later - earlier >= 999 for earlier, later in pairwise(times))


def test_a_throttled_subscription_does_not_delay_another_of_its_account(world: DeliveriesWorld) -> None:
    topic = world.topic()
    slow = world.subscribe(topic, DeliveryPolicy=throttle(1))
    quick = world.subscribe(topic, "https://other.example.com/")
    for _ in range(100):
        world.notify(topic, slow)
    world.notify(topic, quick)
    world.advance(3 * SECOND)
    assert "https://other.example.com/" in world.urls


# -- shares --------------------------------------------------------------------------------------------------------


def test_an_endpoint_that_does_not_answer_delays_no_other_one(world: DeliveriesWorld) -> None:
    topic = world.topic()
    slow, quick = world.subscribe(topic), world.subscribe(topic, "https://other.example.com/")
    world.http.hanging[HOOK] = Promise()
    for _ in range(100):
        world.notify(topic, slow)
    world.notify(topic, quick)
    world.run()
    assert world.urls.count(HOOK) == 4
    assert world.urls.count("https://other.example.com/") == 1
    world.http.hanging.pop(HOOK).resolve(None)
    world.advance(SECOND)
    assert world.urls.count(HOOK) == 100


def test_an_account_has_a_share_of_the_deliveries() -> None:
    with DeliveriesWorld() as world:
        topic = world.topic()
        urls = [f"https://{number}.example.com/" for number in range(40)]
        waits: Promise[None] = Promise()
        for url in urls:
            world.http.hanging[url] = waits
            world.notify(topic, world.subscribe(topic, url))
        world.run()
        assert world.http.under_way_max == HTTP_DELIVERIES.running_max
        other = world.topic("other", "111111111111")
        world.notify(other, world.subscribe(other))
        world.run()
        assert HOOK in world.urls
        waits.resolve(None)
        world.run()
        assert set(world.urls) == {*urls, HOOK}


def test_too_many_that_wait_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HTTP_DELIVERIES, "waiting_max", 3)
    with DeliveriesWorld() as world:
        topic = world.topic()
        subscription = world.subscribe(topic)
        world.http.answers[HOOK] = [DOWN]
        assert [world.notify(topic, subscription) for _ in range(5)] == [True, True, True, False, False]
        world.run()
        assert len(world.urls) == 3


# -- what waits ----------------------------------------------------------------------------------------------------


def test_what_waits_is_shown_with_the_last_error(world: DeliveriesWorld) -> None:
    topic = world.topic()
    subscription = world.subscribe(topic, "https://user:secret@hooks.example.com/a")
    world.http.answers[subscription.endpoint] = [SILENT]
    begun_ms = world.clock.wall_ms()
    world.notify(topic, subscription)
    world.advance(21 * SECOND)
    for _ in range(2):
        (waiting,) = world.ask(WaitingDeliveriesQuestion(10))
        assert waiting.topic == topic.name.arn
        assert waiting.subscription == subscription.name.arn
        assert (waiting.protocol, waiting.endpoint) == ("https", "https://user:****@hooks.example.com/a")
        assert (waiting.attempts, waiting.last_error) == (2, "no answer within 15 seconds")
        assert waiting.state == "delayed"
        assert (waiting.since_ms, waiting.due_ms) == (begun_ms, begun_ms + 40 * SECOND)
        world.crash()  # the last error is durable


def test_what_waits_is_listed_in_pages(world: DeliveriesWorld) -> None:
    topics = [world.topic(f"topic-{number}") for number in range(4)]
    other = world.topic("other", "111111111111")
    for topic in (*topics, other):
        subscription = world.subscribe(topic)
        for _ in range(3):
            world.notify(topic, subscription)
    world.http.answers[HOOK] = [DOWN]
    world.run()
    every = world.ask(WaitingDeliveriesQuestion(100))
    assert len(every) == 15
    for size in (1, 2, 4, 15, 16):
        found, after = [], None
        while page := world.ask(WaitingDeliveriesQuestion(size, after)):
            assert len(page) <= size
            found += page
            after = page[-1].place
        assert found == every
    of_topic = world.ask(WaitingDeliveriesQuestion(100, topic=topics[1].name))
    assert [each.topic for each in of_topic] == [topics[1].name.arn] * 3
    of_other = world.ask(WaitingDeliveriesQuestion(100, account="111111111111"))
    assert {each.topic for each in of_other} == {other.name.arn}
    place = every[3].place
    assert type(place).parse(str(place)) == place


# -- the delivery status log ---------------------------------------------------------------------------------------


def test_each_attempt_is_logged_if_the_topic_has_roles(world: DeliveriesWorld, lines: Lines) -> None:
    topic = world.topic(HTTPSuccessFeedbackRoleArn="arn:role", HTTPFailureFeedbackRoleArn="arn:role")
    redrive = '{"deadLetterTargetArn":"arn:aws:sqs:eu-west-1:000000000000:dead"}'
    world.http.answers[HOOK] = [DOWN, SILENT, OK]
    world.notify(topic, world.subscribe(topic, RedrivePolicy=redrive), "secret text")
    world.advance(MINUTE)
    group = "sns/eu-west-1/000000000000/news"
    (first_group, first), (second_group, second), (third_group, third) = records(lines)
    assert (first_group, second_group, third_group) == (f"{group}/Failure", f"{group}/Failure", group)
    assert [each["status"] for each in (first, second, third)] == ["FAILURE", "FAILURE", "SUCCESS"]
    assert first["notification"]["messageId"] == json.loads(world.posted_bodies()[0])["MessageId"]
    assert first["notification"]["topicArn"] == topic.name.arn
    assert len(first["notification"]["messageMD5Sum"]) == 32
    assert (first["delivery"]["statusCode"], first["delivery"]["providerResponse"]) == (
        503,
        "Service Unavailable",
    )
    assert "attempts" not in first["delivery"] and second["delivery"]["attempts"] == 2
    assert "statusCode" not in second["delivery"]
    assert third["delivery"]["dwellTimeMs"] == 40_000
    assert third["delivery"]["redrivePolicy"] == json.loads(redrive)
    assert len({each["delivery"]["deliveryId"] for each in (first, second, third)}) == 3
    assert "secret" not in lines.text


def test_attempts_are_logged_as_far_as_the_topic_wants(lines: Lines) -> None:
    with DeliveriesWorld() as world:
        rows = {
            "none": ({}, 0),
            "all": ({"HTTPSuccessFeedbackRoleArn": "arn:role"}, 200),
            "zero": ({"HTTPSuccessFeedbackRoleArn": "arn:role", "HTTPSuccessFeedbackSampleRate": "0"}, 0),
            "whole": (
                {"HTTPSuccessFeedbackRoleArn": "arn:role", "HTTPSuccessFeedbackSampleRate": "100"},
                200,
            ),
            "failures": ({"HTTPFailureFeedbackRoleArn": "arn:role"}, 0),
            "queues": ({"SQSSuccessFeedbackRoleArn": "arn:role"}, 0),
        }
        for name, (attributes, expected) in rows.items():
            lines.records.clear()
            topic = world.topic(name, **attributes)
            subscription = world.subscribe(topic)
            for _ in range(200):
                world.notify(topic, subscription)
            world.advance(MINUTE)
            assert len(records(lines)) == expected, name
        lines.records.clear()
        topic = world.topic(HTTPSuccessFeedbackRoleArn="arn:role", HTTPSuccessFeedbackSampleRate="50")
        subscription = world.subscribe(topic)
        for _ in range(200):
            world.notify(topic, subscription)
        world.advance(MINUTE)
        assert 60 <= len(records(lines)) <= 140


# -- mail and the outbox -------------------------------------------------------------------------------------------


def test_mail_gets_to_the_mail_server(world: DeliveriesWorld, counted: Counted) -> None:
    world.mail.server = SERVER
    topic = world.topic(DisplayName="The News")
    subscription = world.subscribe(topic, "reader@example.org")
    world.notify(topic, subscription, "hello", subject="Today")
    world.run()
    (mail,) = world.mail.sent
    assert mail["From"] == "The News <topics@example.com>"
    assert (mail["To"], mail["Subject"]) == ("reader@example.org", "Today")
    assert counted.values == {DELIVERED: [1], FAILED: [0]}


def test_mail_is_tried_again_for_six_hours(world: DeliveriesWorld) -> None:
    world.mail.server = SERVER
    topic = world.topic()
    world.mail.failures = [MailFailed("busy", can_repeat=True) for _ in range(100)]
    world.notify(topic, world.subscribe(topic, "reader@example.org"))
    world.advance(8 * HOUR)
    assert len(world.mail.failures) == 100 - 51
    assert [reason for _, reason in world.failed] == ["busy"]


def test_mail_that_is_refused_is_not_tried_again(world: DeliveriesWorld) -> None:
    world.mail.server = SERVER
    topic = world.topic()
    world.mail.failures = [MailFailed("no such mailbox", can_repeat=False)]
    world.notify(topic, world.subscribe(topic, "reader@example.org"))
    world.notify(topic, world.subscribe(topic, "no address@at all"))
    world.advance(HOUR)
    assert sorted(reason for _, reason in world.failed) == [
        "no such mailbox",
        "the endpoint is no mail address",
    ]
    assert world.mail.sent == []


def test_without_a_mail_server_mail_is_in_the_outbox(
    world: DeliveriesWorld, counted: Counted, lines: Lines
) -> None:
    topic = world.topic()
    subscription = world.subscribe(topic, "reader@example.org", SubscriptionState.PENDING)
    world.deliveries(topic).confirm(topic, subscription, "ab" * 128)
    assert f"Token={'ab' * 128}" in lines.text
    subscription = world.change_subscription(subscription, state=SubscriptionState.CONFIRMED)
    world.advance(1)
    world.notify(topic, subscription, "hello", subject="Today")
    for _ in range(2):
        later, first = world.ask(UnsentQuestion(None, "", 10))
        assert (later.text, later.subject, later.destination) == ("hello", "Today", "reader@example.org")
        assert (later.protocol, later.topic, later.kind) == ("email", topic.name.arn, "Notification")
        assert (first.kind, "Token=" in first.text) == ("SubscriptionConfirmation", True)
        world.crash()
    assert counted.values == {DELIVERED: [1], FAILED: [0]}


def test_mail_whose_server_is_taken_away_goes_to_the_outbox(world: DeliveriesWorld) -> None:
    world.mail.server = SERVER
    topic = world.topic()
    world.mail.failures = [MailFailed("busy", can_repeat=True)]
    world.notify(topic, world.subscribe(topic, "reader@example.org"))
    world.run()
    world.mail.server = None
    world.advance(MINUTE)
    assert [each.text for each in world.ask(UnsentQuestion(None, "", 10))] == ["hello"]
    assert world.failed == []


def test_text_messages_are_in_the_outbox(world: DeliveriesWorld) -> None:
    topic = world.topic()
    world.notify(topic, world.subscribe(topic, "sms:+15550100"), "call me")
    (unsent,) = world.ask(UnsentQuestion("000000000000", "", 10))
    assert (unsent.protocol, unsent.destination, unsent.text) == ("sms", "+15550100", "call me")
    assert world.ask(UnsentQuestion("111111111111", "", 10)) == []


def test_the_outbox_is_listed_in_pages_and_emptied(world: DeliveriesWorld) -> None:
    for number in range(7):
        topic = world.topic(f"topic-{number}")
        world.notify(topic, world.subscribe(topic, "sms:+15550100"), str(number))
        world.advance(1)
    found, before = [], ""
    while page := world.ask(UnsentQuestion(None, before, 3)):
        found += page
        before = page[-1].id
    assert [each.text for each in found] == ["6", "5", "4", "3", "2", "1", "0"]
    assert world.ask(UnsentDeletion("111111111111", None)) == 0
    assert world.ask(UnsentDeletion(None, [found[0].id, "unknown"])) == 1
    assert len(world.ask(UnsentQuestion(None, "", 100))) == 6
    assert world.ask(UnsentDeletion("000000000000", None)) == 6
    world.crash()
    assert world.ask(UnsentQuestion(None, "", 100)) == []


def test_the_oldest_leave_an_outbox_that_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.publishing.unsent.MESSAGES_MAX", 5)
    with DeliveriesWorld() as world:
        other = world.topic("other", "111111111111")
        world.notify(other, world.subscribe(other, "sms:+1"), "of another account")
        topic = world.topic()
        subscription = world.subscribe(topic, "sms:+15550100")
        for number in range(12):
            world.notify(topic, subscription, str(number))
            world.advance(1)
        texts = [each.text for each in world.ask(UnsentQuestion(None, "", 100))]
        assert texts == ["11", "10", "9", "8", "7", "of another account"]
        world.crash()
        world.notify(topic, subscription, "12")
        assert [each.text for each in world.ask(UnsentQuestion(None, "", 2))] == ["12", "11"]
        assert len(world.ask(UnsentQuestion(None, "", 100))) == 6


@pytest.mark.parametrize("limit", ["BYTES_MAX", "SHARD_BYTES_MAX"])
def test_an_outbox_has_room_for_so_many_bytes(monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    monkeypatch.setattr(f"penstock.publishing.unsent.{limit}", 40_000)
    with DeliveriesWorld() as world:
        topic = world.topic()
        subscription = world.subscribe(topic, "sms:+15550100")
        for number in range(12):
            world.notify(topic, subscription, f"{number:010d}" * 1000)
            world.advance(1)
        texts = [each.text[:10] for each in world.ask(UnsentQuestion(None, "", 100))]
        assert texts == ["0000000011", "0000000010", "0000000009"]


def test_a_refused_commit_puts_nothing_into_the_outbox() -> None:
    with DeliveriesWorld() as world:
        topic = world.topic()
        subscription = world.subscribe(topic, "sms:+15550100")
        world.notify(topic, subscription, "kept")
        world.run()
        world.advance(1)
        world.refuse_next_commit()
        world.notify(topic, subscription, "refused")
        world.run()
        assert [each.text for each in world.ask(UnsentQuestion(None, "", 10))] == ["kept"]
        world.advance(1)
        world.notify(topic, subscription, "later")
        assert [each.text for each in world.ask(UnsentQuestion(None, "", 10))] == ["later", "kept"]


def test_endpoints_that_must_not_be_called(world: DeliveriesWorld) -> None:
    rows = {
        ("https", HOOK): True,
        ("http", "http://forbidden.example.com/"): False,
        ("email", "reader@example.org"): True,
        ("email", "reader"): False,
        ("email-json", "a@b.example\r\nBcc: c@d.example"): False,
        ("sms", "+15550100"): True,
    }
    found = {row: world.do(world.endpoints.may_subscribe("000000000000", *row)) for row in rows}
    assert found == rows


def test_a_message_that_has_waited_for_days_is_given_back() -> None:
    """The server was off."""
    with DeliveriesWorld() as world:
        topic = world.topic()
        world.http.answers[HOOK] = [DOWN, OK]
        world.notify(topic, world.subscribe(topic))
        world.run()
        closed = world.close_shard(0)
        world.run()
        closed.result()
        world.advance(5 * DAY)
        world.open_shard(0)
        world.advance(MINUTE)
        assert [reason for _, reason in world.failed] == ["it has waited for too long"]
        assert len(world.urls) == 1
