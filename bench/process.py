"""A server process to measure: started from this checkout, watched through /proc."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path


class Server:
    def __init__(self, data: Path | None, *flags: str) -> None:
        place = ["--memory"] if data is None else ["--data", str(data)]
        begun = time.perf_counter()
        self._log = tempfile.NamedTemporaryFile("r", prefix="penstock-bench-", suffix=".log")  # noqa: SIM115
        command = [sys.executable, "-m", "penstock", "serve", "--port", "0", "--log-format", "json"]
        with open(self._log.name, "w") as log:
            self._process = subprocess.Popen([*command, *place, *flags], stdout=log, stderr=log)
        while self._process.poll() is None:
            line = self._log.readline()
            said = json.loads(line) if line.endswith("\n") else {}
            if said.get("message") == "ready":
                self.start_seconds = time.perf_counter() - begun
                self.recovered = said["recovered"]
                self.port = int(said["listening"].rsplit(":", 1)[1])
                return
            time.sleep(0.002)
        raise RuntimeError(f"the server did not start: {self.complaints()}")

    def complaints(self) -> str:
        """What the server logged since it was ready."""
        return self._log.read()

    @property
    def pid(self) -> int:
        return self._process.pid

    def rss_mb(self) -> float:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        raise RuntimeError("no memory figure")

    def peak_mb(self) -> float:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
        raise RuntimeError("no memory figure")

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(") ", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(30)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(30)
