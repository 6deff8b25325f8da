"""Runs commands against servers: in a pipe, in a terminal, and against one that looks like Amazon SQS."""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import pexpect
from click.testing import CliRunner, Result

from penstock.cli import main
from penstock.client.api import ApiSession
from penstock.client.credentials import SigningKeys

COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class CommandLine:
    """``penstock`` with a server, given by the variables of the AWS SDKs."""

    def __init__(self, endpoint: str, **environment: str) -> None:
        self.endpoint = endpoint
        self.environment = {"AWS_ENDPOINT_URL": endpoint, **environment}

    def __call__(self, *arguments: str, given: str | bytes | None = None, **environment: str) -> Result:
        """Runs a command in a pipe. ``given``: on standard input."""
        variables = {**self.environment, **environment}
        result = CliRunner().invoke(main, arguments, env=variables, input=given)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    def done(self, *arguments: str, **options: Any) -> str:
        """The output of a command that must succeed."""
        result = self(*arguments, **options)
        assert result.exit_code == 0, result.output
        return result.stdout

    def json(self, *arguments: str, **options: Any) -> Any:
        """What a command prints with --json."""
        return json.loads(self.done(*arguments, "--json", **options))

    def json_lines(self, *arguments: str, **options: Any) -> list[Any]:
        return [json.loads(line) for line in self.done(*arguments, "--json", **options).splitlines()]

    def failed(self, *arguments: str, code: int = 1, **options: Any) -> str:
        """The one line of a command that must fail."""
        result = self(*arguments, **options)
        assert result.exit_code == code, result.output
        assert result.stderr.count("\n") == 1 and result.stderr.startswith("penstock: "), result.stderr
        return result.stderr.removeprefix("penstock: ").strip()

    def sqs(self, action: str, queue: str, **members: Any) -> dict[str, Any]:
        """An action of SQS on a queue, as another client does it."""
        key = self.environment.get("AWS_ACCESS_KEY_ID")
        keys = SigningKeys(key, self.environment["AWS_SECRET_ACCESS_KEY"]) if key else None
        session = ApiSession(self.endpoint, "us-east-1", keys)
        url = session.sqs("GetQueueUrl", QueueName=queue)["QueueUrl"]
        answer = session.sqs(action, QueueUrl=url, **members)
        session.close()
        return answer

    def spawn(self, *arguments: str, columns: int = 160, **environment: str) -> pexpect.spawn[str]:
        """Runs a command in a terminal."""
        variables = {**os.environ, "TERM": "xterm-256color", **self.environment, **environment}
        for size in ("COLUMNS", "LINES"):  # set by pytest-xdist: they go before the size of the terminal
            variables.pop(size, None)
        return pexpect.spawn(
            sys.executable, ["-m", "penstock", *arguments], env=variables, encoding="utf-8",
            dimensions=(50, columns), timeout=30,
        )  # fmt: skip

    def in_terminal(self, *arguments: str, answer: str | None = None, **environment: Any) -> tuple[int, str]:
        """Exit code and output of a command in a terminal; ``answer``: to its question."""
        process = self.spawn(*arguments, **environment)
        if answer is not None:
            process.expect(r"\[y/N\]: ")
            process.sendline(answer)
        before = process.before if isinstance(process.before, str) else ""
        process.expect(pexpect.EOF)
        process.close()
        assert process.exitstatus is not None and process.before is not None
        return process.exitstatus, (before + process.before).replace("\r\n", "\n")


class AmazonLookalike:
    """Passes requests to a server, but for what Amazon SQS has not: health checks and the admin API."""

    def __init__(self, url: str) -> None:
        behind = urlsplit(url).netloc

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def pass_on(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                if self.path.startswith(("/health", "/admin")):
                    self.answer(404, [("Content-Type", "text/xml")], b"<UnknownOperationException/>")
                    return
                connection = HTTPConnection(behind, timeout=60)
                connection.request(self.command, self.path, body, dict(self.headers))
                response = connection.getresponse()
                left_out = ("connection", "content-length", "keep-alive", "transfer-encoding")
                headers = [pair for pair in response.getheaders() if pair[0].lower() not in left_out]
                self.answer(response.status, headers, response.read())
                connection.close()

            def answer(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
                self.send_response(status)
                for name, value in [*headers, ("Content-Length", str(len(content)))]:
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_DELETE = do_PATCH = pass_on

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
