"""The server itself: its state, reload and backup."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from e2e.admin.requests import REGION, bodies, make, refusal, send
from penstock.client.api import ApiSession
from penstock.server.backup import restore, verify
from support.process import ServerProcess
from support.waiting import until

DECLARED = """
[queues.first]
"""


@pytest.fixture(params=[1, 2], ids=["one process", "two processes"])
def running(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ServerProcess]:
    """Starts a server with a file of settings and a directory for backups."""
    (tmp_path / "penstock.toml").write_text(DECLARED)
    (tmp_path / "backups").mkdir()
    with ServerProcess(
        "--config", str(tmp_path / "penstock.toml"), "--data", str(tmp_path / "data"), "--region", REGION,
        "--backup-directory", str(tmp_path / "backups"), "--processes", str(request.param),
    ) as server:  # fmt: skip
        yield server
        assert server.process.poll() is None, "the server died"


@pytest.fixture
def api(running: ServerProcess) -> Iterator[ApiSession]:
    session = ApiSession(running.url, REGION)
    yield session
    session.close()


def test_settings_and_declared_queues_are_reloaded(api: ApiSession, tmp_path: Path) -> None:
    text = f'log_level = "debug"\naudit_keep = 3\n{DECLARED}\n[queues.second]\n'
    (tmp_path / "penstock.toml").write_text(text)
    report = api.admin("POST", "/reload")
    assert {"log_level", "declared queues"} <= set(report["reloaded"])
    assert [each["what"] for each in report["refused"]] == ["audit_keep"]
    for _ in range(500):  # another process reloads a moment later
        names = [each["name"] for each in api.admin("GET", "/queues")["queues"]]
        if names == ["first", "second"]:
            break
    assert names == ["first", "second"]
    assert "declared queues" in api.admin("POST", "/reload")["unchanged"]


def test_a_backup_is_downloaded_and_restored(api: ApiSession, running: ServerProcess, tmp_path: Path) -> None:
    for n in range(5):
        send(api, make(api, f"kept-{n}"), "x" * 100_000)
    archive = tmp_path / "downloaded.tar"
    with urlopen(Request(f"{running.url}/admin/v1/backup", method="POST"), timeout=60) as answer:
        assert answer.headers["Content-Type"] == "application/x-tar"
        archive.write_bytes(answer.read())
    assert verify(archive).messages == 5
    restore(archive, tmp_path / "restored")
    with ServerProcess("--data", str(tmp_path / "restored"), "--region", REGION) as again:
        session = ApiSession(again.url, REGION)
        assert bodies(session, "kept-3") == ["x" * 100_000]
        session.close()


def test_a_backup_is_written_by_the_server(api: ApiSession, tmp_path: Path) -> None:
    send(api, make(api, "kept"), "x")
    written = api.admin("POST", "/backup", body={"path": "monday.tar"})
    file = tmp_path / "backups/monday.tar"
    assert (written["path"], written["bytes"], written["messages"]) == (str(file), file.stat().st_size, 1)
    assert file.stat().st_mode & 0o777 == 0o600
    assert verify(file).messages == 1
    assert refusal(api.admin, "POST", "/backup", body={"path": "monday.tar"}) == (409, "NotPossible")
    for name in ("../monday.tar", "/tmp/x", ".hidden", ""):
        assert refusal(api.admin, "POST", "/backup", body={"path": name}) == (400, "InvalidParameter")


def test_a_client_that_goes_away_ends_its_backup(api: ApiSession, running: ServerProcess) -> None:
    for n in range(8):
        url = make(api, f"large-{n}")
        for _ in range(4):
            send(api, url, "x" * 1_000_000)
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", running.port), timeout=20) as connection:
            connection.sendall(
                b"POST /admin/v1/backup HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"
            )
            assert connection.recv(1000).startswith(b"HTTP/1.1 200")
    with urlopen(Request(f"{running.url}/admin/v1/backup", method="POST"), timeout=60) as answer:
        assert len(answer.read()) > 32_000_000


def test_clients_that_do_not_read_their_backups_keep_others_from_it_only_while_they_are_there(
    tmp_path: Path,
) -> None:
    asking = b"POST /admin/v1/backup HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"
    with ServerProcess("--data", str(tmp_path / "data"), "--region", REGION) as server, ExitStack() as slow:
        api = ApiSession(server.url, REGION)
        url = make(api, "large")
        for _ in range(16):
            send(api, url, "x" * 1_000_000)
        for _ in range(4):
            connection = slow.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=20))
            connection.sendall(asking)
            assert connection.recv(100).startswith(b"HTTP/1.1 200")
        assert refusal(api.admin, "POST", "/backup") == (409, "NotPossible")
        assert api.admin("GET", "/status")["shards"]
        slow.close()
        until(lambda: _is_backed_up(server), "a backup")
        api.close()


def _is_backed_up(server: ServerProcess) -> bool:
    try:
        with urlopen(Request(f"{server.url}/admin/v1/backup", method="POST"), timeout=60) as answer:
            return len(answer.read()) > 16_000_000
    except HTTPError:
        return False


def test_a_store_in_memory_cannot_be_backed_up() -> None:
    with ServerProcess("--memory", "--region", REGION) as server:
        api = ApiSession(server.url, REGION)
        assert refusal(api.admin, "POST", "/backup") == (409, "NotPossible")
        assert refusal(api.admin, "POST", "/backup", body={"path": "x"}) == (409, "NotPossible")
        api.close()
