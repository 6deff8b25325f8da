"""What one account may have: so many queues, messages and bytes, in all its regions together.

Rule 1: queues are counted exactly.
Rule 2: messages and bytes are what the store counted last plus what was sent since, so no send goes over the quota.
Rule 3: nothing is refused on old numbers: whatever seems not to fit is counted anew first, at most ten times a
        second. So room that deletes, purges and expiry leave is seen at once, or nearly.
Rule 4: a send that does not fit is refused whole. What comes back, dies or is moved is not sent, and always fits.
Rule 5: without quotas nothing is counted.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from penstock.broker.catalogue import Catalogue
from penstock.broker.commits import Committer
from penstock.broker.runtime import Runtime
from penstock.clock import Clock
from penstock.errors import QuotaReached, StoreError
from penstock.limits import Limits
from penstock.promise import Promise, run_detached, start
from penstock.queues.messages import Outgoing
from penstock.store.port import Store, Usage

log = logging.getLogger("penstock.broker")

_NOTHING = Usage(0, 0)
_PAUSE_MS = 100
_BESIDE_BYTES = 256  # id, sender and time of a message, and what encryption adds


class Quotas:
    def __init__(
        self,
        store: Store,
        runtime: Runtime,
        clock: Clock,
        limits: Limits,
        commits: Committer,
        catalogue: Catalogue,
    ) -> None:
        self._store = store
        self._runtime = runtime
        self._clock = clock
        self._limits = limits
        self._commits = commits
        self._catalogue = catalogue
        self._held: dict[str, Usage] = {}  # as last counted
        self._since: dict[str, Usage] = {}  # sent, and perhaps not in the last count
        self._known = False
        self._count: Promise[None] | None = None  # the last one, or the one under way
        self._counted_ms = 0
        self.bounds_messages = bool(limits.quota_messages or limits.quota_bytes)

    def start(self) -> None:
        """The first count looks at every message: better now than with the first send."""
        if self.bounds_messages:
            run_detached(self._count_first())

    async def _count_first(self) -> None:
        try:
            await self._count_anew()
        except StoreError as error:
            log.warning("what accounts hold could not be counted, and is with the next send: %s", error)

    def check_new_queue(self, account: str) -> None:
        most = self._limits.quota_queues
        if most and self._catalogue.count(account) >= most:
            raise QuotaReached("queues", most)

    async def seek(self, account: str, messages: Sequence[Outgoing]) -> None:
        """Count anew if there seems to be no room for these messages."""
        if not self._known or self._lacking(account, _usage(messages)) is not None:
            await self._count_anew()

    def take(self, account: str, messages: Sequence[Outgoing]) -> None:
        """Room for these messages, which join the open batch before anything else happens: a count that came in
        between would not see them. Raises QuotaReached."""
        wanted = _usage(messages)
        lacking = self._lacking(account, wanted)
        if lacking is not None:
            raise lacking
        self._since[account] = _sum(self._since.get(account, _NOTHING), wanted)

    def _lacking(self, account: str, wanted: Usage) -> QuotaReached | None:
        held = _sum(self._held.get(account, _NOTHING), self._since.get(account, _NOTHING))
        messages_max, bytes_max = self._limits.quota_messages, self._limits.quota_bytes
        if messages_max and held.messages + wanted.messages > messages_max:
            return QuotaReached("messages", messages_max)
        if bytes_max and held.bytes + wanted.bytes > bytes_max:
            return QuotaReached("bytes", bytes_max)
        return None

    def _count_anew(self) -> Promise[None]:
        """Done when there is a count that was begun just now, or a moment ago."""
        now_ms = self._clock.now_ms()
        if self._count is None or (self._count.done and now_ms >= self._counted_ms + _PAUSE_MS):
            self._counted_ms = now_ms
            self._count = start(self._count_all())
        return self._count

    async def _count_all(self) -> None:
        sent = dict(self._since)
        await self._commits.settled()  # then all of that is in the store, or was refused
        usage = await self._runtime.write(self._store.usage)
        self._held = {}
        for queue in self._catalogue:
            account, held = queue.name.account, usage.get(queue.id)
            if held is not None:
                self._held[account] = _sum(self._held.get(account, _NOTHING), held)
        for account, before in sent.items():
            since = self._since[account]
            self._since[account] = Usage(since.messages - before.messages, since.bytes - before.bytes)
        self._known = True


def _usage(messages: Sequence[Outgoing]) -> Usage:
    return Usage(len(messages), sum(map(_size, messages)))


def _sum(one: Usage, other: Usage) -> Usage:
    return Usage(one.messages + other.messages, one.bytes + other.bytes)


def _size(message: Outgoing) -> int:
    """Not less than it takes in the store, which says exactly with the next count."""
    size = _BESIDE_BYTES + len(message.body.encode("utf-8", "surrogatepass"))
    size += len(message.trace or "") + len(message.dedup_id or "")
    for name, attribute in (message.attributes or {}).items():
        size += len(name) + len(attribute.type) + len(attribute.value)
    return size
