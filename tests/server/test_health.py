"""Health pages of a server that can do a part of its work: ready, and what it cannot do."""

from __future__ import annotations

import errno
import json
import logging
import os
from collections.abc import Set
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import StoreError
from penstock.server.settings.config import Config
from penstock.store.changes import Changes
from penstock.store.port import Mark, StoreStatus
from penstock.store.sqlite import disk
from penstock.store.sqlite.store import SqliteStore
from support.composed import Server, serving
from support.harness import get, post, run

QUEUE = "http://127.0.0.1/000000000000/q"


async def asked(server: Server, action: str, **members: Any) -> int:
    request = post(f"AmazonSQS.{action}", json.dumps(members).encode())
    return (await server.ask(request)).status


async def state_of_sends(server: Server, path: str) -> str:
    page = await server.ask(get(path))
    assert page.status == 200 and page.json()["status"] == "ready"
    return str(page.json()["sends"])


def test_a_full_disk_is_shown_and_the_server_stays_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A load balancer that removed it would keep away the receivers, who free space."""

    async def accepted() -> None:
        async with serving(Config(data=tmp_path, port=0)) as server:
            assert await asked(server, "CreateQueue", QueueName="q") == 200
            assert await asked(server, "SendMessage", QueueUrl=QUEUE, MessageBody="x") == 200
            assert await state_of_sends(server, "/health/ready") == "accepted"

    async def refused_for_a_while() -> None:
        async with serving(Config(data=tmp_path, port=0)) as server:
            while await state_of_sends(server, "/health/ready") == "accepted":  # the first look is under way
                pass
            for path in ("/health/ready", "/health"):
                assert await state_of_sends(server, path) == "refused: the disk is full"
            assert await asked(server, "SendMessage", QueueUrl=QUEUE, MessageBody="x") == 503
            assert await asked(server, "ReceiveMessage", QueueUrl=QUEUE) == 200
            monkeypatch.undo()
            while await state_of_sends(server, "/health/ready") != "accepted":  # it looks again every second
                pass
            assert await asked(server, "SendMessage", QueueUrl=QUEUE, MessageBody="x") == 200

    run(accepted)
    (tmp_path / "penstock.reserve").unlink()
    monkeypatch.setattr(disk, "free_bytes", lambda _: 0)
    run(refused_for_a_while)


def test_the_page_names_the_reason_why_sends_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reason may be another one than a full disk. The path of the data directory is for the log only."""

    def unreadable(_: SqliteStore) -> StoreStatus:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(tmp_path))

    async def refused() -> None:
        async with serving(Config(data=tmp_path, port=0)) as server:
            while (state := await state_of_sends(server, "/health/ready")) == "accepted":
                pass
            assert state == "refused: Permission denied"

    monkeypatch.setattr(SqliteStore, "status", unreadable)
    run(refused)


REFUSED = 6


def test_commits_that_are_refused_are_shown_whatever_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broken = False
    append = SqliteStore.append

    def refuse_while_broken(store: SqliteStore, changes: Changes, mark: Mark) -> Set[int]:
        if broken:
            raise StoreError("attempt to write a readonly database")
        return append(store, changes, mark)

    async def scene() -> None:
        nonlocal broken
        async with serving(Config(data=tmp_path, port=0)) as server:
            assert await asked(server, "CreateQueue", QueueName="q") == 200
            assert await state_of_sends(server, "/health/ready") == "accepted"
            broken = True
            for _ in range(REFUSED):
                assert await asked(server, "SendMessage", QueueUrl=QUEUE, MessageBody="x") == 503
            for path in ("/health/ready", "/health"):
                state = await state_of_sends(server, path)
                assert state == "refused: attempt to write a readonly database"
            broken = False
            assert await asked(server, "SendMessage", QueueUrl=QUEUE, MessageBody="x") == 200
            assert await state_of_sends(server, "/health/ready") == "accepted"

    monkeypatch.setattr(SqliteStore, "append", refuse_while_broken)
    logging.getLogger("penstock").propagate = True
    run(scene)
    # Once a minute; other servers that tests left behind in this process may have logged a line of their own.
    assert 1 <= caplog.text.count("a commit failed") < REFUSED
