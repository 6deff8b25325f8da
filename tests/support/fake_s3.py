"""A tiny S3 in memory for tests: objects of buckets in the path are put, read and deleted."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

import boto3
from botocore.config import Config

_MISSING = b"<Error><Code>NoSuchKey</Code><Message>There is no such key.</Message></Error>"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if "aws-chunked" in self.headers.get("Content-Encoding", ""):
            body = _joined(body)
        self.server.objects[self._name()] = body
        self._answer(200, b"", ETag='"any"')

    def do_GET(self) -> None:
        found = self.server.objects.get(self._name())
        self._answer(404 if found is None else 200, _MISSING if found is None else found)

    def do_DELETE(self) -> None:
        self.server.objects.pop(self._name(), None)
        self._answer(204, b"")

    def do_HEAD(self) -> None:
        name = self._name()
        self._answer(200 if "/" not in name or name in self.server.objects else 404, b"")

    def _name(self) -> str:
        return unquote(urlsplit(self.path).path).strip("/")

    def _answer(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


class _Server(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, bytes] = {}


def _joined(body: bytes) -> bytes:
    """The content of the encoding aws-chunked, without signatures and trailers."""
    joined = b""
    while True:
        head, _, body = body.partition(b"\r\n")
        size = int(head.partition(b";")[0], 16)
        if size == 0:
            return joined
        joined += body[:size]
        body = body[size + 2 :]


class FakeS3:
    """``objects`` by ``bucket/key``."""

    def __init__(self) -> None:
        self._server = _Server()
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def objects(self) -> dict[str, bytes]:
        return self._server.objects

    def client(self) -> Any:
        return boto3.client(
            "s3", endpoint_url=self.url, region_name="us-east-1", aws_access_key_id="any",
            aws_secret_access_key="any",
            config=Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1}),
        )  # fmt: skip

    def __enter__(self) -> FakeS3:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
