"""The plugin for pytest: fixtures with a broker. It is cheap until a test asks for one of them.

One broker serves all tests of a process, each with an account of its own; with pytest-xdist every worker has one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from penstock.client import Client, SyncClient
    from penstock.testing.broker import InProcessBroker
    from penstock.testing.http_subscriber import HttpSubscriber


@pytest.fixture(scope="session")
def _penstock_of_session() -> Iterator[InProcessBroker]:
    from penstock.testing.broker import InProcessBroker

    with InProcessBroker() as broker:
        yield broker


@pytest.fixture
def penstock(_penstock_of_session: InProcessBroker) -> Iterator[InProcessBroker]:
    """A broker without queues: its ``url``, ``account`` and ``clock``, and assertions about its queues."""
    yield _penstock_of_session
    _penstock_of_session.reset()


@pytest.fixture
def sqs_url(penstock: InProcessBroker) -> str:
    """The endpoint URL of the broker."""
    return penstock.url


@pytest.fixture
def sqs(penstock: InProcessBroker) -> Iterator[Any]:
    """A client of boto3 for SQS, connected with the broker."""
    client = penstock.boto3_client()
    yield client
    client.close()


@pytest.fixture
def sns(penstock: InProcessBroker) -> Iterator[Any]:
    """A client of boto3 for SNS, connected with the broker."""
    client = penstock.boto3_client("sns")
    yield client
    client.close()


@pytest.fixture
def http_subscriber(penstock: InProcessBroker) -> Iterator[HttpSubscriber]:
    """A subscriber that confirms by itself and records what topics send to its URL."""
    with penstock.http_subscriber() as subscriber:
        yield subscriber


@pytest.fixture
def sqs_environment(penstock: InProcessBroker, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment of the test: clients that the tested code makes by itself find the broker."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    for name, value in penstock.environment.items():
        monkeypatch.setenv(name, value)
    return penstock.environment


@pytest.fixture
def penstock_client(penstock: InProcessBroker) -> Iterator[SyncClient]:
    """A client of ``penstock.client`` without asyncio, connected with the broker."""
    with penstock.client() as client:
        yield client


@pytest.fixture
def penstock_async_client(penstock: InProcessBroker) -> Client:
    """The same for asyncio. Use it in an ``async with`` block, which closes its connections."""
    return penstock.async_client()
