"""Clients of the SDK on a real server, each test with an account of its own."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from penstock.client import Client, Message, SigningKeys
from support.process import ServerProcess

Test = Callable[[Client], Coroutine[Any, Any, None]]
Run = Callable[[Test], None]

_LIMIT_S = 120  # no test needs it


def reach(server: ServerProcess, account: str) -> dict[str, Any]:
    """The settings of a client."""
    keys = SigningKeys(account, "any")
    return {"endpoint_url": server.url, "region": "us-east-1", "credentials": keys}


@pytest.fixture
def settings(server: ServerProcess, account: str) -> dict[str, Any]:
    return reach(server, account)


@pytest.fixture
def run(settings: dict[str, Any]) -> Run:
    """Run a test with a client."""

    async def limited(test: Test) -> None:
        async with asyncio.timeout(_LIMIT_S), Client(**settings) as client:
            await test(client)

    return lambda test: asyncio.run(limited(test))


def said_before_kill(lines: int, script: str, settings: dict[str, Any], *arguments: str) -> list[str]:
    """Run a script with the endpoint, the account and these arguments, and kill it when it has printed so many
    lines. What it printed until then."""
    reach = (settings["endpoint_url"], settings["credentials"].access_key)
    process = subprocess.Popen(
        [sys.executable, "-c", script, *reach, *arguments], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    said = [process.stdout.readline() for _ in range(lines)]
    process.kill()
    said += process.stdout
    process.wait(30)
    process.stdout.close()
    assert said[lines - 1], "it ended by itself"
    return [line.rstrip("\n") for line in said if line.endswith("\n")]


async def received(client: Client, queue: str, count: int) -> list[Message]:
    """Receives this many messages of a queue, and deletes them."""
    messages: list[Message] = []
    while len(messages) < count:
        batch = await client.receive_message(
            queue, max_number_of_messages=10, wait_time_seconds=20, message_attribute_names=["All"],
            message_system_attribute_names=["All"],
        )  # fmt: skip
        if batch:
            await client.delete_message_batch(queue, [message.receipt_handle for message in batch])
        messages += batch
    return messages
