"""Random lives of queues whose messages an operator edits, moves and deletes beside their clients."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule

from penstock.broker.operations import Edit, Operation
from penstock.errors import ContentOutdated, MessageInFlight, NotPossible, PenstockError, StoreError
from penstock.queues.messages import sequence_of
from penstock.store.changes import EntryRow
from sim.history import History, any_one, either, free_hands
from sim.standard_model import GivenHandle
from sim.test_fifo_history import FifoHistory
from sim.test_standard_history import StandardHistory, check_facts
from support.generated import HISTORIES
from support.world import MINUTE, SECOND, TINY, name_of

operations = st.sampled_from([*(each for each in Operation if each is not Operation.COPY), Operation.RELEASE])
edits = st.sampled_from(
    [
        {"body": True},
        {"body": True, "group": "b"},
        {"group": "a"},
        {"group": "c"},
        {"group": ""},
        {"delay_ms": 0},
        {"delay_ms": 3 * SECOND},
        {"attributes": {}},
    ]
)


class EditedHistory(History):
    """What an operator does. The model learns of it when it is durable, which is at once."""

    def row(self, each: Any) -> EntryRow:
        """Returns the row that the store has; it may not know of the last receive yet."""
        queue = self.world.queue(each.queue)
        seq = queue.rules.message_id.number_of(each.id)
        assert seq is not None
        (row,) = self.world.store.lookup(queue.id, 0, [seq])
        return row

    def choose(self, which: int) -> Any:
        self.expire()
        messages = self.model.messages
        return messages[which % len(messages)] if messages else None

    def is_in_flight(self, each: Any) -> bool:
        raise NotImplementedError

    def refusal(self, each: Any, operation: Operation) -> type[PenstockError] | None:
        """Why this cannot be done."""
        if self.is_in_flight(each):
            return MessageInFlight
        if operation is Operation.DEAD_LETTER and self.destination(each, operation) is None:
            return NotPossible
        if operation is Operation.REDRIVE and self.destination(each, operation) in (None, each.queue):
            return NotPossible
        return None

    def destination(self, each: Any, operation: Operation) -> str | None:
        has_dead_letters = each.queue == self.work and self.model.rules[self.work].receives_max is not None
        if operation is Operation.DEAD_LETTER:
            return self.dead if has_dead_letters else None
        if operation is Operation.REDRIVE:
            return None if each.source is None else str(self.work)
        return str(self.dead if each.queue == self.work else self.work)

    def apply(self, each: Any, operation: Operation) -> None:
        """What is to become of a message in the model."""
        now_ms, model = self.now_ms, self.model
        if operation is Operation.DELETE:
            model.messages.remove(each)
        elif operation is Operation.RELEASE:
            self.show(each)
        elif operation is Operation.RESET:
            each.receives = each.receives_before = each.first_received_ms = each.due_ms = 0
            each.enqueued_ms = now_ms
        elif each.queue == self.work and model.rules[self.work].receives_max is not None:
            self.kill(each)
        else:
            to = self.destination(each, operation)
            model.messages.remove(each)
            model.messages.append(each)
            each.queue, each.source, each.enqueued_ms = to, None, now_ms
            each.receives = each.receives_before = each.first_received_ms = 0
            self.arrive(each)

    def show(self, each: Any) -> None:
        raise NotImplementedError

    def kill(self, each: Any) -> None:
        raise NotImplementedError

    def arrive(self, each: Any) -> None:
        raise NotImplementedError

    # -- rules -----------------------------------------------------------------------------------------------

    @rule(which=any_one, operation=operations)
    @free_hands
    def operate(self, which: int, operation: Operation) -> None:
        each = self.choose(which)
        if each is None:
            return
        refusal, before = self.refusal(each, operation), self.row(each)
        (outcome,) = self.world.do(self.operating(each.queue, [before.seq], operation))
        assert type(outcome) is (refusal or type(None)), outcome
        if refusal is None:
            stays = operation in (Operation.RELEASE, Operation.RESET)
            self.apply(each, operation)
            assert not stays or self.row(each).version == before.version + 1
        self.settle()

    def operating(self, queue: str, seqs: list[int], operation: Operation) -> Any:
        live = self.world.queue(queue)
        target = name_of(self.dead if queue == self.work else self.work)
        return self.world.broker.partition_of(live).editing.apply(live, seqs, operation, target)

    @rule(which=either, chosen=st.lists(any_one, min_size=1, max_size=8), operation=operations)
    @free_hands
    def operate_on_many(self, which: str, chosen: list[int], operation: Operation) -> None:
        queue = self.name(which)
        self.expire()
        messages = self.model.of(queue)
        if not messages:
            return
        # In the order of the queue, which is that of the messages that arrive elsewhere.
        several = [messages[i] for i in sorted({i % len(messages) for i in chosen})]
        refusals = [self.refusal(each, operation) for each in several]
        seqs = [self.row(each).seq for each in several]
        commits = len(self.world.store.appended)
        outcomes = self.world.do(self.operating(queue, seqs, operation))
        assert [type(outcome) for outcome in outcomes] == [each or type(None) for each in refusals]
        assert len(self.world.store.appended) <= commits + 2  # the second is for what was not written yet
        for each, refusal in zip(several, refusals, strict=True):
            if refusal is None:
                self.apply(each, operation)
        self.settle()

    @rule(which=any_one, changed=edits, is_stale=st.booleans())
    @free_hands
    def edit(self, which: int, changed: dict[str, Any], is_stale: bool) -> None:
        each = self.choose(which)
        if each is None:
            return
        before, refusal = self.row(each), self.edit_refusal(each, changed)
        if self.is_in_flight(each):
            refusal = MessageInFlight
        elif is_stale:
            refusal = ContentOutdated
        self.bodies += 1
        new_body = f"e{self.bodies}"
        edit = Edit(**{**changed, **({"body": new_body} if "body" in changed else {})})
        queue = self.world.queue(each.queue)
        editing = self.world.broker.partition_of(queue).editing.edit(
            queue, before.seq, edit, before.version - is_stale
        )
        if refusal is not None:
            with pytest.raises(refusal):
                self.world.do(editing)
        else:
            self.world.do(editing)
            assert self.row(each).version == before.version + 1
            self.edited(each, changed, new_body)
        self.settle()

    def edit_refusal(self, each: Any, changed: dict[str, Any]) -> type[PenstockError] | None:
        raise NotImplementedError

    def edited(self, each: Any, changed: dict[str, Any], new_body: str) -> None:
        if "body" in changed:
            for given in self.handles:
                given.body = new_body if given.body == each.body else given.body
            each.body = new_body
        if "group" in changed:
            each.group = changed["group"] or None
        if "delay_ms" in changed:
            each.due_ms, each.delayed = self.now_ms + changed["delay_ms"], True

    @rule(which=any_one, operation=operations)
    @free_hands
    def fail(self, which: int, operation: Operation) -> None:
        """The store refuses the commit of an edit: nothing was changed."""
        each = self.choose(which)
        if each is None or self.refusal(each, operation) is not None:
            return
        self.world.refuse_next_commit()
        with pytest.raises(StoreError):
            self.world.do(self.operating(each.queue, [self.row(each).seq], operation))
        assert not self.world.store.refusals
        self.start_over()


class EditedStandardHistory(EditedHistory, StandardHistory):
    def is_in_flight(self, each: Any) -> bool:
        return bool(each.due_ms > self.now_ms and not each.delayed)

    def show(self, each: Any) -> None:
        each.due_ms = 0

    def kill(self, each: Any) -> None:
        self.model.dead_letter(each, self.dead, name_of(self.work).arn)

    def arrive(self, each: Any) -> None:
        each.due_ms, each.delayed = self.now_ms + self.model.rules[each.queue].delay_ms, True

    def edit_refusal(self, each: Any, changed: dict[str, Any]) -> type[PenstockError] | None:
        return NotPossible if changed.get("delay_ms") and each.receives else None

    @rule(
        which=either,
        chosen=st.lists(any_one, min_size=1, max_size=5),
        operation=operations,
        receives=st.integers(1, 3),
        steps=st.integers(0, 6),
    )
    @free_hands
    def edit_and_receive(
        self, which: str, chosen: list[int], operation: Operation, receives: int, steps: int
    ) -> None:
        """Beside receives: what was received first cannot be edited, what was moved first cannot be received."""
        queue = self.name(which)
        self.expire()
        if self.model.rules[queue].receives_max is not None or not self.model.of(queue):
            return
        messages = self.model.of(queue)
        several = [messages[i] for i in sorted({i % len(messages) for i in chosen})]
        refusals = [self.refusal(each, operation) for each in several]
        receiving = [self.receiving(queue, 3, MINUTE) for _ in range(receives)]
        seqs = [self.row(each).seq for each in several]
        receiving.insert(1, self.operating(queue, seqs, operation))
        answers = [later.result() for later in self.overlap(steps, *receiving)]
        outcomes = answers.pop(1)
        received = {message.content.body: message for answer in answers for message in answer}
        assert len(received) == sum(map(len, answers))
        for each, refusal, outcome in zip(several, refusals, outcomes, strict=True):
            if isinstance(outcome, MessageInFlight) and refusal is not MessageInFlight:
                assert each.body in received
            else:
                assert type(outcome) is (refusal or type(None))
                if refusal is None:
                    self.apply(each, operation)
                    each.stored = replace(each, stored=None)  # unlike a receive that follows, it is durable
        available = {each.body: each for each in self.model.available(queue, self.now_ms)}
        for body, message in received.items():
            each = available[body]
            self.model.receive(each, MINUTE, self.now_ms)
            self.handles.append(GivenHandle(body, queue, message.handle, self.now_ms, message.receives))
            check_facts(each, message)
        self.settle()


class EditedFifoHistory(EditedHistory, FifoHistory):
    def is_in_flight(self, each: Any) -> bool:
        return bool(each.due_ms > self.now_ms)

    def refusal(self, each: Any, operation: Operation) -> type[PenstockError] | None:
        rules = self.model.rules[each.queue]
        if operation is Operation.RELEASE and not self.is_in_flight(each) and self.is_delayed(each):
            return NotPossible if rules.delay_ms >= rules.retention_ms else None
        return super().refusal(each, operation)

    def is_delayed(self, each: Any) -> bool:
        return bool(self.model.is_delayed(each, self.now_ms))

    def show(self, each: Any) -> None:
        if self.is_delayed(each):
            each.enqueued_ms = self.now_ms - self.model.rules[each.queue].delay_ms
        each.due_ms = 0

    def kill(self, each: Any) -> None:
        self.model.dead_letter(each, self.dead, name_of(self.work).arn, self.now_ms)

    def arrive(self, each: Any) -> None:
        each.due_ms, each.sequence = 0, sequence_of(self.row(each).position)

    def edit_refusal(self, each: Any, changed: dict[str, Any]) -> type[PenstockError] | None:
        return NotPossible if "delay_ms" in changed or changed.get("group") == "" else None

    @rule(which=any_one, other=any_one, to=st.sampled_from(["front", "back", "before"]))
    @free_hands
    def reorder(self, which: int, other: int, to: str) -> None:
        each = self.choose(which)
        if each is None:
            return
        messages, queue = self.model.messages, self.world.queue(each.queue)
        of_queue = self.model.of(each.queue)
        before = of_queue[other % len(of_queue)]
        seq, editing = self.row(each).seq, self.world.broker.partition_of(queue).editing
        if to == "before":
            doing = editing.move_before(queue, seq, self.row(before).seq)
        else:
            doing = (editing.move_to_front if to == "front" else editing.move_to_back)(queue, seq)
        if self.is_in_flight(each):
            with pytest.raises(MessageInFlight):
                self.world.do(doing)
        else:
            self.world.do(doing)
            if to != "before" or before is not each:
                messages.remove(each)
                places = {"front": 0, "back": len(messages)}
                messages.insert(places[to] if to in places else messages.index(before), each)
            each.sequence = sequence_of(self.row(each).position)
        self.settle()


class TinyEditedStandardHistory(EditedStandardHistory):
    limits = msgspec.structs.replace(TINY, new_place_after_receives=2)


class TinyEditedFifoHistory(EditedFifoHistory):
    limits = TINY


class TestEditedStandardHistory(EditedStandardHistory.TestCase):  # type: ignore[misc, valid-type]
    settings = HISTORIES


class TestTinyEditedStandardHistory(TinyEditedStandardHistory.TestCase):  # type: ignore[misc, valid-type]
    settings = HISTORIES


class TestEditedFifoHistory(EditedFifoHistory.TestCase):  # type: ignore[misc, valid-type]
    settings = HISTORIES


class TestTinyEditedFifoHistory(TinyEditedFifoHistory.TestCase):  # type: ignore[misc, valid-type]
    settings = HISTORIES


def test_a_message_before_those_in_flight_goes_out_although_memory_is_short() -> None:
    """It was moved there, and memory is filled with those in flight first."""
    history = TinyEditedFifoHistory()
    history.open(seed=0, shuffled=False)
    history.send(messages=[("a", None), ("b", None), ("a", None), ("a", None), ("a", None)], which="dead")
    history.send(messages=[("a", None), ("a", None)], which="work")
    history.send(messages=[("a", None)], which="work")
    history.rush(deletes=[], receives=1, sends=["a"], steps=0, which="work")
    history.reorder(other=0, to="front", which=6497)
    history.receive(count=1, visibility_ms=None, which="work")
    history.teardown()


def test_a_message_before_those_in_flight_goes_out_although_memory_has_as_many_groups_as_it_may() -> None:
    history = TinyEditedFifoHistory()
    history.open(seed=0, shuffled=False)
    history.send(messages=[*[("a", None)] * 7, ("b", None)], which="work")
    history.send(messages=[("c", None)], which="work")
    history.wait(pause_ms=0, visibility_ms=None, which="work")
    history.reorder(other=0, to="front", which=1)
    history.receive(count=1, visibility_ms=None, which="work")
    history.teardown()
