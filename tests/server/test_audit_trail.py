"""Which events get into the trail's file, when it begins and ends, and a disk that refuses."""

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
from penstock.server.audit import Audit, AuditError, open_audit
from penstock.server.audit.file import TrailFile
from penstock.server.audit.rate_cap import PRINCIPALS, SESSIONS, STRANGERS, WINDOW_MS
from penstock.server.settings.config import Config
from server.audit_events import ALICE, DENIED, NOW_MS, WORKER, event, refused

LARGE = 1024 * 1024
FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
UNFORESEEN = RuntimeError("a bug")


class Clock:
    def __init__(self) -> None:
        self.ms = NOW_MS

    def __call__(self) -> int:
        return self.ms


class BrokenFile(TrailFile):
    """Refuses whatever it is given for as long as the test wants it to."""

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
def running(file: TrailFile, clock: Clock | None = None, **options: Any) -> Iterator[Audit]:
    file.check()
    audit = Audit(file, clock or Clock(), **options)
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
def file(path: Path) -> TrailFile:
    return TrailFile(path, bytes_max=LARGE, keep=2)


# -- which events --------------------------------------------------------------------------------------------


def test_a_trail_from_start_to_stop(file: TrailFile, path: Path) -> None:
    with running(file) as audit:
        audit.record(event())
    started, change, stopped = events(path)
    assert (started["eventName"], stopped["eventName"]) == ("StartLogging", "StopLogging")
    assert started["serviceEventDetails"] == {"version": __version__, "dataEvents": False}
    assert stopped["serviceEventDetails"] == {"lost": 0}
    assert change["eventName"] == "CreateQueue"


def test_message_requests_are_written_on_request_and_looking_around_never(
    file: TrailFile, path: Path
) -> None:
    for data_events in (False, True):
        with running(file, data_events=data_events) as audit:
            for action in ("SendMessage", "GetQueueUrl", "DeleteQueue"):
                audit.record(event(action=action))
            assert audit.wants("sqs", "SendMessage") == data_events
            assert audit.wants("sqs", "DeleteQueue") and not audit.wants("sqs", "GetQueueUrl")
    assert [name for name in names(path) if "Logging" not in name] == [
        "DeleteQueue",
        "SendMessage",
        "DeleteQueue",
    ]


@pytest.mark.parametrize("action", ["SendMessage", "GetQueueUrl", "DeleteQueue", ""])
def test_a_denied_request_is_always_written(file: TrailFile, path: Path, action: str) -> None:
    with running(file) as audit:
        audit.record(event(action=action, verdict=DENIED, error_code="AccessDenied"))
        audit.record(refused(action=action))
    assert [each["additionalEventData"]["decision"] for each in events(path)[1:-1]] == ["denied", "denied"]


def test_a_flood_of_refusals_is_counted(file: TrailFile, path: Path) -> None:
    clock = Clock()
    with running(file, clock) as audit:
        for _ in range(STRANGERS.per_caller + 7):
            audit.record(refused("192.0.2.66"))
        audit.record(event())
        audit.tick()
        assert audit.flush() and "RefusalsSuppressed" not in names(path)
        clock.ms += WINDOW_MS
        audit.tick()
        assert audit.flush()
        told = events(path)[-1]
        assert told["serviceEventDetails"] == {"caller": "192.0.2.66", "count": 7}
        audit.record(refused("192.0.2.66", at_ms=clock.ms))
    assert names(path).count("CreateQueue") == 1 + STRANGERS.per_caller + 1


def test_a_flood_of_requests_that_fail_before_anybody_is_asked_is_counted_too(
    file: TrailFile, path: Path
) -> None:
    senseless = event(principal=ANONYMOUS, verdict=None, error_code="MissingParameter")
    with running(file) as audit:
        for _ in range(STRANGERS.per_caller + 7):
            audit.record(senseless)
        assert not audit.wants("sqs", "GetQueueUrl")
        audit.record(event(action="GetQueueUrl", principal=ANONYMOUS, verdict=None, error_code="X"))
    assert names(path).count("CreateQueue") == STRANGERS.per_caller
    assert "GetQueueUrl" not in names(path)
    suppressed = events(path)[-2]
    assert suppressed["eventName"] == "RequestsSuppressed"
    assert suppressed["serviceEventDetails"] == {"caller": senseless.source_ip, "count": 7}


