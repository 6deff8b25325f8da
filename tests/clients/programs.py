"""Programs of the examples in the documents, as their readers start them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

SOON_S = 60  # it takes a second or two; a busy machine may be slow


class Program:
    """``python`` with these arguments, in a folder. What it prints is kept."""

    def __init__(self, *arguments: str, folder: Path, environment: Mapping[str, str]) -> None:
        self._output = folder / f"{'-'.join(arguments[:3])}.log"
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, *arguments], cwd=folder, stdout=output, stderr=subprocess.STDOUT,
                env={**os.environ, **environment, "PYTHONUNBUFFERED": "1"},
            )  # fmt: skip

    def printed(self, pattern: str) -> re.Match[str]:
        """Waits for it."""
        deadline = time.monotonic() + SOON_S
        while (found := re.search(pattern, self._output.read_text(errors="replace"))) is None:
            running = self._process.poll() is None and time.monotonic() < deadline
            assert running, f"no {pattern!r} in: {self._output.read_text(errors='replace')[-4000:]}"
            time.sleep(0.05)
        return found

    def stop(self) -> int:
        self._process.send_signal(signal.SIGTERM)
        return self.ended()

    def ended(self) -> int:
        return self._process.wait(SOON_S)

    def __enter__(self) -> Program:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(10)
