"""Quotas: how many queues, messages and bytes one account may have in all its regions.

Messages and bytes are those of every durable commit, and of those not yet durable: exact, and never counted. A send
that does not fit is refused whole. What comes back, is dead-lettered or moved is not sent, and always fits.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Protocol

from penstock.broker.catalogue import Catalogue
from penstock.broker.parts import Part
from penstock.broker.shard import Commit, Shard
from penstock.errors import QuotaReached
from penstock.limits import Limits
from penstock.queues.messages import Entry, Outgoing
from penstock.store.changes import Changes

_NOTHING = (0, 0)
_OVERHEAD_BYTES = 192  # id, sender and time of a message


class OtherProcesses(Protocol):
    """What accounts hold in the shards of other processes, and what those learn of ours: messages and bytes."""

    def elsewhere(self, account: str) -> tuple[int, int]: ...

    def publish(self, account: str, messages: int, size: int) -> None: ...


class Quotas:
    """What accounts may store in all shards of the process, and of other processes that share the counters."""

    def __init__(self, limits: Limits, others: OtherProcesses | None = None) -> None:
        self.limits = limits
        self._others = others
        self._usages: set[ShardUsage] = set()
        self._by_account: dict[str, tuple[int, int]] = {}  # account -> messages and bytes, durable
        self.counts_processes = others is not None
        self.bounds_messages = bool(limits.quota_messages or limits.quota_bytes)

    def add_shard(self, usage: ShardUsage) -> None:
        """Add a shard, which counts from now on."""
        self._usages.add(usage)

    def remove_shard(self, usage: ShardUsage) -> None:
        """The shard belongs to another process now."""
        self._usages.discard(usage)

    def check_messages(self, account: str, messages: Sequence[Outgoing]) -> None:
        """Raise QuotaReached if these do not fit beside what the account has."""
        self.check(account, len(messages), sum(map(_size, messages)))

    def check(self, account: str, messages: int, bytes_more: int) -> None:
        """Raise QuotaReached if an account cannot have this many more messages and bytes."""
        self.compare(self.used(account), messages, bytes_more)

    def room(self) -> QuotaRoom | None:
        """Returns the room that accounts have left, for a decision about many queues in one turn; None if there are
        no quotas."""
        return QuotaRoom(self) if self.bounds_messages else None

    def used(self, account: str) -> tuple[int, int]:
        """How many messages and bytes an account has, with those that are not durable yet."""
        used, size = self._by_account.get(account, _NOTHING)
        sources = [usage.uncommitted for usage in self._usages]
        if self._others is not None:
            sources.append(self._others.elsewhere)
        for of in sources:
            used_there, size_there = of(account)
            used += used_there
            size += size_there
        return used, size

    def compare(self, used: tuple[int, int], messages: int, bytes_more: int) -> None:
        """Raise QuotaReached if an account that has this much cannot have this many more messages and bytes."""
        messages_max, bytes_max = self.limits.quota_messages, self.limits.quota_bytes
        if messages_max and messages and used[0] + messages > messages_max:
            raise QuotaReached("messages", messages_max)
        if bytes_max and used[1] + bytes_more > bytes_max:
            raise QuotaReached("bytes", bytes_max)

    def add(self, account: str, messages: int, size: int) -> None:
        """Add to what an account has; it is durable."""
        used = self._by_account.get(account, _NOTHING)
        self._by_account[account] = now = used[0] + messages, used[1] + size
        if self._others is not None:
            self._others.publish(account, *now)


class QuotaRoom:
    """The room that accounts have left. It is computed once for each account, so that a message for a thousand queues
    does not need a thousand sums. It is valid for one turn of the event loop, if everything that is added meanwhile
    is taken."""

    def __init__(self, quotas: Quotas) -> None:
        self._quotas = quotas
        self._used: dict[str, tuple[int, int]] = {}

    def check_departure(self, message: Outgoing, on_the_way: tuple[int, int]) -> None:
        """Raise QuotaReached if this message for another shard does not fit beside what its account has on the way.
        What the account has in queues is counted when the message arrives, and before it leaves where it is known."""
        self._quotas.compare(on_the_way, 1, _size(message))

    def check_messages(self, account: str, messages: Sequence[Outgoing]) -> None:
        """Raise QuotaReached if these do not fit beside what the account has."""
        self._quotas.compare(self._used_by(account), len(messages), sum(map(_size, messages)))

    def _used_by(self, account: str) -> tuple[int, int]:
        used = self._used.get(account)
        if used is None:
            used = self._used[account] = self._quotas.used(account)
        return used

    def take(self, account: str, entries: Sequence[Entry]) -> None:
        """Count entries that joined a queue of the account, after they were checked."""
        used, size = self._used[account]
        self._used[account] = used + len(entries), size + sum(entry.size for entry in entries)


class ShardUsage(Part):
    """What the queues of one shard hold. Their ids are unique within the shard only."""

    def __init__(self, shard: Shard, catalogue: Catalogue, quotas: Quotas) -> None:
        self._shard = shard
        self._catalogue = catalogue
        self._quotas = quotas
        self._by_queue: dict[int, tuple[int, int]] = {}  # queue -> messages and bytes, durable
        self._accounts: dict[int, str] = {}  # queue -> whose it is

    def start(self) -> None:
        if self._quotas.bounds_messages:
            self._quotas.add_shard(self)
            for queue, usage in self._shard.usage.items():
                self._set_usage(queue, usage)
            self._shard.watch(self._committed)

    def forget(self) -> None:
        self._quotas.remove_shard(self)
        for queue in list(self._by_queue):
            self._set_usage(queue, _NOTHING)

    def uncommitted(self, account: str) -> tuple[int, int]:
        """What changes that are not durable yet add to what an account has: messages and bytes."""
        uncommitted, used, size = self._shard.uncommitted(), 0, 0
        for queue in {queue for changes in uncommitted for queue in _concerned(changes)}:
            if self._account(queue) != account:
                continue
            before = after = self._by_queue.get(queue, _NOTHING)
            for changes in uncommitted:
                after = _following(after, queue, changes)
            used += after[0] - before[0]
            size += after[1] - before[1]
        return used, size

    def _committed(self, commit: Commit) -> None:
        changes = commit.changes
        for queue in _concerned(changes):
            usage = self._by_queue.get(queue, _NOTHING)
            self._set_usage(queue, _following(usage, queue, changes, commit.skipped))
        for queue in changes.dropped:
            self._by_queue.pop(queue, None)
            self._accounts.pop(queue, None)

    def _set_usage(self, queue: int, now: tuple[int, int]) -> None:
        account = self._account(queue)
        if account is not None:
            before, self._by_queue[queue] = self._by_queue.get(queue, _NOTHING), now
            self._quotas.add(account, now[0] - before[0], now[1] - before[1])

    def _account(self, queue: int) -> str | None:
        """A queue that was just deleted is no longer in the catalogue."""
        found = self._accounts.get(queue)
        if found is None and (live := self._catalogue.by_id(queue)) is not None:
            found = self._accounts[queue] = live.name.account
        return found


def _concerned(changes: Changes) -> set[int]:
    """The queues that hold more or less than before."""
    queues = {*changes.counts, *changes.dropped}
    return queues | {each.queue for each in changes.replaced.values()} if changes.replaced else queues


def _following(
    usage: tuple[int, int], queue: int, changes: Changes, skipped: Set[int] = frozenset()
) -> tuple[int, int]:
    """What a queue holds after these changes, without the edits that the store skipped."""
    if queue in changes.purged or queue in changes.dropped:
        usage = _NOTHING
    messages, size = changes.counts.get(queue, _NOTHING)
    for each in changes.replaced.values():
        if each.queue == queue and each.seq not in skipped:
            size += each.grown_by
    return usage[0] + messages, usage[1] + size


def _size(message: Outgoing) -> int:
    """An upper bound of the size in the store; the commit counts it exactly."""
    size = _OVERHEAD_BYTES + len(message.body.encode("utf-8", "surrogatepass"))
    size += len(message.trace or "") + len(message.dedup_id or "")
    for name, attribute in (message.attributes or {}).items():
        size += len(name) + len(attribute.type) + len(attribute.value) + 16
    return size
