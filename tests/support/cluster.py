"""Several processes, each with one shard of a store, and the network between them, with every fault at hand.

Each process is a :class:`support.world.World` of its own, with its own clock: the clocks differ, as those of
machines do.
What one process asks of another travels as bytes and is done in steps: the request arrives, is executed, and its
answer arrives. Between any two steps of the cluster a process can crash or a message of the network can be lost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Literal, cast

import msgspec

from penstock.broker.broker import Broker
from penstock.broker.delivery import MayDeliver
from penstock.broker.handover import Handover, Taken
from penstock.broker.outbox import ARRIVAL_MS_MAX
from penstock.broker.questions import A, OwnedShards, ShardQuestion
from penstock.errors import PenstockError, Unreachable
from penstock.limits import HOUR, Limits
from penstock.names import shard_of
from penstock.promise import Promise, start
from penstock.queues.messages import Received
from support.world import ROOMY, World, name_of

Fault = Literal["request lost", "answer lost", "request late", "request twice"]


class Call:
    """A hand-over on its way."""

    def __init__(self, caller: Node, handover: Handover) -> None:
        self.caller = caller
        self.life = caller.life
        self.target = handover.target
        self.request = msgspec.msgpack.encode(handover)
        self.answer: Promise[Taken] = Promise()
        self.taken: Taken | PenstockError | None = None

    def end(self, outcome: Taken | PenstockError) -> None:
        """What the caller sees, if it still lives."""
        if self.life != self.caller.life or self.answer.done:
            return
        if isinstance(outcome, Taken):
            self.answer.resolve(outcome)
        else:
            self.answer.fail(outcome)


class Network:
    def __init__(self, choose: Callable[[int], int]) -> None:
        self.nodes: list[Node] = []
        self.faults: deque[Fault] = deque()  # for the next requests
        self.cut: set[int] = set()  # nodes that cannot be reached
        self.late: list[Call] = []
        self._choose = choose
        self._requests: list[Call] = []
        self.answers: list[Call] = []  # on their way
        self._executing: list[Call] = []

    def send(self, caller: Node, handover: Handover) -> Promise[Taken]:
        call = Call(caller, handover)
        if call.target in self.cut or caller.index in self.cut:
            call.end(Unreachable("cut off"))
        else:
            self._requests.append(call)
        return call.answer

    def step(self) -> bool:
        """Let one request or answer arrive; False if none is on its way."""
        pending = self._requests + self.answers
        if not pending:
            return False
        call = pending[self._choose(len(pending)) if len(pending) > 1 else 0]
        if call in self.answers:
            self.answers.remove(call)
            assert call.taken is not None
            call.end(call.taken)
        else:
            self._requests.remove(call)
            self._arrive(call, self.faults.popleft() if self.faults else None)
        return True

    def _arrive(self, call: Call, fault: Fault | None) -> None:
        if fault == "request lost":
            call.end(Unreachable("the request was lost"))
        elif fault == "request late":
            call.end(Unreachable("no answer in time"))
            self.late.append(call)
        else:
            self._execute(call)
            if fault == "request twice":
                self._execute(call)
            elif fault == "answer lost":
                call.end(Unreachable("the answer was lost"))

    def _execute(self, call: Call) -> None:
        handover = msgspec.msgpack.decode(call.request, type=Handover)
        executed = start(self.nodes[call.target].broker.owned_shards.answer(handover, [call.target]))
        self._executing.append(call)
        executed.on_done(lambda done: self._executed(call, done))

    def _executed(self, call: Call, done: Promise[Taken]) -> None:
        try:
            call.taken = msgspec.msgpack.decode(msgspec.msgpack.encode(done.result()), type=Taken)
        except PenstockError as error:
            call.taken = error
        if call in self._executing:
            self._executing.remove(call)
            self.answers.append(call)

    def deliver_late(self) -> None:
        """Requests that their callers have given up arrive after all."""
        late, self.late = self.late, []
        for call in late:
            self._execute(call)

    def crashed(self, node: Node) -> None:
        """Its connections are closed."""
        for calls in (self._requests, self.answers, self._executing):
            for call in [call for call in calls if call.target == node.index]:
                calls.remove(call)
                call.end(Unreachable("the connection was closed"))


class RemoteShards:
    """The other shards as one process sees them."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._network = node.cluster.network

    async def ask(self, question: ShardQuestion[A], shards: Iterable[int] | None = None) -> A:
        if isinstance(question, Handover):
            return cast(A, await self._network.send(self._node, question))
        asked = question.shards(len(self._network.nodes)) if shards is None else shards
        return question.merge([await self._owned(shard).answer(question, [shard]) for shard in asked])

    def _owned(self, shard: int) -> OwnedShards:
        if shard in self._network.cut or self._node.index in self._network.cut:
            raise Unreachable("cut off")
        return self._network.nodes[shard].broker.owned_shards


