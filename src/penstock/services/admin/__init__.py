"""The admin API: queues and messages as the person on call wants to see and change them. REST-JSON."""

from __future__ import annotations

from penstock.services.admin.actions import ACTIONS
from penstock.services.admin.faults import to_fault
from penstock.services.admin.resources import Admin, SqsTexts
from penstock.wire.service import ArnKind, Service

__all__ = ["ACTIONS", "SERVICE", "Admin", "SqsTexts"]

SERVICE = Service(
    signing_name="penstock",
    target_prefix="Penstock",
    shape_namespace="penstock",
    protocols=("rest-json",),
    actions=ACTIONS,
    to_fault=to_fault,
    is_announced=False,
    console_path="admin",
    arns=(ArnKind("penstock", "server"),),
    policies={
        "penstock-read-only": ("penstock:Get*", "penstock:List*", "penstock:Test*"),
        "penstock-full-access": ("penstock:*",),
    },
)
