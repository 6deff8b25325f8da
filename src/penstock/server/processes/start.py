"""The start of a server with several processes: what has to be there before the supervisor can start them."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from penstock.errors import PenstockError
from penstock.server.compose import SHARDS_PER_PROCESS, site_of
from penstock.server.http.listener import open_sockets
from penstock.server.lifecycle import StartError, announce, listen_errors
from penstock.server.logs import set_up_logs
from penstock.server.processes.messages import Ready
from penstock.server.processes.supervisor import Supervisor
from penstock.server.settings.address import Address
from penstock.server.settings.config import Config
from penstock.server.startup_report import Recovered, amount, startup_report
from penstock.server.systemd import ServiceManager
from penstock.server.terminal import Terminal
from penstock.store.port import StoreSite
from penstock.store.sqlite.file import LockFile

_SOCKET_PATH_BYTES_MAX = 104  # macOS; Linux allows a few more
_SOCKET_NAME_BYTES = 12


def run_processes(config: Config, terminal: Terminal) -> None:
    """Serve with several processes until asked to stop. Raises StartError or ServerFailed."""
    human = set_up_logs(config.log_level, config.log_format)
    asyncio.run(_supervise(config, human, terminal))


async def _supervise(config: Config, human: bool, terminal: Terminal) -> None:
    manager = ServiceManager()
    with ExitStack() as opened:
        addresses, listening = await _listen(config, opened)
        site = opened.enter_context(_store(config))
        directory = opened.enter_context(_private_directory(config))

        def on_ready(reports: list[Ready]) -> None:
            recovered = Recovered(
                sum(each.queues for each in reports), sum(each.messages for each in reports),
                sum(each.size for each in reports), max(each.seconds for each in reports),
            )  # fmt: skip
            processes = f"{config.processes} processes, {amount(site.shards, 'shard')}"
            report = startup_report(
                config, addresses, recovered, reports[0].encryption, site.guarantees, processes
            )
            announce(report, human, config)
            manager.ready(f"ready: {processes}")
            manager.watch()

        share = config.share(config.processes, site.shards)
        supervisor = Supervisor(share, directory, listening, on_ready, manager=manager)
        terminal.on_hangup_signal(supervisor.request_stop, supervisor.request_reload)
        await supervisor.run()


async def _listen(config: Config, opened: ExitStack) -> tuple[list[Address], list[list[list[int]]]]:
    """The addresses with their ports, and the descriptors of each process. Raises StartError."""
    addresses: list[Address] = []
    listening: list[list[list[int]]] = [[] for _ in range(config.processes)]
    for wanted in config.addresses:
        with listen_errors(wanted):
            address, found = await _open_for_processes(wanted, config.processes)
        addresses.append(address)
        for descriptors, sockets in zip(listening, found, strict=True):
            descriptors.append([opened.enter_context(each).fileno() for each in sockets])
    return addresses, listening


@contextmanager
def _store(config: Config) -> Iterator[StoreSite]:
    """Make or check the store before processes open their shards of it. Raises StartError."""
    site, processes = site_of(config), config.processes
    lock = LockFile(config.data / "processes.lock")  # one supervisor at a time
    try:
        site.open()
        if not config.memory:
            lock.take()
    except PenstockError as error:
        raise StartError(str(error)) from None
    try:
        if site.shards < processes:
            raise StartError(
                f"{config.data} has {amount(site.shards, 'shard')}, too few for {processes} processes: start with "
                f"--processes {site.shards}, or copy the data into a new store: penstock migrate "
                f"--from sqlite:{config.data} --to sqlite:NEW_DIRECTORY --shards {SHARDS_PER_PROCESS * processes}"
            )
        yield site
    finally:
        lock.release()
        site.close()


@contextmanager
def _private_directory(config: Config) -> Iterator[Path]:
    """The directory for the sockets between the processes. It is in the data directory, unless its path is too long
    for a socket."""
    directory = config.data.absolute() / "processes"
    if config.memory or len(os.fsencode(directory)) + _SOCKET_NAME_BYTES > _SOCKET_PATH_BYTES_MAX:
        directory = Path(tempfile.mkdtemp(prefix="penstock-"))
    else:
        shutil.rmtree(directory, ignore_errors=True)  # of a server that was killed
        directory.mkdir(mode=0o700)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


async def _open_for_processes(address: Address, processes: int) -> tuple[Address, list[list[socket.socket]]]:
    """The address with its port, and the sockets of each process. Raises OSError.

    On Linux each process has sockets of its own on the same port (SO_REUSEPORT): the kernel spreads new connections
    evenly, which a shared socket does not, since a process that is awake takes all that wait. The supervisor keeps
    every socket open: connections for a process that is being restarted wait for its successor, and none is reset.
    Elsewhere SO_REUSEPORT does not spread connections, and all processes share one socket.
    """
    found = await open_sockets(address.host, address.port)
    opened = Address(address.host, found[0].getsockname()[1])
    if sys.platform != "linux":
        return opened, [found] * processes
    # Opened without SO_REUSEPORT first: with it, a port of another server of the same user would be shared.
    for each in found:
        each.close()
    return opened, [await open_sockets(address.host, opened.port, reuse_port=True) for _ in range(processes)]
