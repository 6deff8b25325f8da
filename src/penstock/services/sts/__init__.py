"""AWS STS: who the caller is, and temporary credentials for the caller or for a role."""

from __future__ import annotations

from penstock.services.sts.actions import ACTIONS
from penstock.services.sts.faults import to_fault
from penstock.services.sts.handlers import Sts
from penstock.wire.service import ArnKind, Service

__all__ = ["ACTIONS", "SERVICE", "Sts"]

SERVICE = Service(
    signing_name="sts",
    target_prefix="AWSSecurityTokenServiceV20110615",
    shape_namespace="com.amazonaws.sts",
    xml_namespace="https://sts.amazonaws.com/doc/2011-06-15/",
    actions=ACTIONS,
    to_fault=to_fault,
    arns=(ArnKind("iam", "role/", "AWS::IAM::Role"),),
    condition_keys=("sts:externalid", "sts:rolesessionname", "sts:transitivetagkeys"),
    policies={"assume-roles": ("sts:AssumeRole", "sts:TagSession")},
)
