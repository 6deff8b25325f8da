"""How values over time are kept, whatever they are about: rows by time, packed into chunks.

A row is what is known of a second, a minute and so on. A few rows are objects, and all others are packed bytes, in
memory as in the store. Rows that are like the one before cost nothing: they are counted. A reader unpacks only the
chunks of the time that was asked for.

A chunk begins with a byte that tells the version of its form. What earlier releases wrote has none, and is still read
(:meth:`ChunkForm.read_former`). It gets the new form when it is packed again.
"""

from __future__ import annotations

import logging
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from penstock.turns import Steps, finished

R = TypeVar("R")

log = logging.getLogger("penstock.metrics")

_VERSION = b"\x01"  # Neither zlib nor an array of msgpack begins like this.
_COMPRESSION = 3  # 6 takes up to four times as long, and saves five percent
_CHUNK_BYTES_MAX = 4 * 1024 * 1024  # unpacked
_STEP_BYTES = 2048  # of packed or unpacked rows: about 0.2 ms
_COPIES_PER_STEP = 20

CHUNK_BYTES = 200
"""What a packed chunk takes in memory beside its bytes."""

_encode = msgspec.msgpack.Encoder().encode


class TimedRow(NamedTuple, Generic[R]):
    """A row that holds for ``times`` buckets, one after the other."""

    at_s: int
    times: int
    row: R


