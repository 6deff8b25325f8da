"""Queues of one server, and applications that handle their messages."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.client.api import ApiSession, Json
from support.process import ServerProcess
from support.waiting import until
from support.worker_programs import PATIENCE_S, Application

Create = Callable[[str], Application]


class Queues:
    """What tests do with queues of a server."""

    def __init__(self, url: str) -> None:
        self._session = ApiSession(url, "us-east-1")

    def create(
        self, name: str, *, dead_letters: str | None = None, receives: int = 3, **attributes: Any
    ) -> None:
        for queue in (dead_letters, name):
            if queue is not None:
                given = {key: str(value) for key, value in attributes.items()}
                if queue.endswith(".fifo"):
                    given |= {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
                if queue == name and dead_letters is not None:
                    arn = f"arn:aws:sqs:us-east-1:000000000000:{dead_letters}"
                    policy = {"deadLetterTargetArn": arn, "maxReceiveCount": receives}
                    given["RedrivePolicy"] = json.dumps(policy)
                self._session.sqs("CreateQueue", QueueName=queue, Attributes=given)

    def send(self, queue: str, *bodies: str, group: str | None = None, **members: Any) -> None:
        if group is not None:
            members["MessageGroupId"] = group
        for body in bodies:
            self._session.sqs("SendMessage", QueueUrl=queue, MessageBody=body, **members)

    def facts(self, queue: str) -> Json:
        return self._session.admin("GET", f"/queues/{queue}")

    def messages(self, queue: str) -> list[Json]:
        found: list[Json] = self._session.admin("GET", f"/queues/{queue}/messages")["messages"]
        return found

    def counts(self, queue: str) -> tuple[int, int]:
        """Visible, in flight."""
        facts = self.facts(queue)
        return facts["visible"], facts["in_flight"]

    def until_counts(self, queue: str, visible: int, in_flight: int) -> None:
        wanted = (visible, in_flight)
        until(
            lambda: self.counts(queue) == wanted,
            f"{queue} has {self.counts(queue)}, not {wanted}",
            PATIENCE_S,
        )

    def until_empty(self, queue: str) -> None:
        self.until_counts(queue, 0, 0)

    def close(self) -> None:
        self._session.close()


@pytest.fixture(scope="package")
def worker_server() -> Iterator[ServerProcess]:
    with ServerProcess("--memory") as running:
        yield running
        assert running.stop() == 0


@pytest.fixture
def queues(worker_server: ServerProcess) -> Iterator[Queues]:
    made = Queues(worker_server.url)
    yield made
    made.close()


@pytest.fixture
def application(worker_server: ServerProcess, tmp_path: Path) -> Create:
    """An application from the source of its module."""
    return lambda source: Application(tmp_path, source, worker_server.url)
