"""The audit trail: who called what, from where, and whether it was allowed, one JSON line for each event.

``record`` is called on the loop once per request and never waits: it makes the line and hands it to the thread
of :mod:`penstock.server.audit.writer`. Requests go on when the trail cannot be written, unless the operator
required otherwise: then :attr:`Audit.must_refuse` says so for as long as it lasts.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock import __version__
from penstock.server.audit.actions import left_out
from penstock.server.audit.event import AuditEvent, cloudtrail, encoded, notice
from penstock.server.audit.file import TrailFile
from penstock.server.audit.rate_cap import PRINCIPALS, SESSIONS, STRANGERS, Flood
from penstock.server.audit.writer import HELD_BYTES_MAX, TrailWriter


class Audit:
    def __init__(
        self,
        file: TrailFile,
        now_ms: Callable[[], int],
        *,
        data_events: bool = False,
        required: bool = False,
        held_bytes_max: int = HELD_BYTES_MAX,
    ) -> None:
        self.path = file.path
        self._now_ms = now_ms  # the wall clock
        self._data_events = data_events
        self._left_out = left_out(data_events=data_events)
        self._required = required
        self._strangers = Flood(STRANGERS)
        self._principals = Flood(PRINCIPALS)
        self._sessions = Flood(SESSIONS)  # given to whoever asked, as no policy has to allow it
        self._writer = TrailWriter(file, self._lost_line, held_bytes_max=held_bytes_max)

    def start(self) -> None:
        """Called once the data is ours: a start that fails leaves the trail of a server that runs alone."""
        self._writer.start()
        self._note("StartLogging", {"version": __version__, "dataEvents": self._data_events})

    def wants(self, service: str, action: str) -> bool:
        """Whether a request that was not refused is worth an event. One that was refused always is."""
        return (service, action) not in self._left_out

    def record(self, event: AuditEvent) -> None:
        if not event.denied and not self.wants(event.service, event.action):
            return
        if event.bounded and not self._flood(event).take(event.caller, event.at_ms, denied=event.denied):
            return
        self._writer.put(encoded(cloudtrail(event)))

    def _flood(self, event: AuditEvent) -> Flood:
        if event.gave_credentials:
            return self._sessions
        return self._principals if event.verified else self._strangers

    @property
    def must_refuse(self) -> bool:
        """The operator wants no request served that the trail could not tell of."""
        return self._required and (self._writer.failing or self._writer.full)

    @property
    def lost(self) -> int:
        """Events that are missing from the trail since the start."""
        return self._writer.lost_in_all

    def tick(self) -> None:
        """Called about once a second: tells what was suppressed, when its minute is over."""
        now_ms = self._now_ms()
        for flood in (self._strangers, self._principals):
            if flood.is_over(now_ms):
                self._tell_suppressed_requests(flood)
        if self._sessions.is_over(now_ms):
            self._tell_suppressed_sessions()

    def reopen(self) -> None:
        """Begin with the file that now has the name: whoever moved the other one away may have it."""
        self._writer.reopen()

    def flush(self, timeout_s: float = 10.0) -> bool:
        return self._writer.flush(timeout_s)

    def close(self) -> None:
        """What was never started has nothing to say."""
        if not self._writer.started:
            return
        self._tell_suppressed_requests(self._strangers)
        self._tell_suppressed_requests(self._principals)
        self._tell_suppressed_sessions()
        self._note("StopLogging", {"lost": self.lost})
        self._writer.close()

    def _tell_suppressed_requests(self, flood: Flood) -> None:
        for caller, denied, requests in flood.end():
            name = "RefusalsSuppressed" if denied else "RequestsSuppressed"
            self._note(name, {"caller": caller, "count": requests})

    def _tell_suppressed_sessions(self) -> None:
        for caller, _, sessions in self._sessions.end():
            self._note("SessionsSuppressed", {"caller": caller, "count": sessions})

    def _lost_line(self, count: int) -> bytes:
        return encoded(notice(self._now_ms(), "EventsLost", {"count": count}))

    def _note(self, name: str, details: dict[str, object]) -> None:
        self._writer.put(encoded(notice(self._now_ms(), name, details)))
