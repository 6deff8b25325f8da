"""The path of a request through the source: ``python -m bench.path``.

Counts the Python calls, and the distinct functions and files of ``src/penstock``, that one SendMessage, one
ReceiveMessage and one DeleteMessage cross in a running server, the commit and the response included: on an open
server, and on a secured one (signatures, policies, encryption, audit log). Both sync every commit to disk. Each
request is made several times on one connection, and the median is shown. ``--trace`` prints the calls:
read them from top to bottom to follow a request.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import tempfile
import textwrap
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from bench.credentials import make_credentials
from bench.document import write_between
from bench.load_client import connect
from bench.process import HERE, Checkout, await_http, free_port

ACTIONS = ("SendMessage", "ReceiveMessage", "DeleteMessage")
ACCESS = ("open", "secured")
WARM_UP = 20
TIMES = 5
DOCUMENT = HERE.root / "docs" / "internals" / "requests.md"
BEGIN, END = "<!-- path: begin -->", "<!-- path: end -->"
SETTLE_S = 0.03  # for what follows the response, such as the commit of a receive
TURNS = "server/http/request_turns.py"  # a turn ends by time, which tracing uses up: once in many requests without it


class Call(NamedTuple):
    file: str
    function: str
    line: int
    depth: int
    thread: str


class RequestPath(msgspec.Struct):
    """All calls of one request, in order."""

    calls: list[Call]

    @property
    def functions(self) -> int:
        return len({(call.file, call.function, call.line) for call in self.calls})

    @property
    def files(self) -> int:
        return len({call.file for call in self.calls})

    def tree(self) -> str:
        top = min(call.depth for call in self.calls)  # of the frames that run the event loop
        lines = []
        for call in self.calls:
            thread = "" if call.thread == "loop" else f"  [{call.thread} thread]"
            lines.append(f"{'  ' * (call.depth - top)}{call.function}  {call.file}:{call.line}{thread}")
        return "\n".join(lines)

    def by_file(self) -> list[tuple[str, int]]:
        return Counter(call.file for call in self.calls).most_common()


Paths = dict[str, RequestPath]
"""The paths by action."""


class TracedServer:
    """A server that records its calls on request; see ``bench.tracer``."""

    def __init__(self, checkout: Checkout, folder: Path, secured: bool) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        flags = ["serve", "--port", str(port), "--data", str(folder / "data")]
        if secured:
            flags += ["--credentials", str(make_credentials(folder / "keys", checkout))]
        self._log = (folder / "log").open("w+")
        self._process = subprocess.Popen(
            [checkout.python, str(Path(__file__).with_name("tracer.py")), *flags],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True,
            env={**os.environ, **checkout.environment},
        )  # fmt: skip
        if not await_http(f"{self.url}/health/ready", lambda: self._process.poll() is None):
            self.stop()
            raise SystemExit(f"the server did not start: {(folder / 'log').read_text()[-2000:]}")

    def start_recording(self) -> None:
        self._tell("start")
        time.sleep(0.005)

    def stop_recording(self) -> RequestPath:
        time.sleep(SETTLE_S)
        self._tell("stop")
        assert self._process.stdout is not None
        calls = [Call(*call) for call in json.loads(self._process.stdout.readline())]
        return RequestPath([call for call in calls if call.file != TURNS])

    def stop(self) -> None:
        self._process.kill()
        self._process.communicate()
        self._log.close()

    def _tell(self, command: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()


async def _measure(server: TracedServer) -> Paths:
    connection = await connect(server.url)
    created = await connection.call("CreateQueue", {"QueueName": "path"})
    queue = {"QueueUrl": created["QueueUrl"]}
    seen: dict[str, list[RequestPath]] = {action: [] for action in ACTIONS}

    async def recorded(action: str, request: dict[str, Any], keep: bool) -> dict[str, Any]:
        if not keep:
            return await connection.call(action, request)
        server.start_recording()
        answer = await connection.call(action, request)
        seen[action].append(server.stop_recording())
        return answer

    for number in range(WARM_UP + TIMES):
        keep = number >= WARM_UP
        await recorded("SendMessage", {**queue, "MessageBody": "m" * 200}, keep)
        received = await recorded("ReceiveMessage", queue, keep)
        handle = received["Messages"][0]["ReceiptHandle"]
        await recorded("DeleteMessage", {**queue, "ReceiptHandle": handle}, keep)
    connection.close()
    return {
        action: sorted(paths, key=lambda path: len(path.calls))[TIMES // 2] for action, paths in seen.items()
    }


def measure(checkout: Checkout, secured: bool) -> Paths:
    with tempfile.TemporaryDirectory(prefix="penstock-path-") as folder:
        server = TracedServer(checkout, Path(folder), secured)
        try:
            return asyncio.run(_measure(server))
        finally:
            server.stop()


def table(measured: dict[str, Paths]) -> str:
    lines = ["| request | server | Python calls | functions | files |", "|---|---|--:|--:|--:|"]
    for access, paths in measured.items():
        for action, path in paths.items():
            lines.append(f"| {action} | {access} | {len(path.calls)} | {path.functions} | {path.files} |")
    return "\n".join(lines)


def write_document(measured: dict[str, Paths]) -> None:
    """Put the table, and the files that a SendMessage crosses, between the markers of the document."""
    path = measured["open"]["SendMessage"]
    calls = dict(path.by_file())
    files = ", ".join(f"`{file}` {calls[file]}" for file in dict.fromkeys(call.file for call in path.calls))
    text = f"One SendMessage on an open server, file by file, with the number of calls in each: {files}."
    wrapped = textwrap.fill(text, 118, break_long_words=False, break_on_hyphens=False)
    write_between(DOCUMENT, BEGIN, END, f"{table(measured)}\n\n{wrapped}\n")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.path", description=__doc__)
    parser.add_argument("--trace", action="store_true", help="print every call of each request, as a tree")
    parser.add_argument("--by-file", action="store_true", help="print the calls of each file")
    parser.add_argument("--only", choices=ACTIONS, help="trace this request alone")
    parser.add_argument("--access", choices=ACCESS, help="measure this kind of server alone")
    parser.add_argument(
        "--document", action="store_true", help="write the figures into docs/internals/requests.md"
    )
    parser.add_argument("--checkout", type=Path, default=HERE.root, help="another source tree of Penstock")
    given = parser.parse_args()
    if given.document and given.access:
        parser.error("--document needs figures of both kinds of server")
    checkout = Checkout(given.checkout)
    measured = {
        access: measure(checkout, secured=access == "secured")
        for access in ACCESS
        if given.access in (None, access)
    }
    print(table(measured))
    if given.document:
        write_document(measured)
    for access, paths in measured.items():
        for action, path in paths.items():
            if given.only not in (None, action):
                continue
            if given.trace:
                print(f"\n{action}, {access}\n{path.tree()}")
            if given.by_file:
                print(f"\n{action}, {access}")
                print("\n".join(f"{calls:5} {file}" for file, calls in path.by_file()))


if __name__ == "__main__":
    main()
