"""Requests and responses of CloudWatch. Names are those of its model, and so are the constraints of their members.

Every member of a request may be absent: what is required is checked with the other constraints, or by handlers with
texts of their own. A list of a response that is empty is written.
"""

from __future__ import annotations

from typing import Annotated, get_args

import msgspec
from msgspec import Meta

from penstock.metrics.alarms import Comparison
from penstock.metrics.composite import RULE_LENGTH_MAX
from penstock.metrics.statistics import SIMPLE
from penstock.services.cloudwatch.limits import (
    ACTION_LENGTH_MAX,
    ACTIONS_MAX,
    ALARM_ARN_LENGTH_MAX,
    ALARM_NAMES_MAX,
    ARN_LENGTH_MAX,
    DESCRIPTION_LENGTH_MAX,
    DIMENSION_VALUE_LENGTH_MAX,
    DIMENSIONS_MAX,
    EXPRESSION_LENGTH_MAX,
    EXTENDED_STATISTICS_MAX,
    LABEL_LENGTH_MAX,
    MAX_DATAPOINTS,
    NAME_LENGTH_MAX,
    QUERIES_MAX,
    RECORDS_MAX,
    STATE_DATA_LENGTH_MAX,
    STATE_REASON_LENGTH_MAX,
    STATISTICS_MAX,
    SUPPRESSOR_S_MAX,
    TAG_KEY_LENGTH_MAX,
    TAG_VALUE_LENGTH_MAX,
    TAGS_MAX,
    UNITS,
)
from penstock.wire.constraints import Length, OneOf, Pattern, Required, Within
from penstock.wire.shapes import Many, Time

Text = str | None
Integer = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | None

# CloudWatch: no control characters, which a name of a stored record could not have in every store either, and nothing
# that XML cannot carry.
_PRINTABLE = Pattern(r"[^\x00-\x1F\x7F\uFFFE\uFFFF]*")

AnyName = Annotated[str, Length(1, NAME_LENGTH_MAX), _PRINTABLE]
NameText = AnyName | None
UnitName = Annotated[str, OneOf(UNITS)] | None
AtLeastOne = Annotated[Integer, Within(1)]
SimpleStatistic = Annotated[str, OneOf(tuple(SIMPLE))]
SCAN_ORDERS = ("TimestampDescending", "TimestampAscending")
ScanOrder = Annotated[str, OneOf(SCAN_ORDERS)] | None
STATES = ("INSUFFICIENT_DATA", "ALARM", "OK")  # in the order of CloudWatch's text
StateName = Annotated[str, OneOf(STATES)] | None
NamesOfAlarms = Annotated[Many[AnyName], Length(0, ALARM_NAMES_MAX)] | None
ALARM_TYPES = ("CompositeAlarm", "MetricAlarm", "LogAlarm")
TypesOfAlarms = Many[Annotated[str, OneOf(ALARM_TYPES)]] | None
PageSize = Annotated[Integer, Within(1, RECORDS_MAX)]
Actions = Annotated[Many[Annotated[str, Length(1, ACTION_LENGTH_MAX)]] | None, Length(0, ACTIONS_MAX)]
Description = Annotated[Text, Length(0, DESCRIPTION_LENGTH_MAX)]
SuppressorSeconds = Annotated[Integer, Within(0, SUPPRESSOR_S_MAX)]
ResourceArn = Annotated[Text, Required(), Length(1, ARN_LENGTH_MAX)]
KeysOfTags = Annotated[Many[Annotated[str, Length(1, TAG_KEY_LENGTH_MAX)]] | None, Length(0, TAGS_MAX)]
BANDS = ("LessThanLowerOrGreaterThanUpperThreshold", "LessThanLowerThreshold", "GreaterThanUpperThreshold")


