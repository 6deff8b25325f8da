"""Server processes to measure: started here, watched through /proc, always ended."""

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

from bench import procfs

START_LIMIT_S = 60.0


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

    def command(self, *arguments: str) -> list[str]:
        return [self.python, "-m", "penstock", *arguments]


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
        """What it says, line by line, until it ends or the time is over."""
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
        """What it said since it was last read."""
        return self._log.read()

    def await_answer(self, url: str) -> float:
        """Seconds from the start until it answers over HTTP, whatever it answers."""
        if not await_http(url, lambda: self.is_running):
            raise RuntimeError(f"it did not start: {self.complaints()[-400:]}")
        return time.perf_counter() - self.begun

    def cpu_seconds(self) -> float:
        return procfs.cpu_seconds(self.pid)

    def rss_mb(self) -> float:
        return procfs.memory_mb(self.pid)

    def peak_mb(self) -> float:
        return procfs.peak_mb(self.pid)

    def stop(self) -> None:
        """Politely, so that a server with data closes it well; then not."""
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        if self.is_running:
            os.killpg(self.pid, signal.SIGKILL)  # a group of its own, made above
        self._process.wait(30)


class Server(Process):
    """Penstock."""

    def __init__(self, data: Path | None, *flags: str, checkout: Checkout = HERE) -> None:
        place = ["--memory"] if data is None else ["--data", str(data)]
        command = checkout.command("serve", "--port", "0", "--log-format", "json")
        super().__init__([*command, *place, *flags], checkout.environment)
        said = []
        for line in self.lines():
            said.append(line)
            fact = json.loads(line) if line.startswith("{") else {}
            if fact.get("message") == "ready":
                self.start_seconds = time.perf_counter() - self.begun
                self.recovered: str = fact["recovered"]
                self.guarantees = f"{fact['durability']}; {fact['access']}"
                self.port = int(fact["listening"].rsplit(":", 1)[1])
                return
        self.kill()
        raise RuntimeError(f"the server did not start: {''.join(said)}")

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
