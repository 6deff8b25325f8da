"""CloudWatch in JSON 1.0, CBOR and the Query protocol: as botocore writes and reads each, and the bytes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from botocore.awsrequest import HeadersDict
from botocore.loaders import Loader
from botocore.model import ServiceModel
from botocore.parsers import create_parser
from botocore.serialize import create_serializer

from monitoring.alarms import arn, put_alarm
from monitoring.world import MonitoringWorld
from penstock.wire.cbor import decode, encode
from penstock.wire.service import Response
from support.http_requests import FORM, PlainRequest, json_request

TARGET = "GraniteServiceVersion20100801"
_MODEL = Loader().load_service_model("cloudwatch", "service-2")
PROTOCOLS = ("json", "smithy-rpc-v2-cbor", "query")


class Client:
    """``client("PutMetricData", ...)`` gives what a client of one protocol would get."""

    def __init__(self, world: MonitoringWorld, protocol: str) -> None:
        self._world = world
        self._protocol = protocol
        metadata = {**_MODEL["metadata"], "protocol": protocol, "protocols": [protocol]}
        self._model = ServiceModel({**_MODEL, "metadata": metadata}, "cloudwatch")
        self.last: Response

    def __call__(self, action: str, **members: Any) -> dict[str, Any]:
        operation = self._model.operation_model(action)
        made = create_serializer(self._protocol, include_validation=False).serialize_to_request(
            members, operation
        )
        body = made["body"]
        if isinstance(body, dict):
            body = urlencode(body)
        headers = {name.lower().encode(): str(value).encode() for name, value in made["headers"].items()}
        content = body.encode() if isinstance(body, str) else bytes(body)
        self.last = self._world.answer(PlainRequest(b"POST", made["url_path"].encode(), headers, content))
        response = {
            "status_code": self.last.status,
            "headers": HeadersDict({name.decode(): value.decode() for name, value in self.last.headers}),
            "body": self.last.body,
        }
        return dict(create_parser(self._protocol).parse(response, operation.output_shape))


@pytest.fixture(params=PROTOCOLS)
def client(world: MonitoringWorld, request: pytest.FixtureRequest) -> Iterator[Client]:
    yield Client(world, request.param)


def test_a_metric_through_every_protocol(world: MonitoringWorld, client: Client) -> None:
    at = world.now.replace(microsecond=0)
    client(
        "PutMetricData", Namespace="App",
        MetricData=[
            {"MetricName": "m", "Timestamp": at, "Value": 1.5, "Dimensions": [{"Name": "a", "Value": "ü &"}]},
            {"MetricName": "n", "Values": [1.0, 2.0], "Counts": [1.0, 3.0], "Unit": "Bytes/Second"},
        ],
    )  # fmt: skip
    assert client.last.status == 200
    listed = client("ListMetrics", Namespace="App", MetricName="m")["Metrics"]
    assert listed == [{"Namespace": "App", "MetricName": "m", "Dimensions": [{"Name": "a", "Value": "ü &"}]}]
    times = {"StartTime": at - timedelta(minutes=5), "EndTime": at + timedelta(minutes=5)}
    found = client(
        "GetMetricStatistics", Namespace="App", MetricName="n", Period=60, Statistics=["Sum", "SampleCount"],
        ExtendedStatistics=["p100"], **times,
    )  # fmt: skip
    (point,) = found["Datapoints"]
    assert (point["Sum"], point["SampleCount"], point["Unit"]) == (7.0, 4.0, "Bytes/Second")
    assert point["ExtendedStatistics"] == {"p100": 2.0}
    assert point["Timestamp"] == at.replace(second=0)
    metric = {"Namespace": "App", "MetricName": "m", "Dimensions": [{"Name": "a", "Value": "ü &"}]}
    stat = {"Metric": metric, "Period": 60, "Stat": "Sum"}
    data = client("GetMetricData", MetricDataQueries=[{"Id": "q", "MetricStat": stat}], **times)
    (result,) = data["MetricDataResults"]
    assert (result["Values"], result["Timestamps"]) == ([1.5], [at.replace(second=0)])
    assert data["Messages"] == []


def test_an_alarm_through_every_protocol(client: Client) -> None:
    client(
        "PutMetricAlarm", AlarmName="a b", Namespace="App", MetricName="m", Statistic="Sum", Period=60,
        EvaluationPeriods=2, Threshold=1.5, ComparisonOperator="LessThanThreshold", ActionsEnabled=False,
        AlarmActions=[arn("t", "sns")], Tags=[{"Key": "k", "Value": "v"}],
    )  # fmt: skip
    (alarm,) = client("DescribeAlarms", AlarmNames=["a b"])["MetricAlarms"]
    assert (alarm["Threshold"], alarm["ActionsEnabled"], alarm["EvaluationPeriods"]) == (1.5, False, 2)
    assert alarm["AlarmActions"] == [arn("t", "sns")]
    assert isinstance(alarm["StateUpdatedTimestamp"], datetime)
    empty = client("DescribeAlarms", AlarmNames=["none"])
    assert (empty["MetricAlarms"], empty["CompositeAlarms"]) == ([], [])
    assert client("ListTagsForResource", ResourceARN=arn("a b"))["Tags"] == [{"Key": "k", "Value": "v"}]
    client("SetAlarmState", AlarmName="a b", StateValue="ALARM", StateReason="x")
    history = client("DescribeAlarmHistory", AlarmName="a b", HistoryItemType="StateUpdate")[
        "AlarmHistoryItems"
    ]
    assert [item["HistorySummary"] for item in history] == ["Alarm updated from INSUFFICIENT_DATA to ALARM"]
    client("DeleteAlarms", AlarmNames=["a b"])
    assert client.last.status == 200


@pytest.mark.parametrize(
    ("action", "members", "code"),
    [
        ("SetAlarmState", {"AlarmName": "none", "StateValue": "OK", "StateReason": ""}, "ResourceNotFound"),
        ("GetDashboard", {"DashboardName": "none"}, "ResourceNotFound"),
        ("SetAlarmState", {"AlarmName": "none", "StateValue": "X", "StateReason": ""}, "ValidationError"),
        ("PutMetricData", {"Namespace": ":"}, "InvalidParameterValue"),
        ("PutDashboard", {"DashboardName": "d", "DashboardBody": "x"}, "InvalidParameterInput"),
    ],
)
def test_an_error_has_the_same_code_in_every_protocol(
    client: Client, action: str, members: dict[str, Any], code: str
) -> None:
    assert client(action, **members)["Error"]["Code"] == code


def test_an_action_that_is_not_here_says_so_in_every_protocol(client: Client) -> None:
    error = client("GetMetricWidgetImage", MetricWidget="{}")["Error"]
    assert (
        error["Message"] == "The action GetMetricWidgetImage of monitoring is not supported by this server."
    )


# -- the bytes -----------------------------------------------------------------------------------------------


def headers(response: Response) -> dict[bytes, bytes]:
    return dict(response.headers)


def cbor_request(action: str, **members: Any) -> PlainRequest:
    path = f"/service/{TARGET}/operation/{action}".encode()
    return PlainRequest(b"POST", path, {b"smithy-protocol": b"rpc-v2-cbor"}, encode(members))


def query_request(action: str, **members: str) -> PlainRequest:
    form = urlencode({"Action": action, "Version": "2010-08-01", **members})
    return PlainRequest(headers={b"content-type": FORM}, body=form.encode())


MISSING = {"AlarmName": "none", "StateValue": "OK", "StateReason": ""}
SHAPES = "com.amazonaws.cloudwatch.v2010_08_01"


def test_json(world: MonitoringWorld, cw: Any) -> None:
    response = world.answer(json_request(f"{TARGET}.DescribeAlarms", b"{}"))
    assert headers(response)[b"Content-Type"] == b"application/x-amz-json-1.0"
    assert json.loads(response.body) == {"MetricAlarms": [], "CompositeAlarms": []}
    put_alarm(cw)
    (alarm,) = json.loads(world.answer(json_request(f"{TARGET}.DescribeAlarms", b"{}")).body)["MetricAlarms"]
    assert isinstance(alarm["StateUpdatedTimestamp"], float)
    void = world.answer(json_request(f"{TARGET}.EnableAlarmActions", b'{"AlarmNames":[]}'))
    assert (void.status, void.body) == (200, b"")
    wrong = json_request(f"{TARGET}.SetAlarmState", json.dumps(MISSING).encode())
    refused = world.answer(wrong)
    assert refused.status == 400
    assert json.loads(refused.body) == {"__type": f"{SHAPES}#ResourceNotFound"}
    assert headers(refused)[b"x-amzn-query-error"] == b"ResourceNotFound;Sender"
    wrong.headers[b"x-amzn-query-mode"] = b"true"
    assert world.answer(wrong).status == 404


def test_cbor(world: MonitoringWorld, cw: Any) -> None:
    put_alarm(cw)
    response = world.answer(cbor_request("DescribeAlarms"))
    sent = headers(response)
    assert (sent[b"Content-Type"], sent[b"smithy-protocol"]) == (b"application/cbor", b"rpc-v2-cbor")
    at = world.now.timestamp()
    # Tag 1 and a double of eight bytes.
    assert re.search(b"StateUpdatedTimestamp\xc1\xfb........", response.body, re.DOTALL)
    (alarm,) = decode(response.body)["MetricAlarms"]
    assert alarm["StateUpdatedTimestamp"] == pytest.approx(at)
    assert (alarm["OKActions"], alarm["Threshold"]) == ([], 1.0)
    assert b"Threshold\xfb" in response.body, "a number is a double, even if it is whole"
    assert response.body.startswith(b"\xbf\x6cMetricAlarms\x9f\xbf"), "maps and lists of indefinite length"
    assert response.body.endswith(b"\xff") and b"OKActions\x9f\xff" in response.body
    void = world.answer(cbor_request("EnableAlarmActions", AlarmNames=[]))
    assert (void.status, void.body, headers(void)[b"smithy-protocol"]) == (200, b"", b"rpc-v2-cbor")
    refused = world.answer(cbor_request("SetAlarmState", **MISSING))
    assert (refused.status, decode(refused.body)) == (400, {"__type": f"{SHAPES}#ResourceNotFound"})
    assert b"X-Amzn-ErrorType" not in headers(refused)
    wrong = world.answer(cbor_request("SetAlarmState", **{**MISSING, "StateValue": "X"}))
    assert decode(wrong.body)["__type"] == "com.amazon.coral.validate#ValidationException"
    assert headers(wrong)[b"x-amzn-query-error"] == b"ValidationError;Sender"


def test_query(world: MonitoringWorld, cw: Any) -> None:
    put_alarm(cw)
    response = world.answer(query_request("DescribeAlarms"))
    text = response.body.decode()
    assert headers(response)[b"Content-Type"] == b"text/xml"
    assert '<DescribeAlarmsResponse xmlns="http://monitoring.amazonaws.com/doc/2010-08-01/">' in text
    at = world.now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S")
    assert re.search(rf"<StateUpdatedTimestamp>{at}(\.\d\d\d)?Z</StateUpdatedTimestamp>", text)
    assert "<CompositeAlarms></CompositeAlarms>" in text or "<CompositeAlarms/>" in text
    void = world.answer(query_request("EnableAlarmActions", **{"AlarmNames.member.1": "a"})).body.decode()
    assert "Result" not in void and "<ResponseMetadata><RequestId>" in void
    refused = world.answer(query_request("SetAlarmState", **MISSING))
    assert refused.status == 404
    assert b"<Error><Type>Sender</Type><Code>ResourceNotFound</Code></Error>" in refused.body
    by_get = PlainRequest(b"GET", b"/?Action=DescribeAlarms&Version=2010-08-01", {})
    assert world.answer(by_get).status == 200


def test_a_query_has_as_many_parameters_as_a_thousand_data_need(world: MonitoringWorld) -> None:
    data: dict[str, str] = {}
    for number in range(1, 1001):
        name = f"MetricData.member.{number}"
        data |= {f"{name}.MetricName": f"m{number}", f"{name}.Value": "1", f"{name}.Unit": "Count"}
    assert world.answer(query_request("PutMetricData", Namespace="App", **data)).status == 200
    refused = world.answer(query_request("DescribeAlarms", **data))
    assert b"more than 500 parameters" in refused.body
