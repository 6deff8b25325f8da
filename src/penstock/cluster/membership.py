"""A node of a cluster: it stays alive in the database, and owns the shards that fall to it.

Once a second it renews its row and reads all rows (``store/leases.py``). From these every node computes the same
placement (``cluster/placement.py``) and does its own part: takes shards without an owner, loads what it was given,
hands over what belongs elsewhere. A hand-over finishes what was begun, closes the shard, and then changes the lease;
requests that come meanwhile wait until the next owner has loaded it (:meth:`Membership.refresh`).

A node that could not renew its row stops serving its shards before others may take them, by its own clock. So it does
not answer from memory that is out of date. What is written does not depend on that: the journal of a shard refuses
the commits of an earlier owner.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

from penstock import __version__
from penstock.backoff import backoff
from penstock.clock import boot_s
from penstock.cluster.placement import next_moves
from penstock.errors import PenstockError, StoreError, StoreRefused
from penstock.store.leases import ClusterView, LeaseRow, Leases, NodeRow

log = logging.getLogger("penstock.cluster")

T = TypeVar("T")


class Times(NamedTuple):
    """Periods in seconds. A node serves for a while after it was renewed last, by its own clock; it may be removed
    a little later, by the clock of the database."""

    renew: float = 1.0
    look: float = 0.1  # instead, while requests wait for a shard
    serve: float = 4.0
    valid: float = 5.0
    patience: float = 5.0  # how long a request waits for a shard that changes hands
    retry: float = 0.2  # before a shard that could not be loaded is tried again; twice that the next time
    retry_max: float = 5.0


TIMES = Times()
MOVES_MAX = 4  # planned ones, at a time


class ShardHost(Protocol):
    """Serves shards in this process."""

    async def open_shard(self, shard: int) -> None:
        """Take the journal and load. Raises PenstockError."""

    async def close_shard(self, shard: int) -> None:
        """Answer what was asked, make all that was decided durable, and forget it. Raises PenstockError."""

    def drop_shard(self, shard: int) -> None:
        """The shard may be another's: answer nothing from its memory from now on. Does nothing if it is not open."""


class DatabaseCalls(Protocol):
    """Runs blocking calls of the database elsewhere, one after the other."""

    def __call__(self, function: Callable[[], T], /) -> Awaitable[T]: ...


class FailedShards:
    """Shards that could not be loaded or handed over, and when to try each of them again: later each time."""

    def __init__(self, clock: Callable[[], float], times: Times) -> None:
        self._clock = clock
        self._times = times
        self._failed: dict[int, tuple[str, int, float]] = {}  # why, how often, when the pause ends

    def add(self, shard: int, error: PenstockError) -> None:
        """A reason is logged once, however many shards it holds back, and as an error if it lasts."""
        is_known = any(str(error) == why for why, _, _ in self._failed.values())
        before = self._failed[shard][1] if shard in self._failed else 0
        pause = self._pause(before + 1)
        self._failed[shard] = str(error), before + 1, self._clock() + pause
        lasts = pause == self._times.retry_max and (before == 0 or self._pause(before) < pause)
        level = logging.ERROR if lasts else logging.DEBUG if is_known else logging.WARNING
        log.log(level, "cannot load or hand over shard %d, trying again: %s", shard, error)

    def _pause(self, times: int) -> float:
        return backoff(times, self._times.retry, self._times.retry_max)

    def discard(self, shard: int) -> None:
        if self._failed.pop(shard, None) is not None:
            level = logging.DEBUG if self._failed else logging.WARNING
            log.log(level, "shard %d recovered: it was loaded or handed over", shard)

    def must_wait(self, shard: int) -> bool:
        return shard in self._failed and self._clock() < self._failed[shard][2]


