"""Amazon CloudWatch: metrics, alarms and dashboards."""

from __future__ import annotations

from penstock.monitoring.monitoring import KINDS
from penstock.services.cloudwatch.actions import ACTIONS, UNSUPPORTED
from penstock.services.cloudwatch.faults import to_fault
from penstock.services.cloudwatch.notifications import CloudWatchTexts
from penstock.services.cloudwatch.resources import CloudWatch
from penstock.wire.service import ArnKind, Service

__all__ = ["ACTIONS", "SERVICE", "CloudWatch", "CloudWatchTexts"]

SERVICE = Service(
    signing_name="monitoring",
    target_prefix="GraniteServiceVersion20100801",
    shape_namespace="com.amazonaws.cloudwatch.v2010_08_01",
    xml_namespace="http://monitoring.amazonaws.com/doc/2010-08-01/",
    protocols=("json-1.0", "rpc-v2-cbor", "query"),
    actions=ACTIONS,
    to_fault=to_fault,
    unsupported=UNSUPPORTED,
    has_query_mode=True,
    name="cloudwatch",
    arns=(
        ArnKind("cloudwatch", "alarm:", "AWS::CloudWatch::Alarm"),
        ArnKind("cloudwatch", "dashboard/", "AWS::CloudWatch::Dashboard"),
    ),
    condition_keys=("cloudwatch:namespace",),
    policies={
        "cloudwatch-read-only": ("cloudwatch:Describe*", "cloudwatch:Get*", "cloudwatch:List*"),
        "cloudwatch-put-metrics": ("cloudwatch:PutMetricData",),
        "cloudwatch-full-access": ("cloudwatch:*",),
    },
    console_path="monitoring",
    records=KINDS,
)
