"""The audit log: who called what, from where, and whether it was allowed."""

from __future__ import annotations

from penstock.server.audit.event import AuditEvent
from penstock.server.audit.file import AuditError
from penstock.server.audit.log import AuditLog, open_audit_log
from penstock.server.audit.recorder import AuditRecorder

__all__ = ["AuditError", "AuditEvent", "AuditLog", "AuditRecorder", "open_audit_log"]
