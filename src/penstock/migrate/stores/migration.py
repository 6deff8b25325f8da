"""A migration from one store to another, from the first check to the last."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import NamedTuple

from penstock.broker.catalogue import QUEUES
from penstock.errors import StoreBroken, StoreRefused
from penstock.migrate.stores.checking import StoreCheck, Sums
from penstock.migrate.stores.contents import ContentMover
from penstock.migrate.stores.copying import StoreCopy
from penstock.migrate.stores.mapping import ShardMapping
from penstock.migrate.stores.opened import OpenShard
from penstock.store.encrypted import Cipher
from penstock.store.port import UNFINISHED, Store


class Amount(NamedTuple):
    """What a store holds."""

    shards: int
    queues: int
    messages: int
    bytes: int


Show = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]
"""``show(step, total)`` shows a step as long as the context lasts; what it gives is called with how much is done."""


def amount(sources: list[OpenShard]) -> Amount:
    """What is to be migrated. Raises StoreRefused if the source is not complete itself."""
    if any(UNFINISHED in state.records for _, state in sources):
        raise StoreRefused(
            "the source is the target of a migration that was not finished: finish it by repeating its command"
        )
    usage = [used for _, state in sources for used in state.usage.values()]
    return Amount(
        len(sources),
        sum(len(state.records.get(QUEUES.name, {})) for _, state in sources),
        sum(used.messages for used in usage),
        sum(used.bytes for used in usage),
    )


class Migration:
    def __init__(self, sources: list[OpenShard], targets: int, cipher: Callable[[], Cipher | None]) -> None:
        """``cipher`` is called if contents have to be encrypted again; None: there is no root key. Raises
        StoreRefused."""
        self.amount = amount(sources)
        self._sources = sources
        self._mapping = mapping = ShardMapping(sources, targets)
        self.encrypts_again = mapping.must_decrypt
        found = cipher() if self.encrypts_again else None
        if self.encrypts_again and found is None:
            raise StoreRefused(
                "stored messages are encrypted, and those of some shards get other numbers, to which their "
                "encryption is bound: give --root-key-file and --keyring as to the server"
            )
        self._contents = ContentMover(found)
        self.resumed = False
        self.left_out = 0  # messages of queues that do not exist any more: no client could ever get them

    def check_target(self, targets: list[OpenShard]) -> None:
        """Raises StoreRefused or AlreadyComplete if it cannot be filled, or filled further, from this source."""
        StoreCopy(self._sources, targets, self._mapping, self._contents)

    def run(self, targets: list[OpenShard], show: Show) -> Sums:
        """Copy, compare, and let the target serve. Returns what each queue holds, or nothing if an earlier run has
        compared everything and was interrupted then. Raises StoreRefused, AlreadyComplete, or StoreBroken if the
        target does not hold what was written."""
        copy = StoreCopy(self._sources, targets, self._mapping, self._contents)
        self.resumed = copy.resumed
        sums: Sums = {}
        if not copy.is_verified:
            with show("copying", self.amount.messages) as on_progress:
                copy.run(on_progress)
            with show("comparing", 2 * self.amount.messages) as on_progress:
                sums = self._compare([target.store for target in targets], on_progress)
        copy.finish()
        return sums

    def _compare(self, targets: list[Store], on_progress: Callable[[int], None]) -> Sums:
        check = StoreCheck(self._sources, targets, self._mapping, self._contents, on_progress)
        sums, wrong = check.differences()
        self.left_out = check.left_out
        if wrong:
            raise StoreBroken("the target is not an exact copy: " + "; ".join(wrong))
        if any(store.end() != state.end for store, state in self._sources):
            raise StoreBroken(
                "the source was used during the copy: stop its server, remove the target, begin again"
            )
        return sums
