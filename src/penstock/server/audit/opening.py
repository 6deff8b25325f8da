"""Whether there is a trail, and where: what the settings mean."""

from __future__ import annotations

from collections.abc import Callable

from penstock.server.audit.file import TrailFile
from penstock.server.audit.log import Audit
from penstock.server.settings.config import Config


def open_audit(config: Config, now_ms: Callable[[], int]) -> Audit | None:
    """To be started. Raises AuditError if the file cannot be written: a start that leaves no trail is no start."""
    path = config.audit_file
    if path is None:
        return None
    file = TrailFile(path, bytes_max=config.audit_max_size, keep=config.audit_keep)
    file.check()
    return Audit(file, now_ms, data_events=config.audit_data_events, required=config.audit_required)
