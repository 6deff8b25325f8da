"""Amazon SQS, on top of the broker."""

from __future__ import annotations

from penstock.monitoring.queue_source import QueueNamespace
from penstock.services.sqs.actions import ACTIONS, POLICIES
from penstock.services.sqs.faults import to_fault
from penstock.services.sqs.resources import Sqs
from penstock.wire.service import ArnKind, Service

__all__ = ["ACTIONS", "SERVICE", "Sqs"]

SERVICE = Service(
    signing_name="sqs",
    target_prefix="AmazonSQS",
    shape_namespace="com.amazonaws.sqs",
    xml_namespace="http://queue.amazonaws.com/doc/2012-11-05/",
    xml_error_detail=True,
    actions=ACTIONS,
    to_fault=to_fault,
    arns=(ArnKind("sqs", "", "AWS::SQS::Queue"),),
    refuses_in_lower_case=True,
    policies=POLICIES,
    console_path="sqs",
    metric_namespaces=(QueueNamespace("AWS/SQS"),),
)
