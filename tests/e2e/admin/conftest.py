"""A server with one process, and one with two processes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.admin.requests import REGION
from penstock.client.api import ApiSession
from support.process import ServerProcess


@pytest.fixture(scope="package", params=[1, 2], ids=["one process", "two processes"])
def admin_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    data = str(tmp_path_factory.mktemp("data"))
    with ServerProcess("--data", data, "--processes", str(request.param), "--region", REGION) as process:
        yield process
        assert process.process.poll() is None, "the server died"
        assert not [line for line in process.log if '"error"' in line.lower()], "the server logged an error"


@pytest.fixture
def api(admin_server: ServerProcess) -> Iterator[ApiSession]:
    session = ApiSession(admin_server.url, REGION)
    yield session
    session.close()
