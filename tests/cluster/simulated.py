"""Nodes of a cluster in simulated time, with one database, late and lost replies, and processes that are paused.

Every node has an event loop of its own, which runs only when the world lets it: a paused node does nothing, and then
goes on where it was, requests before timers. Calls of the database take their time on the way there and on the way
back; either may be lost. The database has its own clock, the time of the world.

A shard is the real one (``broker/shard.py``) with a counter as its record. An increment is decided in memory and
acknowledged when it is durable; a read is answered from memory, as a receive is.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from asyncio import events
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Set
from functools import partial
from itertools import count
from typing import Any, TypeVar

import msgspec

from penstock.broker.runtime import Done
from penstock.broker.shard import RecordTable, Shard
from penstock.cluster.handshake import LinkSecurity
from penstock.cluster.membership import TIMES, Membership, Times
from penstock.errors import PenstockError, StoreError, StoreLost, StoreRefused, StoreUnknown
from penstock.limits import Limits
from penstock.promise import Promise
from penstock.store.changes import Changes, RecordKind
from penstock.store.leases import ClusterView, LeaseRow, NodeRow
from penstock.store.memory import MemoryStore
from penstock.store.moving import left_out
from penstock.store.port import JournalEnd, Mark, ShardState
from penstock.testing.clock import ManualClock

T = TypeVar("T")
STEP_S = 0.01
SECRET = b"the secret of the nodes"


class Count(msgspec.Struct):
    value: int


COUNTS = RecordKind("count", Count, left_out)


class _NoSelector:
    """There are no sockets."""

    def select(self, timeout: float | None = None) -> list[Any]:
        return []

    def close(self) -> None: ...


class NodeLoop(asyncio.BaseEventLoop):
    """An event loop in the time of the world, run one turn at a time."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._selector = _NoSelector()
        self._world = world

    def time(self) -> float:
        return self._world.now

    def _process_events(self, event_list: list[Any]) -> None: ...

    def turn(self) -> bool:
        """Run what is ready; True if there is more at this time."""
        events._set_running_loop(self)
        try:
            self._run_once()  # type: ignore[attr-defined]
        finally:
            events._set_running_loop(None)
        return bool(self._ready)  # type: ignore[attr-defined]


class SimulatedLeases:
    """The two tables, as ``store/leases.py`` describes them."""

    def __init__(self, world: World, shards: int) -> None:
        self._world = world
        self._nodes: dict[str, tuple[NodeRow, float]] = {}  # row, valid until
        self._leases = [LeaseRow(shard, None, 0, False, None) for shard in range(shards)]
        self._used: set[str] = set()

    def register(
        self, id: str, address: str, version: str, *, proof: bytes, is_draining: bool, valid_ms: int
    ) -> None:
        assert id not in self._used
        self._used.add(id)
        row = NodeRow(id, address, version, is_draining, 0, proof)
        self._nodes[id] = row, self._world.now + valid_ms / 1000

    def renew(self, id: str, *, valid_ms: int, remove_expired: bool) -> ClusterView | None:
        now = self._world.now
        if id in self._nodes:
            self._nodes[id] = self._nodes[id][0], now + valid_ms / 1000
        if remove_expired:
            self._nodes = {key: (row, until) for key, (row, until) in self._nodes.items() if until > now}
        return self.view() if id in self._nodes else None

    def view(self) -> ClusterView:
        return ClusterView(
            tuple(row._replace(age_ms=self._age_ms(until)) for row, until in self._nodes.values()),
            tuple(self._leases),
        )

    def _age_ms(self, until: float) -> int:
        return round((TIMES.valid - (until - self._world.now)) * 1000)

    def claim(self, shard: int, epoch: int, owner: str) -> bool:
        lease = self._leases[shard]
        return lease.owner not in self._nodes and self._change(lease, epoch, owner)

    def hand_over(self, shard: int, epoch: int, owner: str, target: str) -> bool:
        lease = self._leases[shard]
        return lease.owner == owner and self._change(lease, epoch, target)

    def _change(self, lease: LeaseRow, epoch: int, owner: str) -> bool:
        if lease.epoch != epoch:
            return False
        self._leases[lease.shard] = lease._replace(owner=owner, epoch=epoch + 1, is_serving=False)
        return True

    def serving(self, shard: int, epoch: int, owner: str) -> bool:
        lease = self._leases[shard]
        if (lease.owner, lease.epoch) != (owner, epoch):
            return False
        self._leases[shard] = lease._replace(is_serving=True)
        return True

    def leave(self, id: str) -> None:
        self._nodes.pop(id, None)

    def drain(self, address: str, *, is_draining: bool) -> bool:
        for id, (row, until) in self._nodes.items():
            if row.address == address:
                self._nodes[id] = row._replace(is_draining=is_draining), until
        return True

    def wish(self, shard: int, address: str | None) -> bool:
        self._leases[shard] = self._leases[shard]._replace(wish=address)
        return True

    def abort(self) -> None: ...

    def close(self) -> None: ...


