"""Servers that the commands are tested against, one of each kind for all tests of a module."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.command_line import AmazonLookalike, CommandLine
from support.process import ServerProcess
from support.secured import Secured


@pytest.fixture(scope="module", autouse=True)
def own_contexts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The contexts and the history of the user who runs the tests stay out of them."""
    folder = tmp_path_factory.mktemp("config")
    with pytest.MonkeyPatch.context() as patch:
        for variable in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME"):
            patch.setenv(variable, str(folder))
        yield folder


@pytest.fixture(scope="module")
def broker() -> Iterator[ServerProcess]:
    with ServerProcess("--memory") as running:
        yield running


@pytest.fixture(scope="module")
def penstock(broker: ServerProcess) -> CommandLine:
    """Commands against an open server."""
    return CommandLine(broker.url)


@pytest.fixture(scope="module")
def amazon(broker: ServerProcess) -> Iterator[CommandLine]:
    """Commands against what looks like Amazon SQS; it has the queues of ``penstock``."""
    lookalike = AmazonLookalike(broker.url)
    yield CommandLine(lookalike.url)
    lookalike.stop()


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """A secured server with three users: root, a guest who may only send, a reader who may use all of SQS."""
    server = Secured(tmp_path_factory.mktemp("secured"))
    server.add("root")
    server.add("guest", "sqs-send")
    server.add("reader", "sqs-full-access")
    with server.running("--memory"):
        yield server


@pytest.fixture(scope="module")
def as_root(secured: Secured) -> CommandLine:
    return signed_in(secured, "root")


@pytest.fixture(scope="module")
def as_guest(secured: Secured) -> CommandLine:
    return signed_in(secured, "guest")


@pytest.fixture(scope="module")
def as_reader(secured: Secured) -> CommandLine:
    """May do everything with SQS, and nothing with the admin API."""
    return signed_in(secured, "reader")


def signed_in(server: Secured, name: str) -> CommandLine:
    key, secret = server.keys[name]
    return CommandLine(server.server.url, AWS_ACCESS_KEY_ID=key, AWS_SECRET_ACCESS_KEY=secret)
