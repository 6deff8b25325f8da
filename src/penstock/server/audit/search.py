"""Reading the trail back: which files it is, which events are wanted, and those that are still to come.

What is no event (a crash can leave half of one), and what a damaged file does not give, is left out and counted: what
can be read is shown.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO, Any, NamedTuple

import msgspec

from penstock.clock import iso_time
from penstock.server.audit.event import NOTICE_SOURCE

Event = dict[str, Any]

_NUMBERED = re.compile(r"\.([1-9][0-9]*)(?:\.gz)?")
_AGO = re.compile(r"([1-9][0-9]{0,5})([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


class Line(NamedTuple):
    text: str
    event: Event


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What an event must be to be shown; what is None does not matter."""

    principal: str | None = None  # pattern for its name, ARN, id, access key or account
    action: str | None = None  # pattern
    queue: str | None = None  # name, URL or ARN
    source_ip: str | None = None  # pattern
    certificate: str | None = None  # pattern for whose it was
    denied: bool = False
    since: str | None = None  # as events tell the time, so that texts can be compared
    until: str | None = None

    def takes(self, event: Event) -> bool:
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
    """A count of denied requests is as good as the requests themselves."""
    return part_of(event, "additionalEventData").get("decision") == "denied" or (
        event.get("eventSource") == NOTICE_SOURCE and event.get("eventName") == "RefusalsSuppressed"
    )


def names_of_caller(event: Event) -> list[Any]:
    who = part_of(event, "userIdentity")
    told = [who.get(name) for name in ("userName", "arn", "principalId", "accessKeyId", "accountId")]
    issuer = part_of(part_of(who, "sessionContext"), "sessionIssuer")
    return [
        *told,
        issuer.get("userName"),
        issuer.get("arn"),
        part_of(event, "serviceEventDetails").get("caller"),
    ]


def certificate_of(event: Event) -> str | None:
    """Whose certificate the client showed; None if it showed none."""
    subject = part_of(event, "tlsDetails").get("clientCertificateSubject")
    return None if subject is None else str(subject)


def queue_of(event: Event) -> str:
    """The name of the queue that an event is about, or nothing."""
    resources = event.get("resources")
    for resource in resources if isinstance(resources, list) else ():
        if isinstance(resource, dict) and resource.get("type") == "AWS::SQS::Queue":
            return str(resource.get("ARN")).rpartition(":")[2]
    asked = part_of(event, "requestParameters")
    named = asked.get("queueUrl") or asked.get("queueName") or asked.get("sourceArn") or ""
    return re.split(r"[:/]", str(named))[-1]


def read_moment(text: str, now: datetime) -> str:
    """``2026-01-31``, ``2026-01-31T12:00``, ``...Z``, or how long ago: ``15m``. Raises ValueError."""
    ago = _AGO.fullmatch(text)
    passed = timedelta(**{_UNITS[ago[2]]: int(ago[1])}) if ago else None
    moment = datetime.fromisoformat(text) if passed is None else now - passed
    return iso_time(moment.timestamp())


class Trail:
    """All the files of a trail, read once; then, again and again, what has come since."""

    def __init__(self, path: Path) -> None:
        """The youngest file is opened first: a rotation from here on hides nothing and shows nothing twice."""
        self._path = path
        self._opened: IO[bytes] | None = None
        self._half = b""
        self._lines_left_out = 0
        self._damaged: list[str] = []
        self._open()
        self.older = [file for file in _older(path) if not self._has_open(file)]

    @property
    def exists(self) -> bool:
        return self._opened is not None or bool(self.older)

    def past(self) -> Iterator[Line]:
        """From the oldest line to the end."""
        for file in self.older:
            with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as opened:
                for line in self._undamaged(opened, file):
                    yield from self._read(line)
        yield from self.news()

    def news(self) -> Iterator[Line]:
        """What was appended since the last look, through every rotation."""
        while True:
            moved = not self._has_open(self._path)  # asked first: later lines are in the other file then
            yield from self._rest()
            if not moved or not self._path.exists():
                return
            self._open()

    def left_out(self) -> str:
        """What could not be read since it was last asked, in a few words; empty if all could."""
        count, damaged = self._lines_left_out, self._damaged
        self._lines_left_out, self._damaged = 0, []
        lines = "1 line that is no event" if count == 1 else f"{count} lines that are no events"
        rests = [f"the rest of {name}, which is damaged" for name in damaged]
        return " and ".join([lines, *rests] if count else rests)

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def _open(self) -> None:
        self.close()
        self._half = b""
        with suppress(FileNotFoundError):
            self._opened = self._path.open("rb")

    def _rest(self) -> Iterator[Line]:
        if self._opened is None:
            return
        for part in self._opened:
            self._half += part
            if self._half.endswith(b"\n"):
                line, self._half = self._half, b""
                yield from self._read(line)

    def _undamaged(self, opened: Iterable[bytes], file: Path) -> Iterator[bytes]:
        try:
            yield from opened
        except (EOFError, gzip.BadGzipFile, zlib.error):  # cut off, never whole, or changed
            self._damaged.append(file.name)

    def _read(self, line: bytes) -> Iterator[Line]:
        try:
            text = line.decode().rstrip("\n")
            event = json.loads(text)
        except (ValueError, RecursionError):
            event = None
        if isinstance(event, dict) and isinstance(event.get("eventName"), str):
            yield Line(text, event)
        elif line.strip():
            self._lines_left_out += 1

    def _has_open(self, file: Path) -> bool:
        if self._opened is None:
            return False
        try:
            return os.path.samestat(os.fstat(self._opened.fileno()), file.stat())
        except FileNotFoundError:
            return False


def _older(path: Path) -> list[Path]:
    """The oldest first."""
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
