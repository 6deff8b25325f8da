"""The server of these tests has two processes: queues are in shards of both, and connections reach either."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.process import ServerProcess


@pytest.fixture(scope="session")
def flags() -> tuple[str, ...]:
    return ("--processes", "2")


@pytest.fixture(scope="session")
def server(flags: tuple[str, ...]) -> Iterator[ServerProcess]:
    with ServerProcess("--memory", "--no-relaxed-waits", *flags) as running:
        yield running
        assert running.process.poll() is None, "the server died"
        assert running.stop() == 0
        assert not [line for line in running.log if '"error"' in line.lower()], "the server logged an error"
