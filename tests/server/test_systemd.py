"""What systemd hears from a service of Type=notify, and what the end of a terminal does."""

from __future__ import annotations

import os
import pty
import re
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.process import ServerProcess

WITHIN_S = 20
PROCESSES = pytest.mark.parametrize("processes", ["1", "2"], ids=["one process", "two processes"])


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.settimeout(WITHIN_S)
        yield listening


def heard(systemd: socket.socket) -> str:
    """The next message that is no sign of life."""
    while (message := systemd.recv(4096).decode()) == "WATCHDOG=1":
        pass
    return message


@PROCESSES
def test_systemd_learns_of_ready_reload_and_stop(systemd: socket.socket, processes: str) -> None:
    environment = ("env", f"NOTIFY_SOCKET={systemd.getsockname()}")
    with ServerProcess("--memory", "--processes", processes, prefix=environment) as server:
        assert heard(systemd).startswith("READY=1\nSTATUS=ready")
        server.process.send_signal(signal.SIGHUP)
        reloading = heard(systemd)
        assert re.fullmatch(r"RELOADING=1\nMONOTONIC_USEC=\d+", reloading)
        assert 0 <= time.monotonic_ns() // 1000 - int(reloading.rpartition("=")[2]) < WITHIN_S * 1e6
        assert heard(systemd).startswith("READY=1")
        server.process.send_signal(signal.SIGTERM)
        assert heard(systemd).startswith("STOPPING=1")
        assert server.ended() == 0


@PROCESSES
def test_the_watchdog_hears_of_it_until_the_process_hangs(systemd: socket.socket, processes: str) -> None:
    environment = ("env", f"NOTIFY_SOCKET={systemd.getsockname()}", "WATCHDOG_USEC=400000")
    with ServerProcess("--memory", "--processes", processes, prefix=environment) as server:
        messages = [systemd.recv(4096) for _ in range(4)]
        assert messages[1:] == [b"WATCHDOG=1"] * 3
        server.process.send_signal(signal.SIGSTOP)
        systemd.settimeout(1)
        with pytest.raises(TimeoutError):
            while True:
                systemd.recv(4096)
        server.process.send_signal(signal.SIGCONT)
        assert server.stop() == 0


class InTerminal:
    """A server as the first process of a terminal."""

    def __init__(self, *prefix: str, processes: str = "1", log: str) -> None:
        serve = [
            sys.executable,
            "-m",
            "penstock",
            "serve",
            "--memory",
            "--port",
            "0",
            "--processes",
            processes,
        ]
        self.log = Path(log)
        self.log.touch()
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            for standard in (1, 2):  # with output to the terminal, nohup would write a file here
                os.dup2(os.open(log, os.O_WRONLY | os.O_APPEND), standard)
            signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests themselves may run under nohup
            command = [*prefix, *serve]
            os.execvp(command[0], command)

    def until(self, text: str) -> None:
        give_up = time.monotonic() + WITHIN_S
        while text not in self.log.read_text():
            if time.monotonic() > give_up:
                os.kill(self.pid, signal.SIGKILL)
                raise AssertionError(self.log.read_text())
            time.sleep(0.02)

    def close_terminal(self) -> None:
        os.close(self.terminal)

    @property
    def runs(self) -> bool:
        return os.waitpid(self.pid, os.WNOHANG) == (0, 0)


@PROCESSES
def test_closing_the_terminal_ends_the_server(tmp_path: Path, processes: str) -> None:
    server = InTerminal(processes=processes, log=str(tmp_path / "log"))
    server.until('"ready"')
    os.kill(server.pid, signal.SIGHUP)  # the terminal is there: an operator asks for a reload
    server.until('"reloaded"')
    assert server.runs
    server.close_terminal()
    server.until('"stopped"')
    assert os.waitstatus_to_exitcode(os.waitpid(server.pid, 0)[1]) == 0


def test_a_server_that_was_started_with_nohup_goes_on(tmp_path: Path) -> None:
    server = InTerminal("nohup", log=str(tmp_path / "log"))
    server.until('"ready"')
    server.close_terminal()
    server.until('"reloaded"')  # by the signal of the terminal's end
    assert server.runs
    os.kill(server.pid, signal.SIGTERM)
    assert os.waitstatus_to_exitcode(os.waitpid(server.pid, 0)[1]) == 0
