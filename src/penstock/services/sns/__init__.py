"""Amazon SNS: topics, their subscriptions, and what is published to them."""

from __future__ import annotations

from penstock.publishing.namespace import NAMESPACE
from penstock.publishing.publishing import KINDS as TOPIC_KINDS
from penstock.services.sns.actions import ACTIONS, POLICIES
from penstock.services.sns.faults import to_fault
from penstock.services.sns.limits import SnsLimits
from penstock.services.sns.mobile_records import KINDS
from penstock.services.sns.resources import Sns
from penstock.wire.service import ArnKind, Service

__all__ = ["ACTIONS", "SERVICE", "Sns", "SnsLimits"]

SERVICE = Service(
    signing_name="sns",
    target_prefix="AmazonSNS",
    shape_namespace="com.amazonaws.sns",
    xml_namespace="http://sns.amazonaws.com/doc/2010-03-31/",
    xml_is_indented=True,
    protocols=("query", "json-1.0"),
    actions=ACTIONS,
    to_fault=to_fault,
    arns=(
        ArnKind("sns", "app/", "AWS::SNS::PlatformApplication"),
        ArnKind("sns", "endpoint/", "AWS::SNS::Endpoint"),
        ArnKind("sns", "", "AWS::SNS::Topic"),
    ),
    condition_keys=("sns:protocol", "sns:endpoint"),
    refuses_in_upper_case=True,
    policies=POLICIES,
    console_path="sns",
    metric_namespaces=(NAMESPACE,),
    records=(*TOPIC_KINDS, *KINDS),
)