class Membership:
    """Implements ``Owners``."""

    def __init__(
        self,
        leases: Leases,
        call: DatabaseCalls,
        host: ShardHost,
        address: str,
        shards: int,
        *,
        prove: Callable[[str], bytes],
        hint: Callable[[Iterable[str]], None] = lambda addresses: None,
        gone: Callable[[str], None] = lambda address: None,
        clock: Callable[[], float] = boot_s,
        times: Times = TIMES,
    ) -> None:
        """``prove``: the proof of our secret for the node with this id. ``hint``: ask the nodes with these addresses
        to look at the rows soon. ``gone``: the node with this address was removed or left."""
        self.shards = shards
        self.address = address
        self._leases = leases
        self._call = call
        self._prove = prove
        self._host = host
        self._hint = hint
        self._gone = gone
        self._clock = clock
        self._times = times
        self.id = ""
        self.is_draining = False
        self.view = ClusterView((), ())
        self.served: dict[int, int] = {}  # shards that this node serves -> epoch of the lease
        self._busy: dict[int, asyncio.Task[None]] = {}  # shards that are being loaded or handed over
        self._serve_until = 0.0
        self._unbroken_since = float("-inf")  # since when every renewal came in time
        self._lapse_timer: asyncio.TimerHandle | None = None
        self._look = asyncio.Event()
        self._waiting: list[asyncio.Future[None]] = []  # for the next view
        self._watchers = 0  # those that wait for a change
        self._renewals = self._seen = 0  # how many were begun; which of them the view is from
        self._is_admitted = False  # no node that is alive had another secret since this one joined
        self._is_leaving = False
        self._drops = 0  # how often all shards were dropped
        self._failed = FailedShards(clock, times)
        self._refusal: StoreRefused | None = None  # of a shard that this node cannot serve
        self._runs: asyncio.Task[None] | None = None

    # -- who owns what ---------------------------------------------------------------------------------------

    def address_of(self, shard: int) -> str | None:
        """None if no node serves it at present, as far as this node knows."""
        if shard in self.served:
            return self.address
        lease = self._lease(shard)
        node = self.view.node(lease.owner) if lease is not None and lease.is_serving else None
        return node.address if node is not None and node.id != self.id else None

    async def refresh(self, shard: int) -> None:
        """Read the rows, and if they say that no node serves the shard, wait until one does; not for ever."""
        asked = self._renewals

        def is_known() -> bool:
            if shard in self.served:
                return True
            lease = self._lease(shard)
            is_served = lease is not None and lease.is_serving and self.view.node(lease.owner) is not None
            return is_served and self._seen > asked

        await self._watch(is_known, self._clock() + self._times.patience)

    async def _watch(self, holds: Callable[[], bool], end: float) -> None:
        """Read the rows again and again until something holds."""
        self._watchers += 1
        self._look.set()
        loop = asyncio.get_running_loop()
        try:
            while not holds() and (left := end - self._clock()) > 0:
                seen = loop.create_future()
                self._waiting.append(seen)
                timer = loop.call_later(left, _resolve, seen)
                await seen
                timer.cancel()
        finally:
            self._watchers -= 1

    def look(self) -> None:
        """Another node changed a lease: read the rows soon."""
        self._look.set()

    def _lease(self, shard: int) -> LeaseRow | None:
        return self.view.leases[shard] if shard < len(self.view.leases) else None

    # -- may this node serve? --------------------------------------------------------------------------------

    def _lapse(self) -> None:
        if self._clock() < self._serve_until:
            self._set_timer()
            return
        if self.served:
            log.error("stopped serving %d shards: the database was not reached in time", len(self.served))
        self._unbroken_since = float("inf")
        self._drop_all()

    def _set_timer(self) -> None:
        if self._lapse_timer is not None:
            self._lapse_timer.cancel()
        left = max(0.0, self._serve_until - self._clock())
        self._lapse_timer = asyncio.get_running_loop().call_later(left, self._lapse)

    def _drop_all(self) -> None:
        self._drops += 1
        for shard in {*self.served, *self._busy}:
            self._drop(shard)

    def _drop(self, shard: int) -> None:
        self.served.pop(shard, None)
        self._host.drop_shard(shard)

    def lost(self, shard: int) -> None:
        """The journal refused a commit: another process opened the shard."""
        if shard in self.served:
            log.warning("stopped serving shard %d: another node opened it", shard)
            self._drop(shard)
            self._look.set()

    @property
    def is_connected(self) -> bool:
        """Whether the database was reached lately. This has to be asked for every request: after a pause of the
        process the timer that gives up its shards may be late."""
        return self._clock() < self._serve_until

    @property
    def is_loaded(self) -> bool:
        """Whether the node serves every shard that it owns."""
        return all(lease.shard in self.served for lease in self.view.leases if lease.owner == self.id)

    # -- the life of a node ----------------------------------------------------------------------------------

    async def start(self) -> None:
        """Join the cluster, and load what falls to this node at first. Raises StoreError if the database cannot be
        reached, and StoreRefused if this node cannot join, or cannot serve what falls to it: others perhaps can."""
        await self._join()
        await self._renew()
        self._runs = asyncio.create_task(self._run())
        await self._watch(
            lambda: self._refusal is not None or (self.is_loaded and not self._busy),
            self._clock() + self._times.patience,
        )
        if self._refusal is not None:
            await self.leave(self._times.patience)
            raise self._refusal

    async def drain(self, within_s: float) -> None:
        """Hand over all shards, as far as there are nodes that take them and time."""
        self.is_draining = True
        end = self._clock() + within_s
        try:
            await self._call(partial(self._leases.drain, self.address, is_draining=True))
            await self._watch(lambda: not (self._owns_any() and self._others()), end)
        except StoreError as error:
            log.warning("cannot hand the shards over before the stop: %s", error)

    async def leave(
        self, within_s: float, before: Callable[[], Coroutine[Any, Any, None]] | None = None
    ) -> None:
        """Close what is left and leave the cluster; others take the shards at once. ``before`` is awaited when all
        shards are closed, before the others see that the node is gone."""
        self._is_leaving = True
        self._look.set()
        if self._runs is not None:
            await self._runs
        for shard in list(self.served):
            if shard not in self._busy:
                del self.served[shard]
                self._begin(shard, self._host.close_shard(shard))
        if self._busy:
            _, unfinished = await asyncio.wait(self._busy.values(), timeout=within_s)
            if unfinished:
                log.warning("%d shards were not closed in time", len(unfinished))
        if self._lapse_timer is not None:
            self._lapse_timer.cancel()
        if before is not None:
            await before()
        try:
            await self._call(partial(self._leases.leave, self.id))
        except StoreError as error:
            log.warning("cannot remove this node from the database: %s", error)
        self._hint(node.address for node in self.view.nodes if node.id != self.id)

    def _owns_any(self) -> bool:
        return any(lease.owner == self.id for lease in self.view.leases)

    def _others(self) -> bool:
        return any(node.id != self.id and not node.is_draining for node in self.view.nodes)

    async def _run(self) -> None:
        failure = ""  # of the last attempt, which was logged
        while True:
            pause = self._times.look if self._watchers else self._times.renew
            with suppress(TimeoutError):
                await asyncio.wait_for(self._look.wait(), pause)
            self._look.clear()
            if self._is_leaving:
                return
            try:
                await self._renew()
            except (StoreError, StoreRefused) as error:
                why = (
                    "this node gets no shards"
                    if isinstance(error, StoreRefused)
                    else "the database cannot be reached"
                )
                if failure != why:
                    log.error("%s, trying again: %s", why, error)
                failure = why
                await asyncio.sleep(self._times.look)
            except Exception:
                log.exception("failed to renew the membership, trying again")
                await asyncio.sleep(self._times.renew)
            else:
                if failure:
                    log.warning("this node joined again")
                failure = ""

    # -- joining ---------------------------------------------------------------------------------------------

    async def _join(self) -> None:
        """Become alive under a new id. Raises StoreRefused."""
        await self._check_others()
        self.id, self._is_admitted = secrets.token_hex(8), False
        valid_ms = int(self._times.valid * 1000)
        await self._call(
            partial(
                self._leases.register, self.id, self.address, __version__,
                proof=self._prove(self.id), is_draining=self.is_draining, valid_ms=valid_ms,
            )
        )  # fmt: skip

    async def _check_others(self) -> None:
        """A node that was killed leaves its row for a while: it is alive if the row is renewed."""
        view = await self._call(self._leases.view)
        if any(self._has_address(node) or self._has_other_secret(node) for node in view.nodes):
            await asyncio.sleep(self._alive_s)
            view = await self._call(self._leases.view)
            if any(map(self._has_address, self._alive(view))):
                raise StoreRefused(
                    f"another node of the cluster advertises {self.address} and is alive: stop it, or give each "
                    "node an address of its own with --advertise"
                )
            self._check_secrets(view)

    async def _admit(self, view: ClusterView) -> None:
        """If nodes with different secrets join at the same moment, at least one sees the row of the other."""
        try:
            self._check_secrets(view)
        except StoreRefused:
            await self._call(partial(self._leases.leave, self.id))
            raise
        self._is_admitted = True

    def _check_secrets(self, view: ClusterView) -> None:
        for node in self._alive(view):
            if self._has_other_secret(node):
                raise StoreRefused(
                    f"node {node.address} has another cluster secret: give all nodes the same "
                    "--cluster-secret-file; to change the secret, stop all nodes, then start them with the new one"
                )

    @property
    def _alive_s(self) -> float:
        return 2 * self._times.renew

    def _alive(self, view: ClusterView) -> Iterable[NodeRow]:
        return (node for node in view.nodes if node.age_ms < self._alive_s * 1000)

    def _has_address(self, node: NodeRow) -> bool:
        return node.address == self.address

    def _has_other_secret(self, node: NodeRow) -> bool:
        return bool(node.proof) and not hmac.compare_digest(node.proof, self._prove(node.id))

    # -- renewals --------------------------------------------------------------------------------------------

    async def _renew(self) -> None:
        asked_at = self._clock()
        self._renewals = number = self._renewals + 1
        # Right after an outage of the database all nodes are late: each gets the time to come back.
        judges = asked_at - self._unbroken_since >= self._times.valid
        valid_ms = int(self._times.valid * 1000)
        view = await self._call(
            partial(self._leases.renew, self.id, valid_ms=valid_ms, remove_expired=judges)
        )
        if view is None:
            if self._is_admitted:
                log.error(
                    "this node was removed from the cluster because it renewed its row too late: joining again"
                )
            self._unbroken_since = float("inf")
            self._drop_all()
            await self._join()
            self._look.set()
            return
        if not self._is_admitted:
            await self._admit(view)
        if self._unbroken_since == float("inf"):
            self._unbroken_since = asked_at
        self._serve_until = asked_at + self._times.serve
        self._set_timer()
        before, self.view, self._seen = self.view, view, number
        old, new = ({node.address for node in each.nodes} - {self.address} for each in (before, view))
        for address in old - new:
            log.info("node %s left", address)
            self._gone(address)
        for address in new - old:
            log.info("node %s joined", address)
        if (me := view.node(self.id)) is not None:
            self.is_draining = me.is_draining
        if self.is_connected:
            self._do_own_part(view)
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            _resolve(future)

    # -- shards come and go ----------------------------------------------------------------------------------

    def _do_own_part(self, view: ClusterView) -> None:
        for shard, epoch in list(self.served.items()):
            lease = view.leases[shard]
            if (lease.owner, lease.epoch) != (self.id, epoch) and shard not in self._busy:
                log.warning("stopped serving shard %d: it belongs to another node now", shard)
                self._drop(shard)
        targets = self._targets(view)
        for lease in view.leases:
            if lease.shard in self._busy or self._failed.must_wait(lease.shard):
                continue
            target = targets.get(lease.shard)
            if lease.owner == self.id and target is not None:
                self._begin(lease.shard, self._hand_over(lease, target))
            elif lease.owner == self.id and not (lease.is_serving and lease.shard in self.served):
                self._begin(lease.shard, self._serve(lease))
            elif target == self.id:
                self._begin(lease.shard, self._claim(lease))

    def _targets(self, view: ClusterView) -> dict[int, str]:
        """Returns the id of the next node for each shard that is to change hands now."""
        alive = {node.id for node in view.nodes}
        # If all of them drain there is nowhere to move shards to: better they are served there than nowhere.
        takers = {node.id for node in view.nodes if not node.is_draining} or alive
        by_address = {node.address: node.id for node in view.nodes}
        owners = {lease.shard: lease.owner if lease.owner in alive else None for lease in view.leases}
        wishes = {lease.shard: by_address[lease.wish] for lease in view.leases if lease.wish in by_address}
        moving = [lease.shard for lease in view.leases if owners[lease.shard] and not lease.is_serving]
        moves = next_moves(owners, takers, wishes, moving, MOVES_MAX)
        return {move.shard: move.target for move in moves}

    def _begin(self, shard: int, work: Coroutine[Any, Any, None]) -> None:
        self._busy[shard] = task = asyncio.create_task(work)
        task.add_done_callback(partial(self._ended, shard))

    def _ended(self, shard: int, task: asyncio.Task[None]) -> None:
        if self._busy.get(shard) is task:
            del self._busy[shard]
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            self._failed.discard(shard)
            return
        if not isinstance(error, PenstockError):
            log.error("failed to load or hand over shard %d", shard, exc_info=error)
            error = StoreError(f"{type(error).__name__}: {error}")
        self._failed.add(shard, error)

    async def _claim(self, lease: LeaseRow) -> None:
        shard, epoch, drops = lease.shard, lease.epoch, self._drops
        if await self._call(partial(self._leases.claim, shard, epoch, self.id)):
            await self._load(shard, epoch + 1, drops)

    async def _serve(self, lease: LeaseRow) -> None:
        """The row says that the shard is ours: load it, or say that it is loaded."""
        shard, epoch, drops = lease.shard, lease.epoch, self._drops
        if self.served.get(shard) == epoch:
            await self._announce(shard, epoch)
        elif not lease.is_serving:
            await self._load(shard, epoch, drops)
        # It was dropped, or a hand-over did not end: others wait for a change of the row.
        elif await self._call(partial(self._leases.hand_over, shard, epoch, self.id, self.id)):
            await self._load(shard, epoch + 1, drops)

    async def _load(self, shard: int, epoch: int, drops: int) -> None:
        """``drops``: as of the moment when the lease was known to be ours."""
        if drops == self._drops:
            try:
                await self._host.open_shard(shard)
            except StoreRefused as error:
                await self._withdraw(shard, error)
                raise
            if drops == self._drops:
                self.served[shard] = epoch
                await self._announce(shard, epoch)
            else:
                self._host.drop_shard(shard)

    async def _withdraw(self, shard: int, error: StoreRefused) -> None:
        """Something is wrong with this node, such as its keyring: others can perhaps serve what it cannot."""
        self._refusal = error
        if self._others() and not self.is_draining:
            log.error("draining this node: it cannot serve shard %d: %s", shard, error)
            await self._call(partial(self._leases.drain, self.address, is_draining=True))

    async def _announce(self, shard: int, epoch: int) -> None:
        if not await self._call(partial(self._leases.serving, shard, epoch, self.id)):
            self._drop(shard)
        self._hint(node.address for node in self.view.nodes if node.id != self.id)
        self._look.set()

    async def _hand_over(self, lease: LeaseRow, target: str) -> None:
        if lease.shard in self.served:
            del self.served[lease.shard]
            await self._host.close_shard(lease.shard)
        await self._call(partial(self._leases.hand_over, lease.shard, lease.epoch, self.id, target))
        node = self.view.node(target)
        self._hint([node.address] if node is not None else [])
        self._look.set()


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
