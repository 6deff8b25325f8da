"""Server processes: start them, read what they use from /proc, end them."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

START_LIMIT_S = 60.0
_TICKS = os.sysconf("SC_CLK_TCK")


class Checkout:
    """A source tree of Penstock: this one, or another to compare it with."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        own = self.root / ".venv" / "bin" / "python"
        self.python = str(own) if own.exists() else sys.executable
        self.environment = {
            "PYTHONPATH": str(self.root / "src"),
            # An installed package is compiled already. So is a checkout after its first start, if it may write.
            "PYTHONDONTWRITEBYTECODE": "",
            "PYTHONPYCACHEPREFIX": str(Path(tempfile.gettempdir()) / "penstock-bench-bytecode"),
        }

    @property
    def has_topics(self) -> bool:
        return (self.root / "src" / "penstock" / "services" / "sns").is_dir()

    def command(self, *arguments: str) -> list[str]:
        return [self.python, "-m", "penstock", *arguments]

    def version(self) -> str:
        """Returns the version with the commit, where there is one."""
        number = self._output(self.command("--version")).split()[-1]
        commit = self._output(["git", "rev-parse", "--short", "HEAD"]).strip()
        return f"{number} ({commit})" if commit else number

    def _output(self, command: list[str]) -> str:
        environment = {**os.environ, **self.environment}
        return subprocess.run(
            command, cwd=self.root, env=environment, capture_output=True, text=True, check=False
        ).stdout


HERE = Checkout(Path(__file__).parent.parent)


class Process:
    """A server that was started with a command and answers at a URL."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        self.begun = time.perf_counter()
        self._log = tempfile.NamedTemporaryFile("r", prefix="penstock-bench-", suffix=".log")  # noqa: SIM115
        with open(self._log.name, "w") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, env={**os.environ, **(environment or {})},
                cwd=Path(__file__).parent.parent, start_new_session=True,
            )  # fmt: skip

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def lines(self, within_s: float = START_LIMIT_S) -> Iterator[str]:
        """Its output, line by line, until it ends or the time is over."""
        part = ""
        while time.perf_counter() - self.begun < within_s:
            running = self.is_running
            part += self._log.readline()
            if part.endswith("\n"):
                yield part
                part = ""
            elif not running:
                return
            else:
                time.sleep(0.002)

    def complaints(self) -> str:
        """Its output since it was last read."""
        return self._log.read()

    def await_answer(self, url: str) -> float:
        """Seconds from the start until it answers over HTTP, whatever it answers."""
        if not await_http(url, lambda: self.is_running):
            raise RuntimeError(f"it did not start: {self.complaints()[-400:]}")
        return time.perf_counter() - self.begun

    def stop(self) -> None:
        """Sends SIGTERM, so that a server closes its data; after 30 s, SIGKILL."""
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        if self.is_running:
            os.killpg(self.pid, signal.SIGKILL)  # of the session that was created above
        self._process.wait(30)


class Server(Process):
    """Penstock."""

    def __init__(self, data: Path | None, *flags: str, checkout: Checkout = HERE) -> None:
        place = ["--memory"] if data is None else ["--data", str(data)]
        command = checkout.command("serve", "--port", "0", "--log-format", "json")
        super().__init__([*command, *place, *flags], checkout.environment)
        output = []
        for line in self.lines():
            output.append(line)
            fact = json.loads(line) if line.startswith("{") else {}
            if fact.get("message") == "ready":
                self.start_seconds = time.perf_counter() - self.begun
                self.recovered: str = fact["recovered"]
                self.guarantees = f"{fact['durability']}; {fact['access']}"
                self.port = int(fact["listening"].rsplit(":", 1)[1])
                return
        self.kill()
        raise RuntimeError(f"the server did not start: {''.join(output)}")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def await_http(url: str, is_running: Callable[[], bool]) -> bool:
    """Wait until the process answers over HTTP, with whatever but 503; False if it has ended or takes too long."""
    deadline = time.perf_counter() + START_LIMIT_S
    while time.perf_counter() < deadline and is_running():
        try:
            urlopen(url, timeout=5).close()
            return True
        except HTTPError as error:
            if error.code != 503:  # Penstock: still loading
                return True
        except (URLError, OSError):
            pass
        time.sleep(0.005)
    return False


# -- what a process and its children use, from /proc ---------------------------------------------------------


def family(pid: int) -> Iterator[int]:
    """The process and its living descendants."""
    yield pid
    for thread in Path(f"/proc/{pid}/task").iterdir():
        try:
            children = (thread / "children").read_text().split()
        except FileNotFoundError:  # the thread ended meanwhile
            continue
        for child in children:
            yield from family(int(child))


def cpu_seconds(pid: int) -> float:
    """User and system time of all threads and processes, those that have ended included."""
    return sum(_own_seconds(each) + _ended_children_seconds(each) for each in family(pid))


def _own_seconds(pid: int) -> float:
    """Reads the process's own clock, which counts nanoseconds: /proc counts in steps of 10 ms."""
    return time.clock_gettime((~pid << 3) | 2)  # clock_getcpuclockid(3)


def _ended_children_seconds(pid: int) -> float:
    return sum(map(int, _stat(pid)[13:15])) / _TICKS


def memory_mb(pid: int) -> float:
    """Resident memory. Memory that processes share is counted in each."""
    return sum(_status_mb(each, "VmRSS") for each in family(pid))


def peak_mb(pid: int) -> float:
    return _status_mb(pid, "VmHWM")


def _stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()


def _status_mb(pid: int, name: str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"process {pid} has no {name}: it has ended")
