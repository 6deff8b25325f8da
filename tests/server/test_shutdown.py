"""A stop while the broker still reads what it needs after its start."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path

import pytest

from penstock.server.settings.config import Config
from penstock.server.settings.load import load_config
from support.composed import loaded, serving

QUEUES = 100


@pytest.fixture
def config(tmp_path: Path) -> Config:
    file = tmp_path / "penstock.toml"
    file.write_text("\n".join(f"[queues.q{number}]" for number in range(QUEUES)))
    return load_config({"config": str(file), "data": str(tmp_path / "data")}, {})


async def send_to_every_queue(config: Config) -> None:
    async with serving(config) as server:
        for number in range(QUEUES):
            body = json.dumps({"QueueUrl": f"q{number}", "MessageBody": "x"})
            head = f"POST / HTTP/1.1\r\nX-Amz-Target: AmazonSQS.SendMessage\r\nContent-Length: {len(body)}\r\n\r\n"
            assert (await server.ask((head + body).encode())).status == 200


async def start_and_stop(config: Config) -> None:
    server = await loaded(config)
    server.parts.wind_down()
    await server.parts.listener.close(0)
    await server.unload()
    await asyncio.sleep(0.02)  # time for reads that are still queued
    server.close()


def test_a_stop_right_after_a_start_reads_nothing_from_the_closed_store(
    config: Config, caplog: pytest.LogCaptureFixture
) -> None:
    asyncio.run(send_to_every_queue(config))
    caplog.set_level(logging.WARNING)
    logging.getLogger("penstock").propagate = True
    for _ in range(5):
        asyncio.run(start_and_stop(config))
    assert caplog.messages == []
