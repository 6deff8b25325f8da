"""The actions of CloudWatch, one row each: everything that is known about an action stands here.

The permission is ``cloudwatch:`` and the name of the action. Alarms and dashboards have ARNs; actions on metrics are
allowed for ``*``. Nothing has a policy of its own, so that other accounts are allowed nothing. The audit members are
an allow list, on which values of metrics, reasons of states and bodies of dashboards are not.
"""

from __future__ import annotations

import msgspec

from penstock.services.cloudwatch import structs as st
from penstock.services.cloudwatch.alarms import (
    delete_alarms,
    disable_alarm_actions,
    enable_alarm_actions,
    put_composite_alarm,
    put_metric_alarm,
    set_alarm_state,
)
from penstock.services.cloudwatch.dashboards import (
    dashboards_to_delete,
    delete_dashboards,
    get_dashboard,
    list_dashboards,
    named_dashboard,
    put_dashboard,
)
from penstock.services.cloudwatch.data import list_metrics, metrics_of_namespace, put_metric_data
from penstock.services.cloudwatch.describing import (
    describe_alarm_history,
    describe_alarms,
    describe_alarms_for_metric,
)
from penstock.services.cloudwatch.limits import ALARM_MEMBERS_MAX, DATA_MEMBERS_MAX, QUERY_MEMBERS_MAX
from penstock.services.cloudwatch.metric_data import get_metric_data
from penstock.services.cloudwatch.resources import (
    all_dashboards,
    all_metrics,
    any_alarm,
    named_alarm,
    named_alarms,
)
from penstock.services.cloudwatch.statistics import get_metric_statistics
from penstock.services.cloudwatch.tags import (
    list_tags_for_resource,
    resource_to_list,
    resource_to_tag,
    resource_to_untag,
    tag_resource,
    untag_resource,
)
from penstock.wire.service import Action, AuditRule, FindResource, Handler

_ABOUT_ALARM = (
    "AlarmName", "ActionsEnabled", "OKActions", "AlarmActions", "InsufficientDataActions", "pairs(Tags) as tags",
)  # fmt: skip


def _read(
    request: type[msgspec.Struct],
    response: type[msgspec.Struct],
    handler: Handler,
    resource: FindResource,
    *members: str,
    members_max: int = 0,
    is_large: bool = False,
) -> Action:
    """A row that changes nothing."""
    name = request.__name__.removesuffix("Request")
    return Action(
        name, request, response, handler, resource, f"cloudwatch:{name}", read_only=True,
        audit=AuditRule(None, members), members_max=members_max, is_large=is_large,
    )  # fmt: skip


def _change(
    request: type[msgspec.Struct],
    response: type[msgspec.Struct] | None,
    handler: Handler,
    resource: FindResource,
    *members: str,
    members_max: int = 0,
) -> Action:
    name = request.__name__.removesuffix("Request")
    return Action(
        name, request, response, handler, resource, f"cloudwatch:{name}",
        audit=AuditRule("Management", members), members_max=members_max,
    )  # fmt: skip


