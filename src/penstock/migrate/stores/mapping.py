"""Which shard of the target takes what, and under which numbers.

A queue goes to the shard that its name gives in the target. A shard of the target that is fed by one shard of the
source keeps all numbers as they are: so it is with the same number of shards, and with a multiple of it. If several
shards feed it, their numbers overlap, and those of the second and later ones are raised by as much as the ones before
have given out. Positions stay: they count within a queue, and clients of FIFO queues see them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import gcd
from typing import NamedTuple

import msgspec

from penstock.broker.catalogue import COOLDOWNS, QUEUES
from penstock.broker.move_tasks import MOVE_TASKS
from penstock.errors import StoreRefused
from penstock.names import QueueName, shard_of
from penstock.queues.former_shards import FORMER_SHARDS, FormerShard
from penstock.queues.settings import QueueRecord
from penstock.store.changes import DedupRow, EntryRow
from penstock.store.encrypted import KEY_VERSIONS
from penstock.store.port import Mark, ShardState


class StoredRecord(NamedTuple):
    kind: str
    key: str
    data: bytes


class TargetShard(NamedTuple):
    raised_by: Mapping[int, int]  # the numbers of each shard of the source that feeds it
    mark: Mark
    former: Sequence[FormerShard]

    @property
    def former_records(self) -> list[StoredRecord]:
        kind = FORMER_SHARDS
        return [StoredRecord(kind.name, str(each.first), kind.encode(each)) for each in self.former]


class MovedQueue(NamedTuple):
    """A queue of the source, and where it goes."""

    record: QueueRecord  # as the target keeps it
    target: int
    raised_by: int

    def row(self, row: EntryRow) -> EntryRow:
        return row._replace(seq=row.seq + self.raised_by, queue=self.record.id)

    def send(self, send: DedupRow) -> DedupRow:
        return send._replace(seq=send.seq + self.raised_by, queue=self.record.id)


def feeding_shards(target: int, sources: int, targets: int) -> range:
    """The shards of the source whose queues may belong to this shard of the target.

    A hash that leaves i divided by ``sources`` and j divided by ``targets`` exists if i and j leave the same divided
    by the greatest common divisor."""
    step = gcd(sources, targets)
    return range(target % step, sources, step)


def target_shard(index: int, sources: Sequence[ShardState], targets: int) -> TargetShard:
    raised_by: dict[int, int] = {}
    former: list[FormerShard] = []
    next_number = 1
    for source in feeding_shards(index, len(sources), targets):
        state = sources[source]
        by = raised_by[source] = next_number - 1
        earlier = [FORMER_SHARDS.decode(each) for each in state.records.get(FORMER_SHARDS.name, {}).values()]
        first = max((each.end for each in earlier), default=1)
        own = FormerShard(first, state.mark.next_number, 0, source, state.secret)
        former += [each.raised(by) for each in (*earlier, own)]
        next_number = by + state.mark.next_number
    # One process may have owned all of these shards, with one clock: none of them may see it go back.
    now_ms, wall_ms = max((state.mark.now_ms, state.mark.wall_ms) for state in sources)
    return TargetShard(raised_by, Mark(next_number, now_ms, wall_ms), former)


class ShardMapping:
    def __init__(self, sources: Sequence[ShardState], targets: int) -> None:
        self.targets = [target_shard(index, sources, targets) for index in range(targets)]
        self._sources = sources
        self._queues = [dict(self._moved_queues(index)) for index in range(len(sources))]

    def _moved_queues(self, source: int) -> Iterator[tuple[int, MovedQueue]]:
        for data in self._sources[source].records.get(QUEUES.name, {}).values():
            record = QUEUES.decode(data)
            target = shard_of(record.name, len(self.targets))
            by = self.targets[target].raised_by[source]
            yield record.id, MovedQueue(msgspec.structs.replace(record, id=record.id + by), target, by)

    def queues(self, source: int) -> Mapping[int, MovedQueue]:
        """The queues of a shard, by the id they have there."""
        return self._queues[source]

    @property
    def now_ms(self) -> int:
        """The time that the clock of the source had come to."""
        return self.targets[0].mark.now_ms

    @property
    def must_decrypt(self) -> bool:
        """Do encrypted messages get other numbers? Then their contents have to be encrypted again."""
        return any(
            by and self._sources[source].records.get(KEY_VERSIONS)
            for target in self.targets
            for source, by in target.raised_by.items()
        )

    def records(self, source: int) -> Iterator[tuple[int, StoredRecord]]:
        """The records of a shard as the target keeps them, in an order that is always the same."""
        for kind, records in sorted(self._sources[source].records.items()):
            if kind not in _ROUTES:
                raise StoreRefused(
                    f'the source holds records of the kind "{kind}", which this release cannot migrate: '
                    "use the release that wrote them"
                )
            for key, data in sorted(records.items()):
                record = StoredRecord(kind, key, data)
                if kind == QUEUES.name and (queue := self._queues[source][int(key)]).raised_by:
                    record = StoredRecord(kind, str(queue.record.id), QUEUES.encode(queue.record))
                for target in _ROUTES[kind](self, source, key, data):
                    yield target, record

    # -- where records go ------------------------------------------------------------------------------------

    def _to_queue(self, source: int, key: str, data: bytes) -> Sequence[int]:
        return (self._queues[source][int(key)].target,)

    def _to_name(self, source: int, key: str, data: bytes) -> Sequence[int]:
        return (shard_of(QueueName(*key.split("/", 2)), len(self.targets)),)

    def _to_source_of_move(self, source: int, key: str, data: bytes) -> Sequence[int]:
        return (shard_of(MOVE_TASKS.decode(data).source, len(self.targets)),)

    def _to_all_fed(self, source: int, key: str, data: bytes) -> Sequence[int]:
        return [index for index, target in enumerate(self.targets) if source in target.raised_by]

    def _to_none(self, source: int, key: str, data: bytes) -> Sequence[int]:
        return ()


_ROUTES = {
    QUEUES.name: ShardMapping._to_queue,
    COOLDOWNS.name: ShardMapping._to_name,
    MOVE_TASKS.name: ShardMapping._to_source_of_move,
    KEY_VERSIONS: ShardMapping._to_all_fed,
    FORMER_SHARDS.name: ShardMapping._to_none,  # each shard of the target has its own, see target_shard
}
