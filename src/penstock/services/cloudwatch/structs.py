"""Requests and responses of CloudWatch. Names are those of its model.

Every member of a request may be absent: handlers check what is required, with the texts of CloudWatch. A list of a
response that is empty is written.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from penstock.wire.shapes import Many, Time

Text = str | None
Integer = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | None


class CloudWatchStruct(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Absent members are None and are not written."""


class NotSupported(CloudWatchStruct):
    """A member whose contents do not matter: it is refused if it is given."""


class Dimension(CloudWatchStruct):
    Name: Text = None
    Value: Text = None


class TagPair(CloudWatchStruct):
    Key: Text = None
    Value: Text = None


class NamedMetric(CloudWatchStruct):
    """``Metric`` in the model."""

    Namespace: Text = None
    MetricName: Text = None
    Dimensions: Many[Dimension] | None = None


# Data


class StatisticSet(CloudWatchStruct):
    SampleCount: float | None = None
    Sum: float | None = None
    Minimum: float | None = None
    Maximum: float | None = None


class MetricDatum(CloudWatchStruct):
    MetricName: Text = None
    Dimensions: Many[Dimension] | None = None
    Timestamp: Time | None = None
    Value: float | None = None
    StatisticValues: StatisticSet | None = None
    Values: Many[float] | None = None
    Counts: Many[float] | None = None
    Unit: Text = None
    StorageResolution: Integer = None


class EntityData(CloudWatchStruct):
    """``EntityMetricData`` in the model."""

    Entity: NotSupported | None = None  # what a metric belongs to: not kept
    MetricData: Many[MetricDatum] | None = None


class PutMetricDataRequest(CloudWatchStruct):
    Namespace: Text = None
    MetricData: Many[MetricDatum] | None = None
    EntityMetricData: Many[EntityData] | None = None
    StrictEntityValidation: bool | None = None


class ListMetricsRequest(CloudWatchStruct):
    Namespace: Text = None
    MetricName: Text = None
    Dimensions: Many[Dimension] | None = None
    NextToken: Text = None
    RecentlyActive: Text = None
    IncludeLinkedAccounts: bool | None = None
    OwningAccount: Text = None


class ListMetricsResult(CloudWatchStruct):
    Metrics: list[NamedMetric]
    NextToken: Text = None
    OwningAccounts: list[str] | None = None


class GetMetricStatisticsRequest(CloudWatchStruct):
    Namespace: Text = None
    MetricName: Text = None
    Dimensions: Many[Dimension] | None = None
    StartTime: Time | None = None
    EndTime: Time | None = None
    Period: Integer = None
    Statistics: Many[str] | None = None
    ExtendedStatistics: Many[str] | None = None
    Unit: Text = None


class Datapoint(CloudWatchStruct):
    Timestamp: Time
    SampleCount: float | None = None
    Average: float | None = None
    Sum: float | None = None
    Minimum: float | None = None
    Maximum: float | None = None
    Unit: Text = None
    ExtendedStatistics: dict[str, float] | None = None


class GetMetricStatisticsResult(CloudWatchStruct):
    Label: str
    Datapoints: list[Datapoint]


class StatOfMetric(CloudWatchStruct):
    """``MetricStat`` in the model."""

    Metric: NamedMetric | None = None
    Period: Integer = None
    Stat: Text = None
    Unit: Text = None


class MetricDataQuery(CloudWatchStruct):
    Id: Text = None
    MetricStat: StatOfMetric | None = None
    Expression: Text = None
    Label: Text = None
    ReturnData: bool | None = None
    Period: Integer = None
    AccountId: Text = None


class LabelChoices(CloudWatchStruct):
    """``LabelOptions`` in the model."""

    Timezone: Text = None


class GetMetricDataRequest(CloudWatchStruct):
    MetricDataQueries: Many[MetricDataQuery] | None = None
    StartTime: Time | None = None
    EndTime: Time | None = None
    NextToken: Text = None
    ScanBy: Text = None
    MaxDatapoints: Integer = None
    LabelOptions: LabelChoices | None = None


