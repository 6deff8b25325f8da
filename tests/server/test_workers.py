"""Several worker processes behind one port: started, restarted, replaced and stopped together."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from support.process import ServerProcess
from support.texts import says
from support.waiting import until
from support.worker_processes import alive, kill, workers_of


def two_workers(*arguments: str) -> ServerProcess:
    return ServerProcess("--memory", "--workers", "2", *arguments)


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "penstock", "serve", "--memory", "--workers", "2", *arguments]


def get(server: ServerProcess, path: str) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    connection.request("GET", path)
    response = connection.getresponse()
    page = json.loads(response.read())
    connection.close()
    return response.status, page


def test_one_report_names_the_port_and_the_workers() -> None:
    with two_workers() as server:
        assert server.facts["workers"] == "2 processes, 8 shards"
        assert len(workers_of(server)) == 2
        assert server.stop() == 0
        assert sum('"message": "ready"' in line for line in server.log) == 1
        assert [json.loads(line)["message"] for line in server.log[1:]] == ["stopping", "stopped"]


def test_the_ready_line_is_printed_once() -> None:
    command = [
        sys.executable,
        "-m",
        "penstock",
        "serve",
        "--memory",
        "--port",
        "0",
        "--workers",
        "2",
        "--print-ready",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "Ready.\n"
    process.terminate()
    assert process.communicate(timeout=20)[0] == ""


def test_connections_are_spread_over_the_workers() -> None:
    with two_workers() as server:
        seen = {get(server, "/health")[1]["worker"] for _ in range(64)}
        assert seen == {"1 of 2", "2 of 2"}


def test_the_command_health_counts_the_workers() -> None:
    with two_workers() as server:
        asked = [sys.executable, "-m", "penstock", "health", "--url", server.url]
        assert subprocess.run(asked, capture_output=True, text=True, timeout=30).stdout == "ready\n"


def test_a_worker_that_dies_is_restarted_and_no_connection_is_refused() -> None:
    with two_workers() as server:
        before = workers_of(server)
        kill(before[1])
        # New connections for it wait in the socket that the supervisor keeps open.
        for _ in range(32):
            assert get(server, "/health/live")[0] == 200
        until(lambda: get(server, "/health")[1]["workers"] == "all 2 ready", "the worker is back")
        after = workers_of(server)
        assert before[2] in after.values() and before[1] not in after.values()
        assert [line for line in server.log if "worker 1" in line and "SIGKILL" in line]
        until(lambda: any("worker 1 is ready" in line for line in server.log), "it is logged")
        assert server.stop() == 0


def test_a_crash_loop_stops_the_server() -> None:
    with two_workers() as server:
        other = workers_of(server)[2]
        killed: set[int] = set()
        while server.process.poll() is None:
            for pid in set(workers_of(server).values()) - killed - {other}:
                kill(pid)
                killed.add(pid)
            time.sleep(0.01)
        assert server.ended() == 1
        says(server.log[-1], "penstock:", "stopped", "worker 1", "10 times", "30 seconds", "SIGKILL")
        assert len(killed) == 10 and not alive(other)


def test_workers_stop_when_the_supervisor_is_killed() -> None:
    with two_workers() as server:
        pids = workers_of(server).values()
        server.kill()
        until(lambda: not any(map(alive, pids)), "the workers end")
        assert [line for line in server.log if "the supervisor is gone" in line]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_second_signal_ends_all_at_once(number: signal.Signals) -> None:
    with two_workers("--stop-timeout", "60s") as server:
        pids = workers_of(server).values()
        # A request that never ends: its body is not sent.
        hanging = socket.create_connection(("127.0.0.1", server.port))
        hanging.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
        assert b"100 Continue" in hanging.recv(100)
        server.process.send_signal(number)
        with pytest.raises(subprocess.TimeoutExpired):
            server.process.wait(0.5)
        server.process.send_signal(number)
        assert server.process.wait(5) == 1
        until(lambda: not any(map(alive, pids)), "the workers end")
        hanging.close()


def test_a_signal_to_all_processes_is_an_orderly_stop() -> None:
    """As systemd does by default: the workers leave it to the supervisor."""
    with two_workers() as server:
        for pid in workers_of(server).values():
            os.kill(pid, signal.SIGTERM)
        assert server.stop() == 0
        assert not [line for line in server.log if '"level": "error"' in line]


def test_a_port_in_use_is_refused() -> None:
    with two_workers() as server:
        command = [
            sys.executable,
            "-m",
            "penstock",
            "serve",
            "--memory",
            "--workers",
            "2",
            "--port",
            str(server.port),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        assert done.returncode == 2
        says(done.stderr, "another process")


def test_a_worker_that_cannot_start_is_a_failed_start(tmp_path: Path) -> None:
    files = ("--tls-certificate", str(tmp_path / "missing.pem"), "--tls-key", str(tmp_path / "missing.key"))
    done = subprocess.run(
        command("--port", "0", *files), capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("penstock: ") and "missing.pem" in done.stderr
