"""Copies everything of the source into the target, in a fixed order, in commits that also say how far it came.

What is copied has a place in that order. Each shard of the target keeps a record with the place up to which it has
everything, changed in the same commit as the data. So a copy that was interrupted continues where it was, and nothing
is there twice. The first shard is written last for every page that is read: from its place on the source is read
again, and shards that are ahead of it skip what they have. As long as the record is there, the target does not serve.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from hashlib import blake2b
from itertools import islice
from typing import NamedTuple, NoReturn

import msgspec

from penstock.errors import StoreRefused
from penstock.migrate.stores.contents import ContentMover
from penstock.migrate.stores.mapping import ShardMapping
from penstock.migrate.stores.opened import OpenShard
from penstock.queues.former_shards import FORMER_SHARDS
from penstock.store.changes import Changes, DedupRow, EntryRow, LogRow, RecordKind
from penstock.store.encrypted import KEY_VERSIONS
from penstock.store.moving import StoredRecord, left_out
from penstock.store.port import LAST, UNFINISHED, Mark, ShardState

ROWS_PER_PAGE, BYTES_PER_PAGE = 5_000, 8 * 1024 * 1024
CHUNKS_PER_PAGE = 500  # of metrics

Item = StoredRecord | DedupRow | EntryRow | LogRow


class Stage(IntEnum):
    """The order in which the parts of a shard are copied."""

    RECORDS = 0
    SENDS = 1
    MESSAGES = 2
    METRICS = 3
    HOURS = 4


class Place(NamedTuple):
    """Where in the order of everything that is copied: compared from left to right."""

    shard: int  # of the source
    stage: int
    queue: int  # of remembered sends or of metrics
    after: int  # how many records there were before, or the seq or position


START = Place(0, 0, 0, 0)


class Progress(msgspec.Struct, frozen=True):
    """How far one shard of the target has come."""

    source: str  # which store it is filled from
    source_end: str  # where the journals of that ended
    place: Place = START
    messages: int = 0
    verified: bool = False


PROGRESS = RecordKind(UNFINISHED, Progress, left_out)
_KEY = "progress"


class Page(NamedTuple):
    items: list[tuple[Place, int, Item]]  # each with the shard of the target that it goes to
    end: Place


def fingerprint(sources: Sequence[OpenShard]) -> Progress:
    """Tells whether an earlier run began with the same source, and whether that was used since."""
    identity, end = blake2b(digest_size=16), blake2b(digest_size=16)
    for _, state in sources:
        identity.update(state.secret)
        end.update(state.end.number.to_bytes(8, "big"))
    return Progress(identity.hexdigest(), end.hexdigest())


class FilledShard:
    """A shard of the target."""

    def __init__(self, shard: OpenShard, mark: Mark, progress: Progress, *, is_marked: bool) -> None:
        """``is_marked``: it has the record of its progress."""
        self.store = shard.store
        self.progress = progress
        self.is_marked = is_marked
        self._number = shard.state.end.number
        self._mark = mark
        self._versions: set[str] = set()  # records of key versions that this run has written

    def append(self, items: Sequence[Item], place: Place, versions: set[str]) -> None:
        """One commit: these items, and that everything up to a place is here."""
        progress, changes = self.progress, Changes(self._number + 1, self._number)
        for item in items:
            if isinstance(item, StoredRecord):
                changes.records[item.kind, item.key] = item.data
            elif isinstance(item, DedupRow):
                changes.dedup.append(item)
            elif isinstance(item, LogRow):
                changes.logs.append(item)
            else:
                changes.add_row(item)
        changes.records |= {(KEY_VERSIONS, version): b"" for version in versions - self._versions}
        progress = msgspec.structs.replace(
            progress, place=place, messages=progress.messages + len(changes.added)
        )
        self._commit(changes, progress)
        self._versions |= versions

    def save(self, progress: Progress | None) -> None:
        """Store the progress of the copy; None if the copy is complete."""
        self._commit(Changes(self._number + 1, self._number), progress)

    def _commit(self, changes: Changes, progress: Progress | None) -> None:
        changes.records[UNFINISHED, _KEY] = None if progress is None else PROGRESS.encode(progress)
        self.store.append(changes, self._mark)
        self._number = changes.number
        self.progress, self.is_marked = progress or self.progress, progress is not None


class AlreadyComplete(StoreRefused):
    """The target was filled from this source before. It may have served since: it is not touched."""


class StoreCopy:
    def __init__(
        self,
        sources: Sequence[OpenShard],
        targets: Sequence[OpenShard],
        mapping: ShardMapping,
        contents: ContentMover,
    ) -> None:
        """Raises StoreRefused if the target holds something else than the beginning of this copy."""
        self._sources = sources
        self._mapping = mapping
        self._contents = contents
        self._fresh = fingerprint(sources)
        found = [self._found(target.state) for target in targets]
        first = found[0] or self._fresh
        self.resumed = found[0] is not None
        self.is_verified = first.verified
        for target, progress in zip(targets, found, strict=True):
            # A shard without the record is either not begun or, once all were verified, complete.
            if progress is None and target.state.end.number and not self.is_verified:
                self._refuse_used(targets)
        self._targets = [
            FilledShard(target, shard.mark, progress or self._fresh, is_marked=progress is not None)
            for target, shard, progress in zip(targets, mapping.targets, found, strict=True)
        ]

    def _found(self, state: ShardState) -> Progress | None:
        """What an earlier run left in a shard of the target; None if that is nothing."""
        data = state.records.get(UNFINISHED, {}).get(_KEY)
        if data is None:
            return None
        found = PROGRESS.decode(data)
        if found.source != self._fresh.source:
            raise StoreRefused(
                "the target holds the beginning of a copy of another store: repeat that command, "
                "or remove what is in the target"
            )
        if found.source_end != self._fresh.source_end:
            raise StoreRefused(
                "the source was used after the copy to this target had begun: remove what is in the target, "
                "and begin again"
            )
        return found

    def _refuse_used(self, targets: Sequence[OpenShard]) -> NoReturn:
        former = [target.state.records.get(FORMER_SHARDS.name, {}) for target in targets]
        if former == [
            {each.key: each.data for each in shard.former_records} for shard in self._mapping.targets
        ]:
            raise AlreadyComplete(
                "the target is a complete copy of the source already: start the server on it"
            )
        raise StoreRefused("the target is not empty: give a new directory or an empty database")

    @property
    def messages(self) -> int:
        """How many were copied so far, by this run or an earlier one."""
        return sum(target.progress.messages for target in self._targets)

    def run(self, on_progress: Callable[[int], None]) -> None:
        """Copy what is not copied yet. ``on_progress`` is called with the messages copied so far."""
        self._begin()
        on_progress(self.messages)
        for source in range(self._targets[0].progress.place.shard, len(self._sources)):
            for page in self._pages(source):
                self._write(page)
                on_progress(self.messages)

    def _begin(self) -> None:
        """Note in every shard of the target that it is not complete, before anything else is written."""
        for target, shard in zip(self._targets, self._mapping.targets, strict=True):
            if target.progress.place == START:
                target.append(shard.former_records, START, set())

    def _write(self, page: Page) -> None:
        parts: dict[int, list[Item]] = defaultdict(list)
        for place, target, item in page.items:
            if place > self._targets[target].progress.place:
                parts[target].append(item)
        for index in range(len(self._targets) - 1, -1, -1):
            if index in parts or index == 0:
                self._targets[index].append(parts[index], page.end, self._contents.versions)

    def finish(self) -> None:
        """Everything was verified: from now on the target can serve."""
        first = self._targets[0]
        first.save(msgspec.structs.replace(first.progress, verified=True))
        for target in reversed(self._targets):
            if target.is_marked:
                target.save(None)

    # -- reading the source ----------------------------------------------------------------------------------

    def _pages(self, source: int) -> Iterator[Page]:
        reached = self._targets[0].progress.place
        stage, queue, after = reached[1:] if reached.shard == source else START[1:]
        if stage <= Stage.RECORDS:
            yield from self._records(source)
        if stage <= Stage.SENDS:
            yield from self._sends(source, queue, after if stage == Stage.SENDS else 0)
        if stage <= Stage.MESSAGES:
            yield from self._messages(source, after if stage == Stage.MESSAGES else 0)
        for of_metrics in (Stage.METRICS, Stage.HOURS):
            if stage <= of_metrics:
                yield from self._metrics(of_metrics, source, queue, after if stage == of_metrics else -1)

    def _records(self, source: int) -> Iterator[Page]:
        items = (
            (Place(source, Stage.RECORDS, 0, number), target, record)
            for number, (target, record) in enumerate(self._mapping.records(source), 1)
        )
        while page := list(islice(items, ROWS_PER_PAGE)):
            yield Page(list[tuple[Place, int, Item]](page), page[-1][0])

    def _sends(self, source: int, queue: int, after: int) -> Iterator[Page]:
        store = self._sources[source].store
        for id, moved in sorted(self._mapping.queues(source).items()):
            last = after if id == queue else 0
            while id >= queue and moved.record.settings.fifo:
                sends = store.dedup(id, self._mapping.now_ms, last, ROWS_PER_PAGE)
                if not sends:
                    break
                last = sends[-1].seq
                items: list[tuple[Place, int, Item]] = [
                    (Place(source, Stage.SENDS, id, send.seq), moved.target, moved.send(send))
                    for send in sends
                ]
                yield Page(items, items[-1][0])

    def _messages(self, source: int, after: int) -> Iterator[Page]:
        store = self._sources[source].store
        while rows := store.scan(after, LAST, ROWS_PER_PAGE, BYTES_PER_PAGE):
            after = rows[-1].seq
            items: list[tuple[Place, int, Item]] = []
            for row in rows:
                if (queue := self._mapping.queue_of(source, row)) is not None:
                    place = Place(source, Stage.MESSAGES, 0, row.seq)
                    returned = self._mapping.returned(source, row)
                    items.append((place, queue.target, self._contents.moved(queue, returned)))
            yield Page(items, Place(source, Stage.MESSAGES, 0, after))

    def _metrics(self, stage: Stage, source: int, queue: int, after: int) -> Iterator[Page]:
        chunks_of = self._mapping.metrics if stage == Stage.METRICS else self._mapping.hours
        store = self._sources[source].store
        for id, moved in sorted(self._mapping.queues(source).items()):
            if id < queue and after >= 0:
                continue
            chunks = chunks_of(source, store, id, after if id == queue else -1)
            while page := list(islice(chunks, CHUNKS_PER_PAGE)):
                items: list[tuple[Place, int, Item]] = [
                    (Place(source, stage, id, chunk.position), moved.target, chunk) for chunk in page
                ]
                yield Page(items, items[-1][0])
