"""Whether there is a trail, and where: what the settings mean."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from penstock.server.audit.file import TrailFile
from penstock.server.audit.log import Audit
from penstock.server.settings.config import Config


def trail_path(config: Config) -> Path | None:
    """None: there is no trail."""
    if not config.keeps_trail:
        return None
    return default_path(config) if config.audit == "auto" else Path(config.audit)


def default_path(config: Config) -> Path:
    return config.data / "audit" / "audit.jsonl"


def open_audit(config: Config, now_ms: Callable[[], int]) -> Audit | None:
    """To be started. Raises AuditError if the file cannot be written: a start that leaves no trail is no start."""
    path = trail_path(config)
    if path is None:
        return None
    file = TrailFile(path, bytes_max=config.audit_max_size, keep=config.audit_keep)
    file.check()
    return Audit(file, now_ms, data_events=config.audit_data_events, required=config.audit_required)
