"""The start of a server with several workers: what the supervisor does before and after it supervises."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from penstock.server.compose import site_of
from penstock.server.lifecycle import announce, listen_errors
from penstock.server.logs import set_up_logs
from penstock.server.settings.address import Address
from penstock.server.settings.config import Config
from penstock.server.startup_report import amount, describe_recovery, startup_report
from penstock.server.workers.messages import Ready
from penstock.server.workers.sockets import open_for_workers
from penstock.server.workers.supervisor import Supervisor

_SOCKET_PATH_MAX = 100  # bytes, of the 108 that the system allows
_NAME_BYTES = 12  # of a socket in the directory


def run_workers(config: Config) -> None:
    """Serve with several processes until asked to stop. Raises StartError or ServerFailed."""
    human = set_up_logs(config.log_level, config.log_format)
    asyncio.run(_supervise(config, human))


async def _supervise(config: Config, human: bool) -> None:
    started = time.perf_counter()
    addresses: list[Address] = []
    listening: list[list[list[int]]] = [[] for _ in range(config.workers)]
    sockets = []  # open for as long as we run
    for address in config.addresses:
        with listen_errors(address):
            opened, found = await open_for_workers(address, config.workers)
        addresses.append(opened)
        sockets.append(found)
        for descriptors, own in zip(listening, found, strict=True):
            descriptors.append([each.fileno() for each in own])
    shards = 4 * config.workers

    def on_ready(workers: list[Ready]) -> None:
        recovered = describe_recovery(
            sum(each.queues for each in workers), sum(each.messages for each in workers),
            sum(each.size for each in workers), time.perf_counter() - started,
        )  # fmt: skip
        processes = f"{config.workers} processes, {amount(shards, 'shard')}"
        encryption, durability = workers[0].encryption, site_of(config).guarantees
        report = startup_report(config, addresses, recovered, encryption, durability, processes)
        announce(report, human, config)

    with _private_directory(config) as directory:
        await Supervisor(share_of(config), shards, directory, listening, on_ready).run()


def share_of(config: Config) -> Config:
    """What one worker may use of what all may use together."""
    workers = config.workers
    return replace(
        config,
        memory_budget=config.memory_budget // workers,
        max_buffered_size=config.max_buffered_size // workers,
        max_connections=-(-config.max_connections // workers),
        max_connections_per_address=-(-config.max_connections_per_address // workers),
    )


@contextmanager
def _private_directory(config: Config) -> Iterator[Path]:
    """For the sockets between the workers: in the data directory, unless its path is too long for a socket."""
    directory = config.data.absolute() / "workers"
    if config.memory or len(os.fsencode(directory)) + _NAME_BYTES > _SOCKET_PATH_MAX:
        directory = Path(tempfile.mkdtemp(prefix="penstock-"))
    else:
        shutil.rmtree(directory, ignore_errors=True)  # of a server that was killed
        directory.mkdir(mode=0o700)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
