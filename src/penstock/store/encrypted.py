"""A store around a store: contents are encrypted on the way down and decrypted on the way back.

A content is encrypted in the thread that writes, under the key that its queue names then. Encrypted and plain
contents may lie beside each other, so encryption can be turned on and off at any time. A content that cannot be
decrypted does not stop the paging of a queue: ``lane`` leaves it out, and ``contents`` says why.

Every version of a key that was ever used is a record of the store, written with the first content under it. So a
start without those keys is noticed at once, and not by the first receiver.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence, Set
from typing import Protocol, TypeVar

from penstock.errors import DecryptionFailed, KeyUnavailable
from penstock.limits import MINUTE
from penstock.names import KeyUse, Space
from penstock.store.changes import Changes, EntryRow, Replacement
from penstock.store.port import (
    CONTENT_BYTES_PER_READ,
    LAST,
    Mark,
    OutdatedMessages,
    Selection,
    ShardState,
    Store,
)

log = logging.getLogger("penstock.store")

RowT = TypeVar("RowT", EntryRow, Replacement)

KEY_VERSIONS = "key_version"
"""Records of this kind have the first bytes of encrypted contents as their key, in hexadecimal digits."""

_new = tuple.__new__
_CONTENT = EntryRow._fields.index("content")
_ROWS_PER_READ, _BYTES_PER_READ = 10_000, 8 * 1024 * 1024
_NO_QUEUE = KeyUse(Space("", ""), None, 5 * MINUTE)


class Cipher(Protocol):
    @property
    def head_bytes(self) -> int:
        """How many bytes at the start of a content tell how it is encrypted."""

    @property
    def encrypts(self) -> bool:
        """Whether it encrypts; otherwise it gives every content back as it is."""

    def encrypt(self, contents: Sequence[tuple[KeyUse | None, int, bytes]]) -> tuple[list[bytes], set[bytes]]:
        """Returns each content encrypted under the key that its queue uses and bound to its seq, or as it is if its
        queue uses no key. Also returns how the encrypted ones begin, up to ``head_bytes``. Never fails."""

    def decrypt(self, seq: int, content: bytes) -> bytes:
        """Plain contents are given back as they are. Raises KeyUnavailable or DecryptionFailed."""

    def has_key(self, head: bytes) -> bool:
        """Whether the key, disabled perhaps, of a content that begins so exists. Plain contents need no key."""

    def needs_reencryption(self, use: KeyUse, head: bytes) -> bool:
        """Whether the content that begins so should be encrypted again."""


class EncryptedStore:
    def __init__(
        self,
        store: Store,
        cipher: Cipher,
        admit: Callable[[bytes | None], None],
        queue_kind: str,
        key_use: Callable[[bytes], tuple[int, KeyUse | None]],
    ) -> None:
        """``admit`` is called when the store is open, before anything is encrypted. It is given the beginning of a
        stored content whose key is missing, or None, and raises StoreRefused to refuse the start. ``key_use`` reads
        from a record of ``queue_kind`` which queue it is of and how that wants its messages encrypted."""
        self._store = store
        self._cipher = cipher
        self._admit = admit
        self._queue_kind = queue_kind
        self._key_use = key_use
        self._versions: Set[str] = frozenset()
        self._gone: Set[str] = frozenset()  # versions that no content has any more, to be forgotten
        self._uses: dict[int, KeyUse | None] = {}  # by queue; None: it wants no encryption
        self.newest = 0  # no message has a higher seq
        self.close = store.close
        self.syncs_late = store.syncs_late
        self.sync = store.sync
        self.end = store.end
        self.records = store.records
        self.log = store.log
        self.select = store.select
        self.groups = store.groups
        self.count = store.count
        self.lookup = store.lookup
        self.dedup = store.dedup
        self.usage = store.usage
        self.maintain = store.maintain
        self.status = store.status

    def open(self) -> ShardState:
        state = self._store.open()
        self._uses = dict(map(self._key_use, state.records.get(self._queue_kind, {}).values()))
        self._versions = state.records.get(KEY_VERSIONS, {}).keys()
        self.newest = state.mark.next_number
        try:
            self._admit(self._without_key())
        except BaseException:
            self.close()
            raise
        if not self._cipher.encrypts and not self._gone:
            self.append = self._store.append  # type: ignore[method-assign]  # there is nothing to encrypt
            if not self._versions:
                self.lane = self._store.lane  # type: ignore[method-assign]  # nor to decrypt
        return state

    def _without_key(self) -> bytes | None:
        """How a stored content begins whose key is missing; None: all keys are there."""
        missing = {head for head in map(bytes.fromhex, self._versions) if not self._cipher.has_key(head)}
        # What was encrypted under the missing key may be gone: encryption was turned off, and all was received.
        after, size = 0, self._cipher.head_bytes
        while missing and (rows := self._store.scan(after, LAST, _ROWS_PER_READ, _BYTES_PER_READ)):
            after = rows[-1].seq
            for row in rows:
                if (head := (row.content or b"")[:size]) in missing:
                    return head
        self._gone = {head.hex() for head in missing}
        self._versions = self._versions - self._gone
        return None

    # -- encrypting ------------------------------------------------------------------------------------------

    def append(self, changes: Changes, mark: Mark) -> Set[int]:
        uses = self._uses
        for (kind, _), data in changes.records.items():
            if kind == self._queue_kind and data is not None:
                queue, use = self._key_use(data)
                uses = {**uses, queue: use}
        versions = self._versions
        stored = changes
        if self._cipher.encrypts and (changes.added or changes.replaced):
            stored, versions = self._encrypted(changes, uses)
        if self._gone:
            stored = stored.with_contents(stored.added, stored.replaced)
            stored.records = stored.records | {(KEY_VERSIONS, head): None for head in self._gone}
        skipped = self._store.append(stored, mark)
        # Nothing is remembered of a commit that the store refused.
        self._gone = frozenset()
        self._versions = versions
        self._uses = uses
        for queue in changes.dropped:
            self._uses.pop(queue, None)
        self.newest = mark.next_number
        return skipped

    def _encrypted(self, changes: Changes, uses: dict[int, KeyUse | None]) -> tuple[Changes, Set[str]]:
        """The same commit with encrypted contents, and all versions of keys with those that it is the first to use.

        Who made the commit still holds it, and it stays plain."""
        added, heads = self._encrypted_rows(changes.added, uses)
        replaced = changes.replaced
        with_content = [each for each in replaced.values() if each.content is not None]
        if with_content:
            rows, others = self._encrypted_rows(with_content, uses)
            replaced = replaced | {each.seq: each for each in rows}
            heads |= others
        if not heads:
            return changes, self._versions
        stored = changes.with_contents(added, replaced)
        news = {head.hex() for head in heads} - self._versions
        if not news:
            return stored, self._versions
        stored.records = changes.records | {(KEY_VERSIONS, head): b"" for head in news}
        return stored, news | self._versions

    def _encrypted_rows(
        self, rows: list[RowT], uses: dict[int, KeyUse | None]
    ) -> tuple[list[RowT], set[bytes]]:
        """The same rows with encrypted contents, and how those begin."""
        plain: list[tuple[KeyUse | None, int, bytes]] = []
        for row in rows:
            assert row.content is not None, "a new message comes with its content"
            plain.append((uses.get(row.queue, _NO_QUEUE), row.seq, row.content))
        contents, heads = self._cipher.encrypt(plain)
        if not heads:
            return rows, heads
        # By position: _replace goes by the names of the fields, and is slower.
        place = rows[0]._fields.index("content")
        stored: list[RowT] = []
        for row, content in zip(rows, contents, strict=True):
            values: list[object] = list(row)
            values[place] = content
            stored.append(_new(type(row), values))
        return stored, heads

    # -- decrypting ------------------------------------------------------------------------------------------

    def lane(
        self,
        which: Selection,
        group: str | None,
        rows_max: int,
        content_bytes_max: int = CONTENT_BYTES_PER_READ,
    ) -> list[EntryRow]:
        rows = self._store.lane(which, group, rows_max, content_bytes_max)
        return [self._decrypted(row) if row.content is not None else row for row in rows]

    def scan(self, after: int, upto: int, rows_max: int, content_bytes_max: int) -> list[EntryRow]:
        return [self._decrypted(row) for row in self._store.scan(after, upto, rows_max, content_bytes_max)]

    def _decrypted(self, row: EntryRow) -> EntryRow:
        assert row.content is not None
        try:
            content = self._cipher.decrypt(row.seq, row.content)
        except (KeyUnavailable, DecryptionFailed):
            return row._replace(content=None)
        if content is row.content:
            return row
        values: list[object] = list(row)
        values[_CONTENT] = content
        return _new(EntryRow, values)

    def contents(self, seqs: Sequence[int]) -> dict[int, bytes]:
        """Raises KeyUnavailable. A damaged content is left out: no key will ever decrypt it."""
        decrypted = {}
        for seq, content in self._store.contents(seqs).items():
            try:
                decrypted[seq] = self._cipher.decrypt(seq, content)
            except DecryptionFailed:
                log.error(
                    "the content of message %d is damaged or was exchanged: it cannot be decrypted", seq
                )
        return decrypted

    # -- encrypting again ------------------------------------------------------------------------------------

    def outdated(self, after: int, upto: int, rows_max: int, bytes_max: int) -> OutdatedMessages:
        """Check some messages in order of seq. Replacing a content by itself encrypts it as its queue wants it."""
        rows = self._store.scan(after, upto, rows_max, bytes_max)
        size = self._cipher.head_bytes
        found, unreadable = [], 0
        for row in rows:
            use = self._uses.get(row.queue)
            if use is None or not self._cipher.needs_reencryption(use, (row.content or b"")[:size]):
                continue
            decrypted = self._decrypted(row)
            if decrypted.content is None:
                unreadable += 1
            else:
                found.append(decrypted)
        return OutdatedMessages(rows[-1].seq if rows else None, len(rows), found, unreadable)
