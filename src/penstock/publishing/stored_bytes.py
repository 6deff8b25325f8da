"""How many bytes the topics and subscriptions of each account take in one shard."""

from __future__ import annotations

from collections import Counter

import msgspec

from penstock.topics.records import Subscription, Topic

_OVERHEAD_BYTES = 1000  # of a record in memory, with what is known beside it
_encode = msgspec.json.Encoder().encode


def bytes_of(record: Topic | Subscription) -> int:
    return _OVERHEAD_BYTES + len(_encode(record))


class StoredBytes:
    """Records are counted by their keys, so that it does not matter how often one is noted."""

    def __init__(self) -> None:
        self._sizes: dict[str, tuple[str, int]] = {}
        self._totals: Counter[str] = Counter()

    def note(self, key: str, record: Topic | Subscription | None) -> None:
        """A record is this from now on; None: it is gone."""
        account, size = self._sizes.pop(key, ("", 0))
        self._totals[account] -= size
        if not self._totals[account]:
            del self._totals[account]
        if record is not None:
            account = record.name.account if isinstance(record, Topic) else record.owner
            size = bytes_of(record)
            self._sizes[key] = account, size
            self._totals[account] += size

    def of(self, account: str) -> int:
        return self._totals[account]
