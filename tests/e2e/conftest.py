"""One server for all tests of a worker; each test has its own account, so that tests do not share queues."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from support.process import ServerProcess
from support.raw import Raw
from support.secured import client
from support.sqs import sqs_client

_accounts = itertools.count(200_000_000_000)


@pytest.fixture(scope="session")
def flags() -> tuple[str, ...]:
    """The flags of every server that a test starts by itself."""
    return ()


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest) -> Iterator[ServerProcess]:
    """Starts a server of one shard, unless a module asks for others by ``ON_SHARDS``."""
    shards = getattr(request, "param", 1)
    with ServerProcess("--memory", "--no-relaxed-waits", "--shards", str(shards)) as running:
        yield running
        assert running.process.poll() is None, "the server died"
        assert running.stop() == 0
        assert not [line for line in running.log if '"error"' in line.lower()], "the server logged an error"


ON_SHARDS = pytest.mark.parametrize(
    "server",
    [pytest.param(1, id="one shard"), pytest.param(8, id="8 shards")],
    indirect=True,
    scope="session",
)
"""A parametrization for modules whose queues lie in different shards of one server, too."""


@pytest.fixture
def account() -> str:
    return str(next(_accounts))


@pytest.fixture
def sqs(server: ServerProcess, account: str) -> Any:
    return sqs_client(server.url, account)


@pytest.fixture
def sns(server: ServerProcess, account: str) -> Any:
    return client(
        server.url, "sns", region_name="us-east-1", aws_access_key_id=account, aws_secret_access_key="any"
    )


@pytest.fixture
def raw(server: ServerProcess, account: str) -> Iterator[Raw]:
    client = Raw(server.port, account)
    yield client
    client.close()
