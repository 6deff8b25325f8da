"""``penstock audit``: filters, tables, rotated and damaged files, and following."""

from __future__ import annotations

import gzip
import json
import re
import resource
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from penstock.cli import main
from penstock.server.audit.encode import encode
from penstock.server.audit.event import log_event
from penstock.server.audit.search import AuditReader, parse_time
from support.audit_events import DENIED, NOW_MS, QUEUE_URL, WORKER, event, line_of, refused
from support.texts import says

MINUTE_MS = 60_000
NOW = datetime.fromtimestamp(NOW_MS / 1000, UTC)


def penstock(*arguments: object, **environment: str) -> Result:
    return CliRunner().invoke(main, ["audit", *map(str, arguments)], env=environment)


def log_line(at_ms: int, name: str, details: dict[str, object]) -> bytes:
    return encode(log_event(at_ms, name, details)) + b"\n"


def line(name: str, minute: int) -> bytes:
    return line_of(event(action=name, at_ms=NOW_MS + minute * MINUTE_MS))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.jsonl"


@pytest.fixture
def log(path: Path) -> Path:
    path.write_bytes(
        log_line(NOW_MS, "StartLogging", {"version": "1"})
        + line("CreateQueue", 0)
        + line_of(
            event(
                principal=WORKER,
                action="DeleteQueue",
                at_ms=NOW_MS + MINUTE_MS,
                verdict=DENIED,
                error_code="AccessDenied",
                source_ip="198.51.100.1",
            )
        )
        + line_of(refused(at_ms=NOW_MS + 2 * MINUTE_MS, action="SendMessage"))
        + line_of(
            event(
                action="TagQueue",
                at_ms=NOW_MS + 3 * MINUTE_MS,
                resource="",
                parameters={"queueUrl": QUEUE_URL.replace("orders", "bills")},
            )
        )
        + log_line(NOW_MS + 4 * MINUTE_MS, "RefusalsSuppressed", {"caller": "192.0.2.66", "count": 9})
    )
    return path


def actions(*arguments: object) -> list[str]:
    result = penstock(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return [json.loads(each)["eventName"] for each in result.stdout.splitlines()]


def test_the_table(log: Path) -> None:
    head, started, created, deleted, sent, tagged, suppressed = penstock(log).output.splitlines()
    assert head.split() == ["TIME", "DECISION", "CALLER", "ACTION", "QUEUE", "FROM", "ERROR"]
    assert started.split() == ["2026-01-01T00:00:00Z", "-", "-", "StartLogging", "-", "-", "version=1"]
    assert created.split() == [
        "2026-01-01T00:00:00Z", "allowed", "user/alice", "CreateQueue", "orders", "192.0.2.7"
    ]  # fmt: skip
    assert deleted.split()[1:3] == ["denied", "assumed-role/worker/batch-7"]
    assert deleted.split()[-1] == "AccessDenied"
    assert sent.split()[1:4] == ["denied", "unknown", "AKIAGUESS"]
    assert tagged.split()[4] == "bills"
    assert suppressed.split()[-2:] == ["caller=192.0.2.66", "count=9"]
    assert len({text.index(word) for text, word in ((head, "ACTION"), (created, "CreateQueue"))}) == 1


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (["--user", "alice"], ["CreateQueue", "TagQueue"]),
        (["--principal", "*/ALI*"], ["CreateQueue", "TagQueue"]),
        (["--principal", "AKIAGUESS"], ["SendMessage"]),
        (["--principal", "worker"], ["DeleteQueue"]),
        (["--principal", "arn:aws:iam::111111111111:role/jobs/worker"], ["DeleteQueue"]),
        (["--action", "sqs:*Queue"], ["CreateQueue", "DeleteQueue", "TagQueue"]),
        (["--action", "tagqueue"], ["TagQueue"]),
        (["--queue", "orders"], ["CreateQueue", "DeleteQueue"]),
        (["--queue", "arn:aws:sqs:us-east-1:111111111111:orders"], ["CreateQueue", "DeleteQueue"]),
        (["--queue", "http://127.0.0.1:9324/111111111111/bills"], ["TagQueue"]),
        (["--denied"], ["DeleteQueue", "SendMessage", "RefusalsSuppressed"]),
        (["--source-ip", "198.51.100.*"], ["DeleteQueue"]),
        (["--since", "2026-01-01T00:03:00Z"], ["TagQueue", "RefusalsSuppressed"]),
        (["--until", "2026-01-01T00:01:00Z"], ["StartLogging", "CreateQueue"]),
        (["--since", "2026-01-01T01:01:00+01:00", "--until", "2026-01-01T00:02:00Z"], ["DeleteQueue"]),
        (["--last", "2"], ["TagQueue", "RefusalsSuppressed"]),
        (["--last", "1", "--user", "alice"], ["TagQueue"]),
        (["--user", "nobody"], []),
    ],
)  # fmt: skip
def test_filters(log: Path, arguments: list[str], found: list[str]) -> None:
    assert actions(log, *arguments) == found


