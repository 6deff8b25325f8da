"""Random lives of two standard queues, one the dead-letter queue of the other, compared with a plain model."""

from __future__ import annotations

from dataclasses import replace
from itertools import zip_longest
from typing import Any

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import rule

from penstock.errors import MessageNotAvailable, PenstockError, VisibilityTooLong
from penstock.queues.messages import Received
from sim.history import History, any_one, either, free_hands, kind_of, visibilities
from sim.standard_model import GivenHandle, Message, StandardModel
from support.generated import HISTORIES
from support.world import MINUTE, ROOMY, SECOND, TINY, name_of, outgoing

delays = st.sampled_from([None, None, None, 0, 1, 3 * SECOND, 40 * SECOND, 15 * MINUTE])
groups = st.sampled_from([None, None, None, "a", "a", "b", "c", "d", "e"])
refusals = {"ok": None, "gone": MessageNotAvailable, "too long": VisibilityTooLong}


class StandardHistory(History):
    model: StandardModel

    def new_model(self) -> StandardModel:
        for queue in (self.work, self.dead):
            self.world.create(queue)
        return StandardModel([self.work, self.dead])

    def settle(self) -> None:
        """A receive is written a little later: until then a crash or a refused commit undoes it."""
        if not self.paused:
            unwritten = self.world.unwritten_ids()
            for each in self.model.messages:
                if each.id not in unwritten:
                    each.stored = replace(each, stored=None)
        super().settle()

    def start_over(self) -> None:
        self.acknowledged.messages = [each.stored or each for each in self.acknowledged.messages]
        super().start_over()

    @rule(which=either, count=st.integers(1, 10), group=groups, delay_ms=delays)
    def send(self, which: str, count: int, group: str | None, delay_ms: int | None) -> None:
        queue, sent_ms = self.name(which), self.now_ms
        expected = [Message(f"m{self.bodies + i}", "", queue, group) for i in range(count)]
        self.bodies += count
        hidden_ms = self.model.rules[queue].delay_ms if delay_ms is None else delay_ms
        purged_ms = self.model.purged_ms.get(queue)

        def acknowledge(sent: list[Any]) -> None:
            if self.model.purged_ms.get(queue) != purged_ms:
                return  # purged after the send was decided: it never arrives
            for each, answer in zip(expected, sent, strict=True):
                each.id = answer.id
                self.model.send(each, hidden_ms, sent_ms)

        messages = [outgoing(each.body, group=group, delay_ms=delay_ms) for each in expected]
        self.start(self.world.queue(queue).send(messages), acknowledge)

    @rule(which=either, count=st.integers(1, 10), visibility_ms=visibilities)
    def receive(self, which: str, count: int, visibility_ms: int | None) -> None:
        queue = self.name(which)
        self.expire()
        if self.paused and self.model.doomed(queue, self.now_ms):
            return  # whether it died cannot be seen before the commit
        if self.paused and self.model.rules[queue].receives_max is not None:
            return  # an answer that rests on a move to the dead-letter queue waits for its commit
        received = self.world.receive(queue, count, visibility_ms=visibility_ms)
        self.check_received(queue, count, visibility_ms, received)
        self.settle()

    def check_received(
        self, queue: str, count: int, visibility_ms: int | None, received: list[Received]
    ) -> None:
        now_ms, model = self.now_ms, self.model
        available = {each.body: each for each in model.available(queue, now_ms)}
        doomed = model.doomed(queue, now_ms)
        bodies = {message.content.body for message in received}
        assert len(received) == len(bodies) <= count
        exhausted = len(received) < count if self.limits is ROOMY else not received
        if exhausted and not self.lanes_are_short(queue):
            left = set(available) - bodies - {each.body for each in doomed}
            assert not left, f"{left} could be received and was not"
            assert all(map(self.is_dead, doomed)), "received once too often, and not moved"
        for message in received:
            each = available.get(message.content.body)
            assert each is not None, f"{message.content.body} is not to be received now"
            assert each not in doomed, f"{each.body} was received once too often"
            model.receive(each, visibility_ms, now_ms)
            self.handles.append(GivenHandle(each.body, queue, message.handle, now_ms, message.receives))
            check_facts(each, message)
        self.dead_letter(doomed)

    def dead_letter(self, doomed: list[Message]) -> None:
        for each in filter(self.is_dead, doomed):
            self.model.dead_letter(each, self.dead, name_of(self.work).arn)

    def lanes_are_short(self, queue: str) -> bool:
        """With so few lanes, groups that are all in flight hide the others: a limit the server never reaches."""
        busy = {m.group for m in self.model.of(queue) if m.due_ms > self.now_ms and not m.delayed}
        return len(busy) >= self.limits.lanes_max

    @rule(which=either, visibility_ms=visibilities, pause_ms=st.sampled_from([0, SECOND, 19 * SECOND]))
    @free_hands
    def wait(self, which: str, visibility_ms: int | None, pause_ms: int) -> None:
        """A long poll is answered the moment that something is available."""
        queue, until_ms = self.name(which), self.now_ms + pause_ms
        self.expire()
        poll = self.world.poll(queue, 10, visibility_ms=visibility_ms)
        while not poll.done:
            self.expire()
            doomed = self.model.doomed(queue, self.now_ms)
            alive = [m.body for m in self.model.available(queue, self.now_ms) if m not in doomed]
            assert not alive or self.lanes_are_short(queue), f"{alive} wait, and so does a receive"
            self.dead_letter(doomed)
            if self.now_ms >= until_ms:
                break
            dues = [m.due_ms for m in self.model.of(queue) if m.due_ms > self.now_ms]
            # The poll may be served at the end of this step: by then, earlier receives may have been written.
            self.world.advance(min([until_ms, *dues]) - self.now_ms - 1)
            self.settle()
            self.world.advance(1)
        self.expire()
        if poll.done:
            self.check_received(queue, 10, visibility_ms, poll.answer.result())
        else:
            poll.caller.hang_up()
            self.world.run()
            assert poll.bodies == []
        self.settle()

    @rule(
        which=either,
        group=groups,
        sends=st.integers(0, 8),
        receives=st.integers(1, 4),
        visibility_ms=st.sampled_from([0, 1, MINUTE]),
        deletes=st.lists(any_one, max_size=4),
        steps=st.integers(0, 4),
    )
    @free_hands
    def rush(
        self,
        which: str,
        group: str | None,
        sends: int,
        receives: int,
        visibility_ms: int,
        deletes: list[int],
        steps: int,
    ) -> None:
        """Many at once: no client gets what another holds, and what was deleted is gone for all of them."""
        queue = self.name(which)
        self.expire()
        if self.model.doomed(queue, self.now_ms) or self.model.rules[queue].receives_max is not None:
            return
        expected = [Message(f"m{self.bodies + i}", "", queue, group) for i in range(sends)]
        self.bodies += sends
        handles = [given for given in map(self.choose_handle, deletes) if given and given.queue == queue]
        live = self.world.queue(queue)
        deleting = [live.delete([given.handle]) for given in handles]
        sending = [live.send([outgoing(m.body, group=group, delay_ms=0)]) for m in expected]
        receiving = [self.receiving(queue, 3, visibility_ms) for _ in range(receives)]
        waves = [wave for trio in zip_longest(receiving, deleting, sending) for wave in trio if wave]
        outcomes = dict(zip(map(id, waves), self.overlap(steps, *waves), strict=True))
        for each, sent in zip(expected, sending, strict=True):
            each.id = outcomes[id(sent)].result()[0].id
            self.model.send(each, 0, self.now_ms)
        available = {each.body: each for each in self.model.available(queue, self.now_ms)}
        for asked in receiving:
            for message in outcomes[id(asked)].result():
                each = available[message.content.body]
                self.model.receive(each, visibility_ms, self.now_ms)
                self.handles.append(
                    GivenHandle(each.body, queue, message.handle, self.now_ms, message.receives)
                )
                if visibility_ms:
                    del available[each.body]
                    check_facts(each, message)
        for given in handles:
            self.model.delete(given)
        self.settle()

    @rule(which=any_one)
    def delete(self, which: int) -> None:
        self.expire()
        given = self.choose_handle(which)
        if given is None:
            return
        self.model.delete(given)

        def acknowledge(answers: list[PenstockError | None]) -> None:
            assert answers == [None], "on a standard queue any handle that was given deletes"

        self.start(self.world.queue(given.queue).delete([given.handle]), acknowledge)

    @rule(which=any_one, visibility_ms=visibilities)
    def change(self, which: int, visibility_ms: int | None) -> None:
        self.expire()
        given = self.choose_handle(which)
        if given is None:
            return
        visibility_ms = visibility_ms or 0
        expected = refusals[self.model.change(given, visibility_ms, self.now_ms)]
        may_linger = given.body in self.expired  # past its retention, and perhaps not swept yet

        def acknowledge(answers: list[PenstockError | None]) -> None:
            assert may_linger or kind_of(answers[0]) is expected

        asked = [(given.handle, visibility_ms)]
        self.start(self.world.queue(given.queue).change_visibility(asked), acknowledge)

    @rule(which=either)
    def purge(self, which: str) -> None:
        queue = self.name(which)
        self.expire()
        if not self.purge_refused(queue):
            self.model.purge(queue, self.now_ms)
            self.start(self.world.broker.purge(self.world.queue(queue)))

    def check_counts(self, queue: str, counts: tuple[int, int, int]) -> None:
        assert counts == self.model.counts(queue, self.now_ms)


def check_facts(each: Message, message: Received) -> None:
    assert message.content.id == each.id
    assert message.receives == each.receives
    assert message.first_received_ms == each.first_received_ms
    assert message.group == each.group
    assert message.source == each.source
    assert message.sequence is None


class TinyStandardHistory(StandardHistory):
    limits = msgspec.structs.replace(TINY, new_place_after_receives=2)


class TestStandardHistory(StandardHistory.TestCase):  # type: ignore[misc, valid-type]
    settings = HISTORIES


class TestTinyStandardHistory(TinyStandardHistory.TestCase):  # type: ignore[misc, valid-type]
    settings = HISTORIES
