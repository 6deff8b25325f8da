"""The shard alone: its journal, records, participants, and commits whose outcome is unknown."""

from __future__ import annotations

from collections.abc import Callable, Set

import msgspec
import pytest

from penstock.broker.shard import Commit, Shard
from penstock.errors import (
    DataRefused,
    StoreAway,
    StoreBroken,
    StoreClosed,
    StoreError,
    StoreLost,
    StoreUnknown,
)
from penstock.limits import SECOND, Limits
from penstock.promise import Promise, run_detached
from penstock.queues.messages import Entry
from penstock.store.changes import Changes, RecordKind
from penstock.store.memory import MemoryStore
from penstock.store.moving import left_out
from penstock.store.port import JournalEnd, Mark, StoreStatus
from penstock.testing.clock import ManualClock
from penstock.testing.runtime import SimulatedRuntime
from support.texts import says


class Alarm(msgspec.Struct, frozen=True):
    threshold: int


ALARMS = RecordKind("alarm", Alarm, left_out)


class Faulty(MemoryStore):
    """Does with the next commit what a test says, and cannot be asked for its end as often."""

    def __init__(self) -> None:
        super().__init__()
        self.next: Callable[[Callable[[], Set[int]]], Set[int]] | None = None
        self.silent = 0
        self.away: str | None = None

    def status(self) -> StoreStatus:
        return StoreStatus(self.away, is_away=self.away is not None)

    def append(self, changes: Changes, mark: Mark) -> Set[int]:
        def append() -> Set[int]:
            return MemoryStore.append(self, changes, mark)

        way, self.next = self.next, None
        return append() if way is None else way(append)

    def end(self) -> JournalEnd:
        if self.silent:
            self.silent -= 1
            raise StoreError("no answer")
        return super().end()


class Queue:
    """A participant that records how it is called."""

    def __init__(self, calls: list[str], name: str = "q") -> None:
        self.calls = calls
        self.name = name

    def committed(self, arrived: list[Entry], now_ms: int) -> None:
        self.calls.append(f"{self.name} {[entry.seq for entry in arrived]}")

    def refused(self) -> None:
        self.calls.append(f"{self.name} refused")


class Setup:
    def __init__(self) -> None:
        self.store = Faulty()
        self.clock = ManualClock()
        self.ended: list[StoreError] = []
        self.undone: list[tuple[str, Alarm | None]] = []
        self.open()

    def open(self) -> None:
        self.runtime = SimulatedRuntime(self.clock)
        self.shard = Shard(
            self.store, self.runtime, self.clock, Limits(), self.store.open(), self.ended.append
        )
        self.alarms = self.shard.table(ALARMS, lambda key, alarm: self.undone.append((key, alarm)))

    def put(self, key: str, threshold: int) -> Promise[None]:
        self.alarms.put(key, Alarm(threshold))
        return self.shard.settled()

    def run(self) -> None:
        self.runtime.run_until_idle()

    def outcome(self, promise: Promise[None]) -> str:
        assert promise.done
        try:
            promise.result()
        except StoreError as error:
            return type(error).__name__
        return "durable"


@pytest.fixture
def setup() -> Setup:
    return Setup()


def refuse(append: Callable[[], Set[int]]) -> Set[int]:
    raise StoreError("refused")


def lose_the_answer(append: Callable[[], Set[int]]) -> Set[int]:
    append()
    raise StoreUnknown("the connection was lost")


def lose_the_question(append: Callable[[], Set[int]]) -> Set[int]:
    raise StoreUnknown("the connection was lost")


# -- records -------------------------------------------------------------------------------------------------


def test_a_new_kind_of_record_needs_a_struct_and_a_name(setup: Setup) -> None:
    saved = setup.put("cpu", 90), setup.put("disk", 80)
    assert setup.alarms.get("cpu") == Alarm(90)
    setup.run()
    assert [setup.outcome(each) for each in saved] == ["durable", "durable"]
    setup.alarms.remove("disk")
    setup.put("cpu", 95)
    setup.run()
    setup.open()
    assert list(setup.alarms) == [("cpu", Alarm(95))]
    assert len(setup.alarms) == 1


