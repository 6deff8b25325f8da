"""Random lives of two standard queues, one the dead-letter queue of the other, held against a plain model.

Everything is done at once unless commits are held: then decisions pile up until they are released, refused or lost in
a crash. What was acknowledged is the truth from then on; what was not, never happened.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from sim.settings import HISTORIES
from sim.standard_model import Held, Letter, StandardModel
from sim.world import DAY, MINUTE, ROOMY, SECOND, TINY, World, name_of, outgoing

from penstock.errors import (
    HandleInvalid,
    MessageNotAvailable,
    PenstockError,
    PurgedRecently,
    StoreError,
    VisibilityTooLong,
)
from penstock.later import Later
from penstock.limits import HOUR
from penstock.queues.message import Received
from penstock.queues.settings import Redrive

WORK, DEAD = "work", "dead"
queues = st.sampled_from([WORK, WORK, WORK, DEAD])
any_one = st.integers(0, 1 << 16)
visibilities = st.sampled_from([None, None, 0, 1, 5 * SECOND, 2 * MINUTE, HOUR, 12 * HOUR])
delays = st.sampled_from([None, None, None, 0, 1, 3 * SECOND, 40 * SECOND, 15 * MINUTE])
groups = st.sampled_from([None, None, None, "a", "a", "b", "c", "d", "e"])
pauses = st.sampled_from([0, 1, SECOND, 5 * SECOND, 31 * SECOND, 2 * MINUTE, 6 * MINUTE, HOUR, 13 * HOUR])
outcomes = {"ok": None, "gone": MessageNotAvailable, "too long": VisibilityTooLong}


class StandardHistory(RuleBasedStateMachine):
    limits = ROOMY

    @initialize(seed=st.integers(0, 1 << 32), shuffled=st.booleans())
    def open(self, seed: int, shuffled: bool) -> None:
        dice = random.Random(seed)
        self.world = World(self.limits, dice.randrange if shuffled else lambda choices: 0)
        self.model = StandardModel([WORK, DEAD])
        for queue in (WORK, DEAD):
            self.world.create(queue)
        self.acknowledged = self.model.snapshot()
        self.held = False
        self.waiting: list[tuple[Later[Any], Callable[[Any], None]]] = []  # started while commits are held
        self.handles: list[Held] = []
        self.expired: set[str] = set()
        self.bodies = 0

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        try:
            self.release()
            self.everything_is_there()
        finally:
            self.world.close()

    # -- the frame of each step ------------------------------------------------------------------------------

    @property
    def now_ms(self) -> int:
        return self.world.clock.now_ms()

    def expire(self) -> None:
        before = {letter.body for letter in self.model.letters}
        self.model.forget_expired(self.now_ms)
        self.expired |= before - {letter.body for letter in self.model.letters}

    def settle(self) -> None:
        if not self.held:
            self.acknowledged = self.model.snapshot()

    def start(self, coroutine: Any, then: Callable[[Any], None] = lambda value: None) -> None:
        """Do it now; its answer comes now too unless commits are held."""
        later = self.world.start(coroutine)
        self.world.run()
        if self.held:
            self.waiting.append((later, then))
        else:
            assert later.done, "an answer that never comes"
            then(later.result())
            self.settle()

    # -- rules -----------------------------------------------------------------------------------------------

    @rule(queue=queues, count=st.integers(1, 10), group=groups, delay_ms=delays)
    def send(self, queue: str, count: int, group: str | None, delay_ms: int | None) -> None:
        letters = [
            Letter(f"m{self.bodies + i}", "", queue, group, self.now_ms, 0) for i in range(count)
        ]
        self.bodies += count
        sent_ms, queue_delay_ms = self.now_ms, self.model.rules[queue].delay_ms
        purges = self.model.purged_ms.get(queue)

        def acknowledge(sent: list[Any]) -> None:
            if self.model.purged_ms.get(queue) != purges:
                return  # purged after the send was decided: it never arrives
            for letter, answer in zip(letters, sent, strict=True):
                letter.id = answer.id
                self.model.send(letter, queue_delay_ms if delay_ms is None else delay_ms, sent_ms)

        messages = [outgoing(letter.body, group=group, delay_ms=delay_ms) for letter in letters]
        self.start(self.world.broker.send(self.world.queue(queue), messages), acknowledge)

    @rule(queue=queues, count=st.integers(1, 10), visibility_ms=visibilities)
    def receive(self, queue: str, count: int, visibility_ms: int | None) -> None:
        self.expire()
        if self.held and self.model.doomed(queue, self.now_ms):
            return  # whether it died cannot be seen before the commit
        received = self.world.receive(queue, count, visibility_ms=visibility_ms)
        self.check_received(queue, count, visibility_ms, received)
        self.settle()

    def check_received(
        self, queue: str, count: int, visibility_ms: int | None, received: list[Received]
    ) -> None:
        now_ms, model = self.now_ms, self.model
        available = {letter.body: letter for letter in model.available(queue, now_ms)}
        doomed = model.doomed(queue, now_ms)
        assert len(received) <= count
        assert len({message.content.body for message in received}) == len(received)
        complete = len(received) < count if self.limits is ROOMY else not received
        if complete and not self.lanes_are_short(queue):
            left = set(available) - {m.content.body for m in received} - {d.body for d in doomed}
            assert not left, f"{left} could be received and was not"
        for message in received:
            letter = available.get(message.content.body)
            assert letter is not None, f"{message.content.body} is not to be received now"
            assert letter not in doomed, f"{letter.body} was received once too often"
            model.receive(letter, visibility_ms, now_ms)
            self.handles.append(Held(letter.body, queue, message.handle, now_ms))
            self.check_facts(letter, message)
        for letter in doomed:
            if self.is_in(DEAD, letter):
                model.bury(letter, DEAD, name_of(WORK).arn)
            else:
                assert not complete or self.lanes_are_short(queue), f"{letter.body} should have died"

    def check_facts(self, letter: Letter, message: Received) -> None:
        assert message.content.id == letter.id
        assert message.receives == letter.receives
        assert message.first_received_ms == letter.first_received_ms
        assert message.group == letter.group
        assert message.source == letter.source
        assert message.sequence is None

    def is_in(self, queue: str, letter: Letter) -> bool:
        handle = next(held.handle for held in self.handles if held.body == letter.body and held.queue == WORK)
        seq = self.world.broker._receipts.read(handle, self.world.queue(WORK).id).seq
        return bool(self.world.store.lookup(self.world.queue(queue).id, 0, [seq]))

    def lanes_are_short(self, queue: str) -> bool:
        """With so few lanes, groups that are all in flight hide the others: a limit the server never reaches."""
        busy = {m.group for m in self.model.of(queue) if m.due_ms > self.now_ms and m.receives}
        return len(busy) >= self.limits.lanes_max

    @rule(queue=queues, visibility_ms=visibilities, pause_ms=st.sampled_from([0, SECOND, 19 * SECOND]))
    @precondition(lambda self: not self.held)
    def wait(self, queue: str, visibility_ms: int | None, pause_ms: int) -> None:
        """A long poll is answered the moment that something is available."""
        self.expire()
        poll = self.world.poll(queue, 10, visibility_ms=visibility_ms)
        until_ms = self.now_ms + pause_ms
        while not poll.done:
            self.expire()
            alive = set(map(id, self.model.available(queue, self.now_ms)))
            alive -= set(map(id, self.model.doomed(queue, self.now_ms)))
            assert not alive or self.lanes_are_short(queue), "a waiting receive was not served"
            self.bury_the_dead(queue)
            if self.now_ms >= until_ms:
                break
            dues = [m.due_ms for m in self.model.of(queue) if m.due_ms > self.now_ms]
            self.world.advance(min([until_ms, *dues]) - self.now_ms)
        self.expire()
        if not poll.done:
            poll.caller.hang_up()
            self.world.run()
            assert poll.answer.result() == []
        else:
            self.check_received(queue, 10, visibility_ms, poll.answer.result())
        self.settle()

    def bury_the_dead(self, queue: str) -> None:
        for letter in self.model.doomed(queue, self.now_ms):
            if self.is_in(DEAD, letter):
                self.model.bury(letter, DEAD, name_of(WORK).arn)

    def choose_handle(self, which: int) -> Held | None:
        usable = self.handles
        if self.held:
            # What only the store has is decided after the commit; what is in flight, at once.
            in_flight = {m.body for m in self.model.letters if m.due_ms > self.now_ms and m.receives}
            usable = [held for held in self.handles if held.body in in_flight]
        return usable[which % len(usable)] if usable else None

    @rule(which=any_one)
    def delete(self, which: int) -> None:
        self.expire()
        held = self.choose_handle(which)
        if held is None:
            return
        self.model.delete(held)

        def acknowledged(answers: list[PenstockError | None]) -> None:
            assert answers == [None]

        self.start(self.world.broker.delete(self.world.queue(held.queue), [held.handle]), acknowledged)

    @rule(which=any_one, visibility_ms=visibilities)
    def change(self, which: int, visibility_ms: int | None) -> None:
        self.expire()
        held = self.choose_handle(which)
        if held is None:
            return
        visibility_ms = visibility_ms or 0
        expected = outcomes[self.model.change(held, visibility_ms, self.now_ms)]
        may_linger = held.body in self.expired  # past its retention, and perhaps not swept yet

        def acknowledged(answers: list[PenstockError | None]) -> None:
            if not may_linger:
                assert (None if answers[0] is None else type(answers[0])) is expected

        asked = [(held.handle, visibility_ms)]
        self.start(
            self.world.broker.change_visibility(self.world.queue(held.queue), asked), acknowledged
        )

    @rule(which=any_one)
    @precondition(lambda self: not self.held)
    def use_a_handle_elsewhere(self, which: int) -> None:
        if self.handles:
            held = self.handles[which % len(self.handles)]
            other = DEAD if held.queue == WORK else WORK
            for handle, queue in ((held.handle, other), (held.handle[:-1], held.queue), ("AQEB", WORK)):
                (answer,) = self.world.do(self.world.broker.delete(self.world.queue(queue), [handle]))
                assert isinstance(answer, HandleInvalid)

    @rule(pause_ms=pauses)
    def pass_time(self, pause_ms: int) -> None:
        self.world.advance(pause_ms)
        self.expire()
        self.settle()

    @rule(queue=queues)
    def purge(self, queue: str) -> None:
        self.expire()
        purged_ms = self.model.purged_ms.get(queue)
        if purged_ms is not None and self.now_ms < purged_ms + MINUTE:
            with pytest.raises(PurgedRecently):
                self.world.do(self.world.broker.purge(self.world.queue(queue)))
            return
        self.model.purge(queue, self.now_ms)
        self.start(self.world.broker.purge(self.world.queue(queue)))

    @rule(
        queue=queues,
        delay_ms=st.sampled_from([None, 0, 2 * SECOND]),
        visibility_ms=st.sampled_from([None, 0, SECOND, 30 * SECOND]),
        receives_max=st.sampled_from([None, 1, 2, 4]),
    )
    def configure(
        self, queue: str, delay_ms: int | None, visibility_ms: int | None, receives_max: int | None
    ) -> None:
        rules, changed = self.model.rules[queue], dict[str, Any]()
        if delay_ms is not None:
            rules.delay_ms = changed["delay_ms"] = delay_ms
        if visibility_ms is not None:
            rules.visibility_ms = changed["visibility_ms"] = visibility_ms
        if queue == WORK:
            rules.receives_max = receives_max
            changed["redrive"] = None if receives_max is None else Redrive(name_of(DEAD), receives_max)
        self.reconfigure(queue, changed)

    def reconfigure(self, queue: str, changed: dict[str, Any]) -> None:
        import msgspec

        held = self.world.queue(queue)
        settings = msgspec.structs.replace(held.settings, **changed)
        self.start(self.world.broker.configure(held, settings))

    @rule(queue=queues, retention_ms=st.sampled_from([MINUTE, 5 * MINUTE, 4 * DAY]))
    @precondition(lambda self: not self.held)
    def keep_for(self, queue: str, retention_ms: int) -> None:
        self.count(queue)  # what is too old by the present rule goes first
        self.model.rules[queue].retention_ms = retention_ms
        self.reconfigure(queue, {"retention_ms": retention_ms})
        self.count(queue)

    @rule(queue=queues)
    @precondition(lambda self: not self.held)
    def count(self, queue: str) -> None:
        self.expire()
        self.world.counts(queue)  # asks for what only the store can tell; the next one knows
        assert self.world.counts(queue) == self.model.counts(queue, self.now_ms)
        self.settle()

    # -- faults ----------------------------------------------------------------------------------------------

    @rule()
    @precondition(lambda self: not self.held)
    def hold(self) -> None:
        for queue in (WORK, DEAD):
            self.world.counts(queue)  # memory is filled, so that decisions need not wait for the store
            self.world.counts(queue)
        self.world.hold_commits()
        self.held = True

    @rule()
    @precondition(lambda self: self.held)
    def release(self) -> None:
        if not self.held:
            return
        self.held = False
        self.world.release_commits()
        for later, then in self.waiting:
            assert later.done, "an answer that never comes"
            then(later.result())
        self.waiting.clear()
        self.expire()
        self.settle()

    @rule()
    def crash(self) -> None:
        """Also while decisions wait for their commit: these are lost, all others are kept."""
        self.held = False
        self.waiting.clear()
        self.model = self.acknowledged.snapshot()
        self.world.crash()
        self.expire()
        self.settle()

    @rule(queue=queues)
    def refuse(self, queue: str) -> None:
        """The store refuses what waits for it; everything decided since fails too."""
        self.world.refuse_next_commit()
        later = self.world.sending(queue, outgoing("refused"))
        self.held = False
        self.world.release_commits()
        assert not self.world.store.refusals
        for failed in [later, *(later for later, _ in self.waiting)]:
            assert failed.done, "an answer that never comes"
        with pytest.raises(StoreError):
            later.result()
        self.waiting.clear()
        self.model = self.acknowledged.snapshot()
        self.expire()
        self.settle()

    # -- at the end ------------------------------------------------------------------------------------------

    def everything_is_there(self) -> None:
        """Nothing lost, nothing doubled: what is left can be received, each once, and is all that there is."""
        for queue in (WORK, DEAD):
            self.count(queue)
        self.reconfigure(WORK, {"redrive": None})
        latest = max((m.due_ms for m in self.model.letters), default=0)
        self.world.advance(max(0, latest - self.now_ms))
        self.expire()
        for queue in (WORK, DEAD):
            found: list[Received] = []
            while batch := self.world.receive(queue, visibility_ms=12 * HOUR):
                found += batch
                self.world.delete(queue, *batch)
            assert sorted(m.content.body for m in found) == sorted(m.body for m in self.model.of(queue))
            assert self.world.counts(queue) == (0, 0, 0)


class TinyStandardHistory(StandardHistory):
    limits = TINY


class TestStandardHistory(StandardHistory.TestCase):  # type: ignore[misc, name-defined]
    settings = HISTORIES


class TestTinyStandardHistory(TinyStandardHistory.TestCase):  # type: ignore[misc, name-defined]
    settings = HISTORIES
