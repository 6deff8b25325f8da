"""One server for all tests of a worker; each test has its own account, so that tests do not share queues."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest
from botocore.config import Config

from e2e.process import ServerProcess
from e2e.raw import Raw

_accounts = itertools.count(200_000_000_000)
_session = boto3.session.Session()  # knows the model of SQS once it has read it


def sqs_client(url: str, account: str, region: str = "us-east-1") -> Any:
    """Nothing is repeated: a request that fails is to be seen."""
    config = Config(retries={"total_max_attempts": 1}, read_timeout=40, max_pool_connections=64)
    return _session.client(
        "sqs", endpoint_url=url, region_name=region, config=config,
        aws_access_key_id=account, aws_secret_access_key="any",
    )  # fmt: skip


@pytest.fixture(scope="session")
def flags() -> tuple[str, ...]:
    """Of every server that a test starts by itself."""
    return ()


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest) -> Iterator[ServerProcess]:
    """Of one shard, unless a module asks for others by ``ON_SHARDS``."""
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
"""For modules whose queues lie in different shards of one server, too."""


@pytest.fixture
def account() -> str:
    return str(next(_accounts))


@pytest.fixture
def sqs(server: ServerProcess, account: str) -> Any:
    return sqs_client(server.url, account)


@pytest.fixture
def raw(server: ServerProcess, account: str) -> Iterator[Raw]:
    client = Raw(server.port, account)
    yield client
    client.close()


class Background:
    """A call that waits in a thread; ``result`` waits for its answer and raises its error."""

    def __init__(self, call: Callable[..., Any], **request: Any) -> None:
        self._outcome: list[Any] = []
        self._error: list[BaseException] = []
        self._thread = threading.Thread(target=self._run, args=(call, request), daemon=True)
        self._thread.start()

    def _run(self, call: Callable[..., Any], request: dict[str, Any]) -> None:
        try:
            self._outcome.append(call(**request))
        except BaseException as error:
            self._error.append(error)

    def result(self, timeout: float = 30) -> Any:
        self._thread.join(timeout)
        assert not self._thread.is_alive(), "no answer"
        if self._error:
            raise self._error[0]
        return self._outcome[0]