_ROWS = (
    Action(
        "PutMetricData", st.PutMetricDataRequest, None, put_metric_data, metrics_of_namespace,
        "cloudwatch:PutMetricData",
        audit=AuditRule("Data", ("Namespace", "count(MetricData) as numberOfData")), members_max=DATA_MEMBERS_MAX,
    ),
    _read(
        st.ListMetricsRequest, st.ListMetricsResult, list_metrics, all_metrics, "Namespace", "MetricName",
        is_large=True,
    ),
    _read(
        st.GetMetricStatisticsRequest, st.GetMetricStatisticsResult, get_metric_statistics, all_metrics,
        "Namespace", "MetricName", "Period", is_large=True,
    ),
    _read(
        st.GetMetricDataRequest, st.GetMetricDataResult, get_metric_data, all_metrics,
        "count(MetricDataQueries) as numberOfQueries", members_max=QUERY_MEMBERS_MAX, is_large=True,
    ),
    _change(
        st.PutMetricAlarmRequest, None, put_metric_alarm, named_alarm,
        *_ABOUT_ALARM, "Namespace", "MetricName", "Statistic", "ExtendedStatistic", "Period", "EvaluationPeriods",
        "DatapointsToAlarm", "Threshold", "ComparisonOperator", "TreatMissingData", members_max=ALARM_MEMBERS_MAX,
    ),
    _change(
        st.PutCompositeAlarmRequest, None, put_composite_alarm, named_alarm,
        *_ABOUT_ALARM, "AlarmRule", "ActionsSuppressor",
    ),
    _read(
        st.DescribeAlarmsRequest, st.DescribeAlarmsResult, describe_alarms, any_alarm,
        "AlarmNames", "AlarmNamePrefix", "StateValue",
    ),
    _read(
        st.DescribeAlarmsForMetricRequest, st.DescribeAlarmsForMetricResult, describe_alarms_for_metric, any_alarm,
        "Namespace", "MetricName",
    ),
    _read(
        st.DescribeAlarmHistoryRequest, st.DescribeAlarmHistoryResult, describe_alarm_history, any_alarm,
        "AlarmName", "HistoryItemType",
    ),
    _change(st.SetAlarmStateRequest, None, set_alarm_state, named_alarm, "AlarmName", "StateValue"),
    _change(st.DeleteAlarmsRequest, None, delete_alarms, named_alarms, "AlarmNames"),
    _change(st.EnableAlarmActionsRequest, None, enable_alarm_actions, named_alarms, "AlarmNames"),
    _change(st.DisableAlarmActionsRequest, None, disable_alarm_actions, named_alarms, "AlarmNames"),
    _change(st.PutDashboardRequest, st.PutDashboardResult, put_dashboard, named_dashboard, "DashboardName"),
    _read(st.GetDashboardRequest, st.GetDashboardResult, get_dashboard, named_dashboard, "DashboardName"),
    _read(
        st.ListDashboardsRequest, st.ListDashboardsResult, list_dashboards, all_dashboards, "DashboardNamePrefix",
    ),
    _change(
        st.DeleteDashboardsRequest, st.DeleteDashboardsResult, delete_dashboards, dashboards_to_delete,
        "DashboardNames",
    ),
    _change(
        st.TagResourceRequest, st.TagResourceResult, tag_resource, resource_to_tag,
        "ResourceARN", "pairs(Tags) as tags",
    ),
    _change(
        st.UntagResourceRequest, st.UntagResourceResult, untag_resource, resource_to_untag,
        "ResourceARN", "TagKeys",
    ),
    _read(
        st.ListTagsForResourceRequest, st.ListTagsForResourceResult, list_tags_for_resource, resource_to_list,
        "ResourceARN",
    ),
)  # fmt: skip

ACTIONS = {row.name: row for row in _ROWS}

UNSUPPORTED = frozenset((
    "AssociateDatasetKmsKey", "CreateResourceMetricsConfiguration", "DeleteAlarmMuteRule", "DeleteAnomalyDetector",
    "DeleteInsightRules", "DeleteMetricStream", "DeleteResourceMetricsConfiguration", "DescribeAlarmContributors",
    "DescribeAnomalyDetectors", "DescribeInsightRules", "DisableInsightRules", "DisassociateDatasetKmsKey",
    "EnableInsightRules", "GetAlarmMuteRule", "GetDataset", "GetInsightRuleReport", "GetMetricStream",
    "GetMetricWidgetImage", "GetOTelEnrichment", "GetResourceMetricsConfiguration", "ListAlarmMuteRules",
    "ListManagedInsightRules", "ListMetricStreams", "PutAlarmMuteRule", "PutAnomalyDetector", "PutInsightRule",
    "PutLogAlarm", "PutManagedInsightRules", "PutMetricStream", "StartMetricStreams", "StartOTelEnrichment",
    "StopMetricStreams", "StopOTelEnrichment", "UpdateOTelEnrichment", "UpdateResourceMetricsConfiguration",
))  # fmt: skip
"""Actions of the model that are not here."""
