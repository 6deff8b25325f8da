"""Which events are written, what is suppressed, and a disk that refuses."""

from __future__ import annotations

import errno
import json
import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock import __version__
from penstock.auth.principal import ANONYMOUS
from penstock.server.audit import AuditError, AuditLog, open_audit_log
from penstock.server.audit.file import AuditFile
from penstock.server.audit.rate_cap import EVENTS_MAX, UNVERIFIED_EVENTS_MAX, UNVERIFIED_NAMED_MAX, WINDOW_MS
from penstock.server.settings.config import Config
from support.audit_events import ALICE, DENIED, NOW_MS, WORKER, event, refused, rule_of
from support.texts import says

LARGE = 1024 * 1024
FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
UNEXPECTED = RuntimeError("a bug")


class Clock:
    def __init__(self) -> None:
        self.ms = NOW_MS

    def __call__(self) -> int:
        return self.ms


class BrokenFile(AuditFile):
    """Refuses every append while ``broken`` is set."""

    def __init__(self, path: Path, error: Exception = FULL) -> None:
        super().__init__(path, bytes_max=LARGE, keep=1)
        self.error = error
        self.broken = threading.Event()
        self.refused = threading.Event()

    def append(self, lines: bytes) -> None:
        if self.broken.is_set():
            self.refused.set()
            raise self.error
        super().append(lines)


@contextmanager
def running(file: AuditFile, clock: Clock | None = None, **options: Any) -> Iterator[AuditLog]:
    file.check()
    audit = AuditLog(file, clock or Clock(), **options)
    audit.start()
    try:
        yield audit
    finally:
        audit.close()