def test_a_flood_of_requests_that_were_allowed_and_failed_is_counted_too(file: TrailFile, path: Path) -> None:
    """Whoever may change one queue cannot push older events out of the trail by what changes nothing."""
    with running(file) as audit:
        for _ in range(PRINCIPALS.per_caller + 7):
            audit.record(event(action="TagQueue", error_code="InvalidAttributeName"))
            audit.record(event())
    assert names(path).count("TagQueue") == PRINCIPALS.per_caller
    assert names(path).count("CreateQueue") == PRINCIPALS.per_caller + 7, "what was done is always written"
    suppressed = events(path)[-2]
    assert suppressed["eventName"] == "RequestsSuppressed"
    assert suppressed["serviceEventDetails"] == {"caller": ALICE.arn, "count": 7}


def test_strangers_cannot_hide_what_a_principal_was_denied(file: TrailFile, path: Path) -> None:
    denied = event(action="DeleteQueue", verdict=DENIED, error_code="AccessDenied")
    with running(file) as audit:
        for number in range(100):
            for _ in range(60):
                audit.record(refused(f"192.0.2.{number}"))
        for _ in range(PRINCIPALS.per_caller + 1):
            audit.record(denied)
    assert names(path).count("DeleteQueue") == PRINCIPALS.per_caller
    named = [
        each["serviceEventDetails"] for each in events(path) if each["eventName"] == "RefusalsSuppressed"
    ]
    assert {"caller": ALICE.arn, "count": 1} in named
    assert len(named) == STRANGERS.counts + 2, "the worst, the others, and the principal"


def test_a_flood_of_requests_that_need_no_permission_is_counted_too(file: TrailFile, path: Path) -> None:
    """Whoever has a key, and no rights, cannot push older events out of the trail."""
    with running(file) as audit:
        for _ in range(PRINCIPALS.per_caller + 7):
            audit.record(event(service="sts", action="GetCallerIdentity", verdict=None, principal=WORKER))
        for _ in range(PRINCIPALS.per_caller + 7):
            audit.record(event(service="sts", action="AssumeRole"))
    assert names(path).count("GetCallerIdentity") == PRINCIPALS.per_caller
    assert names(path).count("AssumeRole") == PRINCIPALS.per_caller + 7
    suppressed = events(path)[-2]
    assert suppressed["eventName"] == "RequestsSuppressed"
    assert suppressed["serviceEventDetails"] == {"caller": WORKER.role_arn, "count": 7}


SESSION = {"service": "sts", "action": "GetSessionToken", "verdict": None, "resource": ""}


def test_credentials_that_were_given_out_do_not_drown_in_refusals(file: TrailFile, path: Path) -> None:
    with running(file) as audit:
        for number in range(STRANGERS.in_all + 7):
            audit.record(refused(f"192.0.2.{number}"))
            audit.record(event(**SESSION, error_code="ValidationError"))
            audit.record(event(verdict=DENIED, error_code="AccessDenied"))
        audit.record(event(**SESSION, response={"accessKeyId": "ASIAGIVEN"}))
    given = [each for each in events(path) if each.get("responseElements") == {"accessKeyId": "ASIAGIVEN"}]
    assert [each["userIdentity"]["userName"] for each in given] == ["alice"]


def test_a_flood_of_given_credentials_is_counted_by_caller(file: TrailFile, path: Path) -> None:
    """No policy is asked for them: whoever has a key, and no rights, can have as many as he likes."""
    clock = Clock()
    with running(file, clock) as audit:
        for _ in range(SESSIONS.per_caller + 7):
            audit.record(event(**SESSION))
        audit.record(event(**SESSION, principal=WORKER))
        clock.ms += WINDOW_MS
        audit.tick()
        audit.record(event(**SESSION, at_ms=clock.ms))
    assert names(path).count("GetSessionToken") == SESSIONS.per_caller + 2
    (suppressed,) = (each for each in events(path) if each["eventName"] == "SessionsSuppressed")
    assert suppressed["serviceEventDetails"] == {"caller": ALICE.arn, "count": 7}


