"""Internal queues: jobs survive crashes, are tried again, given up, and are shown to operators only."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Set
from typing import Any

import msgspec
import pytest

from penstock.broker.internal_queue_status import (
    InternalQueuePlace,
    InternalQueuesQuestion,
    InternalQueueStatus,
)
from penstock.broker.internal_queues import Job, JobKind, JobQueues
from penstock.broker.partition import Partition
from penstock.errors import DataRefused, JobFailed, JobLost, StoreAway, StoreBusy, StoreUnknown
from penstock.limits import DAY, HOUR, MINUTE, Limits
from penstock.names import Home, Space
from penstock.promise import Promise
from penstock.queues.messages import decode_content
from penstock.store.changes import Changes
from penstock.store.port import LAST, JournalEnd, Mark, Selection
from support.world import ROOMY, SECOND, TINY, UNMETERED, World, name_of, outgoing


class Errand(msgspec.Struct):
    number: int


SPACE, OTHER = Space("111111111111", "eu-west-1"), Space("222222222222", "eu-west-1")
HOME = Home.of("errands")
PAUSES_MS = (SECOND, 5 * SECOND)
AGE_MS_MAX = HOUR
ERRANDS = JobKind(
    "errands",
    Errand,
    pauses_ms=PAUSES_MS,
    visibility_ms=30 * SECOND,
    running_max=2,
    waiting_max=5,
    age_ms_max=AGE_MS_MAX,
)


class Errands(World):
    """A broker with one kind of jobs."""

    def __init__(self, kind: JobKind[Errand] = ERRANDS, limits: Limits = ROOMY) -> None:
        self.kind = kind
        self.done: list[tuple[int, int]] = []  # number and attempt
        self.given_up: list[tuple[int, str]] = []
        self.failures: dict[int, JobFailed] = {}
        self.hanging: dict[int, Promise[None]] = {}
        self.bug: dict[int, Exception] = {}
        self.put_off: dict[int, int] = {}
        self.fail_to_give_up = False
        self.tries: list[tuple[int, int]] = []
        self.begun: list[Job[Errand]] = []
        super().__init__(limits)

    def _new_broker(self):  # type: ignore[no-untyped-def]
        broker = super()._new_broker()
        broker.extend(self._jobs_of)
        return broker

    def _jobs_of(self, partition: Partition) -> JobQueues[Errand]:
        self.jobs = JobQueues(partition, self.kind, self._handle, self._give_up)
        return self.jobs

    async def _handle(self, job: Job[Errand]) -> None:
        number = job.payload.number
        self.tries.append((number, job.attempt))
        self.begun.append(job)
        hanging = self.hanging.get(number)
        if hanging is not None:
            await hanging
        if number in self.put_off:
            job.put_off(self.put_off[number])
            return
        if number in self.bug:
            raise self.bug[number]
        if number in self.failures:
            raise self.failures[number]
        self.done.append((number, job.attempt))

    def _give_up(self, job: Job[Errand], reason: str) -> None:
        if self.fail_to_give_up:
            raise self.bug[job.payload.number]
        self.given_up.append((job.payload.number, reason))

    def _no_bugs(self) -> None:
        self.bugs[:] = [bug for bug in self.bugs if bug not in self.bug.values()]
        super()._no_bugs()

    def add(
        self,
        number: int,
        space: Space = SPACE,
        group: str | None = None,
        *,
        home: Home = HOME,
        delay_ms: int = 0,
    ) -> bool:
        if group is None and self.kind.ordered:
            group = str(number)
        added = self.jobs.add(home, space, group, Errand(number), delay_ms)
        self.run()
        return added

    def shown(self, rows_max: int = 10, after: InternalQueuePlace | None = None) -> list[InternalQueueStatus]:
        return self.do(self.broker.ask(InternalQueuesQuestion(rows_max, after)))

    def waiting(self) -> int:
        return sum(usage.messages for usage in self.store.usage().values())


@pytest.fixture
def world() -> Iterator[Errands]:
    with Errands() as world:
        yield world


def test_a_job_is_done_once(world: Errands) -> None:
    assert world.add(1)
    assert (world.done, world.waiting()) == ([(1, 1)], 0)
    world.advance(HOUR)
    world.crash()
    world.advance(HOUR)
    assert world.done == [(1, 1)]


class Parcel(Errand):
    content: str


@pytest.mark.parametrize("ordered", [True, False])
def test_jobs_leave_memory_when_it_is_short_and_are_done_all_the_same(ordered: bool) -> None:
    numbers = range(300)
    kind: JobKind[Any] = JobKind(
        "errands", Parcel, pauses_ms=PAUSES_MS, visibility_ms=30 * SECOND, running_max=1, ordered=ordered
    )
    with Errands(kind) as world:
        world.hanging[0] = Promise()
        for number in numbers:
            world.jobs.add(HOME, SPACE, "group" if ordered else None, Parcel(number, "x" * 5000))
            world.run()
        budget = world.broker.budget
        all_bytes = budget.used
        assert all_bytes > 300 * 5000
        budget.bytes_max = 500_000
        world.create("q")
        for _ in range(5):  # the memory is relieved with commits
            world.send("q", "x")
            world.advance(SECOND)
        assert budget.used < all_bytes // 2
        world.hanging[0].resolve(None)
        world.run()
        assert [number for number, _ in world.done] == list(numbers)


def test_a_job_that_fails_is_tried_again_after_each_pause_and_then_given_up(world: Errands) -> None:
    world.failures[1] = JobFailed("no answer", can_repeat=True)
    world.add(1)
    world.advance(PAUSES_MS[0] + PAUSES_MS[1] - 1)
    assert (world.given_up, world.waiting()) == ([], 1)
    world.advance(1)
    assert (world.given_up, world.waiting()) == ([(1, "no answer")], 0)


def test_a_job_that_cannot_succeed_is_given_up_at_once(world: Errands) -> None:
    world.failures[1] = JobFailed("it is gone")
    world.add(1)
    assert (world.given_up, world.waiting()) == ([(1, "it is gone")], 0)


def test_a_job_that_failed_leaves_no_garbage(world: Errands) -> None:
    """Cycles are collected seldom, and the payload of a job may be large."""
    world.run()
    gc.collect()
    gc.disable()
    try:
        for number in range(20):
            world.failures[number] = JobFailed("it is gone")
            world.add(number)
        world.begun.clear()
        world.failures.clear()
        left = [each for each in gc.get_objects() if isinstance(each, Job)]
    finally:
        gc.enable()
    assert len(world.given_up) == 20
    assert len(left) < 3, "the last one may be at hand"


def test_the_number_of_tries_survives_a_crash(world: Errands) -> None:
    world.failures[1] = JobFailed("no answer", can_repeat=True)
    world.add(1)
    world.crash()
    del world.failures[1]
    world.advance(PAUSES_MS[0])
    assert world.done == [(1, 2)]


def test_a_job_that_a_crash_interrupts_is_tried_again_when_it_becomes_visible(world: Errands) -> None:
    world.hanging[1] = Promise()
    world.add(1)
    world.crash()
    world.hanging.clear()
    world.advance(ERRANDS.visibility_ms - 1)
    assert world.done == []
    world.advance(1)
    assert world.done == [(1, 2)]


def test_a_job_of_a_refused_commit_is_none(world: Errands) -> None:
    world.refuse_next_commit()
    world.add(1)
    assert (world.done, world.waiting()) == ([], 0)
    world.add(2)
    assert world.done == [(2, 1)]


def test_a_job_that_waits_too_long_is_given_up(world: Errands) -> None:
    world.failures[1] = JobFailed("not now", can_repeat=True, pause_ms=AGE_MS_MAX + 1)
    world.add(1, group="g")
    world.add(2, group="g")
    world.advance(AGE_MS_MAX)
    assert world.given_up == []
    world.advance(1)
    assert [number for number, _ in world.given_up] == [1, 2], "in their order"
    assert (world.done, world.waiting()) == ([], 0)


def test_an_unexpected_error_counts_as_a_try(world: Errands) -> None:
    world.bug[1] = KeyError("a bug")
    world.add(1, group="g")
    world.add(2, group="g")
    world.advance(sum(PAUSES_MS))
    assert world.given_up == [(1, "an internal error: KeyError")]
    assert world.done == [(2, 1)], "others of its group go on"


def test_the_stored_form_of_a_job_has_a_version(world: Errands) -> None:
    world.hanging[1] = Promise()
    world.add(1, group="g")
    (queue,) = world.broker.partition(0).catalogue.internal("errands")
    (row,) = world.store.select(Selection(queue.id), rows_max=LAST)
    body = decode_content(world.store.contents([row.seq])[row.seq]).body
    assert msgspec.json.decode(body) == [0, world.clock.now_ms(), {"number": 1}, 1]


def test_a_job_without_a_version_is_the_first_one(world: Errands) -> None:
    world.add(1, group="g")
    (queue,) = world.broker.partition(0).catalogue.internal("errands")
    world.jobs.delivery.enqueue(queue, f'[2, {world.clock.now_ms()}, {{"number": 2}}]', "g")
    world.add(3, group="g")
    assert world.done == [(1, 1), (2, 3), (3, 1)]


def test_a_job_that_cannot_be_read_is_dropped(world: Errands) -> None:
    world.add(1, group="g")
    (queue,) = world.broker.partition(0).catalogue.internal("errands")
    world.jobs.delivery.enqueue(queue, '[0, 0, {"number": "one"}]', "g")
    world.add(2, group="g")
    assert (world.done, world.waiting()) == ([(1, 1), (2, 1)], 0)


def test_a_job_that_ends_the_process_is_given_up(world: Errands) -> None:
    world.hanging[1] = Promise()
    world.add(1)
    for _ in range(len(PAUSES_MS) + 1 + 3):
        assert world.given_up == []
        world.crash()
        world.advance(ERRANDS.visibility_ms)
    assert world.given_up == [(1, "all tries were interrupted")]
    assert world.waiting() == 0


def test_giving_up_cannot_fail(world: Errands) -> None:
    world.bug[1] = KeyError("a bug")
    world.fail_to_give_up = True
    world.add(1)
    world.advance(sum(PAUSES_MS))
    assert world.waiting() == 0


def test_a_try_that_takes_long_stays_the_only_one(world: Errands) -> None:
    world.hanging[1] = Promise()
    world.add(1)
    world.advance(3 * ERRANDS.visibility_ms)
    assert world.tries == [(1, 1)]
    world.hanging.pop(1).resolve(None)
    world.run()
    assert (world.done, world.waiting()) == ([(1, 1)], 0)


@pytest.mark.parametrize("fails", [False, True])
def test_what_becomes_of_a_job_is_decided_although_its_memory_was_thrown_away(
    world: Errands, fails: bool
) -> None:
    world.hanging[1] = Promise()
    if fails:
        world.failures[1] = JobFailed("it is gone")
    world.add(1)
    world.broker.keys_changed()
    world.hanging.pop(1).resolve(None)
    world.run()
    assert (world.tries, world.waiting()) == ([(1, 1)], 0)
    assert len(world.given_up) == fails


def test_a_try_that_has_lost_its_job_decides_nothing(world: Errands) -> None:
    first = world.hanging[1] = Promise()
    world.add(1)
    job = world.begun[-1]
    world.hanging[1] = Promise()
    job._queue.settle(job._message.handle, 0)  # as if its visibility timeout had not been extended
    world.run()
    assert world.tries == [(1, 1), (1, 2)]
    world.failures[1] = JobFailed("it is gone")
    first.resolve(None)
    world.run()
    assert (world.given_up, world.waiting()) == ([], 1)
    with pytest.raises(JobLost):
        job.check_held()
    del world.failures[1]
    world.hanging.pop(1).resolve(None)
    world.run()
    assert (world.done, world.waiting()) == ([(1, 2)], 0)


def test_a_commit_of_the_end_that_is_refused_repeats_the_try_only(world: Errands) -> None:
    world.hanging[1] = Promise()
    world.add(1)
    world.refuse_next_commit(StoreBusy("the disk is slow"))
    world.hanging.pop(1).resolve(None)
    world.run()
    assert (world.done, world.waiting()) == ([(1, 1)], 1)
    world.advance(SECOND)
    assert (world.done, world.waiting()) == ([(1, 1), (1, 1)], 0)


def test_a_busy_store_uses_up_no_tries(world: Errands) -> None:
    world.bug[1] = StoreBusy("the disk is slow")
    world.add(1)
    world.advance(10 * MINUTE)
    assert len(world.tries) > 10
    del world.bug[1]
    world.advance(MINUTE)
    assert world.done == [(1, 1)]


def test_a_handler_can_put_a_job_off(world: Errands) -> None:
    world.put_off[1] = MINUTE
    world.add(1)
    world.advance(MINUTE - 1)
    assert (world.done, world.waiting()) == ([], 1)
    del world.put_off[1]
    world.advance(1)
    assert (world.done, world.waiting()) == ([(1, 2)], 0)


def test_a_job_is_put_off_for_as_long_as_a_message_can_be_hidden() -> None:
    """The work is a part of the time: twelve hours from the receive on."""
    kind = JobKind("errands", Errand, pauses_ms=(SECOND,), visibility_ms=30 * SECOND)
    with Errands(kind, UNMETERED) as world:
        world.hanging[1], world.put_off[1] = Promise(), 20 * HOUR
        world.add(1)
        world.advance(2 * HOUR)
        world.hanging.pop(1).resolve(None)
        world.advance(9 * HOUR - 1)
        assert world.tries == [(1, 1)]
        world.advance(HOUR)
        assert world.tries == [(1, 1), (1, 2)]


def test_a_try_that_takes_longer_than_a_message_can_be_hidden_loses_its_job(
    caplog: pytest.LogCaptureFixture,
) -> None:
    kind = JobKind("errands", Errand, pauses_ms=(SECOND,), visibility_ms=30 * SECOND)
    with Errands(kind, UNMETERED) as world:
        first = world.hanging[1] = Promise()
        world.add(1)
        world.advance(12 * HOUR - MINUTE)
        assert world.tries == [(1, 1)]
        del world.hanging[1]
        world.advance(2 * MINUTE)
        assert (world.done, world.waiting()) == ([(1, 2)], 0)
        first.resolve(None)
        world.run()
        assert (world.given_up, world.waiting()) == ([], 0)


def test_a_handler_can_choose_the_pause(world: Errands) -> None:
    world.failures[1] = JobFailed("come later", can_repeat=True, pause_ms=MINUTE)
    world.add(1)
    world.advance(MINUTE - 1)
    assert world.tries == [(1, 1)]
    world.advance(1)
    assert world.tries == [(1, 1), (1, 2)]
    world.advance(HOUR)
    assert world.given_up == [(1, "come later")], "there are not more tries than the kind has"


def test_the_end_of_a_shard_is_no_failure_of_its_jobs(
    world: Errands, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged: list[Any] = []
    monkeypatch.setattr("penstock.promise.log.error", lambda *line, **_: logged.append(line))
    monkeypatch.setattr("penstock.broker.internal_queues.log.warning", lambda *line: logged.append(line))
    for number in (1, 2):
        world.hanging[number] = Promise()
        world.add(number)
    world.failures[2] = JobFailed("the server stops")
    closed = world.start(world.broker.close_shard(0))
    world.run()
    for number in (1, 2):
        world.hanging.pop(number).resolve(None)
    world.run()
    assert closed.done
    assert (world.given_up, logged) == ([], [])


@pytest.mark.parametrize("ends", ["given back", "stopped"])
def test_a_shard_ends_while_an_internal_queue_is_loaded(world: Errands, ends: str) -> None:
    """The queue has jobs that were put off only: without the end, it would be waited for them."""
    world.put_off[1] = HOUR
    world.add(1)
    world.store.close()
    world._open()
    world.runtime.reader.paused = True
    world.run()
    ended = world.start(world.broker.close_shard(0) if ends == "given back" else world.broker.stop())
    world.run()
    (consumer,) = world.jobs.consumers
    world.runtime.reader.paused = False
    world.run()
    assert ended.done
    assert not consumer.queue.waiting


def test_jobs_of_a_group_are_done_one_after_the_other(world: Errands) -> None:
    world.failures[1] = JobFailed("no answer", can_repeat=True)
    world.add(1, group="g")
    world.add(2, group="g")
    world.add(3)
    assert world.done == [(3, 1)]
    del world.failures[1]
    world.advance(PAUSES_MS[0])
    assert world.done == [(3, 1), (1, 2), (2, 1)]


def test_each_account_has_its_share_of_places(world: Errands) -> None:
    """One account has as many calls without an answer as may run at a time: its others wait, those of another account
    do not."""
    for number in (1, 2):
        world.hanging[number] = Promise()
        world.add(number)
    world.add(3)
    world.add(4, OTHER)
    assert world.done == [(4, 1)]
    world.hanging.pop(1).resolve(None)
    world.run()
    assert [number for number, _ in world.done] == [4, 1, 3]


def test_an_account_with_more_than_its_share_gets_no_further_ones(world: Errands) -> None:
    for number in range(5):
        world.hanging[number] = Promise()
        assert world.add(number)
    assert not world.add(5)
    assert world.add(6, OTHER), "another account has a share of its own"
    world.hanging.pop(0).resolve(None)
    world.run()
    assert world.add(7)


def test_an_account_without_waiting_jobs_is_never_refused(world: Errands) -> None:
    for number in range(2 * ERRANDS.waiting_max):
        world.hanging[number] = Promise()
        assert world.add(number, Space(f"{number:012}", "eu-west-1"))
    assert not world.add(99, Space(f"{0:012}", "eu-west-1")), "one is the share of each"


def test_regions_and_homes_of_an_account_share_its_places() -> None:
    kind = JobKind("errands", Errand, pauses_ms=(), visibility_ms=30 * SECOND, running_max=3)
    places = [(Space(SPACE.account, region), Home.of(home)) for region in ("a", "b", "c") for home in "xy"]
    with Errands(kind) as world:
        for number, (space, home) in enumerate(places * 2):
            world.hanging[number] = Promise()
            world.add(number, space, home=home)
        assert len(world.tries) == 3
        first, *_ = world.shown()
        assert (first.place.region, first.waiting, first.running) == ("a", 2, 2), "a row for both homes"
        while world.hanging:
            world.hanging.pop(world.tries[len(world.done)][0]).resolve(None)
            world.run()
            assert len(world.tries) - len(world.done) <= 3
        assert sorted(world.done) == [(number, 1) for number in range(12)]
        regions = [number % 6 // 2 for number, _ in world.tries]
        assert {*regions[:8]} == {0, 1, 2}, "they take turns"


def test_a_queue_whose_creation_was_refused_counts_for_nothing(world: Errands) -> None:
    for _ in range(ERRANDS.waiting_max):
        world.refuse_next_commit()
        world.add(1)
    assert (list(world.jobs.consumers), world.shown()) == ([], [])
    for number in range(2, 2 + ERRANDS.waiting_max):
        world.hanging[number] = Promise()
        assert world.add(number)


def test_jobs_of_refused_commits_do_not_count(world: Errands) -> None:
    world.add(1)
    for _ in range(ERRANDS.waiting_max):
        world.refuse_next_commit()
        world.add(2)
    for number in range(3, 3 + ERRANDS.waiting_max):
        world.hanging[number] = Promise()
        assert world.add(number)


def test_a_queue_that_was_empty_for_an_hour_is_deleted(world: Errands) -> None:
    world.add(1)
    world.hanging[2] = Promise()
    world.add(2, OTHER)
    catalogue = world.broker.partition(0).catalogue
    world.advance(30 * MINUTE)
    assert len(catalogue.internal("errands")) == 2
    world.advance(2 * HOUR)
    assert [queue.name.space for queue in catalogue.internal("errands")] == [OTHER]
    world.create("errands")  # no client has to wait for the name
    world.crash()
    assert len(world.broker.partition(0).catalogue.internal("errands")) == 1
    world.hanging.clear()
    world.add(3)
    world.advance(MINUTE)
    assert sorted(world.done) == [(1, 1), (3, 1)]
    assert [number for number, _ in world.given_up] == [2], "it was kept"


# -- jobs without an order -----------------------------------------------------------------------------------

CALLS = JobKind(
    "calls", Errand, pauses_ms=(MINUTE,) * 5, visibility_ms=30 * SECOND, ordered=False,
    running_max=4, running_per_group_max=2, waiting_max=500, age_ms_max=DAY,
)  # fmt: skip


@pytest.fixture(params=[ROOMY, TINY], ids=["roomy", "tiny"])
def calls(request: pytest.FixtureRequest) -> Iterator[Errands]:
    with Errands(CALLS, request.param) as world:
        yield world


def test_a_job_that_is_put_off_does_not_block_its_group(calls: Errands) -> None:
    calls.failures[1] = JobFailed("no answer", can_repeat=True)
    calls.add(1, group="slow")
    calls.add(2, group="slow")
    calls.add(3)
    assert sorted(calls.done) == [(2, 1), (3, 1)]
    (status,) = calls.shown()
    assert (status.waiting, status.running, status.put_off) == (1, 0, 1)
    calls.advance(MINUTE)
    calls.crash()
    del calls.failures[1]
    calls.advance(MINUTE)
    assert calls.done[2:] == [(1, 3)]
    assert len({job.id for job in calls.begun if job.payload.number == 1}) == 1
    assert calls.waiting() == 0


def test_the_number_of_tries_without_an_order_is_that_of_the_kind(calls: Errands) -> None:
    calls.failures[1] = JobFailed("no answer", can_repeat=True)
    calls.add(1)
    calls.advance(5 * MINUTE - 1)
    assert calls.given_up == []
    calls.advance(1)
    assert (calls.given_up, [attempt for _, attempt in calls.tries]) == (
        [(1, "no answer")],
        [1, 2, 3, 4, 5, 6],
    )


def test_a_try_without_an_order_counts_although_the_process_dies_at_once(calls: Errands) -> None:
    calls.hanging[1] = Promise()
    calls.add(1)
    for _ in range(6 + 3):
        assert calls.given_up == []
        calls.crash()
        calls.advance(CALLS.visibility_ms)
    assert (calls.given_up, calls.waiting()) == ([(1, "all tries were interrupted")], 0)


def test_a_slow_target_takes_some_places_only(calls: Errands) -> None:
    for number in range(40):
        calls.hanging[number] = Promise()
        calls.add(number, group="slow")
    assert [number for number, _ in calls.tries] == [0, 1]
    for number in range(40, 80):
        calls.add(number, group=f"fast {number % 3}")
    assert sorted(calls.done) == [(number, 1) for number in range(40, 80)]
    assert len(calls.tries) == 42
    for number in range(40):
        calls.hanging.pop(number).resolve(None)
        calls.run()
        assert len(calls.tries) <= 42 + number + 1
    assert len(calls.done) == 80
    assert (calls.waiting(), {attempt for _, attempt in calls.tries}) == (0, {1})


def test_a_full_target_goes_on_after_a_crash(calls: Errands) -> None:
    for number in range(20):
        calls.hanging[number] = Promise()
        calls.add(number, group="slow")
    calls.crash()
    calls.hanging.clear()
    calls.add(20, group="fast")
    assert calls.done == [(20, 1)]
    calls.advance(CALLS.visibility_ms)
    assert sorted(number for number, _ in calls.done) == list(range(21))


def test_a_job_can_be_due_later(calls: Errands) -> None:
    for number in range(10):
        calls.add(number, delay_ms=(10 - number) * HOUR)
    calls.add(10)
    assert calls.done == [(10, 1)]
    calls.crash()
    assert [status.put_off for status in calls.shown()] == [10]
    calls.advance(HOUR - 1)
    assert len(calls.done) == 1
    calls.advance(9 * HOUR + 1)
    assert [number for number, _ in calls.done[1:]] == [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]


def test_the_age_of_a_job_begins_when_it_is_due(calls: Errands) -> None:
    calls.add(1, delay_ms=2 * DAY)
    calls.advance(2 * DAY)
    assert calls.done == [(1, 1)]


@pytest.mark.parametrize("late", range(8))
def test_a_job_whose_pause_ends_before_its_commit_is_durable_is_tried_again(late: int) -> None:
    """Meanwhile other jobs of its group are being read."""
    kind = JobKind(
        "calls", Errand, pauses_ms=(), visibility_ms=30 * SECOND, ordered=False, running_per_group_max=1
    )
    with Errands(kind, TINY) as world:
        world.hanging[late], world.put_off[late] = Promise(), 1
        for number in range(20):
            world.add(number, group="g")
        world.runtime.reader.paused = True
        world.hold_commits()
        world.hanging.pop(late).resolve(None)
        world.run()
        del world.put_off[late]
        world.advance(1)
        world.release_commits()
        world.runtime.reader.paused = False
        world.run()
        assert {number for number, _ in world.done} == set(range(20))
        assert world.waiting() == 0


def test_many_jobs_that_were_put_off_are_not_in_memory() -> None:
    with Errands(CALLS, TINY) as world:
        for number in range(100):
            world.failures[number] = JobFailed("no answer", can_repeat=True)
            world.add(number, group=str(number % 7))
        (queue,) = world.broker.partition(0).catalogue.internal("calls")
        world.crash()
        (queue,) = world.broker.partition(0).catalogue.internal("calls")
        assert len(queue.rules.backlog.index) < 50
        (status,) = world.shown()
        assert (status.waiting, status.put_off) == (100, 100)
        world.failures.clear()
        world.advance(2 * MINUTE)
        assert sorted(world.done) == [(number, 2) for number in range(100)]


def test_the_share_of_an_account_counts_what_waits_after_a_crash(world: Errands) -> None:
    for number in range(5):
        world.hanging[number] = Promise()
        world.add(number)
    world.crash()
    assert not world.add(5)
    assert world.add(6, OTHER)


PLACE = InternalQueuePlace("errands", SPACE.account, SPACE.region)
OTHER_PLACE = InternalQueuePlace("errands", OTHER.account, OTHER.region)


def test_operators_see_what_waits_runs_and_is_tried_again(world: Errands) -> None:
    assert world.shown() == []
    for number in (1, 2):  # as many as run at a time
        world.hanging[number] = Promise()
        world.add(number)
    world.add(3)
    world.failures[4] = JobFailed("no answer", can_repeat=True)
    world.advance(100)
    world.add(4, OTHER)
    world.advance(200)
    assert world.shown() == [
        InternalQueueStatus(PLACE, waiting=1, running=2, put_off=0, oldest_age_ms=300),
        InternalQueueStatus(OTHER_PLACE, waiting=1, running=0, put_off=1, oldest_age_ms=200),
    ]
    for number in (1, 2):
        world.hanging.pop(number).resolve(None)
    world.run()
    assert [status.place for status in world.shown()] == [OTHER_PLACE], "an empty queue is left out"


def test_a_page_of_internal_queues_is_full_although_some_are_empty(world: Errands) -> None:
    spaces = [Space(f"{number}" * 12, "eu-west-1") for number in (5, 3, 1, 4, 2)]
    for number, space in enumerate(spaces):
        if space.account[0] != "2":
            world.hanging[number] = Promise()
        world.add(number, space)
    first = world.shown(2)
    assert [status.place.account[0] for status in first] == ["1", "3"]
    second = world.shown(2, first[-1].place)
    assert [status.place.account[0] for status in second] == ["4", "5"]
    assert world.shown(2, second[-1].place) == []


def test_a_job_that_a_crash_interrupted_is_shown_as_put_off(world: Errands) -> None:
    world.hanging[1] = Promise()
    world.add(1)
    assert [(status.running, status.put_off) for status in world.shown()] == [(1, 0)]
    world.crash()
    assert [(status.running, status.put_off) for status in world.shown()] == [(0, 1)]


def test_internal_queues_of_one_space_in_several_shards_are_one_row() -> None:
    here = InternalQueueStatus(PLACE, waiting=1, running=2, put_off=1, oldest_age_ms=None)
    there = InternalQueueStatus(PLACE, waiting=10, running=20, put_off=5, oldest_age_ms=7)
    other = InternalQueueStatus(OTHER_PLACE, waiting=1, running=0, put_off=0, oldest_age_ms=3)
    both = InternalQueueStatus(PLACE, waiting=11, running=22, put_off=6, oldest_age_ms=7)
    assert InternalQueuesQuestion().merge([[here, other], [there]]) == [both, other]
    assert InternalQueuesQuestion(1).merge([[other], [there], [here]]) == [both]


def test_clients_do_not_see_internal_queues(world: Errands) -> None:
    world.create("q")
    world.hanging[1] = Promise()
    world.add(1)
    assert [queue.name for queue in world.broker.queues()] == [name_of("q")]
    partition = world.broker.partition(0)
    assert (len(partition.catalogue), partition.catalogue.names(SPACE, "")) == (1, [])
    assert partition.catalogue.count(SPACE.account) == 0
    world.crash()
    assert [queue.name for queue in world.broker.queues()] == [name_of("q")]


def test_nothing_is_begun_after_a_stop(world: Errands) -> None:
    world.hanging[1] = Promise()
    world.add(1)
    world.do(world.broker.stop())
    world.hanging.pop(1).resolve(None)
    world.run()
    assert world.done == [(1, 1)], "what had begun ends"
    world.crash()
    world.advance(ERRANDS.visibility_ms)
    assert world.done == [(1, 1), (1, 2)], "but its end could not be stored any more"


@pytest.mark.parametrize("kind", [ERRANDS, CALLS], ids=["ordered", "unordered"])
def test_a_job_is_done_although_its_commit_counted_as_refused(kind: JobKind[Errand]) -> None:
    """The answer of the store is lost, and the journal cannot be read for longer than requests wait."""
    with Errands(kind) as world:
        store = world.store
        append, end = store.append, store.end

        def lose_the_answer(changes: Changes, mark: Mark) -> Set[int]:
            append(changes, mark)
            raise StoreUnknown("the connection was lost")

        def no_answer() -> JournalEnd:
            raise StoreAway("no connection")

        store.append, store.end = lose_the_answer, no_answer  # type: ignore[method-assign]
        world.add(1)
        world.advance(10 * SECOND)
        world.add(2)  # decided on top of it: it is never written
        store.append, store.end = append, end  # type: ignore[method-assign]
        world.advance(10 * SECOND)
        assert world.done == [(1, 1)]
        world.advance(5 * HOUR)
        assert (world.done, world.waiting()) == ([(1, 1)], 0)


def test_a_job_is_put_off_in_one_commit_while_each_request_has_its_own() -> None:
    """Its group has room for the next job, which is taken at once. A crash in between would lose the one put off."""
    kind = JobKind(
        "errands",
        Errand,
        pauses_ms=PAUSES_MS,
        visibility_ms=30 * SECOND,
        ordered=False,
        running_per_group_max=1,
    )
    with Errands(kind, UNMETERED) as world:
        world.create("refused")
        world.hanging[1], world.hanging[2] = Promise(), Promise()
        world.put_off[1] = 5 * SECOND
        world.add(1, group="g")
        world.add(2, group="g")
        world.refuse_next_commit(DataRefused("a key has a NUL"))
        world.sending("refused", outgoing("has a NUL"))
        world.run()
        world.hanging.pop(1).resolve(None)
        before = len(world.store.appended)
        while len(world.store.appended) == before:
            assert world.runtime.step()
        commit = world.store.appended[-1]
        assert (len(commit.removed), len(commit.added)) == (1, 1)
        world.hanging.clear()
        world.put_off.clear()
        world.crash()
        world.advance(MINUTE)
        assert sorted(number for number, _ in world.done) == [1, 2]
