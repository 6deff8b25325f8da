"""A server process: ``penstock serve`` on a free port."""

from __future__ import annotations

import json
import queue
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

READY_WITHIN_S = 30  # it takes a fraction of a second; a busy machine may be slow


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


class ServerProcess:
    """Started and ready once it is made. What it logs is read all the time, or it would stall on a full pipe."""

    def __init__(self, *arguments: str, prefix: Sequence[str] = (), python: Path | None = None) -> None:
        """``prefix``: of the command, which runs it elsewhere. ``python``: of another environment."""
        command = [*prefix, str(python or sys.executable), "-m", "penstock", "serve", "--log-format", "json"]
        if "--port" not in arguments:
            command += ["--port", "0"]
        self.process = subprocess.Popen([*command, *arguments], stderr=subprocess.PIPE, text=True)
        self.log: list[str] = []
        self._ready: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read_log, daemon=True)
        self._reader.start()
        ready = self._ready.get(timeout=READY_WITHIN_S)
        assert ready is not None, f"the server did not start: {self.log}"
        self.facts = ready
        self.port = int(ready["listening"].rpartition(":")[2])

    def _read_log(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.log.append(line)
            if '"ready"' in line:
                self._ready.put(json.loads(line))
        self._ready.put(None)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def stop(self) -> int:
        """Ask it to stop, as an operator or a container runtime does; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.ended()

    def kill(self) -> None:
        """Pull the plug: the process gets no chance to do anything more."""
        self.process.kill()
        self.ended()

    def ended(self) -> int:
        """Wait until it has ended; its exit code."""
        code = self.process.wait(30)
        self._reader.join(10)
        assert self.process.stderr is not None
        self.process.stderr.close()
        return code

    def __enter__(self) -> ServerProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.kill()
