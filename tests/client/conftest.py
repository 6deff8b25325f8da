"""One open server for the tests of the client, and a driver for each of its networks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from client.driver import Driver
from support.process import ServerProcess


@pytest.fixture(scope="package")
def server() -> Iterator[ServerProcess]:
    with ServerProcess("--memory") as running:
        yield running
        assert running.process.poll() is None, "the server died"


@pytest.fixture(params=["asyncio", "blocking"])
def drive(request: pytest.FixtureRequest) -> Driver:
    return Driver(request.param)
