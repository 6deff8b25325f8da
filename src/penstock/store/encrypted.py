"""A store around a store: what it passes down is encrypted, what it gives back is plain, and nobody else knows.

Rule 1: a content is sealed on its way to the disk, in the thread that writes, under the key its queue names then.
Rule 2: a content that cannot be opened does not stop the paging of a queue: ``waiting`` leaves it out, and who wants
        it asks ``contents``, which says why.
Rule 3: sealed and plain contents may lie beside each other: encryption can be turned on and off at any time.
Rule 4: nothing is remembered of a batch that the store did not take.
Rule 5: the store knows under which versions of keys anything was ever sealed, before it is: so a start without those
        keys is noticed at once, and not by the first receiver.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from penstock.errors import DecryptionFailed, KeyUnavailable
from penstock.limits import MINUTE
from penstock.names import KeyUse, Space
from penstock.store.changes import Changes, EntryRow, QueueRecord
from penstock.store.port import CONTENT_BYTES_PER_READ, Head, Mark, Resealed, Shard, Store

log = logging.getLogger("penstock.store")

_MANAGED_REUSE_MS = 5 * MINUTE
_HEADS_PER_READ = 10_000
_NO_QUEUE = KeyUse(Space("", ""), None, _MANAGED_REUSE_MS)


class Cipher(Protocol):
    @property
    def head_bytes(self) -> int:
        """So much of the beginning of a content tells how it is sealed."""

    @property
    def seals(self) -> bool:
        """False: it gives every content back as it is."""

    def seal(self, contents: Sequence[tuple[KeyUse, int, bytes]]) -> list[bytes]:
        """Each content sealed under the key its queue uses, and bound to its seq. Never fails."""

    def open(self, seq: int, content: bytes) -> bytes:
        """Plain contents are given back as they are. Raises KeyUnavailable or DecryptionFailed."""

    def knows(self, head: bytes) -> bool:
        """Is there the key, disabled perhaps, of a content that begins so? Plain contents need none."""

    def is_outdated(self, use: KeyUse, head: bytes) -> bool:
        """Should the content that begins so be sealed anew?"""


class EncryptedStore:
    def __init__(self, store: Store, cipher: Cipher, admit: Callable[[bytes | None], None]) -> None:
        """``admit`` is asked when the store is open, before anything is sealed. It is given the head of a stored
        content whose key is not there, or None, and raises StoreRefused if that is not to be."""
        self._store = store
        self._cipher = cipher
        self._admit = admit
        self._seals: frozenset[bytes] = frozenset()
        self._uses: dict[int, KeyUse | None] = {}  # by queue; None: it wants no encryption
        self.newest = 0  # no message has a higher seq
        self.close = store.close
        self.cooldowns = store.cooldowns
        self.tasks = store.tasks
        self.tally = store.tally
        self.groups = store.groups
        self.delayed = store.delayed
        self.in_flight = store.in_flight
        self.lookup = store.lookup
        self.expired = store.expired
        self.oldest_ms = store.oldest_ms
        self.younger = store.younger
        self.dedup = store.dedup
        self.heads = store.heads
        self.remember_seals = store.remember_seals
        self.usage = store.usage
        self.tidy = store.tidy
        self.free_bytes = store.free_bytes
        self.release_reserve = store.release_reserve
        self.restore_reserve = store.restore_reserve

    def open(self) -> Shard:
        shard = self._store.open()
        self._learn(shard.queues)
        self.newest = shard.mark.next_number
        self._seals = shard.seals
        try:
            self._admit(self._without_key())
        except BaseException:
            self.close()
            raise
        return shard

    def _without_key(self) -> bytes | None:
        """How a stored content begins whose key is not there; None: all can be opened."""
        missing = {seal for seal in self._seals if not self._cipher.knows(seal)}
        if not missing:
            return None
        # What was sealed under the missing key may be gone by now: encryption was turned off, and all was received.
        found, after, size = set(), 0, self._cipher.head_bytes
        while heads := self._store.heads(after, self.newest, _HEADS_PER_READ, size):
            after = heads[-1].seq
            for head in heads:
                if head.queue not in self._uses:
                    continue  # its queue is gone, and so will it be
                if head.start in missing:
                    return head.start
                found.add(head.start)
        self._seals &= found
        self._store.remember_seals(self._seals)
        return None

    def queues(self) -> list[QueueRecord]:
        queues = self._store.queues()
        self._learn(queues)
        return queues

    def _learn(self, queues: list[QueueRecord]) -> None:
        self._uses = {record.id: _use(record) for record in queues}

    # -- sealing ---------------------------------------------------------------------------------------------

    def append(self, changes: Changes, mark: Mark) -> None:
        told = {record.id: _use(record) for record in changes.queues.values()}
        if changes.added and self._cipher.seals:
            # Whoever made the batch still holds it, and it stays plain.
            added = self._sealed(changes.added, {**self._uses, **told} if told else self._uses)
            self._store.append(changes if added is changes.added else changes.with_added(added), mark)
        else:
            self._store.append(changes, mark)
        if told:
            self._uses |= told
        for queue in changes.dropped:
            self._uses.pop(queue, None)
        self.newest = mark.next_number

    def _sealed(self, added: list[EntryRow], uses: dict[int, KeyUse | None]) -> list[EntryRow]:
        wanted = []
        for row in added:
            assert row.content is not None, "a new message comes with its content"
            use = uses.get(row.queue, _NO_QUEUE)
            if use is not None:
                wanted.append((use, row.seq, row.content))
        if not wanted:
            return added
        sealed = dict(zip((seq for _, seq, _ in wanted), self._cipher.seal(wanted), strict=True))
        self._remember(sealed.values())
        return [EntryRow(*row[:-1], sealed.get(row.seq, row.content)) for row in added]

    def _remember(self, contents: Iterable[bytes]) -> None:
        size = self._cipher.head_bytes
        seals = self._seals.union([content[:size] for content in contents])
        if len(seals) > len(self._seals):
            self._store.remember_seals(seals)
            self._seals = seals

    # -- opening ---------------------------------------------------------------------------------------------

    def waiting(
        self,
        queue: int,
        group: str | None,
        after: int,
        due_ms_max: int,
        rows_max: int,
        content_bytes_max: int = CONTENT_BYTES_PER_READ,
    ) -> list[EntryRow]:
        rows = self._store.waiting(queue, group, after, due_ms_max, rows_max, content_bytes_max)
        return [self._opened(row) if row.content is not None else row for row in rows]

    def _opened(self, row: EntryRow) -> EntryRow:
        assert row.content is not None
        try:
            content = self._cipher.open(row.seq, row.content)
        except (KeyUnavailable, DecryptionFailed):
            return row._replace(content=None)
        return row if content is row.content else EntryRow(*row[:-1], content)

    def contents(self, seqs: Sequence[int]) -> dict[int, bytes]:
        """Raises KeyUnavailable. A broken content is left out: no key will ever open it."""
        opened = {}
        for seq, content in self._store.contents(seqs).items():
            try:
                opened[seq] = self._cipher.open(seq, content)
            except DecryptionFailed:
                log.error("the content of message %d is damaged or was exchanged: it cannot be opened", seq)
        return opened

    # -- sealing anew ----------------------------------------------------------------------------------------

    def resealed(self, after: int, upto: int, rows_max: int, bytes_max: int) -> Resealed:
        """Look at some messages in order of seq, and seal anew what is not sealed as its queue wants it today.

        Reads only: what it gives back is for ``rewrite``, by the thread that writes."""
        heads = self._store.heads(after, upto, rows_max, self._cipher.head_bytes)
        due: list[Head] = []
        size = looked_at = 0
        for head in heads:
            looked_at += 1
            use = self._uses.get(head.queue)
            if use is not None and self._cipher.is_outdated(use, head.start):
                due.append(head)
                size += head.size
                if size >= bytes_max:
                    break
        last = heads[looked_at - 1].seq if heads else None
        contents, unreadable = self._seal_anew(due)
        return Resealed(last, looked_at, contents, unreadable)

    def rewrite(self, contents: Sequence[tuple[int, bytes]]) -> None:
        if self._cipher.seals:
            self._remember(content for _, content in contents)
        self._store.rewrite(contents)

    def _seal_anew(self, due: list[Head]) -> tuple[list[tuple[int, bytes]], int]:
        found = self._store.contents([head.seq for head in due]) if due else {}
        wanted, unreadable = [], 0
        for head in due:
            use, content = self._uses.get(head.queue), found.get(head.seq)
            if use is None or content is None:
                continue  # gone meanwhile
            try:
                wanted.append((use, head.seq, self._cipher.open(head.seq, content)))
            except (KeyUnavailable, DecryptionFailed):
                unreadable += 1
        seqs = [seq for _, seq, _ in wanted]
        return list(zip(seqs, self._cipher.seal(wanted), strict=True)), unreadable


def _use(record: QueueRecord) -> KeyUse | None:
    settings = record.settings
    if settings.kms_key is None and not settings.sse_managed:
        return None
    reuse_ms = settings.kms_reuse_ms if settings.kms_key is not None else _MANAGED_REUSE_MS
    return KeyUse(record.name.space, settings.kms_key, reuse_ms)
