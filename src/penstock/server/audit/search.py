"""Reads the audit log: its files, the events that match a filter, and those still to be written.

Lines that are not events (a crash can leave an unfinished one) and the rest of a damaged file are skipped and
counted.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO, Any, NamedTuple

import msgspec

from penstock.clock import iso_time
from penstock.server.audit.event import LOG_SOURCE

Event = dict[str, Any]

_LINE_BYTES_MAX = 4 * 1024 * 1024  # several times the largest event
_NUMBERED = re.compile(r"\.([1-9][0-9]*)(?:\.gz)?")
_AGO = re.compile(r"([1-9][0-9]{0,5})([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


class Line(NamedTuple):
    text: str
    event: Event


class EventFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which events are shown. None: any."""

    principal: str | None = None  # pattern for name, ARN, id, access key or account
    action: str | None = None  # pattern
    queue: str | None = None  # name, URL or ARN
    source_ip: str | None = None  # pattern
    certificate: str | None = None  # pattern for its subject
    denied: bool = False
    since: str | None = None  # in the format of events, so that texts can be compared
    until: str | None = None

    def matches(self, event: Event) -> bool:
        at = str(event.get("eventTime", ""))
        if (self.since is not None and at < self.since) or (self.until is not None and at >= self.until):
            return False
        if self.denied and not is_denied(event):
            return False
        return (
            _matches(self.principal, names_of_caller(event))
            and _matches(self.action and self.action.rpartition(":")[2], [event.get("eventName")])
            and _matches(self.source_ip, [event.get("sourceIPAddress")])
            and _matches(self.certificate, [certificate_of(event)])
            and (self.queue is None or queue_of(event) == re.split(r"[:/]", self.queue)[-1])
        )


def is_denied(event: Event) -> bool:
    """Whether the event is a denied request, or a count of denied requests."""
    return part_of(event, "additionalEventData").get("decision") == "denied" or (
        event.get("eventSource") == LOG_SOURCE and event.get("eventName") == "RefusalsSuppressed"
    )


def names_of_caller(event: Event) -> list[Any]:
    who = part_of(event, "userIdentity")
    names = [who.get(name) for name in ("userName", "arn", "principalId", "accessKeyId", "accountId")]
    issuer = part_of(part_of(who, "sessionContext"), "sessionIssuer")
    return [
        *names,
        issuer.get("userName"),
        issuer.get("arn"),
        part_of(event, "serviceEventDetails").get("caller"),
    ]


def certificate_of(event: Event) -> str | None:
    """The subject of the client certificate; None if there was none."""
    subject = part_of(event, "tlsDetails").get("clientCertificateSubject")
    return None if subject is None else str(subject)


def queue_of(event: Event) -> str:
    """The name of the queue that an event is about, or an empty text."""
    resources = event.get("resources")
    for resource in resources if isinstance(resources, list) else ():
        if isinstance(resource, dict) and resource.get("type") == "AWS::SQS::Queue":
            return str(resource.get("ARN")).rpartition(":")[2]
    asked = part_of(event, "requestParameters")
    named = asked.get("queueUrl") or asked.get("queueName") or asked.get("sourceArn") or ""
    return re.split(r"[:/]", str(named))[-1]


class EventSummary(NamedTuple):
    """One line about an event."""

    at: str
    decision: str
    caller: str
    action: str
    queue: str
    address: str
    note: str  # the code of the error


def summarize(event: Event) -> EventSummary:
    at, name = str(event.get("eventTime")), event["eventName"]
    if details := part_of(event, "serviceEventDetails"):  # an event about the log itself
        text = " ".join(f"{name}={value}" for name, value in details.items())
        return EventSummary(at, "denied" if is_denied(event) else "-", "-", name, "-", "-", text)
    return EventSummary(
        at,
        str(part_of(event, "additionalEventData").get("decision", "-")),
        _caller(event),
        name,
        queue_of(event) or "-",
        str(event.get("sourceIPAddress")),
        str(event.get("errorCode") or ""),
    )


def _caller(event: Event) -> str:
    identity = part_of(event, "userIdentity")
    if "arn" in identity:
        # user/alice, assumed-role/worker/session, root; the event itself has the account
        return str(identity["arn"]).rpartition(":")[2]
    if identity.get("type") == "Unknown":
        return f"unknown {identity.get('accessKeyId', '')}".strip()
    return "anonymous"


