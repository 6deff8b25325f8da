"""The delivery status of messages for queues and for the outbox: a record for each, if the topic has a role."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from hashlib import md5

import pytest

from penstock.broker.handover import SentFor
from penstock.broker.live_queue import LiveQueue
from penstock.errors import QuotaReached
from penstock.limits import HOUR, MINUTE, SECOND
from penstock.publishing import queue_log
from publishing.deliveries_world import Counted
from publishing.log_lines import Lines, records
from publishing.world import PublishingWorld
from support.world import name_of

ROLE = "arn:aws:iam::000000000000:role/log"
BOTH = {"SQSSuccessFeedbackRoleArn": ROLE, "SQSFailureFeedbackRoleArn": ROLE}
GROUP = "sns/eu-west-1/000000000000/news"


@pytest.fixture
def world() -> Iterator[PublishingWorld]:
    with PublishingWorld() as made:
        yield made


def test_each_queue_has_a_record_of_its_message(world: PublishingWorld, lines: Lines) -> None:
    topic, queues = world.topic(**BOTH), world.queues()
    here = topic.home.shard(world.shards)
    for short in queues:
        world.subscribe(topic, short)
    published = world.publish(topic, "secret text")
    found = records(lines)
    assert {group for group, _ in found} == {GROUP}
    assert {each["delivery"]["destination"] for _, each in found} == {name_of(short).arn for short in queues}
    for _, each in found:
        is_here = each["delivery"]["destination"] == name_of(queues[here]).arn
        assert each["status"] == "SUCCESS"
        assert each["delivery"]["statusCode"] == 200
        assert each["delivery"]["providerResponse"] == ("OK" if is_here else "Accepted")
        assert each["notification"]["messageId"] == published.message_id
        assert each["notification"]["messageMD5Sum"] == md5(b"secret text").hexdigest()
        assert "timestamp" in each["notification"]
    assert "secret" not in lines.text


@pytest.mark.parametrize("where", ["here", "elsewhere"])
@pytest.mark.parametrize("is_raw", ["true", "false"])
def test_a_queue_that_refuses_has_a_record_of_the_failure(
    world: PublishingWorld, lines: Lines, where: str, is_raw: str
) -> None:
    topic = world.topic(SQSFailureFeedbackRoleArn=ROLE)
    shard = (topic.home.shard(world.shards) + (where == "elsewhere")) % world.shards
    world.subscribe(topic, world.name("missing", shard), RawMessageDelivery=is_raw)
    published = world.publish(topic, "x")
    world.advance(SECOND)
    ((group, found),) = records(lines)
    assert (group, found["status"]) == (f"{GROUP}/Failure", "FAILURE")
    assert (found["delivery"]["statusCode"], found["delivery"]["providerResponse"]) == (400, "QueueMissing")
    assert found["notification"]["messageMD5Sum"] == md5(b"x").hexdigest()
    # What a queue of another shard gives back is the message as it was for that queue.
    is_known = where == "here" or is_raw == "false"
    assert found["notification"].get("messageId") == (published.message_id if is_known else None)


@pytest.mark.parametrize("where", ["here", "elsewhere"])
def test_what_a_full_queue_takes_later_has_records_of_both(
    lines: Lines, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    counted = Counted(monkeypatch)

    def may_deliver(queue: LiveQueue, sent_for: SentFor) -> bool:
        if is_full:
            raise QuotaReached("messages", 0)
        return True

    with PublishingWorld(may_deliver=may_deliver) as world:
        topic, is_full = world.topic(**BOTH), True
        short = world.name("full", (topic.home.shard(world.shards) + (where == "elsewhere")) % world.shards)
        world.create(short)
        world.subscribe(topic, short)
        published = world.publish(topic, "x")
        world.advance(HOUR)
        is_full = False
        world.advance(MINUTE)
        found = [each for _, each in records(lines)]
        last = {"status": "SUCCESS", "response": "OK" if where == "here" else "Accepted"}
        assert last == {
            "status": found[-1]["status"],
            "response": found[-1]["delivery"]["providerResponse"],
        }
        failures = [each["delivery"] for each in found if each["status"] == "FAILURE"]
        assert [each.get("attempts", 1) for each in failures] == list(range(1, len(failures) + 1))
        assert {each["providerResponse"] for each in failures} == {"QuotaReached"}
        assert counted.values["NumberOfNotificationsDelivered"] == [1]
        assert {each["notification"]["messageId"] for each in found} == {published.message_id}
        assert found[-1]["delivery"]["dwellTimeMs"] > HOUR


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({}, 0),
        ({"HTTPSuccessFeedbackRoleArn": ROLE}, 0),
        ({"SQSFailureFeedbackRoleArn": ROLE}, 0),
        ({"SQSSuccessFeedbackRoleArn": ROLE, "SQSSuccessFeedbackSampleRate": "0"}, 0),
        ({"SQSSuccessFeedbackRoleArn": ROLE, "SQSSuccessFeedbackSampleRate": "100"}, 3),
        ({"SQSSuccessFeedbackRoleArn": ROLE}, 3),
    ],
)
def test_what_the_topic_does_not_want_has_no_record(
    world: PublishingWorld, lines: Lines, attributes: dict[str, str], expected: int
) -> None:
    topic, (short, *_) = world.topic(**attributes), world.queues()
    world.subscribe(topic, short)
    for _ in range(3):
        world.publish(topic, "x")
    assert len(records(lines)) == expected


def test_records_that_cannot_be_written_in_time_are_left_out(
    world: PublishingWorld, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_log, "_WAITING_MAX", 1)
    monkeypatch.setattr(queue_log, "_PER_TURN", 1)
    topic, queues = world.topic(**BOTH), world.queues()
    for short in queues:
        world.subscribe(topic, short)
    world.publish(topic, "x")
    assert len(records(lines)) == 2
    warnings = [each for each in lines.records if each.levelno == logging.WARNING]
    assert [each.getMessage().partition(": ")[2] for each in warnings] == ["some have no record"]


def test_a_push_message_in_the_outbox_has_a_record(world: PublishingWorld, lines: Lines) -> None:
    topic = world.topic(ApplicationSuccessFeedbackRoleArn=ROLE)
    endpoint = "arn:aws:sns:eu-west-1:000000000000:endpoint/GCM/app/6a2f"
    world.subscribe(topic, endpoint, "application")
    world.subscribe(topic, "+491701234567", "sms")
    published = world.publish(topic, "x")
    ((group, found),) = records(lines)
    assert (group, found["delivery"]["destination"]) == (GROUP, endpoint)
    assert found["notification"]["messageId"] == published.message_id
    assert (found["status"], found["delivery"]["statusCode"]) == ("SUCCESS", 200)
