"""What the random lives of standard and of FIFO queues share: two queues, time, purges, settings, faults.

Everything is done at once unless commits are held: then decisions pile up until they are released, refused or lost in
a crash. What was acknowledged is the truth from then on; what was not, never happened.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from penstock.broker.waiting import Ask
from penstock.errors import HandleInvalid, PenstockError, PurgedRecently, StoreError
from penstock.limits import HOUR
from penstock.promise import Promise
from penstock.queues.backlog import ENTRY_BYTES, LANE_BYTES
from penstock.queues.messages import Received
from penstock.queues.settings import Redrive
from support.world import DAY, MINUTE, ROOMY, SECOND, Caller, World, name_of, outgoing

either = st.sampled_from(["work", "work", "work", "dead"])  # which of the two queues
any_one = st.integers(0, 1 << 16)
visibilities = st.sampled_from([None, None, 0, 1, 5 * SECOND, 2 * MINUTE, HOUR, 12 * HOUR])
pauses = st.sampled_from([0, 1, SECOND, 5 * SECOND, 31 * SECOND, 2 * MINUTE, 6 * MINUTE, HOUR, 13 * HOUR])
free_hands = precondition(lambda self: not self.paused)


class History(RuleBasedStateMachine):
    """A life. Each kind of queue brings its model and says how messages are sent, received, deleted, changed."""

    limits = ROOMY
    suffix = ""
    model: Any

    @initialize(seed=st.integers(0, 1 << 32), shuffled=st.booleans())
    def open(self, seed: int, shuffled: bool) -> None:
        dice = random.Random(seed)
        # Models know no pause of the expiry after a long time without a commit.
        limits = msgspec.structs.replace(self.limits, expiry_pause_ms=0)
        self.world = World(limits, dice.randrange if shuffled else lambda choices: 0)
        self.work, self.dead = f"work{self.suffix}", f"dead{self.suffix}"
        self.model = self.new_model()
        self.acknowledged = self.model.snapshot()
        self.paused = False
        self.waiting: list[tuple[Promise[Any], Callable[[Any], None]]] = []  # started while commits are held
        self.handles: list[Any] = []
        self.expired: set[str] = set()
        self.bodies = 0

    def new_model(self) -> Any:
        raise NotImplementedError

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        try:
            if self.paused:
                self.release()
            self.everything_is_there()
        finally:
            self.world.close()

    # -- the frame of each step ------------------------------------------------------------------------------

    @property
    def now_ms(self) -> int:
        return self.world.clock.now_ms()

    def name(self, which: str) -> str:
        return which + self.suffix

    def expire(self, now_ms: int | None = None) -> None:
        before = {each.body for each in self.model.messages}
        self.model.forget_expired(self.now_ms if now_ms is None else now_ms)
        self.expired |= before - {each.body for each in self.model.messages}

    def settle(self) -> None:
        if not self.paused:
            self.acknowledged = self.model.snapshot()

    def start(self, coroutine: Any, then: Callable[[Any], None] = lambda value: None) -> None:
        """Do it now; ``then`` is called with the answer, at once unless commits are paused."""
        later = self.world.start(coroutine)
        self.world.run()
        if self.paused:
            self.waiting.append((later, then))
        else:
            assert later.done, "an answer that never comes"
            then(later.result())
            self.all_acknowledged()
            self.settle()

    def overlap(self, steps: int, *coroutines: Any) -> list[Promise[Any]]:
        """Start these one upon the other, each a few steps of the broker's work later, and let all of them end."""
        laters = []
        for coroutine in coroutines:
            laters.append(self.world.start(coroutine))
            for _ in range(steps):
                self.world.runtime.step()
        self.world.run()
        assert all(later.done for later in laters), "an answer that never comes"
        return laters

    def receiving(self, queue: str, count: int, visibility_ms: int) -> Any:
        return self.world.queue(queue).receive(Ask(count, visibility_ms, None), Caller(), 0)  # fmt: skip

    def all_acknowledged(self) -> None:
        """The model knows of every answer."""

    def is_dead(self, each: Any) -> bool:
        """Whether it was moved to the dead-letter queue. Only the store knows; the next receive would change it."""
        handle = next(h.handle for h in self.handles if h.body == each.body and h.queue == self.work)
        seq = self.world.stored_number(self.work, handle)
        return bool(self.world.store.lookup(self.world.queue(self.dead).id, 0, [seq]))

    def choose_handle(self, which: int) -> Any:
        usable = self.handles
        if self.paused:
            # What only the store has is decided after the commit; what is in flight, at once.
            in_flight = {m.body for m in self.model.messages if m.due_ms > self.now_ms and m.receives}
            usable = [held for held in self.handles if held.body in in_flight]
        return usable[which % len(usable)] if usable else None

    # -- rules that both kinds share -------------------------------------------------------------------------

    @rule(which=any_one)
    @free_hands
    def use_a_handle_elsewhere(self, which: int) -> None:
        if self.handles:
            held = self.handles[which % len(self.handles)]
            other = self.dead if held.queue == self.work else self.work
            for handle, queue in ((held.handle, other), (held.handle[:-1], held.queue), ("AQEB", self.work)):
                (answer,) = self.world.do(self.world.queue(queue).delete([handle]))
                assert isinstance(answer, HandleInvalid)

    @rule(pause_ms=pauses)
    def pass_time(self, pause_ms: int) -> None:
        self.world.advance(pause_ms)
        if not self.paused:
            self.expire()
            self.settle()

    @rule(
        which=either,
        delay_ms=st.sampled_from([None, 0, 2 * SECOND]),
        visibility_ms=st.sampled_from([None, 0, SECOND, 30 * SECOND]),
    )
    def configure(self, which: str, delay_ms: int | None, visibility_ms: int | None) -> None:
        changed = {"delay_ms": delay_ms, "visibility_ms": visibility_ms}
        self.reconfigure(self.name(which), {k: v for k, v in changed.items() if v is not None})

    @rule(receives_max=st.sampled_from([None, 1, 2, 4]))
    @free_hands
    def set_redrive(self, receives_max: int | None) -> None:
        redrive = None if receives_max is None else Redrive(name_of(self.dead), receives_max)
        self.model.rules[self.work].receives_max = receives_max
        self.reconfigure(self.work, {"redrive": redrive})

    @rule(which=either, retention_ms=st.sampled_from([MINUTE, 5 * MINUTE, 4 * DAY]))
    @free_hands
    def keep_for(self, which: str, retention_ms: int) -> None:
        self.count(which)  # what is too old by the present rule goes first
        self.reconfigure(self.name(which), {"retention_ms": retention_ms})
        self.count(which)

    def reconfigure(self, queue: str, changed: dict[str, Any]) -> None:
        for name, value in changed.items():
            if name != "redrive":
                self.tell_model(queue, name, value)
        held = self.world.queue(queue)
        settings = msgspec.structs.replace(held.settings, **changed)
        self.start(self.world.broker.configure(held, settings))

    def tell_model(self, queue: str, name: str, value: int) -> None:
        setattr(self.model.rules[queue], name, value)

    @rule(which=either)
    @free_hands
    def count(self, which: str) -> None:
        queue = self.name(which)
        self.expire()
        # What comes due or of age in the store is counted again when it was read: each count asks for it.
        before, counts = (-1, -1, -1), self.world.counts(queue)
        while counts != before:
            before, counts = counts, self.world.counts(queue)
        self.check_counts(queue, counts)
        self.check_budget()
        self.settle()

    def check_budget(self) -> None:
        """What is counted as kept in memory is what is kept in memory."""
        kept = remembered = 0
        for queue in (self.work, self.dead):
            rules = self.world.queue(queue).rules
            kept += sum(ENTRY_BYTES + len(entry.content or b"") for entry in rules.backlog.index.values())
            kept += LANE_BYTES * len(rules.backlog.lanes)
            remembered += len(getattr(rules, "dedup", ()))
        assert self.world.broker.budget.used == kept
        assert self.world.broker.dedup_usage.total == remembered

    def check_counts(self, queue: str, counts: tuple[int, int, int]) -> None:
        assert counts == self.model.counts(queue, self.now_ms)

    # -- faults ----------------------------------------------------------------------------------------------

    @rule()
    @free_hands
    def hold(self) -> None:
        for queue in (self.work, self.dead):
            self.world.counts(queue)  # memory is filled, so that decisions need not wait for the store
            self.world.counts(queue)
        self.world.hold_commits()
        self.paused = True

    @rule()
    @precondition(lambda self: self.paused)
    def release(self) -> None:
        self.paused = False
        self.world.release_commits()
        for later, then in self.waiting:
            assert later.done, "an answer that never comes"
            then(later.result())
        self.waiting.clear()
        self.all_acknowledged()
        self.expire()
        self.settle()

    @rule()
    def crash(self) -> None:
        """Also while decisions wait for their commit: these are lost, all others are kept."""
        self.world.crash()
        self.start_over()

    @rule(which=either)
    def refuse(self, which: str) -> None:
        """The store refuses what waits for it; everything decided since fails too."""
        self.world.refuse_next_commit()
        later = self.world.sending(self.name(which), outgoing("refused", group="g"))
        self.world.release_commits()
        assert not self.world.store.refusals
        for failed in [later, *(later for later, _ in self.waiting)]:
            assert failed.done, "an answer that never comes"
        with pytest.raises(StoreError):
            later.result()
        self.start_over()

    def start_over(self) -> None:
        self.paused = False
        self.waiting.clear()
        self.model = self.acknowledged.snapshot()
        self.expire()
        self.settle()

    # -- at the end ------------------------------------------------------------------------------------------

    def everything_is_there(self) -> None:
        """Nothing lost, nothing doubled: what is left can be received, each once, and is all that there is."""
        for which in ("work", "dead"):
            self.count(which)
            self.reconfigure(self.name(which), {"delay_ms": 0})
        self.set_redrive(None)
        latest = max((m.due_ms for m in self.model.messages), default=0)
        self.world.advance(max(0, latest - self.now_ms))
        self.expire()
        for queue in (self.work, self.dead):
            found: list[Received] = []
            while batch := self.world.receive(queue, visibility_ms=12 * HOUR):
                found += batch
                self.world.delete(queue, *batch)
            self.check_drained(queue, [message.content.body for message in found])
            assert self.world.counts(queue) == (0, 0, 0)

    def check_drained(self, queue: str, bodies: list[str]) -> None:
        assert sorted(bodies) == sorted(m.body for m in self.model.of(queue))

    def purge_refused(self, queue: str) -> bool:
        """SQS: one purge a minute."""
        purged_ms = self.model.purged_ms.get(queue)
        if purged_ms is None or self.now_ms >= purged_ms + MINUTE:
            return False
        with pytest.raises(PurgedRecently):
            self.world.do(self.world.broker.purge(self.world.queue(queue)))
        return True


def kind_of(answer: PenstockError | None) -> type[PenstockError] | None:
    return None if answer is None else type(answer)