class MetricDataMessage(CloudWatchStruct):
    Code: str
    Value: str


class MetricDataResult(CloudWatchStruct):
    Id: str
    Label: str
    Timestamps: list[Time]
    Values: list[float]
    StatusCode: str
    Messages: list[MetricDataMessage] | None = None


class GetMetricDataResult(CloudWatchStruct):
    MetricDataResults: list[MetricDataResult]
    Messages: list[MetricDataMessage]
    NextToken: Text = None


# Alarms


class PutMetricAlarmRequest(CloudWatchStruct):
    AlarmName: Text = None
    AlarmDescription: Text = None
    ActionsEnabled: bool | None = None
    OKActions: Many[str] | None = None
    AlarmActions: Many[str] | None = None
    InsufficientDataActions: Many[str] | None = None
    MetricName: Text = None
    Namespace: Text = None
    Statistic: Text = None
    ExtendedStatistic: Text = None
    Dimensions: Many[Dimension] | None = None
    Period: Integer = None
    Unit: Text = None
    EvaluationPeriods: Integer = None
    DatapointsToAlarm: Integer = None
    Threshold: float | None = None
    ComparisonOperator: Text = None
    TreatMissingData: Text = None
    EvaluateLowSampleCountPercentile: Text = None
    Metrics: Many[MetricDataQuery] | None = None
    Tags: Many[TagPair] | None = None
    ThresholdMetricId: Text = None
    EvaluationWindow: NotSupported | None = None
    WarmUpConfiguration: NotSupported | None = None
    EvaluationCriteria: NotSupported | None = None
    EvaluationInterval: Integer = None
    ActionConfiguration: NotSupported | None = None


class PutCompositeAlarmRequest(CloudWatchStruct):
    AlarmName: Text = None
    AlarmDescription: Text = None
    ActionsEnabled: bool | None = None
    OKActions: Many[str] | None = None
    AlarmActions: Many[str] | None = None
    InsufficientDataActions: Many[str] | None = None
    AlarmRule: Text = None
    Tags: Many[TagPair] | None = None
    ActionsSuppressor: Text = None
    ActionsSuppressorWaitPeriod: Integer = None
    ActionsSuppressorExtensionPeriod: Integer = None
    ActionConfiguration: NotSupported | None = None


class MetricAlarm(CloudWatchStruct):
    AlarmName: str
    AlarmArn: str
    AlarmConfigurationUpdatedTimestamp: Time
    ActionsEnabled: bool
    OKActions: list[str]
    AlarmActions: list[str]
    InsufficientDataActions: list[str]
    StateValue: str
    StateReason: str
    StateUpdatedTimestamp: Time
    StateTransitionedTimestamp: Time
    Dimensions: list[Dimension]
    EvaluationPeriods: int
    Threshold: float
    ComparisonOperator: str
    AlarmDescription: Text = None
    StateReasonData: Text = None
    MetricName: Text = None
    Namespace: Text = None
    Statistic: Text = None
    ExtendedStatistic: Text = None
    Period: int | None = None
    Unit: Text = None
    DatapointsToAlarm: int | None = None
    TreatMissingData: Text = None
    EvaluateLowSampleCountPercentile: Text = None
    Metrics: list[MetricDataQuery] | None = None


class CompositeAlarm(CloudWatchStruct):
    AlarmName: str
    AlarmArn: str
    AlarmConfigurationUpdatedTimestamp: Time
    ActionsEnabled: bool
    OKActions: list[str]
    AlarmActions: list[str]
    InsufficientDataActions: list[str]
    AlarmRule: str
    StateValue: str
    StateReason: str
    StateUpdatedTimestamp: Time
    StateTransitionedTimestamp: Time
    AlarmDescription: Text = None
    StateReasonData: Text = None
    ActionsSuppressor: Text = None
    ActionsSuppressorWaitPeriod: int | None = None
    ActionsSuppressorExtensionPeriod: int | None = None
    ActionsSuppressedBy: Text = None
    ActionsSuppressedReason: Text = None


