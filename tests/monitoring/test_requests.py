"""Every error that a request to CloudWatch can get, with its code, text and status."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from monitoring.alarms import arn, put_alarm
from monitoring.world import SPACE, MonitoringWorld
from penstock.promise import start
from penstock.services.cloudwatch.limits import UNITS
from penstock.wire.service import Call, Response
from support.http_requests import json_request
from support.rows import every_row
from support.texts import says

NOW_S = 1_700_000_000
VALIDATION = "ValidationError"
VALUE, COMBINATION, MISSING = "InvalidParameterValue", "InvalidParameterCombination", "MissingParameter"


class Requests:
    """Requests in JSON, which botocore would not send."""

    def __init__(self, world: MonitoringWorld) -> None:
        self.world = world

    def __call__(self, action: str, **members: Any) -> tuple[str, str, int]:
        """The code and the text of the error, and the status."""
        body = json.dumps(members).encode()
        request = json_request(f"GraniteServiceVersion20100801.{action}", body)
        request.headers[b"x-amzn-query-mode"] = b"true"
        response = self.world.answer(request)
        headers = dict(response.headers)
        code = headers.get(b"x-amzn-query-error", b"").decode().partition(";")[0]
        answer = json.loads(response.body) if response.body else {}
        return code, answer.get("message", ""), response.status


@pytest.fixture(scope="module")
def ask() -> Iterator[Requests]:
    with MonitoringWorld() as world:
        cw = world.client()
        put_alarm(cw, "a")
        cw.put_composite_alarm(AlarmName="c", AlarmRule="ALARM(a)")
        cw.put_dashboard(DashboardName="d", DashboardBody='{"widgets":[]}')
        yield Requests(world)


def datum(**members: Any) -> dict[str, Any]:
    return {"Namespace": "App", "MetricData": [{"MetricName": "m", "Value": 1, **members}]}


def stats(**members: Any) -> dict[str, Any]:
    return {
        "Namespace": "App", "MetricName": "m", "StartTime": NOW_S - 3600, "EndTime": NOW_S, "Period": 60,
        "Statistics": ["Sum"], **members,
    }  # fmt: skip


def stat(**members: Any) -> dict[str, Any]:
    return {"Metric": {"Namespace": "App", "MetricName": "m"}, "Period": 60, "Stat": "Sum", **members}


def data(*queries: dict[str, Any], **members: Any) -> dict[str, Any]:
    return {"MetricDataQueries": list(queries), "StartTime": NOW_S - 600, "EndTime": NOW_S, **members}


def query(id: str = "m1", **members: Any) -> dict[str, Any]:
    return {"Id": id, "MetricStat": stat(), **members}


def alarm(**members: Any) -> dict[str, Any]:
    made = {
        "AlarmName": "x", "Namespace": "App", "MetricName": "m", "Statistic": "Sum", "Period": 60,
        "EvaluationPeriods": 1, "Threshold": 1, "ComparisonOperator": "GreaterThanThreshold", **members,
    }  # fmt: skip
    return {key: value for key, value in made.items() if value is not None}


def math(*queries: dict[str, Any], **members: Any) -> dict[str, Any]:
    plain = dict.fromkeys(("Namespace", "MetricName", "Statistic", "Period"))
    return alarm(**plain, Metrics=list(queries), **members)


def one_error(value: object, path: str, constraint: str) -> str:
    shown = "null" if value is None else f"'{value}'"
    return (
        f"1 validation error detected: Value {shown} at '{path}' failed to satisfy constraint: {constraint}"
    )


NOT_NULL = "Member must not be null"
NAME = r"Member must satisfy regular expression pattern: [^\x00-\x1F\x7F\uFFFE\uFFFF]*"
AT_LEAST_1 = "Member must have length greater than or equal to 1"
E1 = {"Id": "e1", "Expression": "m1 * 2", "ReturnData": True}
HIDDEN: dict[str, Any] = {"ReturnData": False}

ROWS: list[tuple[str, dict[str, Any], str, str]] = [
    # PutMetricData
    ("PutMetricData", {}, MISSING, "The parameter Namespace is required."),
    ("PutMetricData", {"Namespace": "App"}, MISSING, "The parameter MetricData is required."),
    ("PutMetricData", {**datum(), "Namespace": ""}, VALIDATION, one_error("", "namespace", AT_LEAST_1)),
    ("PutMetricData", {**datum(), "Namespace": ":a"}, VALUE, "The value :a for parameter Namespace is invalid."),
    ("PutMetricData", {**datum(), "Namespace": "AWS/SQS"}, VALUE,
     "The value AWS/SQS for parameter Namespace is invalid."),
    ("PutMetricData", datum(Values=[1]), COMBINATION,
     "The parameters MetricData.member.1.Value and MetricData.member.1.Values are mutually exclusive and you have "
     "specified both."),
    ("PutMetricData", datum(StatisticValues={"SampleCount": 1, "Sum": 1, "Minimum": 1, "Maximum": 1}), COMBINATION,
     "The parameters MetricData.member.1.Value and MetricData.member.1.StatisticValues are mutually exclusive and "
     "you have specified both."),
    ("PutMetricData", {"Namespace": "A", "MetricData": [{"MetricName": "m", "Values": [1, 2], "Counts": [1]}]}, VALUE,
     "The parameters MetricData.member.1.Values and MetricData.member.1.Counts must be of the same size."),
    ("PutMetricData", {"Namespace": "A", "MetricData": [{"MetricName": "m", "Values": [1], "Counts": [0]}]}, VALUE,
     "The parameter MetricData.member.1.Counts.member.1 must be greater than 0."),
    ("PutMetricData", {"Namespace": "A", "MetricData": [{"MetricName": "m", "Values": []}]}, MISSING,
     "The parameter MetricData.member.1.Values is required."),
    ("PutMetricData", {"Namespace": "A", "MetricData": [{"MetricName": "m", "Values": [1] * 151}]}, VALUE,
     "The collection MetricData.member.1.Values must not have a size greater than 150."),
    ("PutMetricData", {"Namespace": "A", "MetricData": [{"MetricName": "m"}]}, MISSING,
     "The parameter MetricData.member.1.Value is required."),
    ("PutMetricData", {"Namespace": "A", "MetricData": [{"Value": 1}]}, MISSING,
     "The parameter MetricData.member.1.MetricName is required."),
    ("PutMetricData", datum(Timestamp=NOW_S - 15 * 86_400), VALUE,
     "The parameter MetricData.member.1.Timestamp must specify a time within the past two weeks."),
    ("PutMetricData", datum(Timestamp=NOW_S + 3 * 3600), VALUE,
     "The parameter MetricData.member.1.Timestamp must specify a time no more than two hours in the future."),
    ("PutMetricData", datum(Unit="Miles"), VALUE,
     f"The parameter MetricData.member.1.Unit must be a value in the set [ {', '.join(UNITS)} ]."),
    ("PutMetricData", datum(Value="NaN"), VALUE, "The value NaN for parameter MetricData.member.1.Value is invalid."),
    ("PutMetricData", datum(Value="-Infinity"), VALUE,
     "The value -Infinity for parameter MetricData.member.1.Value is invalid."),
    ("PutMetricData", datum(StorageResolution=30), VALUE,
     "The parameter MetricData.member.1.StorageResolution must be 1 or 60."),
    ("PutMetricData", datum(Dimensions=[{"Name": "a"}]), MISSING,
     "The parameter MetricData.member.1.Dimensions.member.1.Value is required."),
    ("PutMetricData", datum(Dimensions=[{"Name": "a", "Value": "1"}, {"Name": "a", "Value": "2"}]), VALUE,
     "No metric may specify the same dimension name twice."),
    ("PutMetricData", {"Namespace": "A", "MetricData": [datum()["MetricData"][0]] * 1001}, VALUE,
     "The collection MetricData must not have a size greater than 1000."),
    ("PutMetricData",
     {"Namespace": "A", "MetricData": [{"MetricName": "m", "StatisticValues": {"SampleCount": 1, "Sum": 1}}]},
     MISSING,
     "The parameter MetricData.member.1.StatisticValues.Minimum is required."),
    ("PutMetricData", {"Namespace": "A", "MetricData": [{"MetricName": "m", "StatisticValues": {
        "SampleCount": 1, "Sum": 1, "Minimum": 2, "Maximum": 1}}]}, VALUE,
     "The parameter MetricData.member.1.StatisticValues.Minimum must be less than or equal to "
     "MetricData.member.1.StatisticValues.Maximum."),
    ("PutMetricData", {"Namespace": "A", "EntityMetricData": [{"MetricData": [{"MetricName": "m"}]}]}, MISSING,
     "The parameter EntityMetricData.member.1.MetricData.member.1.Value is required."),
    # ListMetrics
    ("ListMetrics", {"NextToken": "x"}, VALUE, "Request parameter NextToken is invalid"),
    ("ListMetrics", {"RecentlyActive": "PT1H"}, VALIDATION,
     one_error("PT1H", "recentlyActive", "Member must satisfy enum value set: [PT3H]")),
    ("ListMetrics", {"Dimensions": [{"Value": "x"}]}, VALIDATION,
     one_error(None, "dimensions.1.member.name", NOT_NULL)),
    # GetMetricStatistics
    ("GetMetricStatistics", {}, VALIDATION, "5 validation errors detected: Value null at 'namespace'"),
    ("GetMetricStatistics", stats(StartTime=NOW_S - 86_400, Period=1), COMBINATION,
     "You have requested up to 86400 datapoints, which exceeds the limit of 1440. You may reduce the datapoints "
     "requested by increasing Period, or decreasing the time range."),
    ("GetMetricStatistics", stats(EndTime=NOW_S - 3600), VALUE,
     "The parameter StartTime must be less than the parameter EndTime."),
    ("GetMetricStatistics", stats(Statistics=None), COMBINATION,
     "Must specify either Statistics or ExtendedStatistics"),
    ("GetMetricStatistics", stats(Period=61), VALUE,
     "The parameter Period must be 1, 5, 10, 20, 30 or a multiple of 60."),
    ("GetMetricStatistics", stats(Period=0), VALIDATION,
     one_error(0, "period", "Member must have value greater than or equal to 1")),
    ("GetMetricStatistics", stats(Statistics=["Mean"]), VALIDATION,
     one_error("Mean", "statistics.1.member",
               "Member must satisfy enum value set: [SampleCount, Sum, Average, Minimum, Maximum]")),
    ("GetMetricStatistics", stats(Statistics=None, ExtendedStatistics=["p101"]), VALUE,
     "The value p101 for parameter ExtendedStatistics is not supported."),
    # GetMetricData
    ("GetMetricData", {}, VALIDATION, "3 validation errors detected: Value null at 'metricDataQueries'"),
    ("GetMetricData", data(), VALIDATION, one_error("[...]", "metricDataQueries", AT_LEAST_1)),
    ("GetMetricData", data(query(), StartTime=NOW_S), VALIDATION,
     "The parameter StartTime must not equal parameter EndTime."),
    ("GetMetricData", data(query(), StartTime=NOW_S + 1), VALIDATION,
     "The parameter EndTime must be greater than StartTime."),
    ("GetMetricData", data({"Id": "m1"}), VALIDATION,
     "The parameter MetricDataQueries.member.1.MetricStat is required.\n"),
    ("GetMetricData", data(query(Expression="1")), VALIDATION,
     "The parameters MetricDataQueries.member.1.MetricStat and MetricDataQueries.member.1.Expression are mutually "
     "exclusive and you have specified both."),
    ("GetMetricData", data(query("M1")), VALIDATION,
     "The value M1 for parameter MetricDataQueries.member.1.Id is not matching the expected pattern "
     "^[a-z][a-zA-Z0-9_]*$."),
    ("GetMetricData", data(query(), query()), VALIDATION,
     "The values for parameter id in MetricDataQueries are not unique: m1."),
    ("GetMetricData", data(query(MetricStat=stat(Stat="x"))), VALUE,
     "The value x for parameter MetricDataQueries.member.1.MetricStat.Stat is not supported."),
    ("GetMetricData", data(query(MetricStat=stat(Period=7))), VALUE,
     "The parameter MetricDataQueries.member.1.MetricStat.Period must be 1, 5, 10, 20, 30 or a multiple of 60."),
    ("GetMetricData", data(query(MetricStat=stat(Metric={"Namespace": "A"}))), VALIDATION,
     "The parameter MetricDataQueries.member.1.MetricStat.Metric.MetricName is required.\n"),
    ("GetMetricData", data(query(AccountId="111111111111")), VALUE,
     "The parameter MetricDataQueries.member.1.AccountId must be the account of the caller."),
    ("GetMetricData", data(query(), {"Id": "e", "Expression": "m1 +"}), VALIDATION,
     "Error in expression 'e': the expression ends where a value is expected."),
    ("GetMetricData", data(query(), {"Id": "e", "Expression": "m2"}), VALIDATION,
     "Error in expression: the expression 'e' refers to 'm2', which does not exist."),
    ("GetMetricData", data({"Id": "e", "Expression": "1 + 1"}), VALIDATION,
     "Error in expression 'e': the result is not a time series: use TIME_SERIES, for example."),
    ("GetMetricData", data({"Id": "e", "Expression": "TIME_SERIES(1e999)"}), VALIDATION,
     "Error in expression 'e': the number 1e999 is too large."),
    ("GetMetricData", data({"Id": "e", "Expression": "SEARCH('x', 'Sum', 1e999)"}), VALIDATION,
     "Error in expression 'e': the number 1e999 is too large."),
    ("GetMetricData", data({"Id": "e", "Expression": "SEARCH('x')"}), VALIDATION,
     "Error in expression: SEARCH takes a search, a statistic and a period."),
    ("GetMetricData", data({"Id": "e", "Expression": "SEARCH('{', 'Sum')"}), VALIDATION, "Error in expression:"),
    ("GetMetricData", data({"Id": "e", "Expression": "select AVG(x) FROM y"}), VALIDATION,
     "Metrics Insights (SELECT ...), which expression 'e' uses, is not supported by this server."),
    ("GetMetricData", data(query(), ScanBy="Up"), VALIDATION, "1 validation error detected: Value 'Up' at 'scanBy'"),
    ("GetMetricData", data(query(), MaxDatapoints=0), VALIDATION,
     one_error(0, "maxDatapoints", "Member must have value greater than or equal to 1")),
    ("GetMetricData", data(query(), NextToken="x"), "InvalidNextToken", "The next token is invalid"),
    ("GetMetricData", data(query(), LabelOptions={"Timezone": "CET"}), VALIDATION,
     "The parameter LabelOptions.Timezone must have the form +0130 or -0800."),
    ("GetMetricData", data(*(query(f"m{n}", MetricStat=stat(Period=1)) for n in range(500)),
                           StartTime=NOW_S - 86_400), VALIDATION,
     "The request asks for too many datapoints: ask for a shorter time, longer periods or fewer metrics."),
    # PutMetricAlarm
    ("PutMetricAlarm", {}, VALIDATION, one_error(None, "alarmName", NOT_NULL)),
    ("PutMetricAlarm", alarm(AlarmName=""), VALIDATION, one_error("", "alarmName", AT_LEAST_1)),
    ("PutMetricAlarm", alarm(AlarmDescription="x" * 1025), VALIDATION, "1 validation error detected: Value 'xxx"),
    ("PutMetricAlarm", alarm(EvaluationPeriods=None), VALIDATION, one_error(None, "evaluationPeriods", NOT_NULL)),
    ("PutMetricAlarm", alarm(EvaluationPeriods=0), VALIDATION,
     one_error(0, "evaluationPeriods", "Member must have value greater than or equal to 1")),
    ("PutMetricAlarm", alarm(AlarmName="a\0b"), VALIDATION, one_error("a\0b", "alarmName", NAME)),
    ("PutMetricAlarm", alarm(AlarmName="a\ufffe"), VALIDATION, one_error("a\ufffe", "alarmName", NAME)),
    ("PutCompositeAlarm", {"AlarmName": "\x7f", "AlarmRule": "TRUE"}, VALIDATION,
     one_error("\x7f", "alarmName", NAME)),
    ("PutMetricAlarm", alarm(Tags=[{"Key": "k", "Value": "\n"}]), VALIDATION,
     one_error("\n", "tags.1.member.value", NAME)),
    ("PutMetricAlarm", alarm(ComparisonOperator="More"), VALIDATION,
     "1 validation error detected: Value 'More' at 'comparisonOperator' failed to satisfy constraint: Member must "
     "satisfy enum value set: [GreaterThanOrEqualToThreshold"),
    ("PutMetricAlarm", alarm(Threshold=None), MISSING, "The parameter Threshold is required."),
    ("PutMetricAlarm", alarm(Threshold="Infinity"), VALIDATION, "The parameter Threshold must be a number."),
    ("PutMetricAlarm", alarm(MetricName=None), VALIDATION, "MetricName must be specified, or Metrics instead."),
    ("PutMetricAlarm", alarm(Statistic=None), COMBINATION,
     "Exactly one of Statistic and ExtendedStatistic must be specified."),
    ("PutMetricAlarm", alarm(ExtendedStatistic="p99"), COMBINATION,
     "Exactly one of Statistic and ExtendedStatistic must be specified."),
    ("PutMetricAlarm", alarm(Statistic=None, ExtendedStatistic="q99"), VALUE,
     "The value q99 for parameter ExtendedStatistic is not supported."),
    ("PutMetricAlarm", alarm(DatapointsToAlarm=2), VALIDATION,
     "DatapointsToAlarm must be less than or equal to EvaluationPeriods"),
    ("PutMetricAlarm", alarm(TreatMissingData="guess"), VALIDATION,
     "Option guess is not supported. Supported options for parameter TreatMissingData are missing, ignore, breaching "
     "and notBreaching."),
    ("PutMetricAlarm", alarm(EvaluateLowSampleCountPercentile="x"), VALIDATION,
     "Option x is not supported. Supported options for parameter EvaluateLowSampleCountPercentile are evaluate and "
     "ignore."),
    ("PutMetricAlarm", alarm(Period=15), VALIDATION, "Period must be 10, 20, 30 or a multiple of 60"),
    ("PutMetricAlarm", alarm(Period=1), VALIDATION, "Period must be 10, 20, 30 or a multiple of 60"),
    ("PutMetricAlarm", alarm(Period=300, EvaluationPeriods=289), VALIDATION,
     "Metrics cannot be checked across more than a day (EvaluationPeriods * Period must be <= 86400)."),
    ("PutMetricAlarm", alarm(Period=3600, EvaluationPeriods=169), VALIDATION,
     "Metrics cannot be checked across more than seven days (EvaluationPeriods * Period must be <= 604800)."),
    ("PutMetricAlarm", alarm(Unit="x"), VALIDATION, "1 validation error detected: Value 'x' at 'unit'"),
    ("PutMetricAlarm", alarm(AlarmActions=[arn("t", "sns")] * 6), VALIDATION,
     one_error("[...]", "alarmActions", "Member must have length less than or equal to 5")),
    ("PutMetricAlarm", alarm(OKActions=["me"]), VALIDATION, "Invalid arn syntax: me"),
    ("PutMetricAlarm", alarm(ThresholdMetricId="m1"), VALIDATION,
     "ThresholdMetricId is not supported by this server."),
    ("PutMetricAlarm", alarm(EvaluationCriteria={"PromQLCriteria": {}}), VALIDATION,
     "EvaluationCriteria is not supported by this server."),
    ("PutMetricAlarm", alarm(ComparisonOperator="LessThanLowerThreshold"), VALIDATION,
     "ComparisonOperator LessThanLowerThreshold is not supported by this server."),
    ("PutMetricAlarm", alarm(Metrics=[query()]), COMBINATION,
     "The parameters Metrics and MetricName cannot both be specified."),
    ("PutMetricAlarm", math(query(), query("m2")), VALIDATION,
     "Exactly one element of the metrics list should return data."),
    ("PutMetricAlarm", math(query(**HIDDEN), query("m2", MetricStat=stat(Period=300), **HIDDEN), E1), VALIDATION,
     "All metrics and expressions of an alarm must have the same Period."),
    ("PutMetricAlarm", math(query(**HIDDEN), {"Id": "e", "Expression": "+".join(["FILL(m1, 1)"] * 50)},
                            EvaluationPeriods=1440), VALIDATION,
     "The expressions of the alarm compute too much: use fewer evaluation periods or simpler expressions."),
    ("PutMetricAlarm", math(query(**HIDDEN), {"Id": "e", "Expression": "SEARCH('{A}', 'Sum')"}), VALIDATION,
     "SEARCH is not supported in alarms."),
    ("PutMetricAlarm", math(query(**HIDDEN), {"Id": "e", "Expression": "AVG(m1)"}), VALIDATION,
     "Error in expression 'e': the result is not a time series."),
    ("PutMetricAlarm", math(query(**HIDDEN), query("m2", **HIDDEN), {"Id": "e", "Expression": "METRICS() * 2"}),
     VALIDATION, "The expression that returns data must give one time series."),
    ("PutMetricAlarm", math(*(query(f"m{n}", **HIDDEN) for n in range(11)), E1), VALIDATION,
     "An alarm can have at most 10 metrics."),
    ("PutMetricAlarm", alarm(Tags=[{"Key": "", "Value": ""}]), VALIDATION,
     one_error("", "tags.1.member.key", AT_LEAST_1)),
    ("PutMetricAlarm", alarm(Tags=[{"Key": "aws:x", "Value": ""}]), VALIDATION,
     "Tag keys must not begin with 'aws:'. This prefix is reserved."),
    # PutCompositeAlarm: more in test_composite_alarms
    ("PutCompositeAlarm", {"AlarmName": "x"}, VALIDATION, one_error(None, "alarmRule", NOT_NULL)),
    ("PutCompositeAlarm", {"AlarmName": "x", "AlarmRule": "x"}, VALIDATION, "Error parsing the alarm rule: expected"),
    ("PutCompositeAlarm", {"AlarmName": "x", "AlarmRule": "TRUE", "ActionConfiguration": {}}, VALIDATION,
     "ActionConfiguration is not supported by this server."),
    # DescribeAlarms and others that read
    ("DescribeAlarms", {"AlarmNames": ["a"], "AlarmNamePrefix": "a"}, COMBINATION,
     "AlarmNamePrefix and AlarmNames cannot both be specified"),
    ("DescribeAlarms", {"AlarmNames": ["a"] * 101}, VALIDATION,
     one_error("[...]", "alarmNames", "Member must have length less than or equal to 100")),
    ("DescribeAlarms", {"StateValue": "x"}, VALIDATION,
     one_error("x", "stateValue", "Member must satisfy enum value set: [INSUFFICIENT_DATA, ALARM, OK]")),
    ("DescribeAlarms", {"AlarmTypes": ["x"]}, VALIDATION,
     "1 validation error detected: Value 'x' at 'alarmTypes.1.mem"),
    ("DescribeAlarms", {"MaxRecords": 101}, VALIDATION,
     one_error(101, "maxRecords", "Member must have value less than or equal to 100")),
    ("DescribeAlarms", {"NextToken": "x"}, "InvalidNextToken", "The next token is invalid"),
    ("DescribeAlarms", {"ChildrenOfAlarmName": "c", "StateValue": "OK"}, COMBINATION,
     "ChildrenOfAlarmName and ParentsOfAlarmName cannot be specified with other filters"),
    ("DescribeAlarmsForMetric", {}, VALIDATION, "2 validation errors detected: Value null at 'metricName'"),
    ("DescribeAlarmHistory", {"HistoryItemType": "x"}, VALIDATION,
     one_error("x", "historyItemType",
               "Member must satisfy enum value set: [ConfigurationUpdate, StateUpdate, Action]")),
    ("DescribeAlarmHistory", {"AlarmContributorId": "x"}, VALIDATION,
     "AlarmContributorId is not supported by this server."),
    # SetAlarmState, DeleteAlarms
    ("SetAlarmState", {"AlarmName": "a", "StateValue": "INVALID", "StateReason": ""}, VALIDATION,
     one_error("INVALID", "stateValue", "Member must satisfy enum value set: [INSUFFICIENT_DATA, ALARM, OK]")),
    ("SetAlarmState", {"AlarmName": "a", "StateValue": "OK"}, VALIDATION, one_error(None, "stateReason", NOT_NULL)),
    ("SetAlarmState", {"AlarmName": "a", "StateValue": "OK", "StateReason": "", "StateReasonData": "{"},
     "InvalidFormat", "StateReasonData is not valid JSON"),
    ("DeleteAlarms", {}, VALIDATION, one_error(None, "alarmNames", NOT_NULL)),
    # Dashboards
    ("PutDashboard", {"DashboardName": "a b", "DashboardBody": "{}"}, VALUE,
     "The value for field DashboardName contains invalid characters. It can only contain alphanumerics, dash (-) and "
     "underscore (_).\n"),
    ("PutDashboard", {"DashboardName": "a"}, MISSING, "The parameter DashboardBody is required."),
    ("PutDashboard", {"DashboardName": "a", "DashboardBody": "[]"}, "InvalidParameterInput",
     "The dashboard body is invalid, there is 1 validation error:\n"),
    ("PutDashboard", {"DashboardName": "a", "DashboardBody": '{"widgets":[1,{"type":"x"}]}'}, "InvalidParameterInput",
     'The dashboard body is invalid, there are 3 validation errors:\n[\n  {\n    "dataPath": "/widgets/0",\n    '
     '"message": "Should be object"\n  }'),
    ("DeleteDashboards", {}, MISSING, "The parameter DashboardNames is required."),
    ("ListDashboards", {"NextToken": "x"}, "InvalidNextToken", "The next token is invalid"),
    # Tags
    ("TagResource", {"ResourceARN": arn("a")}, VALIDATION, one_error(None, "tags", NOT_NULL)),
    ("TagResource", {"ResourceARN": "x", "Tags": []}, VALUE,
     "The value x for parameter ResourceARN is not the ARN of an alarm or a dashboard."),
    ("TagResource", {"ResourceARN": arn("a"), "Tags": [{"Key": str(n), "Value": ""} for n in range(51)]}, VALIDATION,
     one_error("[...]", "tags", "Member must have length less than or equal to 50")),
    ("UntagResource", {"ResourceARN": arn("a")}, VALIDATION, one_error(None, "tagKeys", NOT_NULL)),
]  # fmt: skip


@every_row(("action", "members", "code", "message"), ROWS)
def test_a_wrong_request(
    ask: Requests, action: str, members: dict[str, Any], code: str, message: str
) -> None:
    found, text, status = ask(action, **members)
    assert (found, text[: len(message)], status) == (code, message, 400)


@pytest.mark.parametrize(
    ("action", "members", "code", "message"),
    [
        ("SetAlarmState", {"AlarmName": "none", "StateValue": "OK", "StateReason": ""}, "ResourceNotFound", ""),
        ("DeleteAlarms", {"AlarmNames": ["none"]}, "ResourceNotFound", ""),
        ("GetDashboard", {"DashboardName": "none"}, "ResourceNotFound", "Dashboard none does not exist"),
        ("DeleteDashboards", {"DashboardNames": ["none"]}, "ResourceNotFound", "Dashboard none does not exist"),
        ("TagResource", {"ResourceARN": arn("none"), "Tags": [{"Key": "k", "Value": "v"}]},
         "ResourceNotFoundException", f"The alarm {arn('none')} does not exist"),
        ("UntagResource", {"ResourceARN": arn("none"), "TagKeys": ["k"]},
         "ResourceNotFoundException", f"The alarm {arn('none')} does not exist"),
    ],
)  # fmt: skip
def test_what_does_not_exist(
    ask: Requests, action: str, members: dict[str, Any], code: str, message: str
) -> None:
    assert ask(action, **members) == (code, message, 404)


def test_every_wrong_datum_has_a_line(ask: Requests) -> None:
    late = {"MetricName": "m", "Value": 1, "Timestamp": NOW_S - 20 * 86_400}
    code, message, _ = ask(
        "PutMetricData", Namespace="App", MetricData=[late, {"MetricName": "m", "Value": 1}, late]
    )
    text = "The parameter MetricData.member.{}.Timestamp must specify a time within the past two weeks."
    assert (code, message.split("\n")) == (VALUE, [text.format(1), text.format(3)])
    found = ask.world.client().get_metric_statistics(
        Namespace="App", MetricName="m", Period=60, Statistics=["Sum"],
        StartTime=ask.world.now - timedelta(hours=1), EndTime=ask.world.now + timedelta(hours=1),
    )  # fmt: skip
    assert found["Datapoints"] == [], "nothing of a refused request is kept"


def test_unknown_alarms_do_not_keep_others_from_being_deleted(ask: Requests) -> None:
    cw = ask.world.client()
    put_alarm(cw, "gone")
    assert ask("DeleteAlarms", AlarmNames=["gone", "none"])[0] == "ResourceNotFound"
    assert cw.describe_alarms(AlarmNames=["gone"])["MetricAlarms"] == []


def test_metric_data_is_not_computed_for_a_client_that_is_gone(ask: Requests) -> None:
    body = json.dumps(data(query())).encode()
    request = json_request("GraniteServiceVersion20100801.GetMetricData", body)
    call = Call(request_id="rid", space=SPACE, sender="SENDER", base_url="http://localhost", gone=True)
    responses: list[Response] = []
    ask.world.dispatcher.answer(request, call, responses.append)
    assert [(each.status, b"RequestCanceled" in each.body) for each in responses] == [(400, True)]
    assert ask("GetMetricData", **data(query())) == ("", "", 200)


def test_metric_data_has_a_budget_of_time_and_a_line_of_limited_length(
    ask: Requests, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = ask.world.broker.turns
    monkeypatch.setattr(turns, "alone", partial(turns.alone, budget_s=0))
    long = {"Id": "e1", "Expression": "YEAR(TIME_SERIES(1))", "Period": 60}
    code, text, status = ask("GetMetricData", **data(long, query(), StartTime=NOW_S - 864_000))
    assert (code, status) == (VALIDATION, 400)
    says(text, "too long", "shorter time")
    monkeypatch.undo()

    async def while_another_computes() -> tuple[str, str, int]:
        async with turns.alone(SPACE.account):
            return ask("GetMetricData", **data(query()))

    monkeypatch.setattr(turns, "alone", partial(turns.alone, waiting_max=0))
    assert start(while_another_computes()).result() == ("Throttling", "Rate exceeded", 400)
    assert ask("GetMetricData", **data(query())) == ("", "", 200), (
        "nothing is left of those that were refused"
    )
