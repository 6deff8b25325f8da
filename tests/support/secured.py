"""A secured server with a few users, and clients that sign as them."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from support.identities import HOME
from support.process import ServerProcess

_session = boto3.session.Session()


class Secured:
    """Its files lie in ``folder``: credentials, root key, and data."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.keys: dict[str, tuple[str, str]] = {}
        self.server: ServerProcess

    @property
    def files(self) -> tuple[str, ...]:
        return ("--credentials", str(self.folder / "credentials.toml"))

    @property
    def audit_log(self) -> list[dict[str, Any]]:
        """The audit log so far; a server writes it within a second, and at its stop."""
        return [
            json.loads(line) for line in (self.folder / "data/audit/audit.jsonl").read_text().splitlines()
        ]

    def penstock(self, *arguments: str) -> str:
        """The command, on this server's files."""
        command = [sys.executable, "-m", "penstock", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=self.folder)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def add(self, name: str, *policies: str, account: str = HOME) -> None:
        given = [part for policy in policies for part in ("--policy", policy)]
        shown = self.penstock("user", "create", name, "--account", account, *given, *self.files)
        key, secret = (line.partition("=")[2] for line in shown.splitlines()[:2])
        self.keys[name] = (key, secret)

    @contextlib.contextmanager
    def running(self, *arguments: str) -> Iterator[ServerProcess]:
        with ServerProcess("--data", str(self.folder / "data"), *self.files, *arguments) as server:
            self.server = server
            yield server
            assert server.process.poll() in (None, 0), "the server died"

    def client(self, name: str, service: str = "sqs", **given: Any) -> Any:
        key, secret = self.keys[name]
        return client(
            self.server.url, service, **{"aws_access_key_id": key, "aws_secret_access_key": secret, **given}
        )


def client(url: str, service: str = "sqs", **given: Any) -> Any:
    """Nothing is repeated: a request that fails is to be seen."""
    config = Config(retries={"total_max_attempts": 1}, read_timeout=40, **given.pop("config", {}))
    return _session.client(
        service, **{"endpoint_url": url, "region_name": "eu-west-1", "config": config, **given}
    )


def refusal(call: Any, **request: Any) -> tuple[int, str, str]:
    """Status, code and text of the error that a call gets."""
    try:
        call(**request)
    except ClientError as error:
        answer = error.response
        return (
            answer["ResponseMetadata"]["HTTPStatusCode"],
            answer["Error"]["Code"],
            answer["Error"]["Message"],
        )
    raise AssertionError("it was allowed")
