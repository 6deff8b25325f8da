"""AWS STS: who the caller is, and temporary credentials for the caller or for a role."""

from __future__ import annotations

import msgspec

from penstock.auth.identity import Credentials
from penstock.clock import Clock
from penstock.services.sts.actions import ACTIONS
from penstock.services.sts.faults import to_fault
from penstock.services.sts.handlers import Sts
from penstock.wire.service import Service

__all__ = ["ACTIONS", "SERVICE", "Sts", "sts_service"]

SERVICE = Service(
    signing_name="sts",
    target_prefix="AWSSecurityTokenServiceV20110615",
    shape_namespace="com.amazonaws.sts",
    xml_namespace="https://sts.amazonaws.com/doc/2011-06-15/",
    actions=ACTIONS,
    to_fault=to_fault,
)


def sts_service(credentials: Credentials | None, clock: Clock) -> Service:
    """Without credentials the server is open: every caller is root and may assume any role."""
    service: Service = msgspec.structs.replace(SERVICE, context=Sts(credentials, clock))
    return service
