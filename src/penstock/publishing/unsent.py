"""The outbox of what cannot leave this machine: text messages, push notifications, and mail without a mail server.

It counts as delivered, and people look at it here. Each account has room for some messages in a shard, and all
accounts together have room for some more; the oldest ones of the account with the most go first.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from itertools import chain
from typing import TYPE_CHECKING, ClassVar

import msgspec

from penstock.broker.parts import Part
from penstock.broker.questions import ShardQuestion
from penstock.names import Home
from penstock.store.changes import RecordKind
from penstock.store.moving import by_home

if TYPE_CHECKING:
    from penstock.broker.partition import Partition

MESSAGES_MAX = 1000  # of an account in a shard
BYTES_MAX = 4 * 1024 * 1024
SHARD_BYTES_MAX = 64 * 1024 * 1024
_OVERHEAD_BYTES = 500


class UnsentMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    account: str
    region: str
    at_ms: int  # by the wall clock
    protocol: str
    destination: str  # the endpoint: a phone number, an address, the ARN of an endpoint
    message_id: str
    text: str
    subject: str = ""
    topic: str = ""  # the ARN; empty: it was sent to the destination itself
    subscription: str = ""  # the ARN
    kind: str = "Notification"  # as envelopes have it

    @property
    def id(self) -> str:
        """Later ones have greater ids."""
        what = f"{self.message_id}\n{self.protocol}\n{self.destination}\n{self.subscription}"
        return f"{self.at_ms:015d}-{blake2b(what.encode(), digest_size=8).hexdigest()}"

    @property
    def size(self) -> int:
        return _OVERHEAD_BYTES + len(self.text.encode()) + len(self.subject.encode())


UNSENT = RecordKind("topic-unsent", UnsentMessage, by_home)


def unsent_home(account: str, region: str) -> Home:
    """Where messages are that belong to no topic."""
    return Home.of("unsent", account, region)


class _UnsentOfAccount:
    def __init__(self) -> None:
        self.keys: dict[str, int] = {}  # of its records, with their sizes; the oldest first
        self.bytes = 0


class Unsent(Part):
    """What could not be sent for the topics of one shard."""

    def __init__(self, partition: Partition) -> None:
        self._shard = partition.shard
        self._table = partition.shard.table(UNSENT, self._undone)
        self._accounts: dict[str, _UnsentOfAccount] = {}
        self._bytes = 0
        for key, message in sorted(self._table, key=lambda record: record[1].id):
            self._note(key, message)

    # -- with the open commit ----------------------------------------------------------------------------------

    def add(self, home: Home, message: UnsentMessage) -> None:
        """``home``: of the topic, or :func:`unsent_home`."""
        key = home.key(message.id)
        self._forget(key)
        self._table.put(key, message)
        self._note(key, message)
        self._make_room(message.account)

    def delete(self, account: str | None, ids: Iterable[str] | None) -> int:
        """Delete messages of an account or of all, those with these ids or all. Returns how many there were."""
        wanted = None if ids is None else set(ids)
        keys = [
            key
            for name, of in self._accounts.items()
            if account in (None, name)
            for key in of.keys
            if wanted is None or Home.rest_of_key(key) in wanted
        ]
        for key in keys:
            self._remove(key)
        return len(keys)

    def clear(self, account: str) -> None:
        self.delete(account, None)

    def list(self, account: str | None, before: str, most: int) -> list[UnsentMessage]:
        """The latest messages before an id (empty: the latest of all), the latest first."""
        ids = (
            (Home.rest_of_key(key), key)
            for name, of in self._accounts.items()
            if account in (None, name)
            for key in of.keys
        )
        found = sorted((each for each in ids if not before or each[0] < before), reverse=True)[:most]
        return [message for _, key in found if (message := self._table.get(key)) is not None]

    # -- counting --------------------------------------------------------------------------------------------------

    def _make_room(self, account: str) -> None:
        of = self._accounts[account]
        while len(of.keys) > MESSAGES_MAX or (of.bytes > BYTES_MAX and len(of.keys) > 1):
            self._remove(next(iter(of.keys)))
        while self._bytes > SHARD_BYTES_MAX:
            most = max(self._accounts.values(), key=lambda each: each.bytes)
            self._remove(next(iter(most.keys)))

    def _remove(self, key: str) -> None:
        self._forget(key)
        self._table.remove(key)

    def _note(self, key: str, message: UnsentMessage) -> None:
        of = self._accounts.setdefault(message.account, _UnsentOfAccount())
        of.keys[key] = message.size
        of.bytes += message.size
        self._bytes += message.size

    def _forget(self, key: str) -> None:
        message = self._table.get(key)
        of = None if message is None else self._accounts.get(message.account)
        if message is None or of is None or key not in of.keys:
            return
        size = of.keys.pop(key)
        of.bytes -= size
        self._bytes -= size
        if not of.keys:
            del self._accounts[message.account]

    def _undone(self, key: str, message: UnsentMessage | None) -> None:
        """The commit with this record was refused: it is again what it was before."""
        for of in self._accounts.values():
            size = of.keys.pop(key, 0)
            of.bytes -= size
            self._bytes -= size
        self._accounts = {name: of for name, of in self._accounts.items() if of.keys}
        if message is not None:
            self._note(key, message)


class UnsentQuestion(ShardQuestion[list[UnsentMessage]], frozen=True):
    """What could not be sent, the latest first. ``account``: None: of all. ``before``: the id of the last message of
    the page before, or empty."""

    kind: ClassVar[str] = "topic-unsent"
    account: str | None
    before: str
    most: int

    async def answer(self, partition: Partition) -> list[UnsentMessage]:
        found = partition.part(Unsent).list(self.account, self.before, self.most)
        await partition.shard.settled()
        return found

    def merge(self, answers: list[list[UnsentMessage]]) -> list[UnsentMessage]:
        return sorted(chain.from_iterable(answers), key=lambda each: each.id, reverse=True)[: self.most]


class UnsentDeletion(ShardQuestion[int], frozen=True):
    """Deletes what could not be sent, and says how much that was. ``account``: None: of all. ``ids``: None: all."""

    kind: ClassVar[str] = "topic-unsent-deletion"
    account: str | None
    ids: list[str] | None

    async def answer(self, partition: Partition) -> int:
        partition.shard.check_owned()
        count = partition.part(Unsent).delete(self.account, self.ids)
        await partition.shard.settled()
        return count

    def merge(self, answers: list[int]) -> int:
        return sum(answers)
