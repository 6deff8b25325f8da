"""A response whose lists are encoded in steps is the same as one that is written at once, in every protocol."""

from __future__ import annotations

from typing import Any

from penstock.services.admin.actions import ACTIONS as ADMIN
from penstock.services.admin.structs import MetricSeries, QueueMetricsResult
from penstock.services.cloudwatch.actions import ACTIONS as CLOUDWATCH
from penstock.services.cloudwatch.structs import (
    Datapoint,
    Dimension,
    GetMetricDataResult,
    GetMetricStatisticsResult,
    ListMetricsResult,
    MetricDataMessage,
    MetricDataResult,
    NamedMetric,
)
from penstock.turns import finished
from penstock.wire.cbor import CborProtocol
from penstock.wire.json import JsonProtocol
from penstock.wire.long_lists import encode_lists
from penstock.wire.query_response import QueryJsonWriter, QueryProtocol
from penstock.wire.rest_json import RestJsonProtocol
from penstock.wire.service import Action, ResponseWriter
from penstock.wire.shapes import struct_shape

WRITERS: list[ResponseWriter] = [
    JsonProtocol("n"),
    CborProtocol("n"),
    QueryProtocol("n"),
    QueryProtocol("n", is_indented=True),
    QueryJsonWriter(),
]


def responses() -> list[tuple[Action, list[ResponseWriter], Any]]:
    results = [
        MetricDataResult(
            Id=f"m{count}",
            Label="a < b",
            Timestamps=[1.7e9 + at for at in range(count)],
            Values=[at / 7 for at in range(count)],
            StatusCode="Complete",
            Messages=[MetricDataMessage(Code="c", Value=str(at)) for at in range(count % 4)] or None,
        )
        for count in (0, 1, 200, 201, 1000)
    ]
    datapoints = [
        Datapoint(Timestamp=1.7e9, Unit="None", Sum=1.0, ExtendedStatistics={"p99": 2.0}) for _ in range(50)
    ]
    metrics = [
        NamedMetric(Namespace="n", MetricName=f"m{number}", Dimensions=[Dimension(Name="a", Value="é")] * 2)
        for number in range(3)
    ]
    series = MetricSeries(
        metric="sent", statistic="Sum", unit="Count", times=list(range(500)), values=[1.0] * 500
    )
    shown = QueueMetricsResult(queue="q", start=0, end=1, period_s=1, series=[series, series])
    return [
        (CLOUDWATCH["GetMetricData"], WRITERS, GetMetricDataResult(MetricDataResults=results, Messages=[])),
        (CLOUDWATCH["GetMetricData"], WRITERS, GetMetricDataResult(MetricDataResults=[], Messages=[])),
        (
            CLOUDWATCH["GetMetricStatistics"],
            WRITERS,
            GetMetricStatisticsResult(Label="m", Datapoints=datapoints),
        ),
        (CLOUDWATCH["ListMetrics"], WRITERS, ListMetricsResult(Metrics=metrics, OwningAccounts=["1"] * 300)),
        (ADMIN["GetQueueMetrics"], [RestJsonProtocol()], shown),
    ]


def test_lists_are_encoded_as_in_the_whole_response() -> None:
    for number, (action, writers, _) in enumerate(responses()):
        for writer in writers:
            at_once, in_steps = responses()[number][2], responses()[number][2]
            assert action.response is not None
            encoded = finished(encode_lists(writer, in_steps, struct_shape(action.response)))
            assert writer.success(action, encoded, "id") == writer.success(action, at_once, "id"), (
                action.name, type(writer).__name__,
            )  # fmt: skip
            assert in_steps == at_once, "the audit log counts its members"
