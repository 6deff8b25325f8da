"""Parts of a partition: each is told of everything that happens to the shard, whether it is one or several."""

from __future__ import annotations

from penstock.broker.live_queue import LiveQueue
from penstock.broker.partition import Partition
from penstock.broker.parts import Part, PartList
from penstock.broker.summaries import StatusQuestion
from support.shards import ShardsWorld


class NotedPart(Part):
    """Notes what it is told."""

    running_tasks = 2

    def __init__(self, told: list[str]) -> None:
        self._told = told

    def start(self) -> None:
        self._told.append("start")

    def stop(self) -> None:
        self._told.append("stop")

    def flush(self) -> None:
        self._told.append("flush")

    def forget(self) -> None:
        self._told.append("forget")

    def queue_deleted(self, queue: LiveQueue) -> None:
        self._told.append(f"{queue.name.name} deleted")

    def queue_purged(self, queue: LiveQueue) -> None:
        self._told.append(f"{queue.name.name} purged")


class NotedParts(ShardsWorld):
    def __init__(self, *, nested: bool) -> None:
        self.told: dict[int, list[str]] = {0: [], 1: []}
        self._nested = nested
        super().__init__(shards=2)

    def open_shard(self, index: int) -> None:
        if not self.broker.partitions:
            self.broker.extend(self._part)
        super().open_shard(index)

    def _part(self, partition: Partition) -> Part:
        part = NotedPart(self.told[partition.shard.index])
        return PartList([Part(), PartList([part])]) if self._nested else part


def test_every_part_is_told_what_happens_to_its_shard() -> None:
    for nested in (False, True):
        with NotedParts(nested=nested) as world:
            short = world.name("q", 1)
            world.create(short)
            assert world.broker.partition(1).part(NotedPart) is not world.broker.partition(0).part(NotedPart)
            statuses = world.do(world.broker.ask(StatusQuestion()))
            assert [each.running_tasks for each in statuses] == [2, 2]
            world.do(world.broker.purge(world.queue(short)))
            world.do(world.broker.drop(world.queue(short)))
            world.reopen(1)
            world.broker.drop_shard(1)
            world.run()
            assert world.told[0] == ["start"]
            assert world.told[1] == [
                "start", f"{short} purged", f"{short} deleted", "stop", "flush", "forget",
                "start", "stop", "forget",
            ]  # fmt: skip