class Node(World):
    """One process, with one shard."""

    def __init__(self, cluster: Cluster, index: int, limits: Limits, choose: Callable[[int], int]) -> None:
        self.cluster = cluster
        self.index = index
        self.life = 0
        super().__init__(limits, choose)

    def _new_broker(self) -> Broker:
        cluster = self.cluster
        broker = Broker(
            self.limits,
            cluster.shards,
            others=lambda owned: RemoteShards(self),
            may_deliver=cluster.may_deliver,
        )
        if cluster.extend is not None:
            cluster.extend(self, broker)
        return broker

    def _open(self) -> None:
        if not self.life:
            self.clock.ms += self.index * HOUR
        self.life += 1
        super()._open()

    def run(self) -> None:
        self.cluster.run()
        self._no_bugs()

    def advance(self, ms: int) -> None:
        self.cluster.advance(ms)

    def receive(self, short: str, count: int = 10, **more: Any) -> list[Received]:
        """A short poll. It waits for a second if its dead letters do not arrive."""
        poll = self.poll(short, count, **{"wait_ms": 0, **more})
        if not poll.done:
            self.cluster.advance(ARRIVAL_MS_MAX)
        assert poll.done, "a short poll does not wait for longer"
        return poll.answer.result()

    def crash(self) -> None:
        """Crashes without running on: the others see a closed connection."""
        self.store.close()
        self._open()
        self.cluster.network.crashed(self)

    def stop_and_start(self) -> None:
        self.do(self.broker.stop())
        self.crash()


class Cluster:
    def __init__(
        self,
        shards: int = 3,
        limits: Limits = ROOMY,
        choose: Callable[[int], int] = lambda choices: 0,
        extend: Callable[[Node, Broker], None] | None = None,
        may_deliver: MayDeliver | None = None,
    ) -> None:
        """``extend``: called with the broker of each process before its shard is opened, again after a crash.
        ``may_deliver``: as brokers have it."""
        self.extend = extend
        self.may_deliver = may_deliver
        self.shards = shards
        self._choose = choose
        self.network = Network(choose)
        self.nodes = self.network.nodes
        for index in range(shards):
            self.nodes.append(Node(self, index, limits, choose))
        self.run()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        for node in reversed(self.nodes):
            node.close()

    def name(self, base: str, shard: int, suffix: str = "") -> str:
        """The short name of a queue that belongs to this shard."""
        numbered = (f"{base}{i}{suffix}" for i in range(1000))
        return next(short for short in numbered if shard_of(name_of(short), self.shards) == shard)

    def node(self, short: str) -> Node:
        """The process that serves a queue."""
        return self.nodes[shard_of(name_of(short), self.shards)]

    # -- running ---------------------------------------------------------------------------------------------

    def step(self) -> bool:
        """Do one thing, of one process or of the network; False if nothing is left to do at this time."""
        steps = [*(node.runtime.step for node in self.nodes), self.network.step]
        first = self._choose(len(steps))
        return any(step() for step in steps[first:] + steps[:first])

    def steps(self, count: int) -> bool:
        """Makes this many steps; False if there was nothing left to do before."""
        self.fire()
        return all(self.step() for _ in range(count))

    def fire(self) -> None:
        for node in self.nodes:
            node.runtime.fire()

    def run(self) -> None:
        self.fire()
        for _ in range(200_000):
            if not self.step():
                return
        raise AssertionError("the cluster never comes to rest")

    def advance(self, ms: int) -> None:
        """Let time pass for all, from one timer to the next, with everything done in between."""
        self.run()
        while (wait_ms := self._next_timer_ms()) is not None and wait_ms <= ms:
            self._tick(wait_ms)
            ms -= wait_ms
            self.run()
        self._tick(ms)
        self.run()

    def _next_timer_ms(self) -> int | None:
        """How long it is until the next one."""
        waits = [
            max(0, due_ms - node.clock.now_ms())
            for node in self.nodes
            if (due_ms := node.runtime.next_timer_ms()) is not None
        ]
        return min(waits, default=None)

    def _tick(self, ms: int) -> None:
        for node in self.nodes:
            node.clock.advance(ms)
