"""The heaviest request that each action takes: as large, as long and as much as its limits allow.

A function of a row gets the names of what the server holds (:class:`Held`) and returns the request. Rows are by
service and action. ``test_stalls.py`` sends them all, and requires a row for each action.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import cycle
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from penstock.metrics.queue_rows import QUEUE_METRICS
from penstock.wire import cbor
from support.http_requests import form_parameters

ACCOUNT, REGION = "000000000000", "us-east-1"
QUEUES = 500
SMALL_MESSAGES = 2000
MINUTES = 10 * 24 * 60  # of the metric with most values
METRICS, ALARMS, DASHBOARDS = 3000, 300, 100
COMPOSITES = 200  # all above the first alarm
STATES = cycle(("ALARM", "OK"))  # of the first alarm: each request is a change
MIB = 1024 * 1024
EXPRESSION = "+".join(["m0"] * 249)  # as many parts as one may have
POLICY = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"AWS": [f"{number:012d}" for number in range(5)]},
                "Action": "SQS:SendMessage",
                "Resource": "*",
                "Condition": {"StringLike": {"aws:PrincipalTag/x": [f"*{number}*" for number in range(20)]}},
            }
        ]
        * 10,
    }
)


class Held(msgspec.Struct):
    """What requests can name. ``now_s``: the present time, in whole minutes."""

    now_s: int
    handles: list[str] = []  # of received messages, each for one request
    message_ids: list[str] = []
    dead_letter_id: str = ""  # a message that a request has moved to the dead-letter queue
    move_task: str = ""
    task: str = ""


Request = tuple[str, str, dict[str, str], bytes]
"""Method, target, headers, body."""

Rows = dict[str, list[Callable[[Held], Request]]]
"""What makes the requests of each action."""


def sqs(action: str, **members: Any) -> Request:
    return "POST", "/", {**_JSON, "X-Amz-Target": f"AmazonSQS.{action}"}, json.dumps(members).encode()


def cloudwatch(action: str, **members: Any) -> Request:
    target = f"GraniteServiceVersion20100801.{action}"
    return "POST", "/", {**_JSON, "X-Amz-Target": target}, json.dumps(members).encode()


def cloudwatch_cbor(action: str, **members: Any) -> Request:
    target = f"/service/GraniteServiceVersion20100801/operation/{action}"
    headers = {"Content-Type": "application/cbor", "Smithy-Protocol": "rpc-v2-cbor"}
    return "POST", target, headers, cbor.encode(members)


def cloudwatch_form(action: str, **members: Any) -> Request:
    given = [(name, _as_text(name, value)) for name, value in form_parameters(members)]
    form = [("Action", action), ("Version", "2010-08-01"), *given]
    return "POST", "/", _FORM, urlencode(form).encode()


def _as_text(name: str, value: Any) -> Any:
    is_time = name.endswith(("Time", "Timestamp"))
    return datetime.fromtimestamp(value, UTC).isoformat() if is_time else value


def zipped(request: Request) -> Request:
    method, target, headers, body = request
    return method, target, {**headers, "Content-Encoding": "gzip"}, gzip.compress(body, 1)


def sts(action: str, **members: str) -> Request:
    form = {"Action": action, "Version": "2011-06-15", **members}
    return "POST", "/", _FORM, urlencode(form).encode()


def admin(method: str, path: str, body: Any = None, /, **parameters: Any) -> Request:
    target = f"/admin/v1{path}"
    if parameters:
        target += "?" + urlencode(parameters, doseq=True)
    return (
        method,
        target,
        {"Content-Type": "application/json"},
        b"" if body is None else json.dumps(body).encode(),
    )


_JSON = {"Content-Type": "application/x-amz-json-1.0"}
_FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def url(queue: str) -> str:
    return f"http://127.0.0.1/{ACCOUNT}/{queue}"


def arn(queue: str) -> str:
    return f"arn:aws:sqs:{REGION}:{ACCOUNT}:{queue}"


def queue_name(number: int) -> str:
    return f"q{number:04d}"


def alarm_name(number: int) -> str:
    return f"alarm-{number:04d}"


def dashboard_name(number: int) -> str:
    return f"dashboard-{number:03d}"


def attributes(text: str) -> dict[str, Any]:
    return {f"attribute{number}": {"DataType": "String", "StringValue": text} for number in range(10)}


def tags(count: int = 50) -> list[dict[str, str]]:
    return [{"Key": f"{number:03d}{'k' * 120}", "Value": "v" * 250} for number in range(count)]


def dimensions() -> list[dict[str, str]]:
    return [{"Name": f"name{number:02d}", "Value": "v" * 500} for number in range(30)]


Ask = Callable[..., Request]
"""Writes a request of CloudWatch in one protocol: (action, its members)."""


def metric_data(held: Held, ask: Ask = cloudwatch, **members: Any) -> Request:
    """A thousand metrics at random times of two weeks, with as many values as a request may have."""
    data = [
        {
            "MetricName": f"new{number:04d}",
            "Values": [float(number + each) for each in range(45)],
            "Counts": [1.0] * 45,
            "Timestamp": held.now_s - number * 1000,
            "StorageResolution": 1,
        }
        for number in range(1000)
    ]
    return ask("PutMetricData", Namespace="new", MetricData=data, **members)


def one_metric_data(held: Held) -> Request:
    """A thousand values of one metric, each in another part of its series."""
    data = [
        {
            "MetricName": "spread",
            "Value": 1.0,
            "Timestamp": held.now_s - number * 1200,
            "StorageResolution": 1,
        }
        for number in range(1000)
    ]
    return cloudwatch("PutMetricData", Namespace="new", MetricData=data)


def metric_stat(number: int, statistic: str, period_s: int = 60) -> dict[str, Any]:
    metric = {"Namespace": "held", "MetricName": f"metric{number:04d}", "Dimensions": []}
    return {"Id": f"m{number}", "MetricStat": {"Metric": metric, "Period": period_s, "Stat": statistic}}


def get_metric_data(
    held: Held, queries: list[dict[str, Any]], days: float = 10, ask: Ask = cloudwatch, **members: Any
) -> Request:
    begin_s = held.now_s - days * 86400
    return ask("GetMetricData", StartTime=begin_s, EndTime=held.now_s, MetricDataQueries=queries, **members)


def many_dimensions(held: Held, ask: Ask = cloudwatch, **members: Any) -> Request:
    """As many queries as a request may have, with as many members as all of them may have together."""
    queries = [metric_stat(number, "Sum", 3600) for number in range(500)]
    for query in queries:
        query["MetricStat"]["Metric"]["Dimensions"] = [
            {"Name": f"n{number}", "Value": "v" * 20}
            for number in range(16 if ask is not cloudwatch_cbor else 8)
        ]
    return get_metric_data(held, queries, 1, ask, **members)


def one_long_list(ask: Ask) -> Request:
    """A metric with as many values as a request may have members, which is refused."""
    values = [1] * 99_900
    return ask("PutMetricData", Namespace="new", MetricData=[{"MetricName": "long", "Values": values}])


def unknown_members(ask: Ask) -> Request:
    """What no field knows, in lists and maps of every depth."""
    unknown: list[Any] = [[{"a": 1, "b": []}] * 8000] * 3
    return ask("PutMetricData", Namespace="new", MetricData=[{"Unknown": unknown}])


def expressions(held: Held, text: str, count: int = 30) -> Request:
    queries = [{"Id": f"e{number}", "Expression": text, "Period": 60} for number in range(count)]
    return get_metric_data(held, queries)


def alarm_queries() -> list[dict[str, Any]]:
    computed = [
        {"Id": f"e{number}", "Expression": EXPRESSION, "ReturnData": number == 0, "Period": 60}
        for number in range(90)
    ]
    return [metric_stat(0, "Sum") | {"ReturnData": False}, *computed]


def message(held: Held) -> str:
    return f"/queues/big/messages/{held.message_ids.pop()}"


DIGITS = b"".join(b"%d" % (number * 7919) for number in range(500_000))  # nearly 4 MiB, compressed by half


def dead_letter(held: Held) -> Request:
    held.dead_letter_id = held.message_ids[-1]
    return admin("POST", f"{message(held)}/dead-letter", {})


REGEX = "(a|b|ab)*(a|b|ab)*c{1,50}[a-z]+x"
ALL_METRICS = ",".join(QUEUE_METRICS)


def crowded_dashboards() -> list[str]:
    """Returns dashboards with as many members as fit: beside the widgets, in one widget, in each of them, and widgets
    themselves."""
    empty = ",".join(["[]"] * 340_000)

    def widget(metrics: str) -> str:
        return f'{{"type":"metric","properties":{{"metrics":[{metrics}]}}}}'

    return [
        f'{{"widgets":[],"other":[{empty}]}}',
        f'{{"widgets":[{widget(empty)}]}}',
        f'{{"widgets":[{",".join([widget(",".join("1" * 1000))] * 490)}]}}',
        f'{{"widgets":[{empty}]}}',
    ]


def composite_rule() -> str:
    """Returns the longest rule. It names one alarm, and holds while that is in ALARM."""
    return " OR ".join(["INSUFFICIENT_DATA(alarm-0000)"] * 300 + ["ALARM(alarm-0000)"])


SQS_REQUESTS: Rows = {
    "AddPermission": [
        lambda held: sqs("AddPermission", QueueUrl=url("q0001"), Label="l" * 80,
                         AWSAccountIds=[f"{number:012d}" for number in range(50)],
                         Actions=["SendMessage", "ReceiveMessage", "DeleteMessage", "GetQueueUrl", "PurgeQueue"]),
    ],
    "CancelMessageMoveTask": [lambda held: sqs("CancelMessageMoveTask", TaskHandle=held.move_task)],
    "ChangeMessageVisibility": [
        lambda held: sqs("ChangeMessageVisibility", QueueUrl=url("big"), ReceiptHandle=held.handles.pop(),
                         VisibilityTimeout=43000),
    ],
    "ChangeMessageVisibilityBatch": [
        lambda held: sqs("ChangeMessageVisibilityBatch", QueueUrl=url("big"), Entries=[
            {"Id": str(number), "ReceiptHandle": held.handles.pop(), "VisibilityTimeout": 43000}
            for number in range(10)
        ]),
    ],
    "CreateQueue": [
        lambda held: sqs("CreateQueue", QueueName="n" * 80, Attributes={"Policy": POLICY},
                         tags={f"{number}{'k' * 100}": "v" * 250 for number in range(50)}),
    ],
    "DeleteMessage": [
        lambda held: sqs("DeleteMessage", QueueUrl=url("big"), ReceiptHandle=held.handles.pop()),
    ],
    "DeleteMessageBatch": [
        lambda held: sqs("DeleteMessageBatch", QueueUrl=url("big"), Entries=[
            {"Id": str(number), "ReceiptHandle": held.handles.pop()} for number in range(10)
        ]),
    ],
    "DeleteQueue": [lambda held: sqs("DeleteQueue", QueueUrl=url("deleted"))],
    "GetQueueAttributes": [
        lambda held: sqs("GetQueueAttributes", QueueUrl=url("big"), AttributeNames=["All"] * 20),
    ],
    "GetQueueUrl": [lambda held: sqs("GetQueueUrl", QueueName="big", QueueOwnerAWSAccountId=ACCOUNT)],
    "ListDeadLetterSourceQueues": [
        lambda held: sqs("ListDeadLetterSourceQueues", QueueUrl=url("dead"), MaxResults=1000),
    ],
    "ListMessageMoveTasks": [lambda held: sqs("ListMessageMoveTasks", SourceArn=arn("dead"), MaxResults=10)],
    "ListQueueTags": [lambda held: sqs("ListQueueTags", QueueUrl=url("q0000"))],
    "ListQueues": [lambda held: sqs("ListQueues", QueueNamePrefix="q", MaxResults=1000)],
    "PurgeQueue": [lambda held: sqs("PurgeQueue", QueueUrl=url("purged"))],
    "ReceiveMessage": [
        lambda held: sqs("ReceiveMessage", QueueUrl=url("fat"), MaxNumberOfMessages=10, AttributeNames=["All"],
                         MessageAttributeNames=["All"]),
        lambda held: sqs("ReceiveMessage", QueueUrl=url("attributes"), MaxNumberOfMessages=10,
                         MessageSystemAttributeNames=["All"], MessageAttributeNames=["All"]),
    ],
    "RemovePermission": [lambda held: sqs("RemovePermission", QueueUrl=url("q0001"), Label="l" * 80)],
    "SendMessage": [
        lambda held: sqs("SendMessage", QueueUrl=url("sent"), MessageBody="é" * (MIB // 2)),
        lambda held: sqs("SendMessage", QueueUrl=url("sent"), MessageBody='"\n' * (MIB // 2)),
        lambda held: sqs("SendMessage", QueueUrl=url("sent"), MessageBody="b",
                         MessageAttributes=attributes("v" * 100_000)),
    ],
    "SendMessageBatch": [
        lambda held: sqs("SendMessageBatch", QueueUrl=url("sent"), Entries=[
            {"Id": str(number), "MessageBody": "b" * 50_000, "MessageAttributes": attributes("v" * 5000)}
            for number in range(10)
        ]),
    ],
    "SetQueueAttributes": [
        lambda held: sqs("SetQueueAttributes", QueueUrl=url("q0002"), Attributes={"Policy": POLICY}),
    ],
    "StartMessageMoveTask": [lambda held: sqs("StartMessageMoveTask", SourceArn=arn("dead"))],
    "TagQueue": [
        lambda held: sqs("TagQueue", QueueUrl=url("q0003"),
                         Tags={f"{number:02d}{'k' * 120}": "v" * 250 for number in range(50)}),
    ],
    "UntagQueue": [
        lambda held: sqs("UntagQueue", QueueUrl=url("q0003"),
                         TagKeys=[f"{number:02d}{'k' * 120}" for number in range(50)]),
    ],
}  # fmt: skip

CLOUDWATCH_REQUESTS: Rows = {
    "PutMetricData": [
        metric_data,
        one_metric_data,
        lambda held: metric_data(held, cloudwatch_form),
        lambda held: metric_data(held, cloudwatch_cbor, StrictEntityValidation="x"),
    ],
    "ListMetrics": [
        lambda held: cloudwatch("ListMetrics"),
        lambda held: cloudwatch("ListMetrics", Namespace="held", Dimensions=[{"Name": "absent"}] * 30),
    ],
    "GetMetricStatistics": [
        lambda held: cloudwatch("GetMetricStatistics", Namespace="held", MetricName="metric0000", Period=840,
                                StartTime=held.now_s - 14 * 86400, EndTime=held.now_s,
                                Statistics=["Sum", "Average", "Minimum", "Maximum", "SampleCount"],
                                ExtendedStatistics=["p99", "p50", "tm90", "wm90", "tc90", "ts90", "p1", "p2", "p3"]),
    ],
    "GetMetricData": [
        lambda held: expressions(held, "YEAR(TIME_SERIES(1))"),
        lambda held: expressions(held, "FILL(TIME_SERIES(1), 0)"),
        lambda held: expressions(held, "TIME_SERIES(STDDEV(TIME_SERIES(1)))", 20),
        lambda held: expressions(held, "SUM([TIME_SERIES(1), TIME_SERIES(2), TIME_SERIES(3)])", 8),
        lambda held: expressions(held, "TIME_SERIES(1) + TIME_SERIES(2) + TIME_SERIES(3)", 30),
        lambda held: get_metric_data(held, [metric_stat(number, "p90") for number in range(40)]),
        lambda held: get_metric_data(held, [metric_stat(number, "Sum", 3600) for number in range(500)]),
        lambda held: get_metric_data(held, [
            metric_stat(0, "Sum", 86400),
            *({"Id": f"e{number}", "Expression": EXPRESSION} for number in range(150)),
        ]),
        lambda held: get_metric_data(held, [
            metric_stat(0, "Sum") | {"Label": "${MAX}${MIN_TIME}${AVG}" * 40},
            {"Id": "s", "Expression": "SUM(SEARCH('metric', 'Sum', 3600))"},
            {"Id": "r", "Expression": "SORT(SEARCH('{held} metric', 'Sum', 3600), MAX, DESC, 10)"},
        ]),
        lambda held: many_dimensions(held),
        lambda held: many_dimensions(held, cloudwatch_cbor),
    ],
    "PutMetricAlarm": [
        lambda held: cloudwatch("PutMetricAlarm", AlarmName="computed", Metrics=alarm_queries(), EvaluationPeriods=1,
                                Threshold=1.0, ComparisonOperator="GreaterThanThreshold"),
    ],
    "PutCompositeAlarm": [
        lambda held: cloudwatch("PutCompositeAlarm", AlarmName="composite", Tags=tags(), AlarmRule=" OR ".join(
            f"ALARM({alarm_name(number)})" for number in range(100)
        )),
    ],
    "DescribeAlarms": [
        lambda held: cloudwatch("DescribeAlarms", MaxRecords=100, ActionPrefix="arn:absent"),
        lambda held: cloudwatch("DescribeAlarms", AlarmNames=[alarm_name(number) for number in range(100)]),
    ],
    "DescribeAlarmsForMetric": [
        lambda held: cloudwatch("DescribeAlarmsForMetric", MetricName="metric0000", Namespace="held"),
    ],
    "DescribeAlarmHistory": [lambda held: cloudwatch("DescribeAlarmHistory", MaxRecords=100)],
    "SetAlarmState": [
        lambda held: cloudwatch("SetAlarmState", AlarmName=alarm_name(1), StateValue="ALARM", StateReason="r" * 1023,
                                StateReasonData=json.dumps({"data": "d" * 3900})),
        lambda held: cloudwatch("SetAlarmState", AlarmName=alarm_name(0), StateValue=next(STATES),
                                StateReason="r" * 1023),
    ],
    "DeleteAlarms": [
        lambda held: cloudwatch("DeleteAlarms", AlarmNames=[alarm_name(number) for number in range(200, 300)]),
    ],
    "EnableAlarmActions": [
        lambda held: cloudwatch("EnableAlarmActions", AlarmNames=[alarm_name(number) for number in range(100)]),
    ],
    "DisableAlarmActions": [
        lambda held: cloudwatch("DisableAlarmActions", AlarmNames=[alarm_name(number) for number in range(100)]),
    ],
    "PutDashboard": [
        lambda held: cloudwatch("PutDashboard", DashboardName="d" * 255, DashboardBody=dashboard_body(500, 1500)),
        *(lambda held, body=body: cloudwatch("PutDashboard", DashboardName="d", DashboardBody=body)
          for body in crowded_dashboards()),
    ],
    "GetDashboard": [lambda held: cloudwatch("GetDashboard", DashboardName=dashboard_name(0))],
    "ListDashboards": [lambda held: cloudwatch("ListDashboards", DashboardNamePrefix="d")],
    "DeleteDashboards": [
        lambda held: cloudwatch("DeleteDashboards", DashboardNames=[dashboard_name(n) for n in range(1, 99)]),
    ],
    "TagResource": [lambda held: cloudwatch("TagResource", ResourceARN=alarm_arn(2), Tags=tags())],
    "UntagResource": [
        lambda held: cloudwatch("UntagResource", ResourceARN=alarm_arn(2), TagKeys=[tag["Key"] for tag in tags()]),
    ],
    "ListTagsForResource": [lambda held: cloudwatch("ListTagsForResource", ResourceARN=alarm_arn(3))],
}  # fmt: skip

LONG_REQUESTS: Rows = {
    "PutMetricData": [
        lambda held: metric_data(held, cloudwatch_cbor),
        lambda held: zipped(metric_data(held, cloudwatch_form)),
        # The others are refused, after more or less of them was decoded.
        lambda held: metric_data(held, cloudwatch, StrictEntityValidation="x"),
        lambda held: metric_data(held, cloudwatch_form, StrictEntityValidation="x"),
        lambda held: one_long_list(cloudwatch),
        lambda held: one_long_list(cloudwatch_form),
        lambda held: one_long_list(cloudwatch_cbor),
        lambda held: unknown_members(cloudwatch),
        lambda held: unknown_members(cloudwatch_cbor),
        lambda held: ("POST", "/", _FORM, b"Action=PutMetricData" + b"&a" * 99_999),
        lambda held: ("POST", "/", _FORM, b"Action=PutMetricData" + b"".join(b"&a%d" % at for at in range(99_999))),
        lambda held: zipped(("POST", "/", _FORM, DIGITS)),
    ],
    "GetMetricData": [
        lambda held: get_metric_data(held, [
            metric_stat(0, "Sum", 86400),  # which has no values
            *({"Id": f"e{number}", "Expression": EXPRESSION} for number in range(150)),
        ]),
        lambda held: many_dimensions(held, cloudwatch_form),
        lambda held: many_dimensions(held, cloudwatch, LabelOptions=1),
        lambda held: many_dimensions(held, cloudwatch_cbor, LabelOptions=1),
    ],
    "PutMetricAlarm": [
        lambda held: cloudwatch_form("PutMetricAlarm", AlarmName="a", OKActions=["o"] * 1900, EvaluationPeriods=1),
        lambda held: cloudwatch_cbor("PutMetricAlarm", AlarmName="a", OKActions=["o"] * 1900, EvaluationPeriods=1),
    ],
}  # fmt: skip
"""More of the actions that take long requests, in each protocol."""

STS_REQUESTS: Rows = {
    "AssumeRole": [
        lambda held: sts("AssumeRole", RoleArn=f"arn:aws:iam::{ACCOUNT}:role/r", RoleSessionName="s" * 64,
                         Policy=json.dumps({"Version": "2012-10-17", "Statement": [
                             {"Effect": "Allow", "Action": "sqs:*", "Resource": "*"} for _ in range(25)]})),
    ],
    "GetCallerIdentity": [lambda held: sts("GetCallerIdentity")],
    "GetSessionToken": [lambda held: sts("GetSessionToken", DurationSeconds="3600")],
}  # fmt: skip

ADMIN_REQUESTS: Rows = {
    "ListQueues": [lambda held: admin("GET", "/queues", limit=1000, sort="visible", contains="q")],
    "GetQueue": [lambda held: admin("GET", "/queues/big")],
    "GetQueueMetrics": [
        lambda held: admin("GET", "/queues/big/metrics", metrics=ALL_METRICS, statistics="p99,Sum", start="-10000",
                           period_s=1),
        lambda held: admin("GET", "/queues/big/metrics", metrics=ALL_METRICS, start="-600000", period_s=60),
    ],
    "GetScaling": [lambda held: admin("GET", "/queues/big/scaling", latency_s=1)],
    "ListQueueMetrics": [lambda held: admin("GET", "/metrics", metrics=ALL_METRICS, limit=200, prefix="q")],
    "ListMessages": [
        lambda held: admin("GET", "/queues/big/messages", limit=1000),
        lambda held: admin("GET", "/queues/big/messages", limit=1000, regex=REGEX, body="b", json="$.a > 1"),
        lambda held: admin("GET", "/queues/fat/messages", limit=1000, body_bytes=4 * MIB, regex="[a-z]+$"),
    ],
    "GetMessage": [lambda held: admin("GET", f"/queues/big/messages/{held.message_ids[0]}")],
    "GetMessageHistory": [lambda held: admin("GET", f"/queues/big/messages/{held.message_ids[0]}/history")],
    "EditMessage": [lambda held: admin("PATCH", message(held), {"body": "é" * (MIB // 4)})],
    "ReorderMessage": [lambda held: admin("POST", f"{message(held)}/reorder", {"to": "front"})],
    "ReleaseMessage": [lambda held: admin("POST", f"{message(held)}/release", {})],
    "ResetMessage": [lambda held: admin("POST", f"{message(held)}/reset", {})],
    "DeadLetterMessage": [dead_letter],
    "RedriveMessage": [
        lambda held: admin("POST", f"/queues/dead/messages/{held.dead_letter_id}/redrive", {}),
    ],
    "MoveMessage": [lambda held: admin("POST", f"{message(held)}/move", {"to": "q0004"})],
    "DeleteMessage": [lambda held: admin("DELETE", message(held))],
    "ReportFailure": [
        lambda held: admin("POST", f"{message(held)}/failures", {"reason": "r" * 500, "detail": "d" * 5000}),
    ],
    "StartTask": [
        lambda held: admin("POST", "/queues/big/tasks",
                           {"operation": "delete", "filter": {"regex": REGEX}, "dry_run": True}),
    ],
    "ListTasks": [lambda held: admin("GET", "/tasks")],
    "GetTask": [lambda held: admin("GET", f"/queues/q0006/tasks/{quote(held.task)}")],
    "CancelTask": [lambda held: admin("DELETE", f"/queues/q0006/tasks/{quote(held.task)}")],
    "ListTopics": [lambda held: admin("GET", "/topics", limit=1000, contains="t")],
    "ListWaitingDeliveries": [lambda held: admin("GET", "/topics/deliveries", limit=1000)],
    "ListFailingSubscriptions": [lambda held: admin("GET", "/topics/failing", limit=1000)],
    "ListRecentMessages": [lambda held: admin("GET", "/topics/recent", topic="crowded")],
    "TestFilterPolicy": [
        lambda held: admin("POST", "/topics/test-filter", {
            "policy": json.dumps({"a": [{"prefix": f"x{number}"} for number in range(150)]}),
            "scope": "MessageBody", "body": json.dumps({"a": [1] * 10_000}),
        }),
        lambda held: admin("POST", "/topics/test-filter", {
            "policy": json.dumps({"a": {"b": [2], "c": {"d": [3]}}}),
            "scope": "MessageBody", "body": json.dumps({"a": [{"b": 1, "c": {"d": 2}}] * 8_500}),
        }),
    ],
    "ListOutbox": [lambda held: admin("GET", "/outbox", limit=1000)],
    "DeleteOutboxEntry": [lambda held: admin("DELETE", "/outbox/0")],
    "ClearOutbox": [lambda held: admin("DELETE", "/outbox")],
    "GetStatus": [lambda held: admin("GET", "/status")],
    "ListInternalQueues": [lambda held: admin("GET", "/internal-queues", limit=1000)],
    "GetMetrics": [lambda held: ("GET", "/metrics", {}, b"")],
    "ListAuditEvents": [lambda held: admin("GET", "/audit", limit=1000)],
    "ListPermissions": [lambda held: admin("GET", "/permissions", queue="big")],
    "Reload": [lambda held: admin("POST", "/reload")],
    "Backup": [lambda held: admin("POST", "/backup", {"path": "backup.tar"})],
    "GetOpenApi": [lambda held: admin("GET", "/openapi.json")],
    # Those of the test clock, on a server that has one.
    "GetTestClock": [lambda held: admin("GET", "/test/clock")],
    "AdvanceTestClock": [lambda held: admin("POST", "/test/clock/advance", {"hours": 12})],
    "ChangeTestClock": [lambda held: admin("PATCH", "/test/clock", {"frozen": True})],
    "ResetTestClock": [lambda held: admin("POST", "/test/clock/reset")],
    "ClearServer": [lambda held: admin("POST", "/test/clear", {})],
}  # fmt: skip

REQUESTS = {
    "sqs": SQS_REQUESTS,
    "monitoring": CLOUDWATCH_REQUESTS,
    "sts": STS_REQUESTS,
    "penstock": ADMIN_REQUESTS,
}


def alarm_arn(number: int) -> str:
    return f"arn:aws:cloudwatch:{REGION}:{ACCOUNT}:alarm:{alarm_name(number)}"


def dashboard_body(widgets: int, text: int) -> str:
    widget = {"type": "text", "x": 0, "y": 0, "width": 6, "height": 6, "properties": {"markdown": "m" * text}}
    return json.dumps({"widgets": [widget] * widgets})
