"""Worker processes: ``penstock worker`` with an application that writes down what it does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Any

from support.waiting import until

PATIENCE_S = 60.0

NOTES = """\
import os, pathlib, time

def note(*words):
    '''One line of the file "notes"; lines of several processes do not mix.'''
    descriptor = os.open("notes", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, (" ".join(map(str, words)) + "\\n").encode())
    os.close(descriptor)

def wait_for(name):
    '''Until the test has created a file.'''
    while not pathlib.Path(name).exists():
        time.sleep(0.02)
"""


class Application:
    """A folder with the module ``jobs``. What its handlers note is read from there."""

    def __init__(self, folder: Path, source: str, endpoint: str, **environment: str) -> None:
        self.folder = folder
        self.printed = folder / "printed"  # by handlers, to standard output
        self.environment = {"AWS_ENDPOINT_URL": endpoint, **environment}
        (folder / "notes.py").write_text(NOTES)
        self.write(source)

    def write(self, source: str) -> None:
        (self.folder / "jobs.py").write_text(f"from notes import note, wait_for\n{source}")

    @property
    def notes(self) -> list[str]:
        file = self.folder / "notes"
        return file.read_text().splitlines() if file.exists() else []

    def until_noted(self, *lines: str) -> None:
        missing = f"{lines} in the notes"
        until(lambda: set(lines) <= set(self.notes), missing, PATIENCE_S)

    def create(self, name: str) -> None:
        """A file that handlers wait for."""
        (self.folder / name).touch()

    def start(self, *arguments: str, waits: bool = True) -> WorkerProcess:
        return WorkerProcess(self, *arguments, waits=waits)


class WorkerProcess:
    """Started, and it consumes its queues, once it is made. Ends with the block, if it was not ended before."""

    def __init__(self, application: Application, *arguments: str, waits: bool = True) -> None:
        environment = {**os.environ, **application.environment, "PYTHONDONTWRITEBYTECODE": "1"}
        with application.printed.open("a") as printed:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "penstock", "worker", "jobs:app", *arguments], cwd=application.folder,
                env=environment, stdout=printed, stderr=subprocess.PIPE, text=True,
            )  # fmt: skip
        self.log: list[dict[str, Any]] = []
        self.other_lines: list[str] = []
        self._reader = threading.Thread(target=self._read_log, daemon=True)
        self._reader.start()
        if waits:
            self.until_logged("consuming")

    def _read_log(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            try:
                self.log.append(json.loads(line))
            except ValueError:
                self.other_lines.append(line)

    def messages(self) -> list[str]:
        return [line["message"] for line in self.log]

    def until_logged(self, start: str, times: int = 1) -> None:
        def is_logged() -> bool:
            assert self.process.poll() is None, f"the worker ended: {self.log} {self.other_lines}"
            return sum(message.startswith(start) for message in self.messages()) >= times

        until(is_logged, f'"{start}" in the log', PATIENCE_S)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def stop(self) -> int:
        """Its exit code after SIGTERM."""
        self.signal(signal.SIGTERM)
        return self.ended()

    def kill(self) -> None:
        """It gets no chance to do anything more."""
        self.process.kill()
        self.ended()

    def ended(self) -> int:
        code = self.process.wait(PATIENCE_S)
        self._reader.join(10)
        assert self.process.stderr is not None
        self.process.stderr.close()
        return code

    def __enter__(self) -> WorkerProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.kill()
