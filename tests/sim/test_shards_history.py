"""Random lives of queues in three shards: dead letters and moves between them, with crashes and faults at any step.

Each shard is a process of its own. Whatever happens, a message that was acknowledged and not deleted is in exactly
one queue when everything has come to rest, and messages of a FIFO group keep their order.
"""

from __future__ import annotations

import random
from typing import Any, get_args

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from penstock.broker import outbox, partition
from penstock.broker.inbox import Inbox
from penstock.broker.other_shards import Handover, Taken
from penstock.broker.outbox import LOG_KIND, OUTBOX, Leaving, Route
from penstock.broker.waiting import Ask
from penstock.errors import PenstockError
from penstock.limits import HOUR
from penstock.names import QueueName
from penstock.promise import Promise
from penstock.queues.messages import Received, decode_content
from penstock.store.port import LAST
from support.cluster import Cluster, Fault
from support.generated import HISTORIES
from support.world import MINUTE, ROOMY, SECOND, TINY, Caller, name_of, outgoing

any_node = st.integers(0, 2)
groups = st.sampled_from(["a", "a", "b"])


class ShardsHistory(RuleBasedStateMachine):
    """``work`` is in shard 0, its dead-letter queue in shard 1, and shard 2 has a queue to move messages to."""

    suffix = ""
    limits = ROOMY

    @initialize(seed=st.integers(0, 1 << 32), shuffled=st.booleans())
    def open(self, seed: int, shuffled: bool) -> None:
        dice = random.Random(seed)
        self.cluster = Cluster(3, self.limits, dice.randrange if shuffled else lambda choices: 0)
        self.work, self.dead, self.other = (
            self.cluster.name(base, shard, self.suffix)
            for base, shard in (("work", 0), ("dead", 1), ("other", 2))
        )
        for queue in (self.dead, self.other):
            self.cluster.node(queue).create(queue)
        self.cluster.node(self.work).create(self.work, dead_letters=(self.dead, 1), visibility_ms=0)
        self.sends: list[tuple[str, Promise[Any]]] = []
        self.deleted: set[str] = set()
        self.perhaps_gone: set[str] = set()  # a delete without an answer, or in a queue that was dropped

    def teardown(self) -> None:
        if not hasattr(self, "cluster"):
            return
        try:
            self.calm_down()
            self.everything_is_there()
        finally:
            self.cluster.close()

    def run_all(self) -> None:
        self.cluster.run()
        for node in self.cluster.nodes:
            node._no_bugs()

    def outcome(self, queue: str, coroutine: Any) -> Any:
        """Of something that is done as far as it goes; None if it failed or does not end."""
        promise = self.cluster.node(queue).start(coroutine)
        self.run_all()
        try:
            return promise.result() if promise.done else None
        except PenstockError:
            return None

    # -- what clients do: it is begun, and ends in later steps -----------------------------------------------

    @rule(count=st.integers(1, 4), group=groups)
    def send(self, count: int, group: str) -> None:
        node = self.cluster.node(self.work)
        for _ in range(count):
            body = f"m{len(self.sends):04}{group}"
            message = outgoing(body, group=group, dedup_id=body if self.suffix else None)
            self.sends.append((body, node.start(node.queue(self.work).send([message]))))

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
            answer = self.outcome(queue, self.deleting(queue, message))
            (self.perhaps_gone if answer != [None] else self.deleted).add(body)

    def received(self, queue: str, count: int) -> list[Received]:
        node = self.cluster.node(queue)
        live = node.broker.by_name.get(name_of(queue))
        if live is None:
            return []
        receiving = live.receive(Ask(count, HOUR, None), Caller(), 0)
        return self.outcome(queue, receiving) or []

    def deleting(self, queue: str, message: Received) -> Any:
        node = self.cluster.node(queue)
        return node.queue(queue).delete([message.handle])

    # -- time and faults -------------------------------------------------------------------------------------

    @rule(count=st.integers(1, 40))
    def steps(self, count: int) -> None:
        self.cluster.steps(count)

    @rule(ms=st.sampled_from([0, 100, SECOND, 6 * SECOND, MINUTE]))
    def pass_time(self, ms: int) -> None:
        self.cluster.advance(ms)

    @rule(index=any_node)
    def crash(self, index: int) -> None:
        self.cluster.nodes[index].crash()

    @rule(index=any_node)
    def stop_and_start(self, index: int) -> None:
        node = self.cluster.nodes[index]
        self.outcome(self.work, node.broker.stop())
        node.crash()

    @rule(index=any_node)
    def refuse(self, index: int) -> None:
        self.cluster.nodes[index].refuse_next_commit()

    @rule(faults=st.lists(st.sampled_from(get_args(Fault)), min_size=1, max_size=3))
    def disturb(self, faults: list[Fault]) -> None:
        self.cluster.network.faults.extend(faults)

    @rule()
    def deliver_late(self) -> None:
        self.cluster.network.deliver_late()

    @rule(index=any_node)
    def cut(self, index: int) -> None:
        self.cluster.network.cut = {index}

    @rule()
    @precondition(lambda self: self.cluster.network.cut)
    def heal(self) -> None:
        self.cluster.network.cut = set()

    # -- at the end ------------------------------------------------------------------------------------------

    def calm_down(self) -> None:
        """No more faults; everything comes to rest."""
        network = self.cluster.network
        network.faults.clear()
        network.cut.clear()
        for node in self.cluster.nodes:
            node.store.refusals.clear()
        network.deliver_late()
        self.run_all()
        self.cluster.advance(2 * MINUTE)
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
        for queue in (self.work, self.dead, self.other):
            bodies = self.drained(queue)
            if self.suffix:
                for group in "ab":
                    of_group = [body for body in bodies if body.endswith(group)]
                    assert of_group == sorted(of_group), f"{queue} is out of order"
            found += bodies
        assert len(found) == len(set(found)), "a message is there twice"
        assert not self.deleted & set(found), "a deleted message is back"
        acknowledged = {body for body, sent in self.sends if sent.done and _succeeded(sent)}
        assert acknowledged - self.deleted - self.perhaps_gone <= set(found), "a message is lost"

    def drained(self, queue: str) -> list[str]:
        node, bodies = self.cluster.node(queue), []
        while batch := node.receive(queue, visibility_ms=HOUR):
            bodies += [message.content.body for message in batch]
            node.delete(queue, *batch)
        return bodies