def rows_between(
    timed: Iterable[TimedRow[R]], bucket_s: int, start_s: int, end_s: int
) -> Iterator[tuple[int, R]]:
    """The rows of buckets that begin in [start, end), each with its time."""
    for at_s, times, row in timed:
        passed = max(0, -((at_s - start_s) // bucket_s))
        for begin_s in range(at_s + passed * bucket_s, min(end_s, at_s + times * bucket_s), bucket_s):
            yield begin_s, row


def repeated(rows: Mapping[int, R], bucket_s: int) -> Iterator[TimedRow[R]]:
    """Rows by time, in order; those that are like the one before are counted."""
    last: R | None = None
    begin_s = end_s = times = 0
    for at_s in sorted(rows):
        row = rows[at_s]
        if times and at_s == end_s and row == last:
            times += 1
        else:
            if times:
                yield TimedRow(begin_s, times, rows[begin_s])
            begin_s, times, last = at_s, 1, row
        end_s = at_s + bucket_s
    if times:
        yield TimedRow(begin_s, times, rows[begin_s])


class ChunkForm(ABC, Generic[R]):
    """How rows of one type are merged and packed."""

    def __init__(self, stored: Any) -> None:
        """``stored``: the type that a row has in a chunk."""
        self._decode_rows = msgspec.msgpack.Decoder(list[tuple[int, int, msgspec.Raw]]).decode
        self._decode_row = msgspec.msgpack.Decoder(stored).decode

    @abstractmethod
    def merged(self, present: R, later: R) -> R:
        """Merges two rows of one bucket. It may change the first one."""

    @abstractmethod
    def copied(self, row: R) -> R:
        """A row that stays as it is if this one is merged with another."""

    @abstractmethod
    def to_stored(self, row: R) -> Any: ...

    @abstractmethod
    def from_stored(self, stored: Any) -> R: ...

    @abstractmethod
    def read_former(self, packed: bytes) -> list[TimedRow[R]]:
        """Unpacks a chunk of an earlier release. Raises ValueError if it is damaged."""

    def pack(self, timed: Iterable[TimedRow[R]]) -> bytes:
        """Packs rows. Those in order of time take the least space: each is stored with the time since the last."""
        return finished(self.packing(timed))

    def packing(self, timed: Iterable[TimedRow[R]]) -> Steps[bytes]:
        """Packs in steps: a chunk of rows with a thousand different values each takes 30 ms."""
        rows = list(timed)
        compressor = zlib.compressobj(_COMPRESSION)
        parts = [_VERSION, compressor.compress(_array_header(len(rows)))]
        before_s = since_step = 0
        for at_s, times, row in rows:
            encoded = _encode((at_s - before_s, times, self.to_stored(row)))
            parts.append(compressor.compress(encoded))
            before_s = at_s
            since_step += len(encoded)
            if since_step >= _STEP_BYTES:
                since_step = 0
                yield
        parts.append(compressor.flush())
        return b"".join(parts)

    def unpack(self, packed: bytes) -> list[TimedRow[R]]:
        """Raises ValueError if it is damaged."""
        return finished(self.unpacking(packed))

    def unpacking(self, packed: bytes) -> Steps[list[TimedRow[R]]]:
        """Unpacks in steps. Raises ValueError if the chunk is damaged."""
        if packed[:1] != _VERSION:
            return self.read_former(packed)
        found: list[TimedRow[R]] = []
        at_s = since_step = 0
        for later_s, times, encoded in self._decode_rows((yield from _decompressing(packed[1:]))):
            at_s += later_s
            found.append(TimedRow(at_s, times, self.from_stored(self._decode_row(encoded))))
            since_step += len(encoded)
            if since_step >= _STEP_BYTES:
                since_step = 0
                yield
        return found

    def readable(self, packed: bytes) -> list[TimedRow[R]]:
        """The rows of a chunk; none if it is damaged, which is logged."""
        return finished(self.reading(packed))

    def reading(self, packed: bytes) -> Steps[list[TimedRow[R]]]:
        """The same in steps."""
        try:
            return (yield from self.unpacking(packed))
        except ValueError as error:
            log.warning("some hours of metrics cannot be read and are left out: %s", error)
            return []


def _array_header(length: int) -> bytes:
    """How an array of msgpack begins: with it, its members can be encoded one by one."""
    return b"\xdd" + length.to_bytes(4, "big")


def decompressed(packed: bytes, bytes_max: int = _CHUNK_BYTES_MAX) -> bytes:
    """Raises ValueError if it is damaged, or larger than it may be."""
    return finished(_decompressing(packed, bytes_max))


def _decompressing(packed: bytes, bytes_max: int = _CHUNK_BYTES_MAX) -> Steps[bytes]:
    decompressor = zlib.decompressobj()
    parts: list[bytes] = []
    size = 0
    rest, part = packed, packed
    try:
        while not decompressor.eof and size < bytes_max and (rest or part):
            part = decompressor.decompress(rest, min(8 * _STEP_BYTES, bytes_max - size))
            rest = decompressor.unconsumed_tail
            parts.append(part)
            size += len(part)
            if rest:
                yield
    except zlib.error as error:
        raise ValueError(f"damaged metrics: {error}") from None
    if not decompressor.eof:
        raise ValueError("damaged metrics: they do not end")
    return b"".join(parts)


class TakenRows(Generic[R]):
    """The rows of [start, end) at the time of the question: they stay as they are when others are added."""

    def __init__(
        self,
        form: ChunkForm[R],
        bucket_s: int,
        start_s: int,
        end_s: int,
        chunks: list[bytes | dict[int, R]],
    ) -> None:
        """``chunks``: in order of time; of the open one the rows, by time."""
        self.bucket_s = bucket_s
        self._form = form
        self._start_s, self._end_s = start_s, end_s
        self._chunks = chunks

    def __iter__(self) -> Iterator[tuple[int, R]]:
        """Each row with its time, in order of time."""
        return (timed for timed in self.in_steps() if timed is not None)

    def in_steps(self) -> Iterator[tuple[int, R] | None]:
        """The same; None wherever the work of unpacking may pause."""
        for chunk in self._chunks:
            if isinstance(chunk, bytes):
                steps = self._form.reading(chunk)
                while True:
                    try:
                        next(steps)
                    except StopIteration as stop:
                        yield from rows_between(stop.value, self.bucket_s, self._start_s, self._end_s)
                        break
                    yield None
            else:
                yield from sorted(chunk.items(), key=lambda timed: timed[0])


class ChunkedRows(Generic[R]):
    """The rows of buckets of one length. One chunk is open, as objects; all others are packed.

    A chunk is known by its number: the time of its first bucket, in chunks since 1970."""

    __slots__ = (
        "_changes",
        "_form",
        "_open",
        "_packed",
        "_rows",
        "_shared",
        "_span_s",
        "bucket_s",
        "packed_bytes",
    )

    def __init__(self, form: ChunkForm[R], bucket_s: int, chunk_buckets: int) -> None:
        self._form = form
        self.bucket_s = bucket_s
        self._span_s = bucket_s * chunk_buckets
        self._packed: dict[int, bytes] = {}
        self._open = -1  # its number
        self._rows: dict[int, R] = {}  # of the open chunk, by time
        self._shared: set[int] = set()  # times of rows that a reader has
        self._changes = 0  # how often rows were added or dropped
        self.packed_bytes = 0
        """What the packed chunks take in memory."""

    def add(self, at_s: int, row: R) -> int:
        """Merges it with what its bucket has; returns the number of its chunk. The row must not be changed later."""
        number = at_s // self._span_s
        if number != self._open:
            finished(self._opening(number))
        self._changes += 1
        present = self._rows.get(at_s)
        if present is None:
            self._rows[at_s] = row
        else:
            if at_s in self._shared:
                self._shared.remove(at_s)
                present = self._form.copied(present)
            self._rows[at_s] = self._form.merged(present, row)
        return number

    def opening(self, at_s: int) -> Steps[None]:
        """Opens the chunk of a time in steps, so that a row is added to it quickly. Readers do not notice. If a
        chunk is dropped meanwhile, it may be that nothing is done."""
        number = at_s // self._span_s
        if number != self._open:
            yield from self._opening(number)

    def _opening(self, number: int) -> Steps[None]:
        before, changes = self._open, self._changes
        closed = (yield from self.packing(before)) if self._rows else None
        packed = self._packed.get(number)
        rows = {} if packed is None else (yield from self._unpacking(packed))
        if changes != self._changes:
            return
        if closed is not None:
            self.put(before, closed)
        self._remove_packed(number)
        self._open, self._rows, self._shared = number, rows, set()

    def _unpacking(self, packed: bytes) -> Steps[dict[int, R]]:
        copied = self._form.copied
        found: dict[int, R] = {}
        for at_s, times, row in (yield from self._form.reading(packed)):
            for place in range(times):
                found[at_s + place * self.bucket_s] = copied(row)
                if not len(found) % _COPIES_PER_STEP:
                    yield
        return found

    def taken(self, start_s: int, end_s: int) -> TakenRows[R]:
        """The rows of buckets that begin in [start, end)."""
        span_s, found = self._span_s, list[bytes | dict[int, R]]()
        for number in sorted(self.numbers()):
            if number == self._open:
                found.append(self._shared_rows(start_s, end_s))
            elif number * span_s < end_s and (number + 1) * span_s > start_s:
                found.append(self._packed[number])
        return TakenRows(self._form, self.bucket_s, start_s, end_s, found)

    def _shared_rows(self, start_s: int, end_s: int) -> dict[int, R]:
        """The rows of the open chunk. They are not copied, because a copy of all takes 4 ms if they are full: one
        that is to be merged is copied then."""
        rows = {at_s: row for at_s, row in self._rows.items() if start_s <= at_s < end_s}
        self._shared.update(rows)
        return rows

    @property
    def newest_s(self) -> int:
        """The time of the last row; 0 if there is none."""
        for number in sorted(self.numbers(), reverse=True):
            if number == self._open:
                return max(self._rows)
            timed = self._form.readable(self._packed[number])
            if timed:
                return max(at_s + (times - 1) * self.bucket_s for at_s, times, _ in timed)
        return 0

    @property
    def open_number(self) -> int:
        """The number of the open chunk; -1 if there is none."""
        return self._open

    @property
    def open_rows(self) -> Iterable[R]:
        return self._rows.values()

    # -- chunks ----------------------------------------------------------------------------------------------

    def numbers(self) -> set[int]:
        return self._packed.keys() | {self._open} if self._rows else set(self._packed)

    def chunk(self, number: int) -> bytes | None:
        """A chunk as it is stored; None if there is none."""
        return finished(self.packing(number))

    def packing(self, number: int) -> Steps[bytes | None]:
        """The same in steps. Nothing may be added meanwhile."""
        if number == self._open and self._rows:
            return (yield from self._form.packing(repeated(self._rows, self.bucket_s)))
        return self._packed.get(number)

    def packed_size(self, number: int) -> int:
        """What a packed chunk takes in memory."""
        return len(self._packed[number]) + CHUNK_BYTES

    def put(self, number: int, packed: bytes) -> None:
        """Replaces a chunk by one that was stored."""
        self.drop(number)
        self._packed[number] = packed
        self.packed_bytes += len(packed) + CHUNK_BYTES

    def merge(self, packed: bytes) -> None:
        """Adds the rows of a chunk."""
        for at_s, row in finished(self._unpacking(packed)).items():
            self.add(at_s, row)

    def drop(self, number: int) -> None:
        self._changes += 1
        self._remove_packed(number)
        if number == self._open:
            self._open, self._rows, self._shared = -1, {}, set()

    def trim(self, before_s: int) -> list[int]:
        """Removes the chunks that end before this time, and returns which that were."""
        first = before_s // self._span_s
        old = [number for number in self.numbers() if number < first]
        for number in old:
            self.drop(number)
        return old

    def _remove_packed(self, number: int) -> None:
        packed = self._packed.pop(number, None)
        if packed is not None:
            self.packed_bytes -= len(packed) + CHUNK_BYTES
