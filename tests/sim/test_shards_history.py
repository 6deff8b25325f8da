"""Random lives of queues in three shards: dead letters and moves between them, with crashes and faults at any step.

Each shard is a process of its own. Whatever happens, a message that was acknowledged and not deleted is in exactly
one queue when everything has come to rest, and messages of a FIFO group keep their order. A message of a service that
was delivered to several queues is in each of them once; where a queue refused it, the service has sent it to another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    precondition,
    rule,
)

from penstock.broker import outbox, partition
from penstock.broker.delivery import QueueDelivery, Refusal
from penstock.broker.handover import (
    Cause,
    Departed,
    Handover,
    QueueTarget,
    SentFor,
    Taken,
    TargetRefusal,
)
from penstock.broker.inbox import INBOXES, Inbox
from penstock.broker.operations import Operation
from penstock.broker.outbox import LOG_KIND, OUTBOX, Leaving, Outbox, OutboxPage, Route, decode_departure
from penstock.broker.partition import Partition
from penstock.broker.parts import Part
from penstock.broker.waiting import Ask
from penstock.limits import HOUR
from penstock.names import QueueName
from penstock.promise import Promise
from penstock.queues.filters import MessageFilter
from penstock.queues.messages import Entry, Received, decode_content
from penstock.store.port import LAST
from sim.cluster_history import SHARDS, ClusterHistory, assert_found, groups, succeeded
from support.cluster import Cluster, Node
from support.generated import HISTORIES
from support.world import TINY, Caller, name_of, outgoing


class Published(NamedTuple):
    """A message of a service."""

    body: str
    targets: int
    other_shards: int  # how many shards but its own have these targets
    outcome: Promise[Any]


class ShardsHistory(ClusterHistory):
    """``work`` is in shard 0, its dead-letter queue in shard 1, and shard 2 has a queue to move messages to."""

    suffix = ""

    def new_cluster(self, choose: Callable[[int], int]) -> Cluster:
        return Cluster(SHARDS, self.limits, choose, lambda node, broker: broker.extend(self.toy_part))

    def begin(self) -> None:
        self.work, self.dead, self.other = (
            self.cluster.name(base, shard, self.suffix)
            for base, shard in (("work", 0), ("dead", 1), ("other", 2))
        )
        self.dead_too = self.cluster.name("dead-too", 1, self.suffix)
        for queue in (self.dead, self.dead_too, self.other):
            self.cluster.node(queue).create(queue)
        self.cluster.node(self.work).create(self.work, dead_letters=(self.dead, 1), visibility_ms=0)
        self.sends: list[tuple[str, Promise[Any]]] = []
        self.deleted: set[str] = set()
        self.published: list[Published] = []
        self.decided: list[str] = []  # the bodies of published messages, in the order of their commits
        self.deletes: Counter[str] = Counter()  # of published messages
        self.perhaps_gone: set[str] = set()  # a delete without an answer, or in a queue that was dropped

    def toy_part(self, partition: Partition) -> Part:
        partition.delivery.on_refused("toy", self.refused)
        return Part()

    # -- what clients do: it is begun, and ends in later steps -----------------------------------------------

    @rule(count=st.integers(1, 4), group=groups)
    def send(self, count: int, group: str) -> None:
        node = self.cluster.node(self.work)
        for _ in range(count):
            body = f"m{len(self.sends):04}{group}"
            message = outgoing(body, group=group, dedup_id=body if self.suffix else None)
            self.sends.append((body, node.start(node.queue(self.work).send([message]))))

    @rule(which=st.sets(st.integers(0, 3), min_size=1), group=groups)
    def publish(self, which: set[int], group: str) -> None:
        """A service of shard 0 delivers a message. What is refused it sends to the queue of its own shard."""
        node = self.cluster.node(self.work)
        names = [(self.work, self.dead, self.other, self.dead_too)[each] for each in sorted(which)]
        body = f"p{len(self.published):04}{group}"
        message = outgoing(body, group=group, dedup_id=body if self.suffix else None)
        delivery = node.broker.partition(0).delivery
        to = [QueueTarget(name_of(each)) for each in names]
        outcome = node.start(delivery.deliver(message, to, "toy", "the toy", partial(self.decide, body)))
        others = {index for name in names if (index := self.cluster.node(name).index) != node.index}
        self.published.append(Published(body, len(names), len(others), outcome))

    def decide(self, body: str, refusals: list[Refusal]) -> None:
        self.decided.append(body)
        for refusal in refusals:
            self.refused(refusal)

    def refused(self, refusal: Refusal) -> None:
        delivery = self.cluster.node(self.work).broker.partition(0).delivery
        message = refusal.message
        assert message is not None, "nothing is encrypted"
        if self.suffix:  # the queue may have the message itself
            again = f"{refusal.target.queue.name}/{message.dedup_id}"
            message = msgspec.structs.replace(message, dedup_id=again)
        if delivery.decide(message, [QueueTarget(name_of(self.work))], "toy", "the toy"):
            self.perhaps_gone.add(message.body)  # its memory was not loaded

    @rule()
    @precondition(lambda self: not self.cluster.network.faults and not self.cluster.network.cut)
    def receive_and_look(self) -> None:
        """When a receive has answered, its dead letters are in their queue."""
        node = self.cluster.node(self.work)
        poll = node.begin_poll(self.work, visibility_ms=0)
        while not poll.done and self.cluster.step():
            pass
        left = poll.ask.left
        if poll.done and left is not None and not poll.answer.failed:
            taken = self.cluster.node(self.dead).store.records(INBOXES.name).get("0")
            arrived = 0 if taken is None else INBOXES.decode(taken).position
            assert arrived >= left.position, "answered before the dead letter arrived"

    @rule(count=st.integers(1, 10))
    def receive(self, count: int) -> None:
        """What is received comes back at once; the second receive makes it a dead letter."""
        node = self.cluster.node(self.work)
        node.start(node.queue(self.work).receive(Ask(count, 0, None), Caller(), 0))

    @rule()
    def move(self) -> None:
        self.start_move(name_of(self.other))

    def start_move(self, to: QueueName | None) -> None:
        node = self.cluster.node(self.dead)
        if (queue := node.broker.by_name.get(name_of(self.dead))) is not None:
            node.start(node.broker.partition_of(queue).moves.begin(queue, to, None))

    @rule(which=st.integers(0, 2), count=st.integers(1, 3))
    def consume(self, which: int, count: int) -> None:
        queue = (self.work, self.dead, self.other)[which]
        for message in self.received(queue, count):
            body = message.content.body
            answer = self.outcome(self.deleting(queue, message))
            if body.startswith("p") and answer == [None]:
                self.deletes[body] += 1
            else:
                (self.perhaps_gone if answer != [None] else self.deleted).add(body)

    def received(self, queue: str, count: int) -> list[Received]:
        node = self.cluster.node(queue)
        live = node.broker.by_name.get(name_of(queue))
        if live is None:
            return []
        receiving = live.receive(Ask(count, HOUR, None), Caller(), 0)
        return self.outcome(receiving) or []

    def deleting(self, queue: str, message: Received) -> Any:
        node = self.cluster.node(queue)
        return node.queue(queue).delete([message.handle])

    # -- at the end ------------------------------------------------------------------------------------------

    def calm_down(self) -> None:
        super().calm_down()
        for queue in (self.work, self.dead, self.other):
            node = self.cluster.node(queue)
            if name_of(queue) not in node.broker.by_name:
                node.create(queue)
        self.cluster.node(self.work).configure(self.work, redrive=None)
        self.cluster.advance(2 * HOUR)
        self.run_all()
        for node in self.cluster.nodes:
            assert not node.store.usage(OUTBOX), "messages that never arrive"
            assert not any(node.store.log(LOG_KIND, str(shard), 0, LAST) for shard in range(3))

    def everything_is_there(self) -> None:
        found: list[str] = []
        for queue in (self.work, self.dead, self.dead_too, self.other):
            bodies = self.drained(queue)
            if self.suffix:
                for group in "ab":
                    # In other queues published messages meet their own dead letters.
                    kind = "p" if queue == self.dead_too else "m"
                    of_group = [body for body in bodies if body[0] == kind and body.endswith(group)]
                    # Those that are published at a time may overtake each other until they are decided.
                    in_order = sorted(of_group, key=self.decided.index if kind == "p" else None)
                    assert of_group == in_order, f"{queue} is out of order"
            found += bodies
        self.everything_published_is_there(Counter(body for body in found if body.startswith("p")))
        found = [body for body in found if not body.startswith("p")]
        assert len(found) == len(set(found)), "a message is there twice"
        assert not self.deleted & set(found), "a deleted message is back"
        acknowledged = {body for body, sent in self.sends if succeeded(sent)}
        assert acknowledged - self.deleted - self.perhaps_gone <= set(found), "a message is lost"

    def everything_published_is_there(self, found: Counter[str]) -> None:
        stored = Counter(
            decode_content(row.content).body
            for changes in self.cluster.node(self.work).store.appended
            for row in changes.added
            if row.queue == OUTBOX and row.content is not None
        )
        for body, targets, other_shards, outcome in self.published:
            there = found[body] + self.deletes[body]
            assert there <= targets, "a published message is there twice"
            assert stored[body] <= other_shards, "its content was written more than once for a shard"
            if succeeded(outcome) and body not in self.perhaps_gone:
                assert there == targets, "a published message is lost"


class StandardShardsHistory(ShardsHistory):
    """Also with queues that are deleted and created again, and moves back to where messages came from."""

    @rule()
    def move_back(self) -> None:
        self.start_move(None)

    @rule(which=st.sampled_from([(0, 1), (1, 2), (0, 2), (2, 1)]))
    def move_in_bulk(self, which: tuple[int, int]) -> None:
        """An operator moves all messages of a queue."""
        source, target = ((self.work, self.dead, self.other)[each] for each in which)
        node = self.cluster.node(source)
        queue = node.broker.by_name.get(name_of(source))
        if queue is not None:
            tasks = node.broker.partition_of(queue).bulk_tasks
            node.start(tasks.begin(queue, Operation.MOVE, name_of(target), MessageFilter()))

    @rule(which=st.integers(1, 2))
    def drop(self, which: int) -> None:
        """What is in the queue goes with it, and what has left it and comes back; what is on its way there stays."""
        queue = (self.work, self.dead, self.other)[which]
        node = self.cluster.node(queue)
        self.release()
        self.run_all()
        if name_of(queue) in node.broker.by_name:
            rows = node.stored(queue)
            contents = node.store.contents([row.seq for row in rows] + self.left(node, queue))
            self.perhaps_gone |= {decode_content(content).body for content in contents.values()}
            self.outcome(node.broker.drop(node.queue(queue)))

    def left(self, node: Node, queue: str) -> list[int]:
        """Returns which messages are on their way from a queue."""
        departures = [
            decode_departure(row.data)
            for target in range(self.cluster.shards)
            for row in node.store.log(LOG_KIND, str(target), 0, LAST)
        ]
        return [departure.seq for departure in departures if departure.leaving == name_of(queue)]

    @rule(which=st.integers(1, 2))
    def create(self, which: int) -> None:
        queue = (self.work, self.dead, self.other)[which]
        node = self.cluster.node(queue)
        if name_of(queue) not in node.broker.by_name:
            self.outcome(node.broker.create(name_of(queue), node._settings(queue, None, {}), {}))


class FifoShardsHistory(ShardsHistory):
    suffix = ".fifo"


class TinyFifoShardsHistory(FifoShardsHistory):
    limits = TINY


class TestStandardShardsHistory(StandardShardsHistory.TestCase):  # type: ignore[misc, valid-type]
    settings = HISTORIES


class TestFifoShardsHistory(FifoShardsHistory.TestCase):  # type: ignore[misc, valid-type]
    settings = HISTORIES


class TestTinyFifoShardsHistory(TinyFifoShardsHistory.TestCase):  # type: ignore[misc, valid-type]
    settings = HISTORIES


# -- bugs that the histories must find -----------------------------------------------------------------------


class HastyRoute(Route):
    """Truncates its log before the other shard has acknowledged."""

    async def refusals_of(self, page: OutboxPage) -> dict[int, list[TargetRefusal]]:
        await super().acknowledge(page, {})
        return await super().refusals_of(page)

    async def acknowledge(self, page: OutboxPage, refusals: Mapping[int, list[TargetRefusal]]) -> None:
        """It was done before."""


class ForgetfulInbox(Inbox):
    """Takes messages whatever it has taken before."""

    async def take(self, handover: Handover) -> Taken:
        if self._taken.get(str(handover.source)) is not None:
            self._taken.remove(str(handover.source))
        return await super().take(handover)


class HastyDelivery(QueueDelivery):
    """Does not wait for dead letters."""

    def arrived(self, left: Departed) -> Promise[None]:
        arrived: Promise[None] = Promise()
        arrived.resolve(None)
        return arrived


class CarelessOutbox(Outbox):
    """Drops messages of services that a queue refuses."""

    def _ask_service(self, leaving: Leaving, refusals: Sequence[TargetRefusal]) -> None:
        """It should ask."""


class WastefulOutbox(Outbox):
    """Stores a message for each of its targets."""

    def add(
        self,
        message: Entry,
        cause: Cause,
        targets: Sequence[QueueTarget],
        source: str,
        task: str | None = None,
        service: str | None = None,
        account: str = "",
        delay_ms: int | None = None,
        insert_at: int | None = None,
        sent_for: SentFor | None = None,
    ) -> Departed:
        for target in targets:
            copy = msgspec.structs.replace(message, seq=self.shard.next_number())
            departed = super().add(
                copy, cause, [target], source, task, service, account, delay_ms, insert_at, sent_for
            )
        return departed


PLANTED = [
    (outbox, "Route", HastyRoute, "lost"),
    (partition, "Inbox", ForgetfulInbox, "twice|deleted message is back|out of order"),
    (partition, "QueueDelivery", HastyDelivery, "answered before the dead letter arrived"),
    (partition, "Outbox", CarelessOutbox, "lost"),
    (partition, "Outbox", WastefulOutbox, "written more than once"),
]


# Queues of FIFO histories are never deleted, so that hardly any refuses a message.
PLANTED_IN = [
    *((StandardShardsHistory, *planted) for planted in PLANTED),
    *((TinyFifoShardsHistory, *planted) for planted in PLANTED if planted[2] is not CarelessOutbox),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("history", "module", "name", "bug", "found"),
    PLANTED_IN,
    ids=[f"{bug.__name__} {history.suffix}".strip() for history, _, _, bug, _ in PLANTED_IN],
)
def test_a_planted_bug_is_found(
    history: type[ShardsHistory],
    module: Any,
    name: str,
    bug: type,
    found: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, name, bug)
    assert_found(history, found)
