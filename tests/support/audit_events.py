"""Callers and events for the tests of the audit log."""

from __future__ import annotations

from typing import Any

from penstock.auth.policy import Verdict
from penstock.auth.principal import Principal
from penstock.server.audit import AuditEvent
from penstock.server.audit.encode import encode
from penstock.server.audit.event import cloudtrail_event
from penstock.server.compose import SERVICES
from penstock.wire.service import AuditRule

NOW_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
QUEUE_ARN = "arn:aws:sqs:us-east-1:111111111111:orders"
QUEUE_URL = "https://queues.example.com/111111111111/orders"

ALICE = Principal(
    kind="user",
    account="111111111111",
    arn="arn:aws:iam::111111111111:user/alice",
    id="AIDAALICE",
    name="alice",
    access_key="AKIAALICE",
)
WORKER = Principal(
    kind="session",
    account="111111111111",
    arn="arn:aws:sts::111111111111:assumed-role/worker/batch-7",
    id="AROAWORKER:batch-7",
    role_arn="arn:aws:iam::111111111111:role/jobs/worker",
    access_key="ASIAWORKER",
)
ROOT = Principal(
    kind="root",
    account="111111111111",
    arn="arn:aws:iam::111111111111:root",
    id="111111111111",
    access_key="AKIAROOT",
)
ALLOWED = Verdict(True, "allowed by an identity policy", "identity:queues", "AllowAll")
DENIED = Verdict(False, "no identity-based policy allows the action", None, None)


ROWS = {service.signing_name: service.actions for service, _ in SERVICES}


def rule_of(service: str, action: str) -> tuple[AuditRule, bool]:
    """What is recorded of an action, and whether it only reads."""
    row = ROWS.get(service, {}).get(action)
    return (AuditRule("Management"), False) if row is None else (row.audit, row.read_only)


def event(**changes: Any) -> AuditEvent:
    plain: dict[str, Any] = {
        "at_ms": NOW_MS,
        "request_id": "11111111-2222-3333-4444-555555555555",
        "service": "sqs",
        "action": "CreateQueue",
        "region": "us-east-1",
        "account": "000000000000",
        "source_ip": "192.0.2.7",
        "user_agent": "Boto3/1.42",
        "secure": True,
        "host": "queues.example.com",
        "principal": ALICE,
        "resource": QUEUE_ARN,
        "resource_type": "AWS::SQS::Queue",
        "verdict": ALLOWED,
    }
    fields = {**plain, **changes}
    service = fields.pop("service")
    rule, read_only = rule_of(service, fields["action"])
    fields["source"] = f"{service}.amazonaws.com"
    return AuditEvent(**{"rule": rule, "read_only": read_only, **fields})


def refused(source_ip: str = "192.0.2.66", at_ms: int = NOW_MS, **changes: Any) -> AuditEvent:
    """A signature that does not match."""
    plain: dict[str, Any] = {
        "principal": None,
        "access_key": "AKIAGUESS",
        "verdict": None,
        "resource": "",
        "refused": True,
        "error_code": "SignatureDoesNotMatch",
        "error_message": "The request signature we calculated does not match.",
    }
    return event(source_ip=source_ip, at_ms=at_ms, **{**plain, **changes})


def line_of(event: AuditEvent) -> bytes:
    return encode(cloudtrail_event(event)) + b"\n"
