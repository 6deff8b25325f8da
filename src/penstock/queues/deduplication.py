"""The memory of FIFO sends: the same deduplication id within the window is a duplicate.

SQS: the window (five minutes, ``Limits.dedup_window_ms``) counts from the first send and duplicates do not extend it.
It outlives the message and a restart, but not a purge.

A send is kept as a digest of 16 bytes, because five minutes of a busy queue are a million of them. Digests are stored
beside messages that may be encrypted, so they are keyed: without the key they cannot be matched with ids or bodies.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from hashlib import blake2b, sha256

from penstock.errors import DedupFull
from penstock.limits import Limits
from penstock.store.changes import DedupRow

_SEQ_BITS = 64
_SEQ_MASK = (1 << _SEQ_BITS) - 1


def content_id(body: str) -> str:
    return sha256(body.encode()).hexdigest()


class SendDigests:
    """Makes the digests under which sends are remembered."""

    def __init__(self, key: bytes) -> None:
        self._keyed = blake2b(key=key[:64], digest_size=16, person=b"dedup")

    def __call__(self, dedup_id: str, group: str | None) -> bytes:
        """``group`` is given where deduplication is per group."""
        keyed = self._keyed.copy()
        keyed.update((dedup_id if group is None else f"{group}\0{dedup_id}").encode())
        return keyed.digest()


class DedupUsage:
    """How many sends all FIFO queues remember, some 210 bytes each, counted per account.

    An account is bounded by itself, and when all accounts together reach the total, by an equal share of it: however
    much the others remember, it can always use its share."""

    __slots__ = ("_limits", "by_account", "total")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.by_account: dict[str, int] = {}
        self.total = 0

    def check(self, account: str, more: int) -> None:
        """Raise DedupFull if this account cannot have this many more."""
        used = self.by_account.get(account, 0) + more
        total_max = self._limits.dedup_entries_total_max
        if used > self._limits.dedup_entries_max:
            raise DedupFull
        if self.total + more > total_max and used * len({*self.by_account, account}) > total_max:
            raise DedupFull

    def add(self, account: str, count: int) -> None:
        """``count`` is negative for entries that expired."""
        self.total += count
        used = self.by_account.get(account, 0) + count
        if used:
            self.by_account[account] = used
        else:
            self.by_account.pop(account, None)


class DedupMemory:
    """One queue's memory. A digest maps to its expiry and the number of the first send, packed in one integer."""

    __slots__ = ("_account", "_order", "_sends", "_usage")

    def __init__(self, usage: DedupUsage, account: str) -> None:
        self._usage = usage
        self._account = account
        self._sends: dict[bytes, int] = {}
        self._order: deque[bytes] = deque()

    def __len__(self) -> int:
        return len(self._sends)

    def check_room(self, more: int) -> None:
        """Raise DedupFull if the account cannot have this many more remembered sends."""
        self._usage.check(self._account, more)

    def find(self, key: bytes, now_ms: int) -> int | None:
        """The number of the first send, if it is still remembered."""
        packed = self._sends.get(key)
        if packed is None or packed >> _SEQ_BITS <= now_ms:
            return None
        return packed & _SEQ_MASK

    def remember(self, key: bytes, seq: int, until_ms: int) -> None:
        if key not in self._sends:
            self._usage.add(self._account, 1)
        self._sends[key] = until_ms << _SEQ_BITS | seq
        self._order.append(key)

    def recall(self, sends: Sequence[DedupRow]) -> None:
        """Remember again, in bulk, what a store kept; oldest first."""
        before = len(self._sends)
        self._sends.update((key, until_ms << _SEQ_BITS | seq) for _, seq, key, until_ms in sends)
        self._order.extend(key for _, _, key, _ in sends)
        self._usage.add(self._account, len(self._sends) - before)

    def next_expiry_ms(self) -> int | None:
        """When the oldest entry leaves its window."""
        return self._sends.get(self._order[0], 0) >> _SEQ_BITS if self._order else None

    def forget(self, now_ms: int) -> tuple[int, int]:
        """Drop what is past its window. Returns the highest number dropped (0 if none), and how many were dropped."""
        forgotten, before = 0, len(self._sends)
        while self._order:
            packed = self._sends.get(self._order[0])
            if packed is not None and packed >> _SEQ_BITS > now_ms:
                break
            key = self._order.popleft()
            if packed is not None:
                forgotten = packed & _SEQ_MASK
                del self._sends[key]
        dropped = before - len(self._sends)
        if dropped:
            self._usage.add(self._account, -dropped)
        return forgotten, dropped

    def clear(self) -> None:
        self._usage.add(self._account, -len(self._sends))
        self._sends.clear()
        self._order.clear()
