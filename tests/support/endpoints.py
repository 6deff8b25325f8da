"""An HTTP endpoint of topics, as a subscriber runs it."""

from __future__ import annotations

import json
import queue
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any


class Endpoint:
    """Takes everything. What it gets is in ``posted``: the type in the headers, and the message."""

    def __init__(self) -> None:
        self.posted: queue.Queue[tuple[str, dict[str, Any]]] = queue.Queue()
        posted = self.posted

        class Taking(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                posted.put((self.headers["x-amz-sns-message-type"], json.loads(body)))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Taking)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/hook"

    def next(self, type: str) -> dict[str, Any]:
        """Waits for the next message, which must have this type."""
        header, message = self.posted.get(timeout=30)
        assert header == message["Type"] == type
        return message

    def __enter__(self) -> Endpoint:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
