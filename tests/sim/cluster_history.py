"""What the random lives of several shards share: each shard is a process of its own, and each fault is a rule.

Processes crash, stop, give their shard back and open it again; stores refuse commits or become slow; the network
loses, delays and repeats what travels. What clients do is begun by a rule and goes on in later ones.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
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

from penstock.errors import DataRefused, PenstockError, StoreError
from penstock.limits import HOUR
from penstock.promise import Promise, start
from support.cluster import Cluster, Fault
from support.generated import HISTORIES
from support.world import MINUTE, ROOMY, SECOND, AnswerLost

SHARDS = 3
any_node = st.integers(0, SHARDS - 1)
groups = st.sampled_from(["a", "a", "b"])
refusals: st.SearchStrategy[Callable[[], StoreError]] = st.sampled_from(
    [
        partial(StoreError, "refused by the test"),
        partial(DataRefused, "a key has a NUL"),
        partial(AnswerLost, is_made=True),
        partial(AnswerLost, is_made=False),
    ]
)


class ClusterHistory(RuleBasedStateMachine):
    """A life. Each kind says what is in the shards, what clients do, and what must be true at the end."""

    limits = ROOMY

    @initialize(seed=st.integers(0, 1 << 32), shuffled=st.booleans())
    def open(self, seed: int, shuffled: bool) -> None:
        dice = random.Random(seed)
        self.cluster = self.new_cluster(dice.randrange if shuffled else lambda choices: 0)
        self.begin()

    def new_cluster(self, choose: Callable[[int], int]) -> Cluster:
        raise NotImplementedError

    def begin(self) -> None:
        """Make what is in the shards."""

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

    def outcome(self, coroutine: Any) -> Any:
        """Returns the outcome of what is done as far as it goes; None if it failed or does not end."""
        promise = start(coroutine)
        self.run_all()
        return promise.result() if succeeded(promise) else None

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
        self.release()
        self.outcome(node.broker.stop())
        node.crash()

    @rule(index=any_node)
    def give_back(self, index: int) -> None:
        """The shard gets another owner: this one ends what it has begun, while others go on."""
        node = self.cluster.nodes[index]
        self.release()
        closing = node.start(node.broker.close_shard(index))
        while not closing.done and self.cluster.step():
            node._no_bugs()
        assert closing.done, "a shard that is never given back"
        node.crash()

    @rule(index=any_node, errors=st.lists(refusals, min_size=1, max_size=3))
    def refuse(self, index: int, errors: list[Callable[[], StoreError]]) -> None:
        for error in errors:
            self.cluster.nodes[index].refuse_next_commit(error())

    @rule(index=any_node)
    def hold_or_release(self, index: int) -> None:
        """The disk of a node becomes slow, or quick again."""
        writer = self.cluster.nodes[index].runtime.writer
        writer.paused = not writer.paused

    def release(self) -> None:
        for node in self.cluster.nodes:
            node.runtime.writer.paused = False

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
        self.release()
        network.deliver_late()
        self.run_all()
        self.cluster.advance(2 * MINUTE)

    def everything_is_there(self) -> None:
        raise NotImplementedError

    def drained(self, queue: str) -> list[str]:
        node, bodies = self.cluster.node(queue), []
        while batch := node.receive(queue, visibility_ms=HOUR):
            bodies += [message.content.body for message in batch]
            node.delete(queue, *batch)
        return bodies


def succeeded(promise: Promise[Any]) -> bool:
    """Whether there is an answer that is no error."""
    if not promise.done:
        return False
    try:
        promise.result()
    except PenstockError:
        return False
    return True


def assert_found(history: type[ClusterHistory], found: str) -> None:
    """A bug that was planted makes such a life fail, with a message that matches ``found``."""
    # A failing history is not made shorter: that it is found is enough.
    many = settings(HISTORIES, max_examples=2000, phases=[Phase.generate], database=None)
    with pytest.raises(AssertionError, match=found):
        run_state_machine_as_test(history, settings=many)