def test_client_certificates(path: Path) -> None:
    shown = [event(certificate="CN=worker-7,O=Orders"), event(action="TagQueue", certificate="CN=ci")]
    path.write_bytes(b"".join(line_of(each) for each in [*shown, event(action="PurgeQueue")]))
    assert actions(path, "--certificate", "cn=worker-*") == ["CreateQueue"]
    assert actions(path, "--certificate", "*") == ["CreateQueue", "TagQueue"]
    head, created, _ = penstock(path, "--certificate", "*").output.splitlines()
    assert head.split()[-2:] == ["CERTIFICATE", "ERROR"]
    assert created.index("CN=worker-7,O=Orders") == head.index("CERTIFICATE")
    assert "CERTIFICATE" not in penstock(path).output


def test_a_request_that_failed_before_a_decision_is_neither_allowed_nor_denied(path: Path) -> None:
    path.write_bytes(line_of(event(verdict=None, error_code="MissingParameter")))
    assert penstock(path).output.splitlines()[1].split()[1] == "none"
    assert actions(path, "--denied") == []


def test_json_is_the_lines_of_the_file(log: Path) -> None:
    assert penstock(log, "--json").output == log.read_text()


def test_older_files_come_first(path: Path) -> None:
    path.write_bytes(line("DeleteQueue", 9))
    path.with_name("audit.jsonl.1").write_bytes(line("PurgeQueue", 8))
    path.with_name("audit.jsonl.2.gz").write_bytes(gzip.compress(line("TagQueue", 7)))
    path.with_name("audit.jsonl.10").write_bytes(line("CreateQueue", 1))
    path.with_name("audit.jsonl.bak").write_bytes(line("AddPermission", 1))
    path.with_name("other.jsonl.1").write_bytes(line("AddPermission", 1))
    assert actions(path) == ["CreateQueue", "TagQueue", "PurgeQueue", "DeleteQueue"]
    path.unlink()
    assert actions(path) == ["CreateQueue", "TagQueue", "PurgeQueue"]


def test_lines_that_are_not_events_are_skipped(path: Path) -> None:
    path.write_bytes(
        b'{"half\n[1]\n\xff\xfe\n"text"\n{}\n{"eventName": "X", "userIdentity": 5}\n'
        + line("CreateQueue", 0)
        + b'\n{"un'
    )
    result = penstock(path)
    assert result.exit_code == 0 and result.stderr.count("\n") == 1
    says(result.stderr, "skipped 5")
    assert actions(path) == ["X", "CreateQueue"]