class DescribeAlarmsRequest(CloudWatchStruct):
    AlarmNames: Many[str] | None = None
    AlarmNamePrefix: Text = None
    AlarmTypes: Many[str] | None = None
    ChildrenOfAlarmName: Text = None
    ParentsOfAlarmName: Text = None
    StateValue: Text = None
    ActionPrefix: Text = None
    MaxRecords: Integer = None
    NextToken: Text = None


class DescribeAlarmsResult(CloudWatchStruct):
    MetricAlarms: list[MetricAlarm]
    CompositeAlarms: list[CompositeAlarm]
    NextToken: Text = None


class DescribeAlarmsForMetricRequest(CloudWatchStruct):
    MetricName: Text = None
    Namespace: Text = None
    Statistic: Text = None
    ExtendedStatistic: Text = None
    Dimensions: Many[Dimension] | None = None
    Period: Integer = None
    Unit: Text = None


class DescribeAlarmsForMetricResult(CloudWatchStruct):
    MetricAlarms: list[MetricAlarm]


class SetAlarmStateRequest(CloudWatchStruct):
    AlarmName: Text = None
    StateValue: Text = None
    StateReason: Text = None
    StateReasonData: Text = None


class NamesAlarms(CloudWatchStruct):
    AlarmNames: Many[str] | None = None


class DeleteAlarmsRequest(NamesAlarms):
    pass


class EnableAlarmActionsRequest(NamesAlarms):
    pass


class DisableAlarmActionsRequest(NamesAlarms):
    pass


class DescribeAlarmHistoryRequest(CloudWatchStruct):
    AlarmName: Text = None
    AlarmContributorId: Text = None
    AlarmTypes: Many[str] | None = None
    HistoryItemType: Text = None
    StartDate: Time | None = None
    EndDate: Time | None = None
    MaxRecords: Integer = None
    NextToken: Text = None
    ScanBy: Text = None


class AlarmHistoryItem(CloudWatchStruct):
    AlarmName: str
    AlarmType: str
    Timestamp: Time
    HistoryItemType: str
    HistorySummary: str
    HistoryData: str


class DescribeAlarmHistoryResult(CloudWatchStruct):
    AlarmHistoryItems: list[AlarmHistoryItem]
    NextToken: Text = None


# Dashboards


class PutDashboardRequest(CloudWatchStruct):
    DashboardName: Text = None
    DashboardBody: Text = None
    Tags: Many[TagPair] | None = None


class DashboardMessage(CloudWatchStruct):
    """``DashboardValidationMessage`` in the model."""

    DataPath: str
    Message: str


class PutDashboardResult(CloudWatchStruct):
    DashboardValidationMessages: list[DashboardMessage]


class GetDashboardRequest(CloudWatchStruct):
    DashboardName: Text = None


class GetDashboardResult(CloudWatchStruct):
    DashboardArn: str
    DashboardBody: str
    DashboardName: str


class ListDashboardsRequest(CloudWatchStruct):
    DashboardNamePrefix: Text = None
    NextToken: Text = None


class DashboardEntry(CloudWatchStruct):
    DashboardName: str
    DashboardArn: str
    LastModified: Time
    Size: int


class ListDashboardsResult(CloudWatchStruct):
    DashboardEntries: list[DashboardEntry]
    NextToken: Text = None


class DeleteDashboardsRequest(CloudWatchStruct):
    DashboardNames: Many[str] | None = None


class DeleteDashboardsResult(CloudWatchStruct):
    pass


# Tags


class TagResourceRequest(CloudWatchStruct):
    ResourceARN: Text = None
    Tags: Many[TagPair] | None = None


class TagResourceResult(CloudWatchStruct):
    pass


class UntagResourceRequest(CloudWatchStruct):
    ResourceARN: Text = None
    TagKeys: Many[str] | None = None


class UntagResourceResult(CloudWatchStruct):
    pass


class ListTagsForResourceRequest(CloudWatchStruct):
    ResourceARN: Text = None


class ListTagsForResourceResult(CloudWatchStruct):
    Tags: list[TagPair]
