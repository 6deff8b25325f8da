"""How many messages and bytes each queue holds, kept up to date with every write.

Counting all messages takes the longer the more there are, so it is done once, when somebody first asks; nobody pays
who never does. From then on the messages that a write touches are weighed before and after it, in its transaction.
Nothing is noted of a write that the store did not take.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import chain

import msgspec

from penstock.store.changes import Changes
from penstock.store.port import Usage
from penstock.store.sqlite import statements

_SQL = statements.load("usage")
_encode = msgspec.json.Encoder().encode
_read = msgspec.json.Decoder(list[tuple[int, int, int]]).decode
_NOTHING = Usage(0, 0)
_NOBODY_ASKS = nullcontext()

Weights = dict[int, Usage]


class Meter:
    """All of it within the lock of who writes."""

    def __init__(self) -> None:
        self._usage: Weights | None = None  # None: nobody has asked
        self._next: Weights = {}  # what a write makes of it, once it is durable

    def usage(self, connection: sqlite3.Connection) -> Weights:
        if self._usage is None:
            self._usage = _weights(connection, "everything")
        return dict(self._usage)

    def watching(self, connection: sqlite3.Connection, changes: Changes) -> AbstractContextManager[None]:
        """Around the writing of a batch within its transaction."""
        return _NOBODY_ASKS if self._usage is None else self._watching(connection, changes)

    @contextmanager
    def _watching(self, connection: sqlite3.Connection, changes: Changes) -> Iterator[None]:
        touched = chain((row.seq for row in changes.added), changes.updated, changes.removed)
        with self.weighing(connection, touched):
            yield
        for queue in changes.purged:
            self._next[queue] = _weights(connection, "of_purged_queue", queue=queue).get(queue, _NOTHING)
        for queue in changes.dropped:
            self._next[queue] = _NOTHING

    @contextmanager
    def weighing(self, connection: sqlite3.Connection, seqs: Iterable[int]) -> Iterator[None]:
        """Around a write that touches these messages and no others."""
        self._next = {}
        if self._usage is None:
            yield
            return
        asked = _encode(list(seqs)).decode()
        before = _weights(connection, "of_messages", seqs=asked)
        yield
        after = _weights(connection, "of_messages", seqs=asked)
        for queue in before.keys() | after.keys():
            held, less = self._usage.get(queue, _NOTHING), before.get(queue, _NOTHING)
            more = after.get(queue, _NOTHING)
            self._next[queue] = Usage(
                held.messages - less.messages + more.messages, held.bytes - less.bytes + more.bytes
            )

    def durable(self) -> None:
        """What was watched last is durable."""
        for queue, held in self._next.items():
            assert self._usage is not None
            if held.messages:
                self._usage[queue] = held
            else:
                self._usage.pop(queue, None)
        self._next = {}


def _weights(connection: sqlite3.Connection, statement: str, **asked: object) -> Weights:
    (rows,) = connection.execute(_SQL[statement], asked).fetchone()
    return {queue: Usage(messages, size) for queue, messages, size in _read(rows)}