def _succeeded(sent: Promise[Any]) -> bool:
    try:
        sent.result()
    except PenstockError:
        return False
    return True


class StandardShardsHistory(ShardsHistory):
    """Also with queues that are deleted and created again, and moves back to where messages came from."""

    @rule()
    def move_back(self) -> None:
        self.start_move(None)

    @rule(which=st.integers(1, 2))
    def drop(self, which: int) -> None:
        """What is in the queue goes with it; what is on its way there does not."""
        queue = (self.work, self.dead, self.other)[which]
        node = self.cluster.node(queue)
        self.run_all()
        if name_of(queue) in node.broker.by_name:
            rows = node.stored(queue)
            contents = node.store.contents([row.seq for row in rows])
            self.perhaps_gone |= {decode_content(content).body for content in contents.values()}
            self.outcome(queue, node.broker.drop(node.queue(queue)))

    @rule(which=st.integers(1, 2))
    def create(self, which: int) -> None:
        queue = (self.work, self.dead, self.other)[which]
        node = self.cluster.node(queue)
        if name_of(queue) not in node.broker.by_name:
            self.outcome(queue, node.broker.create(name_of(queue), node._settings(queue, None, {}), {}))


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

    async def refused_of(self, page: list[Leaving]) -> list[Leaving]:
        await super().forget(page, [])
        return await super().refused_of(page)

    async def forget(self, page: list[Leaving], refused: list[Leaving]) -> None:
        """It was done before."""


class ForgetfulInbox(Inbox):
    """Takes messages whatever it has taken before."""

    async def take(self, handover: Handover) -> Taken:
        if self._taken.get(str(handover.source)) is not None:
            self._taken.remove(str(handover.source))
        return await super().take(handover)


PLANTED = [
    (outbox, "Route", HastyRoute, "lost"),
    (partition, "Inbox", ForgetfulInbox, "twice|deleted message is back"),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "name", "bug", "found"), PLANTED, ids=[bug.__name__ for _, _, bug, _ in PLANTED]
)
def test_a_planted_bug_is_found(
    module: Any, name: str, bug: type, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, name, bug)
    # A failing history is not made shorter: that it is found is enough.
    many = settings(HISTORIES, max_examples=2000, phases=[Phase.generate], database=None)
    with pytest.raises(AssertionError, match=found):
        run_state_machine_as_test(StandardShardsHistory, settings=many)
