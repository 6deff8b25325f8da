"""Actions of alarms that wait in internal queues: operators see them, clients do not, and a migration keeps them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from botocore.exceptions import ClientError

from migrate.test_copies import migrate
from monitoring.alarms import put_alarm, set_state, summaries
from monitoring.world import ACCOUNT, REGION, SPACE, URL, MonitoringWorld
from penstock.broker.internal_queue_status import InternalQueuesQuestion
from penstock.broker.internal_queues import Job, JobKind, JobQueues
from penstock.broker.partition import Partition
from penstock.broker.queue_figures import all_figures
from penstock.broker.summaries import QueueQuery, StatusQuestion, SummariesQuestion, TotalsQuestion
from penstock.errors import JobFailed
from penstock.limits import MINUTE, SECOND
from penstock.monitoring.actions import ALARM_ACTIONS
from penstock.monitoring.alarm_records import alarms_home
from penstock.names import Home, Space
from penstock.promise import Promise
from support.shards import ShardsWorld
from support.world import FaultyStore

HOOK = "https://hooks.example.com/alarms"
KIND = ALARM_ACTIONS.name
ACCOUNTS = [f"{number:012d}" for number in range(6)]


def let_an_action_wait(world: MonitoringWorld, account: str = ACCOUNT) -> None:
    """Its web hook does not answer."""
    world.hanging[account] = Promise()
    cw = world.client(account=account)
    put_alarm(cw, AlarmActions=[HOOK])
    set_state(cw, "a", "ALARM")


@pytest.fixture(params=[1, 3], ids=["one shard", "three shards"])
def world(request: pytest.FixtureRequest) -> Iterator[MonitoringWorld]:
    with MonitoringWorld(request.param, webhooks=(HOOK,)) as made:
        let_an_action_wait(made)
        yield made


def test_operators_see_those_of_all_accounts_and_shards(world: MonitoringWorld) -> None:
    for account in ACCOUNTS[1:]:
        let_an_action_wait(world, account)
    homes = {alarms_home(Space(account, REGION)).shard(world.shards) for account in ACCOUNTS}
    assert len(homes) == world.shards, "all shards have some"
    shown = world.do(world.broker.ask(InternalQueuesQuestion()))
    assert [(each.place.kind, each.place.account, each.place.region) for each in shown] == [
        (KIND, account, REGION) for account in ACCOUNTS
    ]
    assert {(each.waiting, each.running) for each in shown} == {(0, 1)}
    world.hanging.pop(ACCOUNT).resolve(None)
    world.run()
    shown = world.do(world.broker.ask(InternalQueuesQuestion()))
    assert [each.place.account for each in shown] == ACCOUNTS[1:]


def test_sqs_does_not_know_them(world: MonitoringWorld) -> None:
    sqs = world.client("sqs")
    url = f"{URL}/{ACCOUNT}/{KIND}"
    assert sqs.list_queues().get("QueueUrls", []) == []
    asked: dict[str, dict[str, str]] = {
        "get_queue_url": {"QueueName": KIND},
        "send_message": {"QueueUrl": url, "MessageBody": "x"},
        "receive_message": {"QueueUrl": url},
        "purge_queue": {"QueueUrl": url},
        "delete_queue": {"QueueUrl": url},
    }
    for action, members in asked.items():
        with pytest.raises(ClientError) as refused:
            getattr(sqs, action)(**members)
        assert refused.value.response["Error"]["Code"].endswith("NonExistentQueue")


def test_a_client_can_use_their_name(world: MonitoringWorld) -> None:
    sqs = world.client("sqs")
    url = sqs.create_queue(QueueName=KIND)["QueueUrl"]
    assert "Messages" not in sqs.receive_message(QueueUrl=url)
    sqs.send_message(QueueUrl=url, MessageBody="x")
    world.crash()
    assert [each["Body"] for each in sqs.receive_message(QueueUrl=url)["Messages"]] == ["x"]
    sqs.delete_queue(QueueUrl=url)
    del world.hanging[ACCOUNT]
    world.advance(MINUTE)
    assert len(world.posted) == 1, "the action was not deleted with the queue"


def test_they_do_not_count_for_the_quota_of_queues(world: MonitoringWorld) -> None:
    world.limits = msgspec.structs.replace(world.limits, quota_queues=1)
    world.crash()
    sqs = world.client("sqs")
    sqs.create_queue(QueueName="q")
    with pytest.raises(ClientError, match="OverLimit"):
        sqs.create_queue(QueueName="r")


def test_lists_of_queues_and_metrics_leave_them_out(world: MonitoringWorld) -> None:
    sqs, cw, broker = world.client("sqs"), world.client(), world.broker
    url = sqs.create_queue(QueueName="q")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="x")
    world.minutes(3)
    query = QueueQuery(SPACE, 10)
    assert [each.name.name for each in world.do(broker.ask(SummariesQuestion(query)))] == ["q"]
    totals = world.do(broker.ask(TotalsQuestion(query, frozenset())))
    assert (totals.queues, totals.visible, totals.in_flight) == (1, 1, 0)
    assert sum(each.queues for each in world.do(broker.ask(StatusQuestion()))) == 1
    metrics = cw.list_metrics(Namespace="AWS/SQS")["Metrics"]
    assert {each["Dimensions"][0]["Value"] for each in metrics} == {"q"}

    async def measured() -> list[str]:
        return [
            figures.name.name
            for index in range(world.shards)
            async for some in all_figures(broker.partition(index))
            for figures in some
        ]

    assert world.do(measured()) == ["q"]


# -- migration -----------------------------------------------------------------------------------------------


class WorldSite:
    """The stores of a world, as a migration opens them."""

    guarantees = "those of a test"
    is_local = True

    def __init__(self, world: ShardsWorld) -> None:
        self.shards = world.shards
        self._world = world

    def open(self) -> None: ...

    def shard(self, index: int) -> FaultyStore:
        return FaultyStore(self._world._shard_directory(index))

    def close(self) -> None: ...


class MigratedWorld(MonitoringWorld):
    """Begins with what another world has stored."""

    def __init__(self, source: MonitoringWorld, shards: int) -> None:
        self._source: MonitoringWorld | None = source
        super().__init__(shards, webhooks=(HOOK,))

    def _open(self) -> None:
        if self._source is not None:
            for store in self._source.stores.values():
                store.close()
            migrate(WorldSite(self._source), WorldSite(self))
            self.clock, self._source = self._source.clock, None
        super()._open()


@pytest.mark.parametrize("shards", [1, 2, 5])
def test_a_migration_keeps_what_waits(world: MonitoringWorld, shards: int) -> None:
    for account in ACCOUNTS[1:]:
        let_an_action_wait(world, account)
    with MigratedWorld(world, shards) as migrated:
        shown = migrated.do(migrated.broker.ask(InternalQueuesQuestion()))
        assert [(each.place.account, each.waiting) for each in shown] == [(each, 1) for each in ACCOUNTS]
        migrated.advance(ALARM_ACTIONS.visibility_ms + SECOND)
        assert len(migrated.posted) == len(ACCOUNTS)
        clients: list[Any] = [migrated.client(account=account) for account in ACCOUNTS]
        for cw in clients:
            assert summaries(cw, HistoryItemType="Action") == [f"Successfully executed action {HOOK}"]
            set_state(cw, "a", "OK")
            set_state(cw, "a", "ALARM")
        assert len(migrated.posted) == 2 * len(ACCOUNTS)
        partitions = [migrated.broker.partition(index) for index in range(shards)]
        queues = [queue for partition in partitions for queue in partition.catalogue.internal(KIND)]
        assert sorted(queue.name.account for queue in queues) == ACCOUNTS, "no account got a second queue"


class Errand(msgspec.Struct):
    home: str


ERRANDS = JobKind(
    "errands", Errand, pauses_ms=(MINUTE,), visibility_ms=30 * SECOND, ordered=False, running_max=100
)


class ErrandsWorld(ShardsWorld):
    """Jobs for many homes in each shard."""

    def __init__(self, shards: int, source: ErrandsWorld | None = None) -> None:
        self.jobs: dict[int, JobQueues[Errand]] = {}
        self.done: list[tuple[str, int, int]] = []  # home, shard, attempt
        self.failing = source is None
        self._source = source
        super().__init__(shards=shards)

    def _open(self) -> None:
        if self._source is not None:
            for store in self._source.stores.values():
                store.close()
            migrate(WorldSite(self._source), WorldSite(self))
            self.clock, self._source = self._source.clock, None
        super()._open()

    def open_shard(self, index: int) -> None:
        if index == 0:
            self.broker.extend(self._jobs_of)
        super().open_shard(index)

    def _jobs_of(self, partition: Partition) -> JobQueues[Errand]:
        index = partition.shard.index

        async def handle(job: Job[Errand]) -> None:
            if self.failing:
                raise JobFailed("not now", can_repeat=True)
            self.done.append((job.payload.home, index, job.attempt))

        self.jobs[index] = JobQueues(partition, ERRANDS, handle, lambda job, reason: None)
        return self.jobs[index]


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 5), (5, 2)])
def test_a_migration_takes_each_job_to_the_shard_of_its_home(before: int, after: int) -> None:
    homes = {f"h{number}": Home.of("errands", f"h{number}") for number in range(20)}
    with ErrandsWorld(before) as source:
        for name, home in homes.items():
            assert source.jobs[home.shard(before)].add(home, SPACE, "target", Errand(name))
        source.create("errands")
        source.send("errands", "a message of a client")
        with ErrandsWorld(after, source) as target:
            assert target.bodies("errands") == ["a message of a client"]
            (shown,) = target.do(target.broker.ask(InternalQueuesQuestion()))
            assert (shown.waiting, shown.put_off) == (20, 20), "one row for all homes of a space"
            target.advance(MINUTE + SECOND)
            assert sorted(target.done) == sorted((name, home.shard(after), 2) for name, home in homes.items())
