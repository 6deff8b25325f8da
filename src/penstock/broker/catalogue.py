"""The catalogue of a shard: which queues exist in it, and which names of deleted queues cannot be used yet."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from itertools import islice

import msgspec

from penstock.broker.live_queue import LiveQueue, QueueContext
from penstock.errors import PurgedRecently, QueueDeletedRecently, QueueMissing
from penstock.limits import MINUTE
from penstock.names import Home, KeyUse, QueueName, Space
from penstock.queues.messages import position_of
from penstock.queues.settings import QueueRecord, QueueSettings
from penstock.store.changes import RecordKind
from penstock.store.moving import MovedRecords, Relocation, StoredRecord, by_queue
from penstock.store.port import LAST


class Cooldown(msgspec.Struct, frozen=True):
    """A deleted name may be used again from this time on."""

    until_ms: int


def _moved(to: Relocation, record: StoredRecord) -> MovedRecords:
    queue = to.queue(int(record.key))
    assert queue is not None, "this is its record"
    if queue.raised_by:
        settings = QUEUES.decode(record.data)
        settings = msgspec.structs.replace(settings, id=settings.id + queue.raised_by)
        record = StoredRecord(record.kind, str(settings.id), QUEUES.encode(settings))
    return [(queue.target, record)]


QUEUES = RecordKind("queue", QueueRecord, _moved)
COOLDOWNS = RecordKind("cooldown", Cooldown, by_queue(lambda record: QueueName(*record.key.split("/", 2))))
_MANAGED_REUSE_MS = 5 * MINUTE


class Catalogue:
    """The queues of a shard, by name and by id, and their definitions in the store."""

    def __init__(self, context: QueueContext, by_name: dict[QueueName, LiveQueue]) -> None:
        """``by_name``: the queues of all shards of this process, to which those of this shard are added."""
        self._context = context
        self._shard = shard = context.shard
        self._by_name = by_name
        self._by_id: dict[int, LiveQueue] = {}
        self._names: dict[Space, list[str]] = {}  # sorted
        self._internal: dict[str, dict[tuple[Space, int], LiveQueue]] = {}  # by kind, then by space and home
        self._records = shard.table(QUEUES, self._undone)
        self._cooldowns = shard.table(COOLDOWNS)
        for _, record in sorted(self._records, key=lambda item: item[1].id):
            self._enter(record)

    def __iter__(self) -> Iterator[LiveQueue]:
        """All queues, with the internal ones."""
        return iter(list(self._by_id.values()))

    def __len__(self) -> int:
        """How many queues clients have."""
        return len(self._by_id) - sum(map(len, self._internal.values()))

    def find(self, name: QueueName) -> LiveQueue:
        """A queue of this shard. Raises QueueMissing."""
        queue = self.get(name)
        if queue is None:
            raise QueueMissing
        return queue

    def get(self, name: QueueName) -> LiveQueue | None:
        queue = self._by_name.get(name)
        return queue if queue is not None and queue.shard is self._shard else None

    def exists(self, name: QueueName) -> bool:
        return self.get(name) is not None

    def names(self, space: Space, prefix: str, after: str = "", names_max: int = LAST) -> list[QueueName]:
        """The first names beyond ``after``, sorted."""
        names = self._names.get(space, [])
        start = max(bisect_left(names, prefix), bisect_right(names, after))
        found: list[QueueName] = []
        for name in islice(names, start, None):
            if not name.startswith(prefix) or len(found) == names_max:
                break
            found.append(QueueName(space.account, space.region, name))
        return found

    def count(self, account: str) -> int:
        """How many queues an account has, in all regions."""
        return sum(len(names) for space, names in self._names.items() if space.account == account)

    def sources_of(self, target: QueueName, after: str = "") -> list[QueueName]:
        """The queues whose dead-letter queue this is, sorted. SQS: a queue and its dead-letter queue have the same
        account and region."""
        return sorted(
            queue.name
            for queue in self._by_id.values()
            if queue.settings.redrive is not None
            and queue.settings.redrive.target == target
            and queue.name.name > after
        )

    def check_name_free(self, name: QueueName, now_ms: int) -> None:
        """SQS: the name of a deleted queue cannot be used for a minute. Raises QueueDeletedRecently."""
        cooldown = self._cooldowns.get(_key(name))
        if cooldown is not None and cooldown.until_ms > now_ms:
            raise QueueDeletedRecently

    def end_cooldowns(self, now_ms: int) -> None:
        """Forget the names that can be used again."""
        for key, cooldown in self._cooldowns:
            if cooldown.until_ms <= now_ms:
                self._cooldowns.remove(key)

    def end_cooldowns_of(self, account: str) -> None:
        """The names of all deleted queues of an account can be used again."""
        for key, _ in self._cooldowns:
            if key.startswith(f"{account}/"):
                self._cooldowns.remove(key)

    def by_id(self, id: int) -> LiveQueue | None:
        return self._by_id.get(id)

    def create(self, record: QueueRecord) -> LiveQueue:
        if not record.internal and self._cooldowns.get(_key(record.name)) is not None:
            self._cooldowns.remove(_key(record.name))
        self._records.put(str(record.id), record)
        queue = self._enter(record)
        queue.memory.emptied()
        self._shard.touch(queue)
        return queue

    # -- internal queues: not in the order of names, and not found by name --------------------------------------

    def internal(self, kind: str) -> list[LiveQueue]:
        """The internal queues for jobs of a kind."""
        return list(self._internal.get(kind, {}).values())

    def internal_queue(self, kind: str, space: Space, home: Home) -> LiveQueue | None:
        return self._internal.get(kind, {}).get((space, home.hash))

    def create_internal(self, kind: str, space: Space, home: Home, settings: QueueSettings) -> LiveQueue:
        """Create an internal queue with the open commit."""
        shard, wall_ms = self._shard, self._shard.clock.wall_ms()
        name = QueueName(space.account, space.region, kind)
        return self.create(
            QueueRecord(
                id=shard.next_number(),
                name=name,
                settings=settings,
                tags={},
                created_ms=wall_ms,
                modified_ms=wall_ms,
                internal=kind,
                home=home.hash,
            )
        )

    def save(self, queue: LiveQueue, record: QueueRecord) -> None:
        """Change the definition of a queue."""
        queue.record = record
        self._records.put(str(queue.id), record)
        self._shard.touch(queue)

    def remove(self, queue: LiveQueue, now_ms: int) -> None:
        """Delete a queue with everything that it holds."""
        self._records.remove(str(queue.id))
        if self._shard.limits.delete_pause_ms and not queue.record.internal:
            self._cooldowns.put(_key(queue.name), Cooldown(now_ms + self._shard.limits.delete_pause_ms))
        self._shard.changes.drop(queue.id)
        self._shard.touch(queue)
        self._leave(queue)

    def purge(self, queue: LiveQueue, now_ms: int) -> None:
        """Void every message that a queue holds. SQS: once a minute. Raises PurgedRecently."""
        shard, record = self._shard, queue.record
        if record.purged_ms and now_ms < record.purged_ms + shard.limits.purge_pause_ms:
            raise PurgedRecently(queue.name.name)
        number = shard.next_number()
        upto = position_of(number)
        self.save(queue, msgspec.structs.replace(record, purged_to=upto, purged_ms=now_ms))
        shard.changes.purge(queue.id, upto, number)
        queue.purge(upto, now_ms)

    def _enter(self, record: QueueRecord) -> LiveQueue:
        queue = LiveQueue(record, self._context)
        self._by_id[record.id] = queue
        if record.internal:
            self._internal.setdefault(record.internal, {})[record.name.space, record.home] = queue
            return queue
        self._by_name[record.name] = queue
        insort(self._names.setdefault(record.name.space, []), record.name.name)
        return queue

    def _leave(self, queue: LiveQueue) -> None:
        queue.deleted = True
        del self._by_id[queue.id]
        record = queue.record
        if record.internal:
            del self._internal[record.internal][record.name.space, record.home]
        else:
            del self._by_name[queue.name]
            names = self._names[queue.name.space]
            names.remove(queue.name.name)
            if not names:
                del self._names[queue.name.space]
        queue.waiting.end(QueueMissing())
        queue.memory.forget()
        if self._context.metering is not None and not queue.record.internal:
            self._context.metering.leave(queue)

    def _undone(self, key: str, record: QueueRecord | None) -> None:
        """A refused commit had changed this queue: it is again what it was."""
        queue = self._by_id.get(int(key))
        if record is None:
            if queue is not None:
                self._leave(queue)
        elif queue is None:
            self._enter(record)
        else:
            queue.record = record
            queue.rules.redefine(record)


def _key(name: QueueName) -> str:
    return f"{name.account}/{name.region}/{name.name}"


def key_use(record: bytes) -> tuple[int, KeyUse | None]:
    """Which queue a stored definition is of, and under which key its messages are encrypted, if under any."""
    queue = QUEUES.decode(record)
    settings = queue.settings
    if settings.encryption_key is None:
        managed = KeyUse(queue.name.space, None, _MANAGED_REUSE_MS)
        return queue.id, managed if settings.managed_key else None
    return queue.id, KeyUse(queue.name.space, settings.encryption_key, settings.data_key_reuse_ms)