class NodeStore:
    """What one process has of a shard in the shared database."""

    def __init__(self, shared: MemoryStore, *, guarded: bool = True) -> None:
        self._shared = shared
        self._owner = b""
        self._guarded = guarded

    def open(self) -> ShardState:
        state = self._shared.open()
        self._owner = state.end.owner
        return state

    def append(self, changes: Changes, mark: Mark) -> Set[int]:
        end = self._shared.end()
        if not self._guarded:
            changes.number = (
                end.number + 1
            )  # the planted bug: wherever the journal is, there is room for one more
        elif end.owner != self._owner:
            raise StoreLost("another process owns the shard")
        return self._shared.append(changes, mark)

    def end(self) -> JournalEnd:
        return self._shared.end()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._shared, name)


class NodeRuntime:
    """Jobs of the store go over the network, too."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def soon(self, callback: Callable[[], None]) -> None:
        self._node.loop.call_soon(callback)

    def commit(self, job: Callable[[], T], done: Done[T], *, short: bool) -> None:
        self._node.send(job, done, StoreUnknown("the reply was lost"))

    def write(self, job: Callable[[], T]) -> Promise[T]:
        promise: Promise[T] = Promise()

        def done(value: Any, error: BaseException | None) -> None:
            if error is None:
                promise.resolve(value)
            else:
                promise.fail(error)

        self._node.send(job, done, StoreError("the reply was lost"))
        return promise

    read = write

    def at(self, now_ms: int, callback: Callable[[], None]) -> asyncio.TimerHandle:
        return self._node.loop.call_later(max(0, now_ms - self._node.clock.now_ms()) / 1000, callback)


class Node:
    """One process: its membership, and as ``ShardHost`` the shards that it serves."""

    def __init__(self, world: World, address: str, times: Times, secret: bytes = SECRET) -> None:
        self.world = world
        self.address = address
        self.loop = NodeLoop(world)
        self.paused_until = 0.0
        self.is_dead = False
        self.accepts = True
        self.refusal: PenstockError | None = None  # of every shard that it tries to load
        self.refused: StoreRefused | None = None  # its start was
        self.opened: list[tuple[float, int]] = []  # when it tried to load which shard
        self.clock = ManualClock(0)
        self.live: dict[int, tuple[Shard, RecordTable[Count]]] = {}
        self._sent_before = 0.0
        events._set_running_loop(self.loop)
        self.member = Membership(
            world.leases, self.call, self, address, world.shards, prove=LinkSecurity(secret).proof_of,
            hint=self.hint, clock=self.loop.time, times=times,
        )  # fmt: skip
        events._set_running_loop(None)
        self.loop.call_soon(lambda: self.start(self._join()))

    async def _join(self) -> None:
        while True:
            try:
                await self.member.start()
                return
            except StoreError:
                await asyncio.sleep(0.1)
            except StoreRefused as error:
                self.refused = error
                return

    def start(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = self.loop.create_task(coroutine)
        task.add_done_callback(self.world.check_task)

    def hint(self, addresses: Iterable[str]) -> None:
        for address in list(addresses):
            peer = self.world.nodes.get(address)
            if peer is not None and self.world.random.random() < 0.8:
                self.world.at(self.world.delay(), partial(peer.loop.call_soon, peer.member.look))

    # -- the network between it and the database -------------------------------------------------------------

    def send(self, job: Callable[[], T], done: Done[T], lost: StoreError) -> None:
        """The database does the job even if this node is paused or dead by then. Replies are in order."""
        world, fate = self.world, self.world.fate()

        def execute() -> None:
            value: T | None = None
            error: BaseException | None = lost if fate == "lost before" else None
            if error is None:
                try:
                    value = job()
                except PenstockError as refused:
                    error = refused
            if fate == "lost after":
                value, error = None, lost
            self._sent_before = max(self._sent_before, world.now + world.delay())
            world.at(self._sent_before - world.now, lambda: self.loop.call_soon(done, value, error))

        world.at(world.delay(), execute)

    def call(self, job: Callable[[], T]) -> Awaitable[T]:
        future: asyncio.Future[T] = self.loop.create_future()

        def done(value: Any, error: BaseException | None) -> None:
            if not future.done():
                if error is None:
                    future.set_result(value)
                else:
                    future.set_exception(error)

        self.send(job, done, StoreError("the database does not answer"))
        return future

    # -- shards ----------------------------------------------------------------------------------------------

    async def open_shard(self, shard: int) -> None:
        store = NodeStore(self.world.stores[shard], guarded=self.world.guarded)
        self.opened.append((self.loop.time(), shard))
        if self.refusal is not None:
            raise self.refusal
        state = await self.call(store.open)
        made = Shard(
            store, NodeRuntime(self), self.clock, Limits(), state, lambda error: self._ended(shard, made)
        )
        self.live[shard] = made, made.table(COUNTS)

    def _ended(self, shard: int, made: Shard) -> None:
        if shard in self.live and self.live[shard][0] is made:
            self.member.lost(shard)

    async def close_shard(self, shard: int) -> None:
        made, _ = self.live.pop(shard)
        await self._settled(made)

    def drop_shard(self, shard: int) -> None:
        self.live.pop(shard, None)

    async def _settled(self, shard: Shard) -> None:
        future = self.loop.create_future()
        shard.settled().on_done(lambda _: future.set_result(None))
        await future

    # -- requests --------------------------------------------------------------------------------------------

    def arrive(self, request: Request) -> None:
        """Begins in the same turn of the loop, as a server does: before the timers that have become due since."""
        if not self.read(request):
            self.start(self.ask(request))

    async def ask(self, request: Request) -> None:
        """The request arrives here; it is done here or passed on, until its time is over."""
        end, pause = self.loop.time() + TIMES.patience, 0.02
        while self.loop.time() < end:
            if await self.answer(request):
                return
            address = self.member.address_of(request.shard)
            peer = self.world.nodes.get(address or "")
            if peer is not None and peer is not self and await self.pass_on(peer, request):
                return
            await self.member.refresh(request.shard)
            await asyncio.sleep(pause)
            pause = min(2 * pause, 0.3)

    def pass_on(self, peer: Node, request: Request) -> Awaitable[bool]:
        outcome: asyncio.Future[bool] = self.loop.create_future()

        async def there() -> None:
            done = await peer.answer(request)
            self.world.at(self.world.delay(), lambda: self.loop.call_soon(outcome.set_result, done))

        self.world.at(self.world.delay(), lambda: peer.loop.call_soon(lambda: peer.start(there())))
        return outcome

    async def answer(self, request: Request) -> bool:
        """False: the shard is not served here."""
        if self.read(request):
            return True
        if request.is_read or not self.may_answer(request):
            return False
        shard, table = self.live[request.shard]
        counter = table.get("it") or Count(0)
        table.put("it", Count(counter.value + 1))
        future = self.loop.create_future()
        shard.settled().on_done(lambda outcome: future.set_result(outcome))
        try:
            (await future).result()
        except StoreError:
            self.world.refused += 1
        else:
            request.is_done = True
            self.world.acknowledged[request.shard] += 1
        return True

    def may_answer(self, request: Request) -> bool:
        return request.shard in self.live and (self.member.is_connected or not self.world.checked)

    def read(self, request: Request) -> bool:
        if not request.is_read or not self.may_answer(request):
            return False
        counter = self.live[request.shard][1].get("it") or Count(0)
        self.world.has_read(request, counter.value)
        return True


class Request:
    """A request of a client: increment a counter, or read it."""

    def __init__(self, shard: int, is_read: bool, at_least: int) -> None:
        self.shard = shard
        self.is_read = is_read
        self.at_least = at_least  # increments that were acknowledged when it was asked
        self.is_done = False


class World:
    def __init__(
        self,
        seed: int,
        *,
        nodes: int = 3,
        shards: int = 6,
        times: Times = TIMES,
        loss: float = 0.0,
        guarded: bool = True,
        checked: bool = True,
    ) -> None:
        """``loss``: the share of calls of the database whose reply is lost. ``guarded`` and ``checked``: False plants
        a bug, commits without the fence or requests without a look at the clock."""
        self.now = 1000.0
        self.random = random.Random(seed)
        self.shards = shards
        self.loss = loss
        self.guarded = guarded
        self.checked = checked
        self.violations: list[str] = []
        self.bugs: list[BaseException] = []
        self.acknowledged: Counter[int] = Counter()
        self.asked: Counter[int] = Counter()
        self.refused = 0
        self.served_twice = 0  # moments at which two nodes believed that they own the same shard
        self.is_cut = False  # the database is away
        self._order = count()
        self._events: list[tuple[float, int, Callable[[], Any]]] = []
        self.stores = [MemoryStore() for _ in range(shards)]
        self.leases = SimulatedLeases(self, shards)
        self.nodes: dict[str, Node] = {}
        self._times = times
        for i in range(nodes):
            self.join(f"node-{i}")

    def join(self, address: str, secret: bytes = SECRET) -> Node:
        self.nodes[address] = node = Node(self, address, self._times, secret)
        return node

    def at(self, delay: float, job: Callable[[], Any]) -> None:
        heapq.heappush(self._events, (self.now + delay, next(self._order), job))

    def delay(self) -> float:
        return self.random.choice((0.001, 0.001, 0.005, 0.02)) if self.random.random() < 0.98 else 0.5

    def fate(self) -> str:
        if self.is_cut:
            return "lost before"
        if self.random.random() < self.loss:
            return self.random.choice(("lost before", "lost after"))
        return "done"

    def check_task(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.bugs.append(error)

    # -- running ---------------------------------------------------------------------------------------------

    def run(self, seconds: float, requests_per_s: float = 0.0) -> list[Request]:
        """Let time pass, with clients that ask any node for any shard."""
        requests, end = [], self.now + seconds
        while self.now < end:
            if self.random.random() < requests_per_s * STEP_S:
                requests.append(self.ask())
            while self._events and self._events[0][0] <= self.now:
                heapq.heappop(self._events)[2]()
            for node in self.nodes.values():
                node.clock.ms = int(self.now * 1000)
                if not node.is_dead and node.paused_until <= self.now:
                    while node.loop.turn():
                        pass
            holders = Counter(shard for node in self.nodes.values() for shard in node.live)
            self.served_twice += any(times > 1 for times in holders.values())
            self.now += STEP_S
            if self.bugs:
                raise self.bugs[0]
        return requests

    def ask(self) -> Request:
        shard = self.random.randrange(self.shards)
        request = Request(shard, self.random.random() < 0.5, self.acknowledged[shard])
        node = self.random.choice([node for node in self.nodes.values() if node.accepts and not node.is_dead])
        self.asked[shard] += not request.is_read
        node.loop.call_soon(node.arrive, request)
        return request

    def has_read(self, request: Request, value: int) -> None:
        request.is_done = True
        if value < request.at_least:
            self.violations.append(
                f"shard {request.shard}: {value} was read after {request.at_least} were acknowledged"
            )

    def pause(self, node: Node, seconds: float) -> None:
        node.paused_until = self.now + seconds

    def kill(self, node: Node) -> None:
        node.is_dead = True
        node.live.clear()

    def close(self) -> None:
        """Nodes do not end by themselves, and their tasks need not."""
        for node in self.nodes.values():
            for task in asyncio.all_tasks(node.loop):
                task._log_destroy_pending = False  # type: ignore[attr-defined]
            node.loop.close()

    # -- what must hold --------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Every acknowledged increment is there once, and nothing that was not asked for."""
        for shard, store in enumerate(self.stores):
            stored = store.records("count").get("it")
            value = COUNTS.decode(stored).value if stored is not None else 0
            if not self.acknowledged[shard] <= value <= self.asked[shard]:
                self.violations.append(
                    f"shard {shard}: {value} is stored, {self.acknowledged[shard]} were acknowledged, "
                    f"{self.asked[shard]} asked for"
                )

    def serving(self) -> dict[int, list[str]]:
        """Returns the nodes that serve each shard."""
        return {
            shard: [
                node.address
                for node in self.nodes.values()
                if not node.is_dead and shard in node.member.served
            ]
            for shard in range(self.shards)
        }