def newest_events(path: Path, chosen: EventFilter, events_max: int) -> list[EventSummary]:
    """The newest ones that match, the newest first. Blocks while it reads the whole log."""
    with closing(AuditReader(path)) as reader:
        lines = (line.event for line in reader.existing() if chosen.matches(line.event))
        return [summarize(event) for event in reversed(deque(lines, events_max))]


def parse_time(text: str, now: datetime) -> str:
    """``2026-01-31``, ``2026-01-31T12:00``, ``...Z``, or an age: ``15m``. Raises ValueError."""
    ago = _AGO.fullmatch(text)
    passed = timedelta(**{_UNITS[ago[2]]: int(ago[1])}) if ago else None
    moment = datetime.fromisoformat(text) if passed is None else now - passed
    return iso_time(moment.timestamp())


class AuditReader:
    """All files of an audit log, read once; then, on each call, what has been appended since."""

    def __init__(self, path: Path) -> None:
        """The current file is opened first, so that a rotation from here on neither hides nor repeats lines."""
        self._path = path
        self._current: _Lines | None = None
        self._skipped_lines = 0
        self._damaged: list[str] = []
        self._open()
        self.older = [file for file in _older(path) if not self._has_open(file)]

    @property
    def exists(self) -> bool:
        return self._current is not None or bool(self.older)

    def existing(self) -> Iterator[Line]:
        """Yields all lines that exist, from the oldest one on."""
        for path in self.older:
            with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
                lines = _Lines(file)
                try:
                    for line in lines:
                        yield from self._parse(line)
                except (EOFError, gzip.BadGzipFile, zlib.error):  # incomplete or changed
                    self._damaged.append(path.name)
                else:
                    yield from self._parse(lines.unfinished)
        yield from self.appended()

    def appended(self) -> Iterator[Line]:
        """What was appended since the last call, through every rotation."""
        while True:
            moved = not self._has_open(self._path)  # checked first: later lines are in the other file then
            for line in self._current or ():
                yield from self._parse(line)
            if not moved or not self._path.exists():
                return
            self._open()

    def skipped(self) -> str:
        """What could not be read since the last call, in a few words; empty if everything could."""
        count, damaged = self._skipped_lines, self._damaged
        self._skipped_lines, self._damaged = 0, []
        lines = "1 line that is not an event" if count == 1 else f"{count} lines that are not events"
        rests = [f"the rest of {name}, which is damaged" for name in damaged]
        return " and ".join([lines, *rests] if count else rests)

    def close(self) -> None:
        if self._current is not None:
            self._current.file.close()
            self._current = None

    def _open(self) -> None:
        self.close()
        with suppress(FileNotFoundError):
            self._current = _Lines(self._path.open("rb"))

    def _parse(self, line: bytes) -> Iterator[Line]:
        try:
            text = line.decode().rstrip("\n")
            event = json.loads(text) if len(line) <= _LINE_BYTES_MAX else None
        except (ValueError, RecursionError):
            event = None
        if isinstance(event, dict) and isinstance(event.get("eventName"), str):
            yield Line(text, event)
        elif line.strip():
            self._skipped_lines += 1

    def _has_open(self, path: Path) -> bool:
        if self._current is None:
            return False
        try:
            return os.path.samestat(os.fstat(self._current.file.fileno()), path.stat())
        except FileNotFoundError:
            return False


class _Lines:
    """The complete lines of a file, which may grow between iterations. Only the beginning of a line longer than any
    event is kept, because a small compressed file can hold an endless line."""

    def __init__(self, file: IO[bytes] | gzip.GzipFile) -> None:
        self.file = file
        self.unfinished = b""

    def __iter__(self) -> Iterator[bytes]:
        while part := self.file.readline(_LINE_BYTES_MAX):
            self.unfinished = (self.unfinished + part)[: _LINE_BYTES_MAX + 1]
            if part.endswith(b"\n"):
                line, self.unfinished = self.unfinished, b""
                yield line


def _older(path: Path) -> list[Path]:
    """The rotated files, the oldest first."""
    found = []
    for each in path.parent.iterdir() if path.parent.is_dir() else ():
        if each.name.startswith(path.name) and (number := _NUMBERED.fullmatch(each.name[len(path.name) :])):
            found.append((int(number[1]), each))
    return [each for _, each in sorted(found, reverse=True)]


def part_of(event: Event, name: str) -> Event:
    found = event.get(name)
    return found if isinstance(found, dict) else {}


def _matches(pattern: str | None, values: Iterable[Any]) -> bool:
    if not pattern:
        return True
    return any(fnmatchcase(str(value).lower(), pattern.lower()) for value in values if value is not None)
