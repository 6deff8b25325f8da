"""The audit log: one JSON line for each event.

``record`` is called on the event loop at most once per request and never waits: it makes the line and passes it to
the thread of :mod:`penstock.server.audit.writer`. Requests are served even if the log cannot be written, unless the
operator requires otherwise: then :attr:`AuditLog.must_refuse` is true for as long as that lasts.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock import __version__
from penstock.server.audit.encode import encode
from penstock.server.audit.event import AuditEvent, cloudtrail_event, log_event
from penstock.server.audit.file import AuditFile
from penstock.server.audit.rate_cap import UNVERIFIED_EVENTS_MAX, UNVERIFIED_NAMED_MAX, Outcome, RateCap
from penstock.server.audit.writer import BUFFER_BYTES_MAX, AuditWriter
from penstock.server.settings.config import Config
from penstock.wire.service import AuditRule

_SUPPRESSED: dict[Outcome, str] = {
    "denied": "RefusalsSuppressed",
    "unchanged": "RequestsSuppressed",
    "credentials": "SessionsSuppressed",
}


def open_audit_log(config: Config, now_ms: Callable[[], int]) -> AuditLog | None:
    """Returns the audit log, not started yet, or None if none is configured. Raises AuditError if the file cannot
    be written: the server must not start without its audit log."""
    path = config.audit_file
    if path is None:
        return None
    file = AuditFile(
        path, bytes_max=config.audit_max_size, keep=config.audit_keep, shared=config.processes > 1
    )
    file.check()
    return AuditLog(file, now_ms, data_events=config.audit_data_events, required=config.audit_required)


class AuditLog:
    def __init__(
        self,
        file: AuditFile,
        now_ms: Callable[[], int],
        *,
        data_events: bool = False,
        required: bool = False,
        buffer_bytes_max: int = BUFFER_BYTES_MAX,
    ) -> None:
        self.path = file.path
        self._now_ms = now_ms  # the wall clock
        self._data_events = data_events
        self._required = required
        self._verified = RateCap()
        self._unverified = RateCap(total_max=UNVERIFIED_EVENTS_MAX, named_max=UNVERIFIED_NAMED_MAX)
        self._writer = AuditWriter(file, self._lost_line, buffer_bytes_max=buffer_bytes_max)

    def start(self) -> None:
        """Begin to write. Call it when the data directory is locked: a start that fails must not write into the log
        of a running server."""
        self._writer.start()
        self._note("StartLogging", {"version": __version__, "dataEvents": self._data_events})

    def wants(self, rule: AuditRule) -> bool:
        """Whether a request that was not denied is recorded. One that was denied always is."""
        return rule.category == "Management" or (rule.category == "Data" and self._data_events)

    def record(self, event: AuditEvent) -> None:
        if not event.denied and not self.wants(event.rule):
            return
        if (outcome := event.capped_outcome) is not None:
            cap = self._verified if event.verified else self._unverified
            if not cap.admit(event.caller, outcome, event.at_ms):
                return
        self._writer.put(encode(cloudtrail_event(event)) + b"\n")

    @property
    def must_refuse(self) -> bool:
        """Whether requests must be refused: those that could not be recorded must not be served."""
        return self._required and (self._writer.failing or self._writer.full)

    @property
    def lost(self) -> int:
        """Events lost since the start."""
        return self._writer.lost_total

    def tick(self) -> None:
        """Write the counts of what was suppressed when a minute has ended. Call it about once a second."""
        now_ms = self._now_ms()
        for cap in (self._verified, self._unverified):
            if cap.is_over(now_ms):
                self._note_suppressed(cap)

    def reopen(self) -> None:
        """Continue in the file that now has the name: the old one was moved away."""
        self._writer.reopen()

    def flush(self, timeout_s: float = 10.0) -> bool:
        return self._writer.flush(timeout_s)

    def close(self) -> None:
        if not self._writer.started:
            return
        self._note_suppressed(self._verified)
        self._note_suppressed(self._unverified)
        self._note("StopLogging", {"lost": self.lost})
        self._writer.close()

    def _note_suppressed(self, cap: RateCap) -> None:
        for caller, outcome, events in cap.end_window():
            self._note(_SUPPRESSED[outcome], {"caller": caller, "count": events})

    def _lost_line(self, count: int) -> bytes:
        return encode(log_event(self._now_ms(), "EventsLost", {"count": count})) + b"\n"

    def _note(self, name: str, details: dict[str, object]) -> None:
        self._writer.put(encode(log_event(self._now_ms(), name, details)) + b"\n")
