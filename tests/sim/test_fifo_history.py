"""Random lives of two FIFO queues, one the dead-letter queue of the other, held against a plain model.

A receive on FIFO answers after its commit, so the model learns of every step only when the answer is there, with the
time at which the step was made.
"""

from __future__ import annotations

from itertools import groupby, zip_longest
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from penstock.errors import HandleExpired, MessageNotAvailable, PenstockError, VisibilityTooLong
from penstock.queues.messages import Received
from sim.fifo_model import FifoModel, GivenHandle, Message
from sim.history import History, any_one, either, free_hands, kind_of, visibilities
from support.generated import HISTORIES
from support.world import MINUTE, ROOMY, SECOND, TINY, name_of, outgoing

groups = st.sampled_from(["a", "a", "a", "b", "b", "c", "d", "e"])
dedup_ids = st.sampled_from([None, None, None, "x", "y"])  # None: one that is used once
refusals = {"ok": None, "gone": MessageNotAvailable, "expired": HandleExpired, "too long": VisibilityTooLong}


class FifoHistory(History):
    suffix = ".fifo"
    model: FifoModel

    def new_model(self) -> FifoModel:
        self.arriving: list[Message] = []  # sent, and not to be received before the commit
        self.world.create(self.work)
        self.world.create(self.dead, dedup_scope="messageGroup")
        return FifoModel([self.work, self.dead], per_group=(self.dead,))

    @rule(which=either, messages=st.lists(st.tuples(groups, dedup_ids), min_size=1, max_size=8))
    def send(self, which: str, messages: list[tuple[str, str | None]]) -> None:
        queue, sent_ms = self.name(which), self.now_ms
        expected = []
        for group, dedup_id in messages:
            self.bodies += 1
            body = f"m{self.bodies}"
            expected.append(Message(body, "", queue, group, dedup_id or body))

        def acknowledge(sent: list[Any]) -> None:
            for each, answer in zip(expected, sent, strict=True):
                first = self.model.duplicate(each, sent_ms)
                if first is None:
                    each.id, each.sequence = answer.id, answer.sequence
                    self.model.send(each, sent_ms)
                    self.arriving.append(each)
                else:
                    assert (answer.id, answer.sequence) == (first.id, first.sequence)

        outgoings = [outgoing(m.body, group=m.group, dedup_id=m.dedup_id) for m in expected]
        self.start(self.world.queue(queue).send(outgoings), acknowledge)

    def all_acknowledged(self) -> None:
        self.model.messages += self.arriving
        self.arriving.clear()

    @rule(which=either, count=st.integers(1, 10), visibility_ms=visibilities)
    def receive(self, which: str, count: int, visibility_ms: int | None) -> None:
        queue, asked_ms = self.name(which), self.now_ms
        if self.paused and self.model.rules[queue].receives_max is not None:
            return  # which receive made it a dead letter would not be known afterwards

        def acknowledge(received: list[Received]) -> None:
            self.expire(asked_ms)
            self.check_received(queue, count, visibility_ms, received, asked_ms)

        poll = self.world.poll(queue, count, visibility_ms=visibility_ms, wait_ms=0)
        if self.paused:
            self.waiting.append((poll.answer, acknowledge))
        else:
            acknowledge(poll.answer.result())
            self.settle()

    def check_received(
        self, queue: str, count: int, visibility_ms: int | None, received: list[Received], now_ms: int
    ) -> None:
        assert len(received) <= count
        runs = {group: self.model.open_run(queue, group, now_ms) for group in self.model.groups(queue)}
        short_of_lanes = sum(not run for run in runs.values()) >= self.limits.lanes_max
        dead = [m for run in runs.values() for m in run if self.model.is_doomed(m) and self.is_dead(m)]
        exhausted = len(received) < count if self.limits is ROOMY else not received
        if exhausted and not short_of_lanes:
            assert all(m in dead for run in runs.values() for m in run if self.model.is_doomed(m))
        answered = [list(part) for _, part in groupby(received, key=lambda message: message.group)]
        taken = [self.check_run(runs, dead, part) for part in answered]
        left = {group: run for group, run in runs.items() if any(m not in dead for m in run)}
        if exhausted:
            assert not left or short_of_lanes, f"{left} could be received and was not"
        if self.limits is ROOMY:
            # SQS: as many as possible of one group, then the next.
            assert all(group not in left for group in taken[:-1])
        for message in received:
            self.take(queue, message, visibility_ms, now_ms)
        for each in dead:
            self.model.dead_letter(each, self.dead, name_of(self.work).arn, now_ms)

    def check_run(self, runs: dict[str, list[Message]], dead: list[Message], part: list[Received]) -> str:
        """What was answered of one group is the beginning of what can go out; it is struck off there."""
        group = part[0].group
        assert group is not None
        run = runs[group]
        for message in part:
            while run and run[0] in dead:
                run.pop(0)
            assert run and run[0].body == message.content.body, f"{message.content.body} is out of turn"
            assert not self.model.is_doomed(run[0]), f"{run[0].body} was received once too often"
            run.pop(0)
        while run and run[0] in dead:
            run.pop(0)
        return group

    def take(self, queue: str, message: Received, visibility_ms: int | None, now_ms: int) -> None:
        (each,) = (m for m in self.model.of(queue) if m.body == message.content.body)
        self.model.receive(each, visibility_ms, now_ms)
        self.handles.append(GivenHandle(each.body, queue, message.handle, now_ms, each.receives))
        assert message.content.id == each.id
        assert message.content.dedup_id == each.dedup_id
        assert message.receives == each.receives
        assert message.first_received_ms == each.first_received_ms
        assert message.source == each.source
        if queue == self.work:
            assert message.sequence == each.sequence

    @rule(which=either, visibility_ms=visibilities, pause_ms=st.sampled_from([0, SECOND, 19 * SECOND]))
    @free_hands
    def wait(self, which: str, visibility_ms: int | None, pause_ms: int) -> None:
        """A long poll is answered the moment that some group opens."""
        queue, until_ms = self.name(which), self.now_ms + pause_ms
        self.expire()
        poll = self.world.poll(queue, 10, visibility_ms=visibility_ms)
        while not poll.done:
            self.expire()
            # No receiver gets anything; what was received too often is gone all the same.
            self.check_received(queue, 10, visibility_ms, [], self.now_ms)
            if self.now_ms >= until_ms:
                break
            self.world.advance(min([until_ms, *self.moments(queue)]) - self.now_ms)
        self.expire()
        if poll.done:
            self.check_received(queue, 10, visibility_ms, poll.answer.result(), self.now_ms)
        else:
            poll.caller.hang_up()
            self.world.run()
            assert poll.bodies == []
        self.settle()

    def moments(self, queue: str) -> list[int]:
        """When something may change by itself."""
        delay_ms, expected = self.model.rules[queue].delay_ms, self.model.of(queue)
        moments = [m.due_ms for m in expected] + [m.enqueued_ms + delay_ms for m in expected]
        moments += [m.enqueued_ms + self.model.rules[queue].retention_ms for m in expected]
        return [moment for moment in moments if moment > self.now_ms]

    @rule(
        which=either,
        sends=st.lists(groups, max_size=5),
        receives=st.integers(1, 3),
        deletes=st.lists(any_one, max_size=4),
        steps=st.integers(0, 3),
    )
    @free_hands
    def rush(self, which: str, sends: list[str], receives: int, deletes: list[int], steps: int) -> None:
        """Many at once: a group is open to one receive, which gets its first messages."""
        queue, now_ms = self.name(which), self.now_ms
        self.expire()
        if self.model.rules[queue].receives_max is not None:
            return
        expected = []
        for group in sends:
            self.bodies += 1
            expected.append(Message(f"m{self.bodies}", "", queue, group, f"m{self.bodies}"))
        handles = [held for held in map(self.choose_handle, deletes) if held and held.queue == queue]
        handles = [given for given in handles if self.model.is_current(given, now_ms)]
        held_queue = self.world.queue(queue)
        deleting = [held_queue.delete([held.handle]) for held in handles]
        sending = [held_queue.send([outgoing(m.body, group=m.group, dedup_id=m.dedup_id)]) for m in expected]
        receiving = [self.receiving(queue, 10, MINUTE) for _ in range(receives)]
        waves = [wave for trio in zip_longest(receiving, deleting, sending) for wave in trio if wave]
        outcomes = dict(zip(map(id, waves), self.overlap(steps, *waves), strict=True))
        for held, deleted in zip(handles, deleting, strict=True):
            assert outcomes[id(deleted)].result() == [None]
            self.model.delete(held, now_ms)
        for each, sent in zip(expected, sending, strict=True):
            (answer,) = outcomes[id(sent)].result()
            each.id, each.sequence = answer.id, answer.sequence
            self.model.send(each, now_ms)
            self.model.messages.append(each)
        runs = {group: self.model.open_run(queue, group, now_ms) for group in self.model.groups(queue)}
        for asked in receiving:
            received = outcomes[id(asked)].result()
            for group, part in groupby(received, key=lambda message: message.group):
                run = runs.pop(group)
                bodies = [message.content.body for message in part]
                assert bodies == [each.body for each in run[: len(bodies)]]
            for message in received:
                self.take(queue, message, MINUTE, now_ms)
        self.settle()

    @rule(which=any_one)
    def delete(self, which: int) -> None:
        held, asked_ms = self.choose_handle(which), self.now_ms
        if held is None:
            return

        def acknowledge(answers: list[PenstockError | None]) -> None:
            self.expire(asked_ms)
            expected = refusals[self.model.delete(held, asked_ms)]
            may_linger = held.body in self.expired  # past its retention, and perhaps not swept yet
            assert may_linger or kind_of(answers[0]) is expected

        self.start(self.world.queue(held.queue).delete([held.handle]), acknowledge)

    @rule(which=any_one, visibility_ms=visibilities)
    def change(self, which: int, visibility_ms: int | None) -> None:
        held, asked_ms = self.choose_handle(which), self.now_ms
        if held is None:
            return
        hide_ms = visibility_ms or 0

        def acknowledge(answers: list[PenstockError | None]) -> None:
            self.expire(asked_ms)
            expected = refusals[self.model.change(held, hide_ms, asked_ms)]
            may_linger = held.body in self.expired
            assert may_linger or kind_of(answers[0]) is expected

        asked = [(held.handle, hide_ms)]
        self.start(self.world.queue(held.queue).change_visibility(asked), acknowledge)

    @rule(which=either)
    def purge(self, which: str) -> None:
        queue, asked_ms = self.name(which), self.now_ms
        if self.paused and asked_ms < self.world.queue(queue).record.purged_ms + 60 * SECOND:
            return
        if not self.purge_refused(queue):
            self.start(
                self.world.broker.purge(self.world.queue(queue)), lambda _: self.empty(queue, asked_ms)
            )

    def empty(self, queue: str, now_ms: int) -> None:
        self.model.purge(queue, now_ms)
        self.arriving = [each for each in self.arriving if each.queue != queue]

    def tell_model(self, queue: str, name: str, value: int) -> None:
        if self.paused:
            self.waiting.append((self.world.start(_nothing()), lambda _: self.set_rule(queue, name, value)))
        else:
            self.set_rule(queue, name, value)

    def set_rule(self, queue: str, name: str, value: int) -> None:
        super().tell_model(queue, name, value)

    def check_drained(self, queue: str, bodies: list[str]) -> None:
        super().check_drained(queue, bodies)
        for group in self.model.groups(queue):
            expected = [m.body for m in self.model.of(queue) if m.group == group]
            assert [body for body in bodies if body in expected] == expected


async def _nothing() -> None:
    pass


class TinyFifoHistory(FifoHistory):
    limits = TINY


class TestFifoHistory(FifoHistory.TestCase):  # type: ignore[misc, valid-type]
    settings = HISTORIES


class TestTinyFifoHistory(TinyFifoHistory.TestCase):  # type: ignore[misc, valid-type]
    settings = HISTORIES
