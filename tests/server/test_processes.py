"""Several server processes behind one port: started, restarted, replaced and stopped together."""

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
from support.server_processes import alive, kill, processes_of
from support.sqs import sqs_client
from support.texts import says
from support.waiting import until


def two_processes(*arguments: str) -> ServerProcess:
    return ServerProcess("--memory", "--processes", "2", *arguments)


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "penstock", "serve", "--memory", "--processes", "2", *arguments]


def get(server: ServerProcess, path: str) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    connection.request("GET", path)
    response = connection.getresponse()
    page = json.loads(response.read())
    connection.close()
    return response.status, page


def test_one_report_names_the_port_and_the_processes() -> None:
    with two_processes() as server:
        assert server.facts["processes"] == "2 processes, 8 shards"
        assert len(processes_of(server)) == 2
        assert server.stop() == 0
        assert sum('"message": "ready"' in line for line in server.log) == 1
        assert [json.loads(line)["message"] for line in server.log[1:]] == ["stopping", "stopped"]


def test_a_clean_stop_of_linked_processes_logs_no_warning() -> None:
    """The two have passed requests on to each other: their links are open when they stop."""
    with two_processes() as server:
        for number in range(16):
            for _ in range(4):  # each on a connection of its own, which either process may get
                queue = sqs_client(server.url, "000000000000")
                url = queue.create_queue(QueueName=f"queue-{number}")["QueueUrl"]
                queue.send_message(QueueUrl=url, MessageBody="x")
                queue.close()
        assert server.stop() == 0
        levels = {json.loads(line)["level"] for line in server.log}
        assert levels == {"info"}, server.log


def test_the_former_name_of_the_setting_works_and_warns() -> None:
    with ServerProcess("--memory", "--workers", "2") as server:
        assert len(processes_of(server)) == 2
        until(lambda: any("--workers" in line for line in server.log), "it warns")
        (warning,) = [json.loads(line) for line in server.log if "--workers" in line]
        assert warning["level"] == "warning"
        says(warning["message"], "processes", "next version")


def test_the_ready_line_is_printed_once() -> None:
    command = [
        sys.executable,
        "-m",
        "penstock",
        "serve",
        "--memory",
        "--port",
        "0",
        "--processes",
        "2",
        "--print-ready",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "Ready.\n"
    process.terminate()
    assert process.communicate(timeout=20)[0] == ""


def test_connections_are_spread_over_the_processes() -> None:
    with two_processes() as server:
        seen = {get(server, "/health")[1]["process"] for _ in range(64)}
        assert seen == {"1 of 2", "2 of 2"}


def test_the_command_health_counts_the_processes() -> None:
    with two_processes() as server:
        asked = [sys.executable, "-m", "penstock", "health", "--url", server.url]
        assert subprocess.run(asked, capture_output=True, text=True, timeout=30).stdout == "ready\n"


def test_a_process_that_dies_is_restarted_and_no_connection_is_refused() -> None:
    with two_processes() as server:
        before = processes_of(server)
        kill(before[1])
        # New connections for it wait in the socket that the supervisor keeps open.
        for _ in range(32):
            assert get(server, "/health/live")[0] == 200
        until(lambda: get(server, "/health")[1]["processes"] == "all 2 ready", "the process is back")
        after = processes_of(server)
        assert before[2] in after.values() and before[1] not in after.values()
        assert [line for line in server.log if "process 1" in line and "SIGKILL" in line]
        until(lambda: any("process 1 is ready" in line for line in server.log), "it is logged")
        assert server.stop() == 0


def test_a_crash_loop_stops_the_server() -> None:
    with two_processes() as server:
        other = processes_of(server)[2]
        killed: set[int] = set()
        while server.process.poll() is None:
            for pid in set(processes_of(server).values()) - killed - {other}:
                kill(pid)
                killed.add(pid)
            time.sleep(0.01)
        assert server.ended() == 1
        says(server.log[-1], "penstock:", "stopped", "process 1", "10 times", "30 seconds", "SIGKILL")
        assert len(killed) == 10 and not alive(other)


def test_processes_stop_when_the_supervisor_is_killed() -> None:
    with two_processes() as server:
        pids = processes_of(server).values()
        server.kill()
        until(lambda: not any(map(alive, pids)), "the processes end")
        assert [line for line in server.log if "the supervisor has ended" in line]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_second_signal_ends_all_at_once(number: signal.Signals) -> None:
    with two_processes("--stop-timeout", "60s") as server:
        pids = processes_of(server).values()
        # A request that never ends: its body is not sent.
        hanging = socket.create_connection(("127.0.0.1", server.port))
        hanging.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
        assert b"100 Continue" in hanging.recv(100)
        server.process.send_signal(number)
        with pytest.raises(subprocess.TimeoutExpired):
            server.process.wait(0.5)
        server.process.send_signal(number)
        assert server.process.wait(5) == 1
        until(lambda: not any(map(alive, pids)), "the processes end")
        hanging.close()


def test_a_signal_to_all_processes_is_an_orderly_stop() -> None:
    """This is what systemd does by default: the processes leave it to the supervisor."""
    with two_processes() as server:
        for pid in processes_of(server).values():
            os.kill(pid, signal.SIGTERM)
        assert server.stop() == 0
        assert not [line for line in server.log if '"level": "error"' in line]


def test_a_port_in_use_is_refused() -> None:
    with two_processes() as server:
        command = [
            sys.executable,
            "-m",
            "penstock",
            "serve",
            "--memory",
            "--processes",
            "2",
            "--port",
            str(server.port),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        assert done.returncode == 2
        says(done.stderr, "another process")


def test_a_process_that_cannot_start_is_a_failed_start(tmp_path: Path) -> None:
    files = ("--tls-certificate", str(tmp_path / "missing.pem"), "--tls-key", str(tmp_path / "missing.key"))
    done = subprocess.run(
        command("--port", "0", *files), capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("penstock: ") and "missing.pem" in done.stderr
