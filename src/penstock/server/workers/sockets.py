"""The listening sockets of all workers, opened by the supervisor and passed on to each worker it starts.

On Linux each worker has sockets of its own on the same port (SO_REUSEPORT): the kernel spreads new connections
evenly, which a shared socket does not, since a worker that is awake takes all that wait. The supervisor keeps every
socket open: connections for a worker that is being restarted wait for its successor, and none is reset. Elsewhere
SO_REUSEPORT does not spread connections, and all workers share one socket.
"""

from __future__ import annotations

import socket
import sys

from penstock.server.http.listener import open_sockets
from penstock.server.settings.address import Address


async def open_for_workers(address: Address, workers: int) -> tuple[Address, list[list[socket.socket]]]:
    """The address with its port, and the sockets of each worker. Raises OSError."""
    found = await open_sockets(address.host, address.port)
    opened = Address(address.host, found[0].getsockname()[1])
    if sys.platform != "linux":
        return opened, [found] * workers
    # Opened without SO_REUSEPORT first: with it, a port of another server of the same user would be shared.
    for each in found:
        each.close()
    return opened, [await open_sockets(address.host, opened.port, reuse_port=True) for _ in range(workers)]