@pytest.mark.parametrize(
    "odd",
    [
        b'{"eventName": ' + b"[" * 100_000,
        '{"eventName": "Ä"}'.encode("utf-16"),
        b'{"eventName": 5}',
    ],
    ids=["deep", "no UTF-8", "no name"],
)
def test_an_unreadable_line_does_not_hide_the_next(path: Path, odd: bytes) -> None:
    path.write_bytes(odd.replace(b"\n", b"") + b"\n" + line("CreateQueue", 0))
    result = penstock(path)
    assert result.exit_code == 0 and result.stderr.count("\n") == 1
    says(result.stderr, "skipped 1")
    assert "CreateQueue" in result.stdout


@pytest.mark.parametrize("odd", [5, "text", [5], {"type": "AWS::SQS::Queue"}])
def test_an_event_with_unexpected_values_is_shown(path: Path, odd: object) -> None:
    parts = (
        "resources",
        "requestParameters",
        "userIdentity",
        "additionalEventData",
        "tlsDetails",
        "eventTime",
    )
    path.write_bytes(json.dumps({"eventName": "X", **dict.fromkeys(parts, odd)}).encode() + b"\n")
    for choice in ([], ["--certificate", "*"], ["--queue", "orders"], ["--principal", "x", "--denied"]):
        result = penstock(path, *choice)
        assert (result.exit_code, result.stderr) == (0, ""), result.output
    assert actions(path) == ["X"]


@pytest.mark.parametrize("damage", ["cut off", "changed", "not gzip"])
def test_the_readable_part_of_a_damaged_file_is_shown(path: Path, damage: str) -> None:
    whole = gzip.compress(b"".join(line("TagQueue", number) for number in range(2000)))
    half = len(whole) // 2
    older = {"cut off": whole[:half], "changed": whole[:-8] + b"\0" * 8, "not gzip": b"no gzip"}[damage]
    path.with_name("audit.jsonl.1.gz").write_bytes(older)
    path.write_bytes(line("DeleteQueue", 9))
    result = penstock(path, "--json")
    assert result.exit_code == 0, result.output
    assert result.stderr.count("\n") == 1
    says(result.stderr, "audit.jsonl.1.gz", "damaged")
    shown = [json.loads(each)["eventName"] for each in result.stdout.splitlines()]
    assert shown.pop() == "DeleteQueue" and set(shown) == (set() if damage == "not gzip" else {"TagQueue"})


@pytest.mark.slow
def test_an_endless_line_in_a_small_compressed_file_is_skipped(path: Path) -> None:
    """64 MiB of one letter compress to 64 KB; the memory is limited to less than the whole line would need."""
    endless = gzip.compress(line("TagQueue", 1)) + gzip.compress(b"x" * 2**26) * 16 + gzip.compress(b"\n")
    path.with_name("audit.jsonl.1.gz").write_bytes(endless)
    path.write_bytes(line("DeleteQueue", 9))
    command = [sys.executable, "-m", "penstock", "audit", str(path), "--json"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, preexec_fn=_limited_memory
    )
    assert done.returncode == 0 and done.stderr.count("\n") == 1
    says(done.stderr, "skipped 1")
    assert [json.loads(each)["eventName"] for each in done.stdout.splitlines()] == ["TagQueue", "DeleteQueue"]


def _limited_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))


def test_control_characters_of_callers_are_not_printed(path: Path) -> None:
    hostile = refused(access_key="\x1b[2J\x07evil", action="\x9b31mX", certificate="CN=\x1b[2J\x9b")
    path.write_bytes(line_of(hostile))
    shown = penstock(path, "--certificate", "*").output
    assert "evil" in shown and not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", shown)


