"""A store that keeps everything in memory, for ``--memory`` and for tests: dictionaries, and sorted keys.

It is as atomic as any other: a commit is checked before its first change is made, so nothing can fail half-way.
"""

from __future__ import annotations

import secrets
import threading
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from itertools import islice

from penstock.errors import DataRefused, StoreLost
from penstock.store.changes import Changes, DedupRow, EntryRow, EntryUpdate, LogRow, Purge, Replacement
from penstock.store.port import (
    CONTENT_BYTES_PER_READ,
    LAST,
    Cursor,
    GroupCount,
    JournalEnd,
    Mark,
    Order,
    Selection,
    ShardState,
    StoreStatus,
    Usage,
)

Key = tuple[int, int, int]
"""(time or 0, position, seq): sorted, it is one of the three orders."""

_ORDERS: dict[Order, Callable[[EntryRow], Key]] = {
    Order.POSITION: lambda row: (0, row.position, row.seq),
    Order.AGE: lambda row: (row.enqueued_ms, row.position, row.seq),
    Order.DUE: lambda row: (row.due_ms, row.position, row.seq),
}
_NO_PURGE = Purge(0, 0)
_BLOCK_MAX = 1024
_FIRST = (-1, -1, -1)


class SortedKeys:
    """A sorted list in blocks: adding and removing stays cheap however long it is."""

    __slots__ = ("_blocks", "_last")

    def __init__(self) -> None:
        self._blocks: list[list[Key]] = []
        self._last: list[Key] = []  # of each block

    def __bool__(self) -> bool:
        return bool(self._blocks)

    def add(self, key: Key) -> None:
        if not self._blocks:
            self._blocks.append([key])
            self._last.append(key)
            return
        i = min(bisect_left(self._last, key), len(self._last) - 1)
        block = self._blocks[i]
        insort(block, key)
        if len(block) > _BLOCK_MAX:
            self._blocks.insert(i + 1, block[_BLOCK_MAX // 2 :])
            self._last.insert(i + 1, block[-1])
            del block[_BLOCK_MAX // 2 :]
        self._last[i] = block[-1]

    def remove(self, key: Key) -> None:
        i = bisect_left(self._last, key)
        block = self._blocks[i]
        j = bisect_left(block, key)
        assert block[j] == key
        del block[j]
        if block:
            self._last[i] = block[-1]
        else:
            del self._blocks[i], self._last[i]

    def after(self, key: Key) -> Iterator[Key]:
        i = bisect_right(self._last, key)
        if i < len(self._blocks):
            yield from islice(self._blocks[i], bisect_right(self._blocks[i], key), None)
            for block in islice(self._blocks, i + 1, None):
                yield from block


class _Queue:
    """The messages of one queue, in each order; and in order of position by group."""

    __slots__ = ("bytes", "groups", "messages", "orders")

    def __init__(self) -> None:
        self.orders: dict[Order, SortedKeys] = {order: SortedKeys() for order in Order}
        self.groups: dict[str | None, SortedKeys] = {}
        self.messages = self.bytes = 0  # that are not void

    def lists(self, row: EntryRow) -> Iterator[tuple[SortedKeys, Key]]:
        for order, key_of in _ORDERS.items():
            if order is not Order.DUE or row.due_ms > 0:
                yield self.orders[order], key_of(row)
        group = self.groups.get(row.group)
        if group is None:
            group = self.groups[row.group] = SortedKeys()
        yield group, _ORDERS[Order.POSITION](row)


class MemoryStore:
    syncs_late = False

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._end = JournalEnd(0, b"")
        self._mark = Mark(1, 0, 0)
        self._secret = secrets.token_bytes(32)
        self._records: dict[str, dict[str, bytes]] = {}
        self._logs: dict[tuple[str, str], dict[int, bytes]] = {}
        self._rows: dict[int, EntryRow] = {}  # by seq
        self._queues: dict[int, _Queue] = {}
        self._dedup: dict[int, dict[int, DedupRow]] = {}  # by queue and seq
        self._purges: dict[int, Purge] = {}

    def open(self) -> ShardState:
        """Open the shard. If this is called again, it is as if another process had taken the shard."""
        with self._lock:
            self._end = JournalEnd(self._end.number, secrets.token_bytes(16))
            records = {kind: dict(records) for kind, records in self._records.items() if records}
            return ShardState(self._end, self._mark, self._secret, records, self.usage())

    def close(self) -> None:
        """Close the shard. What is stored stays until the object goes."""

    # -- writing ---------------------------------------------------------------------------------------------

    def append(self, changes: Changes, mark: Mark) -> Set[int]:
        with self._lock:
            self._check(changes)
            self._end = JournalEnd(changes.number, self._end.owner)
            self._mark = mark
            for queue, purge in changes.purged.items():
                self._void(queue, purge)
            for queue in changes.dropped:
                self._void(queue, Purge(LAST, LAST))
            for row in changes.added:
                self._put(row)
            for update in changes.updated.values():
                self._update(update)
            skipped = {each.seq for each in changes.replaced.values() if not self._replace(each)}
            for seq in changes.removed:
                self._remove(seq)
            for queue, (messages, size) in changes.counts.items():
                usage = self._queue(queue)
                usage.messages += messages
                usage.bytes += size
            self._write_rest(changes)
            return skipped

    def sync(self) -> None:
        """There is no disk."""

    def _check(self, changes: Changes) -> None:
        if changes.number != self._end.number + 1:
            raise StoreLost(
                f"commit {changes.number} does not follow the last one: another process owns the shard"
            )
        new: set[int] = set()
        for row in changes.added:
            if row.seq in self._rows or row.seq in new:
                raise DataRefused("a message is there already")
            new.add(row.seq)
            _check_text(row.group or "")
            if max(row.seq, row.position, row.due_ms, row.enqueued_ms) > LAST:
                raise DataRefused("a number is too large")
        for log in changes.logs:
            if log.position in self._logs.get((log.kind, log.key), {}):
                raise DataRefused("a position of a log is taken")
        for _, key in changes.records:
            _check_text(key)

    def _write_rest(self, changes: Changes) -> None:
        for (kind, key), data in changes.records.items():
            if data is None:
                self._records.get(kind, {}).pop(key, None)
            else:
                self._records.setdefault(kind, {})[key] = data
        for row in changes.dedup:
            if row.seq > self._purges.get(row.queue, _NO_PURGE).seq:
                self._dedup.setdefault(row.queue, {})[row.seq] = row
        for queue, seq in changes.dedup_forgotten.items():
            self._forget_sends(queue, seq)
        for kind, key, position, data in changes.logs:
            self._logs.setdefault((kind, key), {})[position] = data
        for name, upto in changes.truncated.items():
            log = self._logs.get(name, {})
            for position in [each for each in log if each <= upto]:
                del log[position]

    def _queue(self, id: int) -> _Queue:
        queue = self._queues.get(id)
        if queue is None:
            queue = self._queues[id] = _Queue()
        return queue

    def _put(self, row: EntryRow) -> None:
        self._rows[row.seq] = row
        for keys, key in self._queue(row.queue).lists(row):
            keys.add(key)

    def _remove(self, seq: int) -> EntryRow | None:
        row = self._rows.pop(seq, None)
        if row is not None:
            queue = self._queues[row.queue]
            for keys, key in queue.lists(row):
                keys.remove(key)
            if not queue.groups[row.group]:
                del queue.groups[row.group]
        return row

    def _update(self, update: EntryUpdate) -> None:
        row = self._remove(update.seq)
        if row is not None:
            self._put(row._replace(**update._asdict()))

    def _replace(self, new: Replacement) -> bool:
        row = self._rows.get(new.seq)
        if row is None or row.version != new.if_version or self._is_void(row):
            return False
        content = row.content if new.content is None else new.content
        self._remove(new.seq)
        self._put(row._replace(content=content, version=new.version, size=new.size, group=new.group))
        self._queues[row.queue].bytes += new.size - row.size
        return True

    def _void(self, queue: int, purge: Purge) -> None:
        before = self._purges.get(queue, _NO_PURGE)
        purge = Purge(max(before.position, purge.position), max(before.seq, purge.seq))
        self._purges[queue] = purge
        self._forget_sends(queue, purge.seq)
        if (voided := self._queues.get(queue)) is not None:
            voided.messages = voided.bytes = 0

    def _is_void(self, row: EntryRow) -> bool:
        return row.position <= self._purges.get(row.queue, _NO_PURGE).position

    def _forget_sends(self, queue: int, upto: int) -> None:
        sends = self._dedup.get(queue, {})
        for seq in [seq for seq in sends if seq <= upto]:
            del sends[seq]

    def maintain(self, rows_max: int) -> bool:
        with self._lock:
            if not self._purges:
                return False
            queue, purge = next(iter(self._purges.items()))
            keys = islice(self._keys(queue, Order.POSITION).after(_FIRST), rows_max)
            void = [seq for _, position, seq in keys if position <= purge.position]
            for seq in void:
                self._remove(seq)
            if not void:
                del self._purges[queue]
                if queue in self._queues and not self._queues[queue].orders[Order.POSITION]:
                    del self._queues[queue]
            return True

    # -- reading ---------------------------------------------------------------------------------------------

    def end(self) -> JournalEnd:
        return self._end

    def records(self, kind: str) -> dict[str, bytes]:
        with self._lock:
            return dict(self._records.get(kind, {}))

    def log(self, kind: str, key: str, after: int, rows_max: int) -> list[LogRow]:
        with self._lock:
            log = self._logs.get((kind, key), {})
            positions = sorted(position for position in log if position > after)[:rows_max]
            return [LogRow(kind, key, position, log[position]) for position in positions]

    def select(
        self,
        which: Selection,
        order: Order = Order.POSITION,
        *,
        after: Cursor | None = None,
        rows_max: int,
    ) -> list[EntryRow]:
        with self._lock:
            if order is Order.POSITION:
                start = Cursor(0, which.after)
            else:
                from_ms = which.enqueued_ms_min if order is Order.AGE else which.due_ms_min
                start = max(after or Cursor(-1, -1), Cursor(from_ms - 1, LAST))
            rows = self._selected(which, self._keys(which.queue, order), start)
            return [row._replace(content=None) for row in islice(rows, min(rows_max, len(self._rows)))]

    def _keys(self, queue: int, order: Order) -> SortedKeys:
        found = self._queues.get(queue)
        return SortedKeys() if found is None else found.orders[order]

    def _selected(self, which: Selection, keys: SortedKeys, start: Cursor) -> Iterator[EntryRow]:
        for _, _, seq in keys.after((*start, LAST)):
            row = self._rows[seq]
            if (
                row.position > which.after
                and which.due_ms_min <= row.due_ms <= which.due_ms_max
                and which.enqueued_ms_min <= row.enqueued_ms <= which.enqueued_ms_max
                and which.received in (None, row.receives > 0)
            ):
                yield row

    def lane(
        self,
        which: Selection,
        group: str | None,
        rows_max: int,
        content_bytes_max: int = CONTENT_BYTES_PER_READ,
    ) -> list[EntryRow]:
        with self._lock:
            queue = self._queues.get(which.queue)
            keys = SortedKeys() if queue is None else queue.groups.get(group) or SortedKeys()
            rows = islice(self._selected(which, keys, Cursor(0, which.after)), rows_max)
            return list(_within(rows, content_bytes_max))

    def groups(self, which: Selection, rows_max: int) -> tuple[list[GroupCount], int]:
        with self._lock:
            found: dict[str | None, GroupCount] = {}
            last = which.after
            keys = self._keys(which.queue, Order.POSITION)
            for row in islice(self._selected(which, keys, Cursor(0, which.after)), rows_max):
                last = row.position
                _, messages, first = found.get(row.group, (row.group, 0, row.position))
                found[row.group] = GroupCount(row.group, messages + 1, first)
            return list(found.values()), last

    def count(self, which: Selection) -> int:
        with self._lock:
            hidden = which.due_ms_min > 0
            order, from_ms = (Order.DUE, which.due_ms_min) if hidden else (Order.AGE, which.enqueued_ms_min)
            keys = self._keys(which.queue, order)
            return sum(1 for _ in self._selected(which, keys, Cursor(from_ms - 1, LAST)))

    def lookup(self, queue: int, after: int, seqs: Sequence[int]) -> list[EntryRow]:
        with self._lock:
            rows = (self._rows.get(seq) for seq in seqs)
            return [
                row._replace(content=None)
                for row in rows
                if row is not None and row.queue == queue and row.position > after
            ]

    def contents(self, seqs: Sequence[int]) -> dict[int, bytes]:
        with self._lock:
            return {
                seq: row.content
                for seq in seqs
                if (row := self._rows.get(seq)) is not None and row.content is not None
            }

    def scan(self, after: int, upto: int, rows_max: int, content_bytes_max: int) -> list[EntryRow]:
        with self._lock:
            seqs = sorted(seq for seq in self._rows if after < seq <= upto)
            rows = (row for seq in seqs if not self._is_void(row := self._rows[seq]))
            whole = _within(islice(rows, rows_max), content_bytes_max)
            return [row for row in whole if row.content is not None]

    def dedup(self, queue: int, now_ms: int, after: int = 0, rows_max: int = LAST) -> list[DedupRow]:
        with self._lock:
            sends = sorted(self._dedup.get(queue, {}).values(), key=lambda send: send.seq)
            found = [send for send in sends if send.seq > after and send.until_ms > now_ms]
            return found[:rows_max]

    def usage(self, queue: int | None = None) -> dict[int, Usage]:
        with self._lock:
            asked = self._queues if queue is None else {queue: self._queues.get(queue, _Queue())}
            return {id: Usage(each.messages, each.bytes) for id, each in asked.items() if each.messages}

    def status(self) -> StoreStatus:
        return StoreStatus()


def _within(rows: Iterable[EntryRow], content_bytes_max: int) -> Iterator[EntryRow]:
    """Yields the rows, with contents up to about this many bytes; those beyond have no content."""
    for row in rows:
        if content_bytes_max <= 0:
            yield row._replace(content=None)
        else:
            content_bytes_max -= len(row.content or b"")
            yield row


class MemorySite:
    is_local = True
    guarantees = "none: nothing survives a stop"

    def __init__(self, shards: int = 1) -> None:
        self.shards = shards
        self._stores = [MemoryStore() for _ in range(shards)]

    def open(self) -> None: ...

    def shard(self, index: int) -> MemoryStore:
        """The same one each time: a shard that was closed can be opened again."""
        return self._stores[index]

    def forget(self) -> None:
        """Forget all that is stored. No shard may be open."""
        self._stores = [MemoryStore() for _ in range(self.shards)]

    def close(self) -> None: ...


def _check_text(text: str) -> None:
    """Refuse text that is not Unicode, like other stores."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise DataRefused("a text is not Unicode") from error
