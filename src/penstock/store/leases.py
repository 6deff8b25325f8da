"""Which nodes there are and which of them owns which shard: rows in the database that all nodes share.

A node is alive while its row exists. It renews the row; any node removes rows that were not renewed in time, by the
clock of the database. The id of a node is never used twice, so a row that was removed does not come back, and a shard
whose owner has no row can be taken. Every change of a lease raises its epoch and names the epoch it is based on: of
two nodes that change the same lease, one does.

A lease decides who tries. Who succeeds is decided by the journal of the shard: opening it makes the commits of every
earlier owner fail. So what is written is safe whatever the clocks and the network do.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol


class NodeRow(NamedTuple):
    id: str  # of one process, from its start to its end
    address: str  # under which the other nodes reach it
    version: str
    is_draining: bool
    age_ms: int  # since it was renewed, by the clock of the database
    proof: bytes  # that it knows the cluster's secret; empty: of a version that did not prove it


class LeaseRow(NamedTuple):
    shard: int
    owner: str | None  # the id of a node, which may have no row any more
    epoch: int  # raised by every change of the owner
    is_serving: bool  # the owner has loaded the shard
    wish: str | None  # the address of the node on which an operator wants it


class ClusterView(NamedTuple):
    """The rows of both tables, of which the nodes are read first: the owner of a lease may have joined since, and
    then it has no row here."""

    nodes: tuple[NodeRow, ...]
    leases: tuple[LeaseRow, ...]  # in order of shard

    def node(self, id: str | None) -> NodeRow | None:
        return next((node for node in self.nodes if node.id == id), None)


class Leases(Protocol):
    """The methods block, and are called from one thread at a time. They raise StoreError if the database cannot be
    reached or does not answer in time: then a change was made or not, and the next view shows which."""

    def register(
        self, id: str, address: str, version: str, *, proof: bytes, is_draining: bool, valid_ms: int
    ) -> None:
        """Become alive for the given time, under an id that was never used before."""

    def renew(self, id: str, *, valid_ms: int, remove_expired: bool) -> ClusterView | None:
        """Stay alive for the given time from now; ``remove_expired``: remove the rows of nodes that did not.

        None: this node was removed; it owns nothing any more and has to register under a new id."""

    def view(self) -> ClusterView: ...

    def claim(self, shard: int, epoch: int, owner: str) -> bool:
        """Take a shard whose owner has no row; False if its epoch is another or its owner is alive."""

    def hand_over(self, shard: int, epoch: int, owner: str, target: str) -> bool:
        """Hand a shard from its owner to another node, or to the owner itself so that it loads it again. Returns
        False if the owner has changed."""

    def serving(self, shard: int, epoch: int, owner: str) -> bool:
        """Note that the owner has loaded the shard."""

    def leave(self, id: str) -> None:
        """The node ends: its shards can be taken at once."""

    def drain(self, address: str, *, is_draining: bool) -> bool:
        """Mark the node with this address. Returns False if there is none."""

    def wish(self, shard: int, address: str | None) -> bool:
        """Set where an operator wants a shard; None if it may be anywhere. Returns False if there is no such
        shard."""

    def abort(self) -> None:
        """End a call that waits for a database that does not answer. Another thread calls this."""

    def close(self) -> None: ...