def events(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def names(path: Path) -> list[str]:
    return [each["eventName"] for each in events(path)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit" / "audit.jsonl"


@pytest.fixture
def file(path: Path) -> AuditFile:
    return AuditFile(path, bytes_max=LARGE, keep=2)


# -- which events --------------------------------------------------------------------------------------------


def test_a_log_from_start_to_stop(file: AuditFile, path: Path) -> None:
    with running(file) as audit:
        audit.record(event())
    started, change, stopped = events(path)
    assert (started["eventName"], stopped["eventName"]) == ("StartLogging", "StopLogging")
    assert started["serviceEventDetails"] == {"version": __version__, "dataEvents": False}
    assert stopped["serviceEventDetails"] == {"lost": 0}
    assert change["eventName"] == "CreateQueue"


def test_message_requests_are_written_on_request_and_reading_actions_never(
    file: AuditFile, path: Path
) -> None:
    for data_events in (False, True):
        with running(file, data_events=data_events) as audit:
            for action in ("SendMessage", "GetQueueUrl", "DeleteQueue"):
                audit.record(event(action=action))
            assert audit.wants(rule_of("sqs", "SendMessage")[0]) == data_events
            assert audit.wants(rule_of("sqs", "DeleteQueue")[0]) and not audit.wants(
                rule_of("sqs", "GetQueueUrl")[0]
            )
    assert [name for name in names(path) if "Logging" not in name] == [
        "DeleteQueue",
        "SendMessage",
        "DeleteQueue",
    ]


@pytest.mark.parametrize("action", ["SendMessage", "GetQueueUrl", "DeleteQueue", ""])
def test_a_denied_request_is_always_written(file: AuditFile, path: Path, action: str) -> None:
    with running(file) as audit:
        audit.record(event(action=action, verdict=DENIED, error_code="AccessDenied"))
        audit.record(refused(action=action))
    assert [each["additionalEventData"]["decision"] for each in events(path)[1:-1]] == ["denied", "denied"]


def test_a_flood_of_refusals_is_counted(file: AuditFile, path: Path) -> None:
    clock = Clock()
    with running(file, clock) as audit:
        for _ in range(EVENTS_MAX + 7):
            audit.record(refused("192.0.2.66"))
        audit.record(event())
        audit.tick()
        assert audit.flush() and "RefusalsSuppressed" not in names(path)
        clock.ms += WINDOW_MS
        audit.tick()
        assert audit.flush()
        suppressed = events(path)[-1]
        assert suppressed["serviceEventDetails"] == {"caller": "192.0.2.66", "count": 7}
        audit.record(refused("192.0.2.66", at_ms=clock.ms))
    assert names(path).count("CreateQueue") == 1 + EVENTS_MAX + 1


def test_a_flood_of_requests_that_fail_before_a_decision_is_counted(file: AuditFile, path: Path) -> None:
    invalid = event(principal=ANONYMOUS, verdict=None, error_code="MissingParameter")
    with running(file) as audit:
        for _ in range(EVENTS_MAX + 7):
            audit.record(invalid)
        assert not audit.wants(rule_of("sqs", "GetQueueUrl")[0])
        audit.record(event(action="GetQueueUrl", principal=ANONYMOUS, verdict=None, error_code="X"))
    assert names(path).count("CreateQueue") == EVENTS_MAX
    assert "GetQueueUrl" not in names(path)
    suppressed = events(path)[-2]
    assert suppressed["eventName"] == "RequestsSuppressed"
    assert suppressed["serviceEventDetails"] == {"caller": invalid.source_ip, "count": 7}


def test_a_flood_of_allowed_requests_that_fail_is_counted(file: AuditFile, path: Path) -> None:
    """A user with access to one queue cannot displace older events with requests that change nothing."""
    with running(file) as audit:
        for _ in range(EVENTS_MAX + 7):
            audit.record(event(action="TagQueue", error_code="InvalidAttributeName"))
            audit.record(event())
    assert names(path).count("TagQueue") == EVENTS_MAX
    assert names(path).count("CreateQueue") == EVENTS_MAX + 7, "changes are always written"
    suppressed = events(path)[-2]
    assert suppressed["eventName"] == "RequestsSuppressed"
    assert suppressed["serviceEventDetails"] == {"caller": ALICE.arn, "count": 7}


def test_callers_without_a_signature_cannot_hide_what_a_user_was_denied(file: AuditFile, path: Path) -> None:
    denied = event(action="DeleteQueue", verdict=DENIED, error_code="AccessDenied")
    with running(file) as audit:
        for number in range(100):
            for _ in range(60):
                audit.record(refused(f"192.0.2.{number}"))
        for _ in range(EVENTS_MAX + 1):
            audit.record(denied)
    assert names(path).count("DeleteQueue") == EVENTS_MAX
    named = [
        each["serviceEventDetails"] for each in events(path) if each["eventName"] == "RefusalsSuppressed"
    ]
    assert {"caller": ALICE.arn, "count": 1} in named
    assert len(named) == UNVERIFIED_NAMED_MAX + 2, "the largest, the others, and the user"


def test_a_flood_of_requests_that_need_no_permission_is_counted(file: AuditFile, path: Path) -> None:
    """A user without any permission cannot displace older events."""
    with running(file) as audit:
        for _ in range(EVENTS_MAX + 7):
            audit.record(event(service="sts", action="GetCallerIdentity", verdict=None, principal=WORKER))
        for _ in range(EVENTS_MAX + 7):
            audit.record(event(service="sts", action="AssumeRole"))
    assert names(path).count("GetCallerIdentity") == EVENTS_MAX
    assert names(path).count("AssumeRole") == EVENTS_MAX + 7
    suppressed = events(path)[-2]
    assert suppressed["eventName"] == "RequestsSuppressed"
    assert suppressed["serviceEventDetails"] == {"caller": WORKER.role_arn, "count": 7}


SESSION = {"service": "sts", "action": "GetSessionToken", "verdict": None, "resource": ""}


def test_credentials_given_out_are_not_hidden_by_refusals(file: AuditFile, path: Path) -> None:
    with running(file) as audit:
        for number in range(UNVERIFIED_EVENTS_MAX + 7):
            audit.record(refused(f"192.0.2.{number}"))
            audit.record(event(**SESSION, error_code="ValidationError"))
            audit.record(event(verdict=DENIED, error_code="AccessDenied"))
        audit.record(event(**SESSION, response={"accessKeyId": "ASIAGIVEN"}))
    given = [each for each in events(path) if each.get("responseElements") == {"accessKeyId": "ASIAGIVEN"}]
    assert [each["userIdentity"]["userName"] for each in given] == ["alice"]


def test_a_flood_of_given_credentials_is_counted_by_caller(file: AuditFile, path: Path) -> None:
    """They need no permission: a user without any can request as many as it likes."""
    clock = Clock()
    with running(file, clock) as audit:
        for _ in range(EVENTS_MAX + 7):
            audit.record(event(**SESSION))
        audit.record(event(**SESSION, principal=WORKER))
        clock.ms += WINDOW_MS
        audit.tick()
        audit.record(event(**SESSION, at_ms=clock.ms))
    assert names(path).count("GetSessionToken") == EVENTS_MAX + 2
    (suppressed,) = (each for each in events(path) if each["eventName"] == "SessionsSuppressed")
    assert suppressed["serviceEventDetails"] == {"caller": ALICE.arn, "count": 7}


def test_a_stop_writes_the_counts_of_what_was_suppressed(file: AuditFile, path: Path) -> None:
    with running(file) as audit:
        for _ in range(EVENTS_MAX + 1):
            audit.record(refused())
        for _ in range(EVENTS_MAX + 1):
            audit.record(event(**SESSION))
    assert names(path)[-3:] == ["SessionsSuppressed", "RefusalsSuppressed", "StopLogging"]


def test_a_log_that_was_not_started_writes_nothing(file: AuditFile, path: Path) -> None:
    file.check()
    AuditLog(file, Clock()).close()
    assert path.read_bytes() == b""


def test_reopen_starts_a_new_file(file: AuditFile, path: Path) -> None:
    with running(file) as audit:
        assert audit.flush()
        path.rename(path.with_name("moved"))
        audit.reopen()
        assert audit.flush() and path.exists()
        audit.record(event())
    assert names(path) == ["CreateQueue", "StopLogging"]


# -- a disk that refuses -------------------------------------------------------------------------------------


class Lines(logging.Handler):
    """Collects what one logger emits, whatever other tests have done to the handlers above it."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.levelname}: {record.getMessage()}")

    def __enter__(self) -> Lines:
        logging.getLogger("penstock.audit").addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger("penstock.audit").removeHandler(self)


def test_a_full_disk_loses_nothing_if_it_recovers(path: Path) -> None:
    broken = BrokenFile(path)
    with Lines() as log, running(broken) as audit:
        assert audit.flush() and not audit.must_refuse
        broken.broken.set()
        audit.record(event(action="DeleteQueue"))
        assert not audit.flush(0.01)
        assert broken.refused.wait(5)
        audit.record(event(action="PurgeQueue"))
        broken.broken.clear()
        assert audit.flush()
    assert names(path) == ["StartLogging", "DeleteQueue", "PurgeQueue", "StopLogging"]
    failed, recovered = log.lines
    assert failed.startswith("ERROR: ")
    says(failed, "audit log", "No space left on device")
    assert recovered.startswith("WARNING: ")
    says(recovered, "audit log", "again")


def test_a_backlog_is_written_without_pauses(path: Path) -> None:
    """Twelve megabytes are many chunks: with a pause for each it would take ten seconds."""
    large = {"attributes": {"Policy": "p" * 30_000}}
    with running(AuditFile(path, bytes_max=64 * LARGE, keep=1)) as audit:
        for _ in range(400):
            audit.record(event(parameters=large))
        assert audit.flush(5.0)
        assert audit.lost == 0
    assert len(events(path)) == 402


def test_events_beyond_the_buffer_are_lost_and_counted(path: Path) -> None:
    broken = BrokenFile(path)
    with running(broken, buffer_bytes_max=4000) as audit:
        assert audit.flush()
        broken.broken.set()
        for _ in range(50):
            audit.record(event())
        lost = audit.lost
        assert 40 < lost < 50
        broken.broken.clear()
        assert audit.flush()
        lost_events = [each for each in events(path) if each["eventName"] == "EventsLost"]
        assert [each["serviceEventDetails"] for each in lost_events] == [{"count": lost}]
        assert names(path).count("CreateQueue") == 50 - lost
        audit.record(event())
    assert names(path)[-2:] == ["CreateQueue", "StopLogging"]
    assert events(path)[-1]["serviceEventDetails"] == {"lost": lost}


@pytest.mark.parametrize("required", [False, True])
@pytest.mark.parametrize("error", [FULL, UNEXPECTED])
def test_a_required_log_refuses_requests_while_it_fails(path: Path, required: bool, error: Exception) -> None:
    broken = BrokenFile(path, error)
    with running(broken, required=required) as audit:
        assert audit.flush() and not audit.must_refuse
        broken.broken.set()
        audit.record(event())
        assert not audit.flush(0.01) and broken.refused.wait(5)
        assert not audit.flush(0.05)  # time for the writer to take note
        assert audit.must_refuse == required
        broken.broken.clear()
        assert audit.flush()
        assert not audit.must_refuse


# -- settings ------------------------------------------------------------------------------------------------


def test_the_path_of_the_log(tmp_path: Path) -> None:
    secured = Config(credentials=tmp_path / "credentials.toml", data=tmp_path)
    assert secured.audit_file == tmp_path / "audit" / "audit.jsonl"
    assert Config(data=tmp_path).audit_file is None
    assert Config(credentials=tmp_path / "c", memory=True).audit_file is None
    assert Config(credentials=tmp_path / "c", data=tmp_path, audit="off").audit_file is None
    assert Config(audit="/var/log/audit.jsonl").audit_file == Path("/var/log/audit.jsonl")


def test_the_settings_are_applied(tmp_path: Path) -> None:
    assert open_audit_log(Config(data=tmp_path), Clock()) is None
    path = tmp_path / "log"
    config = Config(audit=str(path), audit_data_events=True, audit_max_size=LARGE, audit_keep=1)
    audit = open_audit_log(config, Clock())
    assert audit is not None and audit.path == path
    audit.start()
    audit.record(event(action="SendMessage"))
    audit.close()
    assert names(path) == ["StartLogging", "SendMessage", "StopLogging"]
    with pytest.raises(AuditError, match="audit log"):
        open_audit_log(Config(audit=str(path / "below")), Clock())
