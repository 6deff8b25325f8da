"""Runs the ``penstock`` command and records which of its functions are called: the server's half of ``bench.path``.

    python bench/tracer.py serve --memory ...

Standard input takes ``start`` and ``stop``; ``stop`` prints the calls in between as one line of JSON. It runs as a
script in the environment of any checkout, and so imports nothing of the benchmark.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import penstock
from penstock.cli import main

SOURCE = str(Path(penstock.__file__).parent) + "/"


class Recorder:
    """Calls as (file, function, line, depth, thread). A coroutine counts again each time it is resumed."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, int, int, str]] | None = None

    def profile(self, frame: FrameType, event: str, _: Any) -> None:
        calls = self.calls
        if event != "call" or calls is None or not frame.f_code.co_filename.startswith(SOURCE):
            return
        depth, caller = 0, frame.f_back
        while caller is not None:
            depth += caller.f_code.co_filename.startswith(SOURCE)
            caller = caller.f_back
        code = frame.f_code
        thread = "loop" if threading.current_thread() is threading.main_thread() else "thread"
        calls.append(
            (code.co_filename.removeprefix(SOURCE), code.co_qualname, code.co_firstlineno, depth, thread)
        )

    def obey(self) -> None:
        for command in sys.stdin:
            if command.strip() == "start":
                self.calls = []
            else:
                calls, self.calls = self.calls, None
                print(json.dumps(calls), flush=True)


if __name__ == "__main__":
    recorder = Recorder()
    threading.Thread(target=recorder.obey, daemon=True).start()
    threading.setprofile(recorder.profile)
    sys.setprofile(recorder.profile)
    main()
