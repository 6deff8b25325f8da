"""Compares source and target after a copy: counts and checksums of every queue, and every record.

Both stores are read again from the beginning, whatever the copy believed to have written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from penstock.broker.catalogue import QUEUES
from penstock.broker.metric_log import HOURS_LOG, METRICS_LOG, read_log
from penstock.errors import StoreBroken
from penstock.migrate.stores.contents import ContentMover
from penstock.migrate.stores.copying import BYTES_PER_PAGE, ROWS_PER_PAGE
from penstock.migrate.stores.mapping import ShardMapping
from penstock.migrate.stores.opened import OpenShard
from penstock.names import QueueName
from penstock.queues.former_shards import FORMER_SHARDS
from penstock.queues.settings import QueueRecord
from penstock.store.changes import DedupRow, EntryRow, LogRow
from penstock.store.encrypted import KEY_VERSIONS
from penstock.store.port import LAST, Store, Usage

_encode = msgspec.msgpack.Encoder().encode


class QueueSum:
    """What a queue holds: how much, and a checksum of all of it."""

    def __init__(self) -> None:
        self.messages = self.bytes = self.sends = 0
        self._digest = blake2b(digest_size=16)

    def add_message(self, row: EntryRow) -> None:
        self.messages += 1
        self.bytes += row.size
        self._digest.update(_encode(row))

    def add_send(self, send: DedupRow) -> None:
        self.sends += 1
        self._digest.update(_encode(send))

    def add_metrics(self, chunk: LogRow) -> None:
        self._digest.update(_encode(chunk))

    @property
    def checksum(self) -> str:
        return self._digest.hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, QueueSum) and (self.messages, self.bytes, self.sends, self.checksum) == (
            other.messages, other.bytes, other.sends, other.checksum,
        )  # fmt: skip

    def __str__(self) -> str:
        return (
            f"{self.messages} messages, {self.bytes} bytes, {self.sends} remembered sends ({self.checksum})"
        )


class QueueIdentity(NamedTuple):
    """What a queue is, in whichever store. Internal queues have no names of their own."""

    name: QueueName
    internal: str
    home: int


def identity_of(record: QueueRecord) -> QueueIdentity:
    return QueueIdentity(record.name, record.internal, record.home)


Sums = dict[QueueIdentity, QueueSum]


class StoreCheck:
    def __init__(
        self,
        sources: Sequence[OpenShard],
        targets: Sequence[Store],
        mapping: ShardMapping,
        contents: ContentMover,
        on_progress: Callable[[int], None],
    ) -> None:
        """``on_progress`` is called with the messages read so far: in the end each was read in both stores."""
        self._sources = sources
        self._targets = targets
        self._mapping = mapping
        self._contents = contents
        self._on_progress = on_progress
        self._read = 0
        self.left_out = 0

    def differences(self) -> tuple[Sums, list[str]]:
        """What each queue of the target holds, and a line for everything that is not as it should be."""
        if wrong := list(self._wrong_records()):
            return {}, wrong
        expected, found = self._source_sums(), self._target_sums()
        for queue in sorted(expected.keys() | found.keys()):
            if expected.get(queue) != found.get(queue):
                wrong.append(
                    f"the queue {queue.name.arn} should hold {expected.get(queue, 'nothing')}, "
                    f"and holds {found.get(queue, 'nothing')}"
                )
        wrong += self._wrong_usage(found)
        return found, wrong

    # -- records ---------------------------------------------------------------------------------------------

    def _wrong_records(self) -> Iterator[str]:
        expected: list[dict[str, dict[str, bytes]]] = [
            {FORMER_SHARDS.name: {each.key: each.data for each in target.former_records}}
            for target in self._mapping.targets
        ]
        for source in range(len(self._sources)):
            for target, (kind, key, data) in self._mapping.records(source):
                expected[target].setdefault(kind, {})[key] = data
        for index, kinds in enumerate(expected):
            for kind, records in kinds.items():
                found = self._targets[index].records(kind)
                if kind == KEY_VERSIONS:
                    found = {key: found[key] for key in records if key in found}  # a copy may add others
                if found != records:
                    yield f'the records of the kind "{kind}" in shard {index} are not as they should be'

    # -- messages --------------------------------------------------------------------------------------------

    def _source_sums(self) -> Sums:
        sums: Sums = {}
        for source, (store, _) in enumerate(self._sources):
            queues = self._mapping.queues(source)
            for id, queue in sorted(queues.items()):
                total = sums[identity_of(queue.record)] = QueueSum()
                for send in self._sends(store, id):
                    total.add_send(queue.send(send))
                for chunks in (self._mapping.metrics, self._mapping.hours):
                    for chunk in chunks(source, store, id, -1):
                        total.add_metrics(chunk)
            for row in self._rows(store):
                if (home := self._mapping.queue_of(source, row)) is None:
                    self.left_out += not self._mapping.has_arrived(source, row)
                else:
                    content = self._compared(row, raised=bool(home.raised_by))
                    returned = self._mapping.returned(source, row)
                    sums[identity_of(home.record)].add_message(home.row(returned)._replace(content=content))
        return sums

    def _target_sums(self) -> Sums:
        sums: Sums = {}
        for store, shard in zip(self._targets, self._mapping.targets, strict=True):
            queues: dict[int, QueueSum] = {}
            for data in store.records(QUEUES.name).values():
                record = QUEUES.decode(data)
                total = sums[identity_of(record)] = queues[record.id] = QueueSum()
                for send in self._sends(store, record.id):
                    total.add_send(send)
                for kind in (METRICS_LOG, HOURS_LOG):
                    for chunk in read_log(store, record.id, -1, kind=kind):
                        total.add_metrics(chunk)
            kept = min((by for by in shard.raised_by.values() if by), default=LAST)  # numbers up to here
            for row in self._rows(store):
                content = self._compared(row, raised=row.seq > kept)
                if (held := queues.get(row.queue)) is None:
                    raise StoreBroken(f"message {row.seq} of the target is in no queue")
                held.add_message(row._replace(content=content))
        return sums

    def _compared(self, row: EntryRow, *, raised: bool) -> bytes:
        """Returns what of a content must be equal in both stores: the plain text, if it was encrypted again."""
        content = row.content or b""
        return self._contents.plain(row.seq, content) if raised else content

    def _rows(self, store: Store) -> Iterator[EntryRow]:
        after = 0
        while rows := store.scan(after, LAST, ROWS_PER_PAGE, BYTES_PER_PAGE):
            after = rows[-1].seq
            yield from rows
            self._read += len(rows)
            self._on_progress(self._read)

    def _sends(self, store: Store, queue: int) -> Iterator[DedupRow]:
        after = 0
        while sends := store.dedup(queue, self._mapping.now_ms, after, ROWS_PER_PAGE):
            after = sends[-1].seq
            yield from sends

    def _wrong_usage(self, found: Sums) -> Iterator[str]:
        """The counters that the store keeps beside the messages."""
        for store in self._targets:
            usage = store.usage()
            for data in store.records(QUEUES.name).values():
                record = QUEUES.decode(data)
                held = found[identity_of(record)]
                if usage.get(record.id, Usage(0, 0)) != (held.messages, held.bytes):
                    yield f"the counters of the queue {record.name.arn} are not what it holds"
