"""Contents of messages on their way to another store.

An encrypted content is bound to the seq of its message. Where a message keeps its seq, its content is copied as it
is and needs no key. Where it gets another seq, the content is decrypted and encrypted again, under the key that its
queue names today.
"""

from __future__ import annotations

from penstock.broker.catalogue import QUEUES, key_use
from penstock.errors import DecryptionFailed, KeyUnavailable, StoreRefused
from penstock.limits import MINUTE
from penstock.migrate.stores.mapping import MovedQueue
from penstock.names import KeyUse
from penstock.queues.settings import QueueRecord
from penstock.store.changes import EntryRow
from penstock.store.encrypted import Cipher


class ContentMover:
    def __init__(self, cipher: Cipher | None) -> None:
        """``cipher`` is needed to give an encrypted content another seq."""
        self._cipher = cipher
        self.versions: set[str] = set()
        """The keys of ``key_version`` records that the contents need which were encrypted again."""

    def plain(self, seq: int, content: bytes) -> bytes:
        """Decrypts a content. Raises StoreRefused."""
        if self._cipher is None:
            return content
        try:
            return self._cipher.decrypt(seq, content)
        except KeyUnavailable as error:
            raise StoreRefused(
                f"a message that gets another number is encrypted under {error.key}, which is disabled or not in "
                "the keyring: enable it, or give the keyring that belongs to the source"
            ) from None
        except DecryptionFailed as error:
            raise StoreRefused(
                f"the content of {error} is damaged: it cannot be decrypted. Delete it in the source first"
            ) from None

    def moved(self, queue: MovedQueue, row: EntryRow) -> EntryRow:
        """A message as the target keeps it. Raises StoreRefused."""
        moved = queue.row(row)
        if moved.seq == row.seq or self._cipher is None:
            return moved
        assert row.content is not None
        plain = self.plain(row.seq, row.content)
        if plain is row.content:
            return moved  # was not encrypted
        (encrypted,), heads = self._cipher.encrypt([(_use(queue.record), moved.seq, plain)])
        self.versions |= {head.hex() for head in heads}
        return moved._replace(content=encrypted)


def _use(queue: QueueRecord) -> KeyUse:
    _, use = key_use(QUEUES.encode(queue))
    # Once encrypted it is not written in plain, even if its queue wants no encryption any more.
    return use or KeyUse(queue.name.space, None, 5 * MINUTE)