class CloudWatchStruct(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Absent members are None and are not written."""


class NotSupported(CloudWatchStruct):
    """A member whose contents do not matter: it is refused if it is given."""


class Dimension(CloudWatchStruct):
    Name: Annotated[NameText, Required()] = None
    Value: Annotated[Text, Required(), Length(1, DIMENSION_VALUE_LENGTH_MAX)] = None


class DimensionFilter(CloudWatchStruct):
    Name: Annotated[NameText, Required()] = None
    Value: Annotated[Text, Length(1, DIMENSION_VALUE_LENGTH_MAX)] = None


MetricDimensions = Annotated[Many[Dimension] | None, Length(0, DIMENSIONS_MAX)]


class TagPair(CloudWatchStruct):
    Key: Annotated[Text, Required(), Length(1, TAG_KEY_LENGTH_MAX), _PRINTABLE] = None
    Value: Annotated[Text, Required(), Length(0, TAG_VALUE_LENGTH_MAX), _PRINTABLE] = None


TagPairs = Annotated[Many[TagPair] | None, Length(0, TAGS_MAX)]


class NamedMetric(CloudWatchStruct):
    """``Metric`` in the model."""

    Namespace: NameText = None
    MetricName: NameText = None
    Dimensions: MetricDimensions = None


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
    Namespace: NameText = None
    MetricData: Many[MetricDatum] | None = None
    EntityMetricData: Many[EntityData] | None = None
    StrictEntityValidation: bool | None = None


class ListMetricsRequest(CloudWatchStruct):
    Namespace: NameText = None
    MetricName: NameText = None
    Dimensions: Annotated[Many[DimensionFilter] | None, Length(0, DIMENSIONS_MAX)] = None
    NextToken: Text = None
    RecentlyActive: Annotated[Text, OneOf(("PT3H",))] = None
    IncludeLinkedAccounts: bool | None = None
    OwningAccount: Text = None


class ListMetricsResult(CloudWatchStruct):
    Metrics: list[NamedMetric]
    NextToken: Text = None
    OwningAccounts: list[str] | None = None


class GetMetricStatisticsRequest(CloudWatchStruct):
    Namespace: Annotated[NameText, Required()] = None
    MetricName: Annotated[NameText, Required()] = None
    Dimensions: MetricDimensions = None
    StartTime: Annotated[Time | None, Required()] = None
    EndTime: Annotated[Time | None, Required()] = None
    Period: Annotated[AtLeastOne, Required()] = None
    Statistics: Annotated[Many[SimpleStatistic] | None, Length(1, STATISTICS_MAX)] = None
    ExtendedStatistics: Annotated[Many[str] | None, Length(1, EXTENDED_STATISTICS_MAX)] = None
    Unit: UnitName = None


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

    Metric: Annotated[NamedMetric | None, Required()] = None
    Period: Annotated[AtLeastOne, Required()] = None
    Stat: Annotated[Text, Required()] = None
    Unit: UnitName = None


class MetricDataQuery(CloudWatchStruct):
    Id: Annotated[NameText, Required()] = None
    MetricStat: StatOfMetric | None = None
    Expression: Annotated[Text, Length(1, EXPRESSION_LENGTH_MAX)] = None
    Label: Annotated[Text, Length(0, LABEL_LENGTH_MAX)] = None
    ReturnData: bool | None = None
    Period: AtLeastOne = None
    AccountId: Text = None


class LabelChoices(CloudWatchStruct):
    """``LabelOptions`` in the model."""

    Timezone: Text = None


class GetMetricDataRequest(CloudWatchStruct):
    MetricDataQueries: Annotated[Many[MetricDataQuery] | None, Required(), Length(1, QUERIES_MAX)] = None
    StartTime: Annotated[Time | None, Required()] = None
    EndTime: Annotated[Time | None, Required()] = None
    NextToken: Text = None
    ScanBy: ScanOrder = None
    MaxDatapoints: Annotated[Integer, Within(1, MAX_DATAPOINTS)] = None
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
    AlarmName: Annotated[NameText, Required()] = None
    AlarmDescription: Description = None
    ActionsEnabled: bool | None = None
    OKActions: Actions = None
    AlarmActions: Actions = None
    InsufficientDataActions: Actions = None
    MetricName: NameText = None
    Namespace: NameText = None
    Statistic: SimpleStatistic | None = None
    ExtendedStatistic: Text = None
    Dimensions: MetricDimensions = None
    Period: AtLeastOne = None
    Unit: UnitName = None
    EvaluationPeriods: Annotated[AtLeastOne, Required()] = None
    DatapointsToAlarm: AtLeastOne = None
    Threshold: float | None = None
    ComparisonOperator: Annotated[Text, Required(), OneOf((*get_args(Comparison), *BANDS))] = None
    TreatMissingData: Text = None
    EvaluateLowSampleCountPercentile: Text = None
    Metrics: Annotated[Many[MetricDataQuery] | None, Length(0, QUERIES_MAX)] = None
    Tags: TagPairs = None
    ThresholdMetricId: Text = None
    EvaluationWindow: NotSupported | None = None
    WarmUpConfiguration: NotSupported | None = None
    EvaluationCriteria: NotSupported | None = None
    EvaluationInterval: Integer = None
    ActionConfiguration: NotSupported | None = None


class PutCompositeAlarmRequest(CloudWatchStruct):
    AlarmName: Annotated[NameText, Required()] = None
    AlarmDescription: Description = None
    ActionsEnabled: bool | None = None
    OKActions: Actions = None
    AlarmActions: Actions = None
    InsufficientDataActions: Actions = None
    AlarmRule: Annotated[Text, Required(), Length(1, RULE_LENGTH_MAX)] = None
    Tags: TagPairs = None
    ActionsSuppressor: Annotated[Text, Length(1, ALARM_ARN_LENGTH_MAX)] = None
    ActionsSuppressorWaitPeriod: SuppressorSeconds = None
    ActionsSuppressorExtensionPeriod: SuppressorSeconds = None
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
    AlarmNames: NamesOfAlarms = None
    AlarmNamePrefix: NameText = None
    AlarmTypes: TypesOfAlarms = None
    ChildrenOfAlarmName: NameText = None
    ParentsOfAlarmName: NameText = None
    StateValue: StateName = None
    ActionPrefix: Annotated[Text, Length(1, ACTION_LENGTH_MAX)] = None
    MaxRecords: PageSize = None
    NextToken: Text = None


class DescribeAlarmsResult(CloudWatchStruct):
    MetricAlarms: list[MetricAlarm]
    CompositeAlarms: list[CompositeAlarm]
    NextToken: Text = None


class DescribeAlarmsForMetricRequest(CloudWatchStruct):
    MetricName: Annotated[NameText, Required()] = None
    Namespace: Annotated[NameText, Required()] = None
    Statistic: SimpleStatistic | None = None
    ExtendedStatistic: Annotated[Text, Length(0, NAME_LENGTH_MAX)] = None
    Dimensions: MetricDimensions = None
    Period: AtLeastOne = None
    Unit: UnitName = None


class DescribeAlarmsForMetricResult(CloudWatchStruct):
    MetricAlarms: list[MetricAlarm]


class SetAlarmStateRequest(CloudWatchStruct):
    AlarmName: Annotated[NameText, Required()] = None
    StateValue: Annotated[StateName, Required()] = None
    StateReason: Annotated[Text, Required(), Length(0, STATE_REASON_LENGTH_MAX)] = None
    StateReasonData: Annotated[Text, Length(0, STATE_DATA_LENGTH_MAX)] = None


class NamesAlarms(CloudWatchStruct):
    AlarmNames: Annotated[NamesOfAlarms, Required()] = None


class DeleteAlarmsRequest(NamesAlarms):
    pass


class EnableAlarmActionsRequest(NamesAlarms):
    pass


class DisableAlarmActionsRequest(NamesAlarms):
    pass


class DescribeAlarmHistoryRequest(CloudWatchStruct):
    AlarmName: NameText = None
    AlarmContributorId: Text = None
    AlarmTypes: TypesOfAlarms = None
    HistoryItemType: Annotated[Text, OneOf(("ConfigurationUpdate", "StateUpdate", "Action"))] = None
    StartDate: Time | None = None
    EndDate: Time | None = None
    MaxRecords: PageSize = None
    NextToken: Text = None
    ScanBy: ScanOrder = None


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
    Tags: TagPairs = None


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
    ResourceARN: ResourceArn = None
    Tags: Annotated[TagPairs, Required()] = None


class TagResourceResult(CloudWatchStruct):
    pass


class UntagResourceRequest(CloudWatchStruct):
    ResourceARN: ResourceArn = None
    TagKeys: Annotated[KeysOfTags, Required()] = None


class UntagResourceResult(CloudWatchStruct):
    pass


class ListTagsForResourceRequest(CloudWatchStruct):
    ResourceARN: ResourceArn = None


class ListTagsForResourceResult(CloudWatchStruct):
    Tags: list[TagPair]