def test_requests_are_answered_even_if_work_after_the_commit_fails(
    setup: Setup, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(commit: Commit) -> None:
        raise RuntimeError("a bug")

    setup.shard.watch(fail)
    first = setup.put("cpu", 90)
    setup.run()
    second = setup.put("cpu", 95)
    setup.run()
    assert [setup.outcome(each) for each in (first, second)] == ["durable", "durable"]
    says(caplog.text, "after a commit failed")


@pytest.mark.parametrize("touches", [True, False])
def test_what_is_done_when_durable_is_done_at_once_if_nothing_changed(setup: Setup, touches: bool) -> None:
    calls: list[str] = []
    if touches:
        setup.shard.touch(Queue(calls))
    setup.shard.open_commit.when_durable.append(lambda commit: calls.append("counted"))
    settled = setup.shard.settled()
    assert calls == []
    setup.run()
    assert (calls, setup.outcome(settled), setup.shard.commits) == (["counted"], "durable", 0)


def test_a_refused_commit_puts_records_back(setup: Setup) -> None:
    setup.put("cpu", 90)
    setup.put("disk", 80)
    setup.run()
    setup.store.next = refuse
    failed = [setup.put("cpu", 1)]
    setup.alarms.remove("disk")
    setup.runtime.writer.paused = True
    setup.run()
    failed.append(setup.put("cpu", 2))  # decided while the commit before it is written
    setup.put("new", 3)
    setup.put("disk", 4)
    setup.runtime.writer.paused = False
    setup.run()
    assert [setup.outcome(each) for each in failed] == ["StoreError", "StoreError"]
    assert dict(setup.alarms) == {"cpu": Alarm(90), "disk": Alarm(80)}
    assert dict(setup.undone) == {"cpu": Alarm(90), "disk": Alarm(80), "new": None}
    assert setup.undone[-1] in [("cpu", Alarm(90)), ("disk", Alarm(80))], "the last word is the first state"
    assert set(setup.store.records("alarm")) == {"cpu", "disk"}
    assert setup.ended == []


# -- participants --------------------------------------------------------------------------------------------


def test_answers_leave_when_all_participants_were_told(setup: Setup) -> None:
    calls: list[str] = []
    first, second = Queue(calls, "first"), Queue(calls, "second")
    waiting: Promise[str] = Promise()
    waiting.on_done(lambda answer: calls.append(answer.result()))

    class Serving(Queue):
        def committed(self, arrived: list[Entry], now_ms: int) -> None:
            super().committed(arrived, now_ms)
            setup.shard.answer(waiting, "poll answered")

    serving = Serving(calls, "serving")
    entry = Entry(setup.shard.next_number(), setup.shard.next_position(), None, 0, content=b"content")
    setup.shard.changes.add(1, entry)
    setup.shard.joining(serving).append(entry)
    setup.shard.touch(first)
    setup.shard.touch(second)
    setup.shard.settled().on_done(lambda _: calls.append("send answered"))
    setup.shard.watch(lambda commit: calls.append(f"watcher {commit.changes.number}"))
    setup.run()
    assert calls == [
        "serving [1]", "first []", "second []", "watcher 1", "poll answered", "send answered",
    ]  # fmt: skip
    setup.shard.answer(later := Promise[str](), "at once")
    assert later.done


def test_a_participant_that_fails_loads_its_memory_again(setup: Setup) -> None:
    calls: list[str] = []

    class Failing(Queue):
        def committed(self, arrived: list[Entry], now_ms: int) -> None:
            raise ValueError("a bug")

    setup.shard.touch(Failing(calls, "failing"))
    setup.shard.touch(Queue(calls))
    saved = setup.put("cpu", 1)
    setup.run()
    assert calls == ["failing refused", "q []"]
    assert setup.outcome(saved) == "durable"


def test_an_answer_that_leans_on_a_commit_waits_for_it_without_changes_of_its_own(setup: Setup) -> None:
    setup.runtime.writer.paused = True
    saved = setup.put("cpu", 1)
    setup.run()
    setup.shard.joining(Queue([]))  # as a duplicate send does
    leaning = setup.shard.settled()
    setup.run()
    assert not saved.done
    assert not leaning.done
    setup.runtime.writer.paused = False
    setup.run()
    assert [setup.outcome(each) for each in (saved, leaning)] == ["durable", "durable"]
    assert setup.store.end().number == 1


# -- unknown outcomes and the end ----------------------------------------------------------------------------


@pytest.mark.parametrize("silent", [1, 3])
@pytest.mark.parametrize(
    ("way", "expected"), [(lose_the_answer, "durable"), (lose_the_question, "StoreError")]
)
def test_the_journal_settles_an_unknown_outcome(
    setup: Setup, way: Callable[[Callable[[], Set[int]]], Set[int]], expected: str, silent: int
) -> None:
    setup.store.next, setup.store.silent = way, silent
    saved = setup.put("cpu", 90)
    setup.run()
    assert not saved.done
    later = setup.put("disk", 80)
    setup.runtime.advance(silent * SECOND)
    setup.run()
    assert setup.outcome(saved) == expected
    assert setup.outcome(later) == expected, "what was decided on top of it shares its fate"
    kept = {"cpu", "disk"} if expected == "durable" else set()
    assert set(dict(setup.alarms)) == set(setup.store.records("alarm")) == kept
    setup.put("next", 70)
    setup.run()
    assert set(setup.store.records("alarm")) == kept | {"next"}
    assert setup.ended == []


@pytest.mark.parametrize("way", [lose_the_answer, lose_the_question])
def test_requests_do_not_wait_for_long_for_an_unknown_outcome(
    setup: Setup, way: Callable[[Callable[[], Set[int]]], Set[int]]
) -> None:
    calls: list[str] = []
    setup.put("before", 1)
    setup.run()
    setup.shard.watch(lambda commit: calls.append(f"watcher {commit.changes.number}"))
    setup.store.next, setup.store.silent = way, 10
    setup.shard.touch(Queue(calls, "first"))
    saved = setup.put("cpu", 90)
    setup.run()
    setup.shard.touch(Queue(calls, "later"))
    later = setup.put("disk", 80)
    setup.runtime.advance(4 * SECOND)
    assert not saved.done
    assert not later.done
    setup.runtime.advance(2 * SECOND)
    assert [setup.outcome(each) for each in (saved, later)] == ["StoreUnknown", "StoreAway"]
    assert setup.outcome(setup.put("too late", 70)) == "StoreAway", "at once"
    for check in (setup.shard.check_sends, setup.shard.check_not_ended):
        with pytest.raises(StoreAway, match="no answer"):
            check()
    setup.runtime.advance(20 * SECOND)
    made = way is lose_the_answer
    assert sorted(calls) == ["first refused", "later refused"] + ["watcher 2"] * made, (
        "they load what is stored"
    )
    kept = {"before", "cpu"} if made else {"before"}
    assert set(dict(setup.alarms)) == set(setup.store.records("alarm")) == kept
    setup.shard.check_sends()
    setup.shard.check_not_ended()
    assert setup.shard.refuses is None
    again = setup.put("disk", 80)
    setup.run()
    assert setup.outcome(again) == "durable"
    assert set(setup.store.records("alarm")) == kept | {"disk"}
    assert setup.ended == []


def test_a_shard_with_an_unknown_outcome_can_be_given_back(setup: Setup) -> None:
    setup.store.next, setup.store.silent = lose_the_question, 10**6
    setup.put("cpu", 90)
    setup.runtime.advance(10 * SECOND)
    drained: Promise[None] = Promise()

    async def drain() -> None:
        await setup.shard.drained()
        drained.resolve(None)

    run_detached(drain())
    setup.run()
    assert drained.done


def test_sends_are_refused_while_the_store_is_away(setup: Setup) -> None:
    def away(append: Callable[[], Set[int]]) -> Set[int]:
        raise StoreAway("the database cannot be reached")

    setup.store.next, setup.store.away = away, "the database cannot be reached: connection refused"
    failed = setup.put("cpu", 90)
    setup.run()
    assert setup.outcome(failed) == "StoreAway"
    setup.runtime.advance(10 * SECOND)
    assert setup.shard.refuses == "the database cannot be reached: connection refused"
    with pytest.raises(StoreAway):
        setup.shard.check_sends()
    setup.store.away = None
    setup.runtime.advance(2 * SECOND)
    setup.shard.check_sends()


def test_a_commit_may_have_been_made_before_another_took_the_shard(setup: Setup) -> None:
    setup.store.next = lose_the_answer
    saved = setup.put("cpu", 90)

    def take(outcome: Callable[[], JournalEnd] = setup.store.end) -> JournalEnd:
        return JournalEnd(outcome().number, b"another")

    setup.store.end = take  # type: ignore[method-assign]
    setup.run()
    assert setup.outcome(saved) == "StoreUnknown", "not that nothing was changed"
    assert [type(error) for error in setup.ended] == [StoreLost]


@pytest.mark.parametrize("error", [StoreLost("taken"), StoreClosed("closed"), StoreBroken("fsync failed")])
def test_a_commit_may_have_been_made_if_the_journal_can_never_be_read(
    setup: Setup, error: StoreError
) -> None:
    """A database behaves like this: the next owner has the journal, or the lease ended and the shard was dropped."""
    setup.store.next = lose_the_answer
    saved = setup.put("cpu", 90)

    def refuse_to_tell() -> JournalEnd:
        later.append(setup.put("disk", 80))
        raise error

    later: list[Promise[None]] = []
    setup.store.end = refuse_to_tell  # type: ignore[method-assign]
    setup.run()
    assert setup.outcome(saved) == "StoreUnknown", "not that nothing was changed"
    assert setup.outcome(later[0]) == type(error).__name__, "of this nothing was sent"


def test_an_unknown_outcome_of_a_shard_that_another_has_taken(setup: Setup) -> None:
    setup.store.next = lose_the_question
    saved = setup.put("cpu", 90)
    setup.store.open()  # by another process
    setup.run()
    assert setup.outcome(saved) == "StoreLost"
    assert [type(error) for error in setup.ended] == [StoreLost]


@pytest.mark.parametrize("error", [StoreLost("taken"), StoreBroken("fsync failed")])
def test_a_shard_that_has_ended_takes_nothing_more(setup: Setup, error: StoreError) -> None:
    calls: list[str] = []

    def fail(append: Callable[[], Set[int]]) -> Set[int]:
        raise error

    setup.store.next = fail
    setup.shard.touch(Queue(calls))
    outcomes = [setup.put("cpu", 1)]
    setup.run()
    outcomes.append(setup.put("cpu", 2))
    setup.run()
    assert [setup.outcome(each) for each in outcomes] == [type(error).__name__] * 2
    assert setup.ended == [error], "the owner of the shard is notified once"
    assert setup.store.end().number == 0
    with pytest.raises(type(error)):
        setup.shard.check_not_ended()
    assert len(setup.alarms) == 0


def test_damage_found_by_a_read_ends_the_shard(setup: Setup) -> None:
    def read() -> None:
        raise StoreBroken("the file is damaged")

    found = setup.shard.read(read)
    setup.run()
    with pytest.raises(StoreBroken):
        found.result()
    assert [type(error) for error in setup.ended] == [StoreBroken]


# -- data that the store refuses -------------------------------------------------------------------------------


class Picky(Faulty):
    """Refuses every commit with a record whose key has a NUL, as PostgreSQL does."""

    def append(self, changes: Changes, mark: Mark) -> Set[int]:
        if any("\0" in key for _, key in changes.records):
            raise DataRefused("a key has a NUL")
        return super().append(changes, mark)


@pytest.fixture
def picky() -> Setup:
    setup = Setup()
    setup.store = Picky()
    setup.open()
    return setup


def join(setup: Setup, queue: Queue) -> Promise[None]:
    """A message is sent to a queue."""
    number = setup.shard.next_number()
    entry = Entry(number, number, None, 0, content=b"content")
    setup.shard.changes.add(1, entry)
    setup.shard.joining(queue).append(entry)
    return setup.shard.settled(queue)


def test_after_refused_data_each_request_has_a_commit_of_its_own(picky: Setup) -> None:
    calls: list[str] = []
    queue = Queue(calls)
    together = [join(picky, queue), picky.put("a\0b", 1), picky.put("fine", 1)]
    picky.run()
    assert [picky.outcome(each) for each in together] == ["DecideAgain"] * 3
    assert calls == ["q refused"]
    again = [join(picky, queue), picky.put("a\0b", 1), picky.put("fine", 1)]
    picky.run()
    assert [picky.outcome(each) for each in again] == ["durable", "DataRefused", "DecideAgain"]
    fine = picky.put("fine", 1)
    picky.run()
    assert picky.outcome(fine) == "durable"
    assert dict(picky.alarms) == {"fine": Alarm(1)}
    assert list(picky.store.records("alarm")) == ["fine"]


def test_what_does_not_rest_on_refused_data_is_written(picky: Setup) -> None:
    calls: list[str] = []
    one, other = Queue(calls, "one"), Queue(calls, "other")
    picky.put("a\0b", 1)
    picky.run()
    before = picky.store.end().number
    # The first and the last are about one queue; the second waits behind the refused one, but has nothing of it.
    picky.alarms.put("a\0b", Alarm(1))
    refused, stays, rests = join(picky, one), join(picky, other), join(picky, one)
    leans = picky.shard.settled(other)
    last = join(picky, other)
    picky.run()
    outcomes = [picky.outcome(each) for each in (refused, stays, rests, leans, last)]
    assert outcomes == ["DataRefused", "durable", "DecideAgain", "durable", "durable"]
    assert sorted(calls) == ["one refused", "other [2]", "other [4]"]
    assert picky.store.end().number == before + 4, "empty commits took the places of the refused ones"
    assert picky.store.usage()[1].messages == 2
    assert picky.shard.changes.durable == before + 4
    assert picky.shard.refused_commit is None


def test_requests_share_commits_again_some_time_after_the_last_refused_data(picky: Setup) -> None:
    def commits_of_two() -> int:
        before = picky.shard.commits
        picky.put("a", 1)
        picky.put("b", 1)
        picky.run()
        return picky.shard.commits - before

    assert commits_of_two() == 1
    picky.put("a\0b", 1)
    picky.run()
    assert commits_of_two() == 2
    picky.runtime.advance(6 * SECOND)
    picky.put("a\0b", 1)
    picky.run()
    picky.runtime.advance(6 * SECOND)
    assert commits_of_two() == 2
    picky.runtime.advance(5 * SECOND)
    assert commits_of_two() == 1


def test_commits_that_wait_behind_refused_data_share_the_fate_of_the_store(picky: Setup) -> None:
    calls: list[str] = []
    one, other = Queue(calls, "one"), Queue(calls, "other")
    picky.put("a\0b", 1)
    picky.run()
    refused, stays, open_one = picky.put("a\0b", 1), join(picky, one), join(picky, other)
    picky.runtime.step()
    picky.store.away = "away"
    picky.store.next = lose_the_question
    picky.store.silent = 10
    picky.run()
    picky.runtime.advance(6 * SECOND)
    assert [picky.outcome(each) for each in (refused, stays, open_one)] == [
        "DataRefused",
        "StoreAway",
        "StoreAway",
    ]
    picky.store.away, picky.store.silent = None, 0
    picky.runtime.advance(2 * SECOND)
    done = join(picky, one)
    picky.run()
    assert picky.outcome(done) == "durable"
    assert picky.store.usage()[1].messages == 1
