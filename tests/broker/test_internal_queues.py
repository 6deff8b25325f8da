"""Internal queues: jobs survive crashes, are tried again, given up, and stay out of sight of clients."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from penstock.broker.internal_queues import Job, JobKind, JobQueues
from penstock.broker.partition import Partition
from penstock.errors import JobFailed
from penstock.limits import DAY, HOUR, MINUTE
from penstock.names import Home, Space
from penstock.promise import Promise
from support.world import ROOMY, SECOND, World, name_of


class Errand(msgspec.Struct):
    number: int


SPACE, OTHER = Space("111111111111", "eu-west-1"), Space("222222222222", "eu-west-1")
HOME = Home.of("errands")
PAUSES_MS = (SECOND, 5 * SECOND)
ERRANDS = JobKind(
    "errands", Errand, pauses_ms=PAUSES_MS, lease_ms=30 * SECOND, running_max=2, waiting_max=5, age_ms_max=DAY
)


class Errands(World):
    """A broker with one kind of jobs."""

    def __init__(self) -> None:
        self.done: list[tuple[int, int]] = []  # number and attempt
        self.given_up: list[tuple[int, str]] = []
        self.failures: dict[int, JobFailed] = {}
        self.hanging: dict[int, Promise[None]] = {}
        super().__init__(ROOMY)

    def _new_broker(self):  # type: ignore[no-untyped-def]
        broker = super()._new_broker()
        broker.extend(self._jobs_of)
        return broker

    def _jobs_of(self, partition: Partition) -> JobQueues[Errand]:
        self.jobs = JobQueues(partition, ERRANDS, self._handle, self._give_up)
        return self.jobs

    async def _handle(self, job: Job[Errand]) -> None:
        number = job.payload.number
        if number in self.hanging:
            await self.hanging[number]
        if number in self.failures:
            raise self.failures[number]
        self.done.append((number, job.attempt))

    def _give_up(self, job: Job[Errand], reason: str) -> None:
        self.given_up.append((job.payload.number, reason))

    def add(self, number: int, space: Space = SPACE, group: str | None = None) -> bool:
        added = self.jobs.add(HOME, space, group or str(number), Errand(number))
        self.run()
        return added

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


def test_the_number_of_tries_survives_a_crash(world: Errands) -> None:
    world.failures[1] = JobFailed("no answer", can_repeat=True)
    world.add(1)
    world.crash()
    del world.failures[1]
    world.advance(PAUSES_MS[0])
    assert world.done == [(1, 2)]


def test_a_job_that_a_crash_interrupts_is_tried_again_when_its_lease_ends(world: Errands) -> None:
    world.hanging[1] = Promise()
    world.add(1)
    world.crash()
    world.hanging.clear()
    world.advance(ERRANDS.lease_ms - 1)
    assert world.done == []
    world.advance(1)
    assert world.done == [(1, 2)]


def test_a_job_of_a_refused_commit_is_none(world: Errands) -> None:
    world.refuse_next_commit()
    world.add(1)
    assert (world.done, world.waiting()) == ([], 0)
    world.add(2)
    assert world.done == [(2, 1)]


def test_a_job_that_waits_too_long_expires(world: Errands) -> None:
    world.hanging[1] = Promise()
    world.add(1, group="g")
    world.add(2, group="g")
    world.advance(ERRANDS.settings.retention_ms + 2 * MINUTE)
    world.hanging.pop(1).resolve(None)
    world.advance(MINUTE)
    assert 2 not in [number for number, _ in world.done]
    assert world.waiting() == 0


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
    """As many of one account as run at a time do not answer: others of it wait, those of another account do not."""
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
    world.advance(ERRANDS.lease_ms)
    assert world.done == [(1, 1), (1, 2)], "but its end could not be stored any more"