def test_the_settings_name_the_file(tmp_path: Path) -> None:
    directory = tmp_path / "data" / "audit"
    directory.mkdir(parents=True)
    (directory / "audit.jsonl").write_bytes(line("CreateQueue", 0))
    assert "CreateQueue" in penstock(PENSTOCK_DATA=str(tmp_path / "data")).output
    config = tmp_path / "penstock.toml"
    config.write_text(f'data = "{tmp_path}/data"')
    assert "CreateQueue" in penstock("--config", config).output
    config.write_text(f'audit = "{tmp_path}/elsewhere"')
    (tmp_path / "elsewhere").write_bytes(line("PurgeQueue", 0))
    assert "PurgeQueue" in penstock("--config", config).output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["/nowhere/audit.jsonl"], "no /nowhere/audit.jsonl --config"),
        (["--since", "yesterday"], 'invalid "yesterday" --since time'),
        (["--until", "99999d"], "no /nowhere/audit/audit.jsonl --config"),
        (["--since", "999999d"], 'invalid "999999d" --since time'),
    ],
)
def test_errors_are_one_line(arguments: list[str], words: str) -> None:
    result = penstock(*arguments, PENSTOCK_DATA="/nowhere")
    assert (result.exit_code, result.stderr.count("\n"), result.stdout) == (2, 1, "")
    says(result.stderr, "penstock:", *words.split())


def test_times() -> None:
    assert parse_time("15m", NOW) == "2025-12-31T23:45:00Z"
    assert parse_time("2h", NOW) == "2025-12-31T22:00:00Z"
    assert parse_time("3d", NOW) == "2025-12-29T00:00:00Z"
    assert parse_time("90s", NOW) == "2025-12-31T23:58:30Z"
    assert parse_time("2026-01-31T12:00Z", NOW) == "2026-01-31T12:00:00Z"
    assert parse_time("2026-01-31T12:00:00+02:00", NOW) == "2026-01-31T10:00:00Z"
    for wrong in ("", "0m", "5", "5w", "m", "-5m", "2026-13-01"):
        with pytest.raises(ValueError):
            parse_time(wrong, NOW)


def names(log: AuditReader) -> list[str]:
    return [each.event["eventName"] for each in log.appended()]


def test_appended_events_are_read_through_rotations(path: Path) -> None:
    path.write_bytes(line("CreateQueue", 0))
    log = AuditReader(path)
    assert [each.event["eventName"] for each in log.existing()] == ["CreateQueue"]
    assert names(log) == []
    with path.open("ab") as opened:
        half = line("TagQueue", 1)
        opened.write(half[:20])
        opened.flush()
        assert names(log) == []
        opened.write(half[20:])
    assert names(log) == ["TagQueue"]
    with path.open("ab") as opened:
        opened.write(line("UntagQueue", 2))
    path.rename(path.with_name("audit.jsonl.1"))
    assert names(log) == ["UntagQueue"]
    path.write_bytes(line("PurgeQueue", 3))
    assert names(log) == ["PurgeQueue"]
    path.unlink()
    path.write_bytes(line("DeleteQueue", 4))
    assert names(log) == ["DeleteQueue"]
    log.close()


def test_a_rotation_while_existing_events_are_read_shows_everything_once(path: Path) -> None:
    path.write_bytes(line("CreateQueue", 0))
    path.with_name("audit.jsonl.1").write_bytes(line("AddPermission", 0))
    log = AuditReader(path)
    existing = log.existing()
    seen = [next(existing).event["eventName"]]
    path.rename(path.with_name("audit.jsonl.2"))
    path.write_bytes(line("PurgeQueue", 1))
    seen += [each.event["eventName"] for each in existing]
    assert seen == ["AddPermission", "CreateQueue", "PurgeQueue"]
    log.close()


def _interruptible() -> None:
    """Tests that run in the background of a shell begin with this signal ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_follow_continues_until_interrupted(log: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "penstock",
        "audit",
        str(log),
        "--follow",
        "--json",
        "--action",
        "*Permission",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=_interruptible)
    try:
        with log.open("ab") as opened:
            opened.write(line("SetQueueAttributes", 7) + line("AddPermission", 8))
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["eventName"] == "AddPermission"
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
        assert process.stdout is not None
        process.stdout.close()


def test_a_closed_output_is_not_an_error(path: Path) -> None:
    path.write_bytes(line("CreateQueue", 0) * 5000)
    command = f"{sys.executable} -m penstock audit {path} | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.startswith("TIME") and not done.stderr
