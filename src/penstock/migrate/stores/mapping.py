"""Which shard of the target takes what, and under which numbers.

A queue goes to the shard that its name gives in the target. A shard of the target that is fed by one shard of the
source keeps all numbers as they are: so it is with the same number of shards, and with a multiple of it. If several
shards feed it, their numbers overlap, and those of the second and later ones are raised by as much as the ones before
have given out. Positions stay: they count within a queue, and clients of FIFO queues see them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import gcd
from typing import NamedTuple

import msgspec

from penstock.broker.catalogue import QUEUES
from penstock.broker.handover import Cause
from penstock.broker.inbox import INBOXES
from penstock.broker.metric_log import (
    HOURS_LOG,
    METRICS_LOG,
    Gathered,
    packed_chunks,
    read_gathered,
    read_log,
)
from penstock.broker.outbox import LOG_KIND, OUTBOX, decode_departure, store_id
from penstock.errors import DepartureUnreadable, StoreRefused
from penstock.migrate.stores.opened import OpenShard
from penstock.names import Home, QueueName, shard_of
from penstock.queues.former_shards import FORMER_SHARDS, FormerShard
from penstock.queues.receipts import ALL_HASHED, MESSAGE_ID_FORMS, OWN_IDS
from penstock.queues.settings import QueueRecord
from penstock.server.compose import record_kinds
from penstock.store.changes import DedupRow, EntryRow, LogRow
from penstock.store.encrypted import KEY_VERSIONS
from penstock.store.moving import Move, QueuePlace, StoredRecord, to_all_fed
from penstock.store.port import Mark, ShardState, Store
from penstock.turns import finished

_LOG_ROWS_PER_READ = 1000


class TargetShard(NamedTuple):
    raised_by: Mapping[int, int]  # the numbers of each shard of the source that feeds it
    mark: Mark
    former: Sequence[FormerShard]

    @property
    def former_records(self) -> list[StoredRecord]:
        kind = FORMER_SHARDS
        return [StoredRecord(kind.name, str(each.first), kind.encode(each)) for each in self.former]


class Returning(NamedTuple):
    """Messages of one shard of the source that were on their way to another when the servers stopped. Those that have
    arrived there are left out. The others go back to where they were: same queue, place, counts and delay. So nothing
    is lost or doubled, whatever the shards of the target are."""

    queues: dict[int, int]  # the queue of each message, by seq
    due_ms: dict[int, int]  # until when messages were delayed there, by seq
    tasks: Counter[str]  # how many messages of each move task


class MovedQueue(NamedTuple):
    """A queue of the source, and where it goes."""

    record: QueueRecord  # as the target keeps it
    target: int
    raised_by: int

    def row(self, row: EntryRow) -> EntryRow:
        return row._replace(seq=row.seq + self.raised_by, queue=self.record.id)

    def send(self, send: DedupRow) -> DedupRow:
        return send._replace(seq=send.seq + self.raised_by, queue=self.record.id)

    def metrics(self, chunk: LogRow) -> LogRow:
        return chunk._replace(key=str(self.record.id))


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
        own = FormerShard(first, state.mark.next_number, 0, source, state.secret, _ids_from(state))
        former += [each.raised(by) for each in (*earlier, own)]
        next_number = by + state.mark.next_number
    # One process may have owned all of these shards, with one clock: none of them may see it go back.
    now_ms, wall_ms = max((state.mark.now_ms, state.mark.wall_ms) for state in sources)
    return TargetShard(raised_by, Mark(next_number, now_ms, wall_ms), former)


def _ids_from(state: ShardState) -> int:
    form = state.records.get(MESSAGE_ID_FORMS.name, {}).get(OWN_IDS)
    return ALL_HASHED if form is None else MESSAGE_ID_FORMS.decode(form).first


class ShardMapping:
    def __init__(self, sources: Sequence[OpenShard], targets: int) -> None:
        self._states = states = [state for _, state in sources]
        self.targets = [target_shard(index, states, targets) for index in range(targets)]
        self._queues = [dict(self._moved_queues(state, index)) for index, state in enumerate(states)]
        self._returning = [_returning(sources, index) for index in range(len(sources))]
        self._gathered: dict[int, Gathered] = {}
        # Key versions have no owner but the store.
        self._moves: dict[str, Move] = {KEY_VERSIONS: to_all_fed}
        self._moves |= {kind.name: kind.move for kind in record_kinds()}

    def _moved_queues(self, state: ShardState, source: int) -> Iterator[tuple[int, MovedQueue]]:
        for data in state.records.get(QUEUES.name, {}).values():
            record = QUEUES.decode(data)
            target = self._target_of_queue(record)
            by = self.targets[target].raised_by[source]
            yield record.id, MovedQueue(msgspec.structs.replace(record, id=record.id + by), target, by)

    def _target_of_queue(self, record: QueueRecord) -> int:
        return Home(record.home).shard(len(self.targets)) if record.internal else self._target_of(record.name)

    def _target_of(self, name: QueueName) -> int:
        return shard_of(name, len(self.targets))

    def queues(self, source: int) -> Mapping[int, MovedQueue]:
        """The queues of a shard, by the id they have there."""
        return self._queues[source]

    def queue_of(self, source: int, row: EntryRow) -> MovedQueue | None:
        """Where a message goes; None if its queue is gone, or another shard has it."""
        if row.queue != OUTBOX:
            return self._queues[source].get(row.queue)
        queue = self._queues[source].get(self._returning[source].queues.get(row.seq, OUTBOX))
        return None if queue is None or row.position <= queue.record.purged_to else queue

    def returned(self, source: int, row: EntryRow) -> EntryRow:
        """Returns a message as it was in its queue, if it goes back there."""
        return (
            row
            if row.queue != OUTBOX
            else row._replace(due_ms=self._returning[source].due_ms.get(row.seq, 0))
        )

    def has_arrived(self, source: int, row: EntryRow) -> bool:
        """Whether the row is the remainder of a message that another shard has."""
        return row.queue == OUTBOX and row.seq not in self._returning[source].queues

    @property
    def now_ms(self) -> int:
        """The time that the clock of the source had come to."""
        return self.targets[0].mark.now_ms

    @property
    def must_decrypt(self) -> bool:
        """Whether encrypted messages get other numbers: then their contents have to be encrypted again."""
        return any(
            by and self._states[source].records.get(KEY_VERSIONS)
            for target in self.targets
            for source, by in target.raised_by.items()
        )

    # -- metrics ---------------------------------------------------------------------------------------------

    def metrics(self, source: int, store: Store, queue: int, after: int) -> Iterator[LogRow]:
        """The metrics of a queue as the target keeps them, in chunks, beyond a position. What the source has in no
        chunk yet is the last one."""
        return self._chunks(METRICS_LOG, source, store, queue, after)

    def hours(self, source: int, store: Store, queue: int, after: int) -> Iterator[LogRow]:
        """The same of the hours of a queue."""
        return self._chunks(HOURS_LOG, source, store, queue, after)

    def _chunks(self, kind: str, source: int, store: Store, queue: int, after: int) -> Iterator[LogRow]:
        moved = self._queues[source][queue]
        yield from (moved.metrics(chunk) for chunk in read_log(store, queue, after, kind=kind))
        if source not in self._gathered:
            self._gathered[source] = read_gathered(store)
        gathered = self._gathered[source]
        rows = gathered.rows.get(queue)
        if rows is not None and gathered.position >= after:
            packed = finished(packed_chunks({queue: rows.timed}, rows.end_s))[queue]
            data = packed.minutes if kind == METRICS_LOG else packed.hours
            yield LogRow(kind, str(moved.record.id), gathered.position + 1, data)

    # -- records ---------------------------------------------------------------------------------------------

    def records(self, source: int) -> Iterator[tuple[int, StoredRecord]]:
        """The records of a shard as the target keeps them, in an order that is always the same."""
        place = ShardPlace(self.targets, source, self._queues[source], self._returning[source].tasks)
        for kind, records in sorted(self._states[source].records.items()):
            move = self._moves.get(kind)
            if move is None:
                raise StoreRefused(
                    f'the source holds records of the kind "{kind}", which this release cannot migrate: '
                    "use the release that wrote them"
                )
            for key, data in sorted(records.items()):
                yield from move(place, StoredRecord(kind, key, data))


class ShardPlace(NamedTuple):
    """Where the contents of one shard of the source go, for the kinds of records (:class:`Relocation`)."""

    targets: Sequence[TargetShard]
    source: int
    queues: Mapping[int, MovedQueue]
    returning_of: Counter[str]

    @property
    def shards(self) -> int:
        return len(self.targets)

    @property
    def fed(self) -> list[int]:
        return [index for index, target in enumerate(self.targets) if self.source in target.raised_by]

    @property
    def fed_alone(self) -> list[int]:
        return [index for index in self.fed if len(self.targets[index].raised_by) == 1]

    def queue(self, id: int) -> QueuePlace | None:
        queue = self.queues.get(id)
        return None if queue is None else QueuePlace(queue.target, queue.raised_by)

    def returning(self, task: str) -> int:
        return self.returning_of[task]


def _returning(sources: Sequence[OpenShard], index: int) -> Returning:
    found = Returning({}, {}, Counter())
    store = store_id(sources[index].state.secret)
    for target in range(len(sources)):
        taken = sources[target].state.records.get(INBOXES.name, {}).get(str(index))
        arrived = INBOXES.decode(taken) if taken is not None else None
        if arrived is not None and not arrived.is_about(store):
            arrived = None  # those of a store that was replaced by this one
        for row in _log(sources[index], str(target)):
            if (
                arrived is None
                or row.position > arrived.position
                or row.position in arrived.refused_positions
            ):
                try:
                    departure = decode_departure(row.data)
                except DepartureUnreadable:
                    raise StoreRefused(
                        f"the outbox of shard {index} has an entry for shard {target} that cannot be read: start the "
                        "server on the source, which passes over it and logs it, stop it and migrate again"
                    ) from None
                if departure.cause is Cause.SERVICE:
                    raise StoreRefused(
                        f"messages of {departure.source} are on their way between shards: start the server on the "
                        "source until they have arrived, stop it and migrate again"
                    )
                found.queues[departure.seq] = departure.queue
                found.due_ms[departure.seq] = departure.due_ms
                found.tasks[departure.task or ""] += 1
    return found


def _log(source: OpenShard, key: str) -> list[LogRow]:
    rows: list[LogRow] = []
    while page := source.store.log(LOG_KIND, key, rows[-1].position if rows else 0, _LOG_ROWS_PER_READ):
        rows += page
    return rows
