"""The audit trail: what a request tells, what is kept of it, and the file it is kept in."""

from __future__ import annotations

from penstock.server.audit.event import AuditEvent
from penstock.server.audit.file import AuditError
from penstock.server.audit.log import Audit
from penstock.server.audit.opening import open_audit
from penstock.server.audit.parameters import safe_parameters, safe_response
from penstock.server.audit.recorder import AuditRecorder

__all__ = [
    "Audit",
    "AuditError",
    "AuditEvent",
    "AuditRecorder",
    "open_audit",
    "safe_parameters",
    "safe_response",
]
