"""This process as a node of a cluster: it serves the shards whose leases it has."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from penstock.auth.secret_files import NotPrivate, read_private
from penstock.cluster.handshake import SECRET_BYTES_MIN, LinkSecurity
from penstock.cluster.membership import TIMES, Membership
from penstock.errors import StoreRefused
from penstock.promise import outcome, start
from penstock.server.cluster import ClusterLinks, ClusterPlace
from penstock.server.health import Health
from penstock.server.settings.config import Config, ConfigError
from penstock.server.shards import OpenShards, ShardLeases
from penstock.server.tls import LinkTls
from penstock.store.leases import Leases

T = TypeVar("T")

_LOOK = "look-at-leases"
_CALL_S = 2.0  # a database that does not answer for longer counts as away


def link_security(config: Config, tls: LinkTls | None) -> LinkSecurity:
    """Raises ConfigError."""
    path = config.cluster_secret_file
    assert path is not None, "checked when the settings are read"
    try:
        secret = read_private(path).strip()
    except OSError as error:
        raise ConfigError(f"cannot read the secret of the cluster {path}: {error.strerror}") from None
    except NotPrivate as error:
        raise ConfigError(f"cannot use the secret of the cluster {path}: {error}") from None
    if len(secret) < SECRET_BYTES_MIN:
        raise ConfigError(
            f"the secret of the cluster in {path} has fewer than {SECRET_BYTES_MIN} characters: create one with "
            f"(umask 077; openssl rand -hex 32 > {path})"
        )
    return LinkSecurity(secret) if tls is None else LinkSecurity(secret, tls.accepts, tls.connects)


def check_no_nodes(leases: Leases) -> None:
    """A server that is not a node takes all shards, but not from nodes that are alive. Raises StoreRefused."""
    try:
        alive = [node.address for node in leases.view().nodes if node.age_ms < TIMES.valid * 1000]
    finally:
        leases.close()
    if alive:
        raise StoreRefused(
            f"nodes of a cluster use the database: {', '.join(sorted(alive))}. Stop them, or start this server as "
            "one of them with --advertise and --cluster-secret-file"
        )


class ClusterNode:
    """Implements ``ShardHost``."""

    def __init__(
        self,
        config: Config,
        security: LinkSecurity,
        leases: Leases,
        shards: int,
        open_shards: Callable[[ShardLeases], OpenShards],
        make_links: Callable[[ClusterPlace], ClusterLinks],
        opened: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        """``shards``: how many there are in all. ``open_shards``: makes what opens those of this node.
        ``make_links``: makes its connections with the others; the caller starts them. ``opened`` is awaited after a
        shard was opened, before other nodes pass requests on for it."""
        assert config.advertise is not None
        self._leases = leases
        self._opened = opened
        # A thread of its own: a renewal does not wait for commits.
        self._thread = ThreadPoolExecutor(1, "penstock-leases")
        self.membership = membership = Membership(
            leases,
            self._call,
            self,
            str(config.advertise),
            shards,
            prove=security.proof_of,
            hint=self._hint,
            gone=self._disconnect,
        )
        self.shards = open_shards(ShardLeases(lambda: not membership.is_connected, membership.lost))
        listen = str(config.cluster_address)
        self.place = ClusterPlace(str(config.advertise), membership, security, listen=listen)
        self.links = make_links(self.place)
        self.links.listener.handle(_LOOK, self._look)

    def report_to(self, health: Health) -> None:
        membership = self.membership
        # Asked for every request: none is served after a pause in which other nodes may have taken the shards.
        health.watch("the database cannot be reached", lambda: not membership.is_connected)
        health.advise("the node is draining", lambda: membership.is_draining)
        health.advise("shards are being loaded", lambda: not membership.is_loaded)
        health.show(
            "cluster",
            lambda: (
                f"{len(membership.served)} of {membership.shards} shards, {len(membership.view.nodes)} nodes"
            ),
        )

    async def leave(self, within_s: float) -> None:
        # Others cut the connections to a node that has left: it answers what they have asked for before that.
        await self.membership.leave(within_s, self.links.stop_serving)
        await self.links.close()

    def close(self) -> None:
        self._leases.abort()
        self._thread.shutdown(cancel_futures=True)
        self._leases.close()

    # -- what the membership asks for ------------------------------------------------------------------------

    async def open_shard(self, shard: int) -> None:
        await outcome(start(self.shards.open([shard])))
        try:
            await outcome(start(self._opened()))
        except BaseException:
            self.shards.drop(shard)
            raise

    async def close_shard(self, shard: int) -> None:
        await outcome(start(self.shards.close(shard)))

    def drop_shard(self, shard: int) -> None:
        self.shards.drop(shard)

    async def _call(self, function: Callable[[], T]) -> T:
        loop = asyncio.get_running_loop()
        timer = loop.call_later(_CALL_S, self._leases.abort)
        try:
            return await loop.run_in_executor(self._thread, function)
        finally:
            timer.cancel()

    def _disconnect(self, address: str) -> None:
        self.links.peers.disconnect(address)

    def _hint(self, addresses: Iterable[str]) -> None:
        """Asks the others to look at the rows of the leases at once instead of within a second: one was changed."""
        for address in addresses:
            self.links.peers.call(address, _LOOK, b"")  # if it fails, the node looks a little later

    async def _look(self, payload: bytes) -> bytes:
        self.membership.look()
        return b""
