"""The two alarms that everybody sets, with plain calls of boto3, on real queues through simulated time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from monitoring.alarms import arn, state, summaries
from monitoring.world import MonitoringWorld
from penstock.limits import MINUTE, SECOND
from penstock.queues.messages import Outgoing

VISIBLE = "ApproximateNumberOfMessagesVisible"


@pytest.fixture(params=[1, 3], ids=["one shard", "three shards"])
def world(request: pytest.FixtureRequest) -> Iterator[MonitoringWorld]:
    with MonitoringWorld(request.param) as made:
        made.after_look()
        yield made


def states_of(world: MonitoringWorld, cw: Any, minutes: int) -> list[str]:
    found = []
    for _ in range(minutes):
        world.minutes()
        found.append(state(cw))
    return found


def test_a_backlog_for_two_periods_of_five_minutes(world: MonitoringWorld, cw: Any) -> None:
    sqs = world.client("sqs")
    url = sqs.create_queue(QueueName="orders")["QueueUrl"]
    cw.put_metric_alarm(
        AlarmName="a",
        Namespace="AWS/SQS",
        MetricName=VISIBLE,
        Dimensions=[{"Name": "QueueName", "Value": "orders"}],
        Statistic="Average",
        Period=300,
        EvaluationPeriods=2,
        Threshold=5000,
        ComparisonOperator="GreaterThanThreshold",
    )
    assert state(cw) == "INSUFFICIENT_DATA"
    for number in range(10):
        sqs.send_message(QueueUrl=url, MessageBody=str(number))
    assert states_of(world, cw, 12)[-1] == "OK"
    messages = [Outgoing(body="x", sender="S") for _ in range(12_000)]
    world.do(world.queue("orders").send(messages))
    # Three of five minutes lift the average over 5000; the period before needs five minutes more for the same.
    assert states_of(world, cw, 10) == ["OK"] * 7 + ["ALARM"] * 3
    sqs.purge_queue(QueueUrl=url)
    assert states_of(world, cw, 10)[-1] == "OK"
    assert summaries(cw, HistoryItemType="StateUpdate") == [
        "Alarm updated from INSUFFICIENT_DATA to OK",
        "Alarm updated from OK to ALARM",
        "Alarm updated from ALARM to OK",
    ]


def test_any_message_in_a_dead_letter_queue(world: MonitoringWorld, cw: Any) -> None:
    sqs = world.client("sqs")
    dead = sqs.create_queue(QueueName="orders-dead")["QueueUrl"]
    redrive = {"deadLetterTargetArn": arn("orders-dead", "sqs"), "maxReceiveCount": 1}
    orders = sqs.create_queue(
        QueueName="orders", Attributes={"RedrivePolicy": json.dumps(redrive), "VisibilityTimeout": "1"}
    )["QueueUrl"]
    alerts = sqs.create_queue(QueueName="alerts")["QueueUrl"]
    cw.put_metric_alarm(
        AlarmName="a",
        AlarmDescription="They need a look.",
        Namespace="AWS/SQS",
        MetricName=VISIBLE,
        Dimensions=[{"Name": "QueueName", "Value": "orders-dead"}],
        Statistic="Maximum",
        Period=60,
        EvaluationPeriods=1,
        Threshold=0,
        ComparisonOperator="GreaterThanThreshold",
        TreatMissingData="notBreaching",
        AlarmActions=[arn("alerts", "sqs")],
    )
    world.advance(8 * 60 * MINUTE)
    assert state(cw) == "OK", "an unused queue has no values"
    sqs.send_message(QueueUrl=orders, MessageBody="poison")
    for _ in range(2):
        sqs.receive_message(QueueUrl=orders)
        world.advance(2000)
    world.minutes(2)
    assert state(cw) == "ALARM"
    (message,) = sqs.receive_message(QueueUrl=alerts, AttributeNames=["All"])["Messages"]
    body = json.loads(message["Body"])
    assert (body["AlarmName"], body["NewStateValue"], body["OldStateValue"]) == ("a", "ALARM", "OK")
    assert body["AlarmDescription"] == "They need a look."
    assert body["Region"] == "EU (Ireland)"
    assert body["Trigger"] == {
        "MetricName": VISIBLE, "Namespace": "AWS/SQS", "StatisticType": "Statistic", "Statistic": "MAXIMUM",
        "Unit": None, "Dimensions": [{"value": "orders-dead", "name": "QueueName"}], "Period": 60,
        "EvaluationPeriods": 1, "ComparisonOperator": "GreaterThanThreshold", "Threshold": 0.0,
        "TreatMissingData": "notBreaching", "EvaluateLowSampleCountPercentile": "",
    }  # fmt: skip
    assert body["NewStateReason"].startswith("Threshold Crossed: 1 datapoint [1.0 (")
    assert message["Attributes"]["SenderId"] == "cloudwatch.amazonaws.com"
    assert summaries(cw, HistoryItemType="Action") == [f"Successfully executed action {arn('alerts', 'sqs')}"]
    (found,) = sqs.receive_message(QueueUrl=dead)["Messages"]
    sqs.delete_message(QueueUrl=dead, ReceiptHandle=found["ReceiptHandle"])
    world.minutes(2)
    assert state(cw) == "OK"


def test_a_short_period_over_a_backlog_that_stands_still(world: MonitoringWorld, cw: Any) -> None:
    """Nobody touches the queue: the number of its messages is known all the same."""
    url = world.client("sqs").create_queue(QueueName="orders")["QueueUrl"]
    cw.put_metric_alarm(
        AlarmName="a",
        Namespace="AWS/SQS",
        MetricName=VISIBLE,
        Dimensions=[{"Name": "QueueName", "Value": "orders"}],
        Statistic="Maximum",
        Period=10,
        EvaluationPeriods=1,
        Threshold=3,
        ComparisonOperator="GreaterThanThreshold",
        TreatMissingData="notBreaching",
    )
    for number in range(7):
        world.client("sqs").send_message(QueueUrl=url, MessageBody=str(number))
    found = []
    for _ in range(60):
        world.advance(10 * SECOND)
        found.append(state(cw))
    assert found[2:] == ["ALARM"] * 58
    assert summaries(cw, HistoryItemType="StateUpdate")[-1].endswith("to ALARM")
