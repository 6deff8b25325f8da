"""The connections of this process with the others that share the shards of a store.

It passes requests on to the owners of their shards, and serves those that others pass on. The broker asks and answers
about queues of other shards over them, and hands messages over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from penstock.broker.broker import Broker
from penstock.broker.quotas import OtherProcesses
from penstock.cluster.accepting import LinkListener
from penstock.cluster.forwarding import Forwarder, Serve
from penstock.cluster.gather import answer_others
from penstock.cluster.handshake import LinkSecurity
from penstock.cluster.link import Peers
from penstock.cluster.owners import Owners
from penstock.errors import PenstockError
from penstock.server.throttle import MakeThrottle, Throttle

_LAST_CALLS_S = 5.0


class ClusterPlace(NamedTuple):
    """Where this process is among the others."""

    address: str  # where the others reach it: ``host:port``, or the path of a Unix socket
    owners: Owners
    security: LinkSecurity = LinkSecurity()
    throttle: MakeThrottle = Throttle  # one of all together, or each has its own
    usage: OtherProcesses | None = None  # for the quotas
    listen: str = ""  # the address to listen on, if it is another one
    process: int | None = None  # its number among the processes of a server


class ClusterLinks:
    def __init__(
        self,
        place: ClusterPlace,
        peers: Peers,
        broker: Broker,
        serve: Serve,
        hint: Callable[[Any], int | None],
    ) -> None:
        """``peers``: by which the broker asks the other processes."""
        self._place = place
        self.listener = LinkListener(place.security)
        self.peers = peers
        self.forwarder = Forwarder(place.address, place.owners, broker.owned, self.peers, serve, hint)
        self.forwarder.listen(self.listener)
        answer_others(self.listener, broker.owned_shards, broker.questions)

    async def start(self) -> None:
        """Raises PenstockError."""
        address = self._place.listen or self._place.address
        try:
            await self.listener.listen(address)
        except OSError as error:
            reason = error.strerror or str(error)
            raise PenstockError(
                f"cannot listen on {address} for the others of the cluster: {reason}"
            ) from None
        self.peers.start()

    async def stop_serving(self) -> None:
        """Answer the calls of others that are under way, and no further ones."""
        self.forwarder.stopping = True
        await self.listener.close(_LAST_CALLS_S)

    async def close(self) -> None:
        await self.stop_serving()
        self.peers.close()