def test_a_stop_tells_what_was_suppressed(file: TrailFile, path: Path) -> None:
    with running(file) as audit:
        for _ in range(STRANGERS.per_caller + 1):
            audit.record(refused())
        for _ in range(SESSIONS.per_caller + 1):
            audit.record(event(**SESSION))
    assert names(path)[-3:] == ["RefusalsSuppressed", "SessionsSuppressed", "StopLogging"]


def test_a_trail_that_was_not_started_says_nothing(file: TrailFile, path: Path) -> None:
    file.check()
    Audit(file, Clock()).close()
    assert path.read_bytes() == b""


def test_reopen_begins_a_new_file(file: TrailFile, path: Path) -> None:
    with running(file) as audit:
        assert audit.flush()
        path.rename(path.with_name("moved"))
        audit.reopen()
        assert audit.flush() and path.exists()
        audit.record(event())
    assert names(path) == ["CreateQueue", "StopLogging"]


# -- a disk that refuses -------------------------------------------------------------------------------------


def test_a_full_disk_costs_nothing_if_it_passes(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("penstock").propagate = True
    broken = BrokenFile(path)
    with running(broken) as audit:
        assert audit.flush() and not audit.must_refuse
        broken.broken.set()
        audit.record(event(action="DeleteQueue"))
        assert not audit.flush(0.01)
        assert broken.refused.wait(5)
        audit.record(event(action="PurgeQueue"))
        broken.broken.clear()
        assert audit.flush()
    assert names(path) == ["StartLogging", "DeleteQueue", "PurgeQueue", "StopLogging"]
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]
    assert "No space left" in caplog.text


def test_a_backlog_is_written_without_pauses(path: Path) -> None:
    """Twelve megabytes are many portions: with a pause for each it would take ten seconds."""
    large = {"attributes": {"Policy": "p" * 30_000}}
    with running(TrailFile(path, bytes_max=64 * LARGE, keep=1)) as audit:
        for _ in range(400):
            audit.record(event(parameters=large))
        assert audit.flush(5.0)
        assert audit.lost == 0
    assert len(events(path)) == 402


def test_events_beyond_the_bound_are_lost_and_counted(path: Path) -> None:
    broken = BrokenFile(path)
    with running(broken, held_bytes_max=4000) as audit:
        assert audit.flush()
        broken.broken.set()
        for _ in range(50):
            audit.record(event())
        lost = audit.lost
        assert 40 < lost < 50
        broken.broken.clear()
        assert audit.flush()
        told = [each for each in events(path) if each["eventName"] == "EventsLost"]
        assert [each["serviceEventDetails"] for each in told] == [{"count": lost}]
        assert names(path).count("CreateQueue") == 50 - lost
        audit.record(event())
    assert names(path)[-2:] == ["CreateQueue", "StopLogging"]
    assert events(path)[-1]["serviceEventDetails"] == {"lost": lost}


@pytest.mark.parametrize("required", [False, True])
@pytest.mark.parametrize("error", [FULL, UNFORESEEN])
def test_who_requires_the_trail_gets_refusals_while_it_fails(
    path: Path, required: bool, error: Exception
) -> None:
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


def test_where_the_trail_is(tmp_path: Path) -> None:
    secured = Config(credentials=tmp_path / "credentials.toml", data=tmp_path)
    assert secured.audit_file == tmp_path / "audit" / "audit.jsonl"
    assert Config(data=tmp_path).audit_file is None
    assert Config(credentials=tmp_path / "c", memory=True).audit_file is None
    assert Config(credentials=tmp_path / "c", data=tmp_path, audit="off").audit_file is None
    assert Config(audit="/var/log/audit.jsonl").audit_file == Path("/var/log/audit.jsonl")


def test_the_settings_reach_the_trail(tmp_path: Path) -> None:
    assert open_audit(Config(data=tmp_path), Clock()) is None
    path = tmp_path / "trail"
    config = Config(audit=str(path), audit_data_events=True, audit_max_size=LARGE, audit_keep=1)
    audit = open_audit(config, Clock())
    assert audit is not None and audit.path == path
    audit.start()
    audit.record(event(action="SendMessage"))
    audit.close()
    assert names(path) == ["StartLogging", "SendMessage", "StopLogging"]
    with pytest.raises(AuditError, match="cannot write the audit trail"):
        open_audit(Config(audit=str(path / "below")), Clock())
