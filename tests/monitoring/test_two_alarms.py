"""The two alarms that everybody sets, with plain calls of boto3, through hours of simulated time."""

from __future__ import annotations

import json
from typing import Any

from monitoring.world import MonitoringWorld
from penstock.limits import MINUTE
from sim.world import name_of

VISIBLE = "ApproximateNumberOfMessagesVisible"


def state(cw: Any, name: str) -> str:
    (alarm,) = cw.describe_alarms(AlarmNames=[name])["MetricAlarms"]
    return str(alarm["StateValue"])


def put_backlog_alarm(cw: Any, **more: Any) -> None:
    cw.put_metric_alarm(
        AlarmName="orders-backlog",
        Namespace="AWS/SQS",
        MetricName=VISIBLE,
        Dimensions=[{"Name": "QueueName", "Value": "orders"}],
        Statistic="Average",
        Period=300,
        EvaluationPeriods=2,
        Threshold=5000,
        ComparisonOperator="GreaterThanThreshold",
        **more,
    )


def test_a_backlog_for_two_periods_of_five_minutes(world: MonitoringWorld, cw: Any) -> None:
    put_backlog_alarm(cw)
    queue = name_of("orders")

    def passing(count: int, visible: float) -> list[str]:
        states = []
        for _ in range(count):
            world.queue_values.add(queue, VISIBLE, visible, world.clock.wall_ms())
            world.minutes()
            states.append(state(cw, "orders-backlog"))
        return states

    assert state(cw, "orders-backlog") == "INSUFFICIENT_DATA"
    assert passing(15, 100)[-1] == "OK"
    # Three of five minutes lift the average over 5000; the period before needs five minutes more for the same.
    busy = passing(10, 12_000)
    assert busy == ["OK"] * 7 + ["ALARM"] * 3
    assert passing(10, 0)[-1] == "OK"
    history = cw.describe_alarm_history(AlarmName="orders-backlog", HistoryItemType="StateUpdate")[
        "AlarmHistoryItems"
    ]
    assert [item["HistorySummary"] for item in history] == [
        "Alarm updated from ALARM to OK",
        "Alarm updated from OK to ALARM",
        "Alarm updated from INSUFFICIENT_DATA to OK",
    ]


def test_any_message_in_a_dead_letter_queue(world: MonitoringWorld, cw: Any) -> None:
    sqs = world.client("sqs")
    alerts = sqs.create_queue(QueueName="alerts")["QueueUrl"]
    arn = "arn:aws:sqs:eu-west-1:000000000000:alerts"
    cw.put_metric_alarm(
        AlarmName="dead-letters",
        AlarmDescription="Somebody has to look at them.",
        Namespace="AWS/SQS",
        MetricName=VISIBLE,
        Dimensions=[{"Name": "QueueName", "Value": "orders-dead"}],
        Statistic="Maximum",
        Period=60,
        EvaluationPeriods=1,
        Threshold=0,
        ComparisonOperator="GreaterThanThreshold",
        TreatMissingData="notBreaching",
        AlarmActions=[arn],
        OKActions=[arn],
    )
    world.minutes()
    assert state(cw, "dead-letters") == "OK", "a queue that nobody uses has no values"
    (first,) = sqs.receive_message(QueueUrl=alerts)["Messages"]
    assert json.loads(first["Body"])["OldStateValue"] == "INSUFFICIENT_DATA"
    sqs.delete_message(QueueUrl=alerts, ReceiptHandle=first["ReceiptHandle"])

    world.queue_values.add(name_of("orders-dead"), VISIBLE, 1, world.clock.wall_ms())
    world.minutes()
    assert state(cw, "dead-letters") == "ALARM"
    (message,) = sqs.receive_message(QueueUrl=alerts, AttributeNames=["All"])["Messages"]
    body = json.loads(message["Body"])
    assert (body["AlarmName"], body["NewStateValue"], body["OldStateValue"]) == (
        "dead-letters",
        "ALARM",
        "OK",
    )
    assert body["AlarmDescription"] == "Somebody has to look at them."
    assert body["Region"] == "EU (Ireland)"
    assert body["Trigger"] == {
        "MetricName": VISIBLE, "Namespace": "AWS/SQS", "StatisticType": "Statistic", "Statistic": "MAXIMUM",
        "Unit": None, "Dimensions": [{"value": "orders-dead", "name": "QueueName"}], "Period": 60,
        "EvaluationPeriods": 1, "ComparisonOperator": "GreaterThanThreshold", "Threshold": 0.0,
        "TreatMissingData": "notBreaching", "EvaluateLowSampleCountPercentile": "",
    }  # fmt: skip
    assert body["NewStateReason"].startswith("Threshold Crossed: 1 datapoint [1.0 (")
    assert message["Attributes"]["SenderId"] == "cloudwatch.amazonaws.com"
    (done, *_) = cw.describe_alarm_history(HistoryItemType="Action")["AlarmHistoryItems"]
    assert done["HistorySummary"] == f"Successfully executed action {arn}"
    # Nothing more is sent while the state stays as it is.
    world.advance(30 * MINUTE)
    assert state(cw, "dead-letters") == "OK"
