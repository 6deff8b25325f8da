"""What a copy could get wrong is found by the comparison at the end."""

from __future__ import annotations

from collections.abc import Callable, Set

import pytest

from migrate.test_copies import migrate
from penstock.errors import StoreBroken
from penstock.store.changes import Changes
from penstock.store.port import UNFINISHED, Mark
from support.generated_stores import InterruptedStore, MemorySite, fill


def _lose_a_message(changes: Changes) -> None:
    changes.added.pop()


def _change_a_content(changes: Changes) -> None:
    row = changes.added[-1]
    changes.added[-1] = row._replace(content=(row.content or b"")[:-1] + b"\x00")


def _change_a_count(changes: Changes) -> None:
    row = changes.added[-1]
    changes.added[-1] = row._replace(receives=row.receives + 1)


def _forget_a_send(changes: Changes) -> None:
    changes.dedup.pop()


def _lose_a_definition(changes: Changes) -> None:
    changes.records.pop(next(key for key in changes.records if key[0] == "queue"))


def _lose_a_move_task(changes: Changes) -> None:
    changes.records.pop(next(key for key in changes.records if key[0] == "move_task"))


def _lose_a_secret(changes: Changes) -> None:
    changes.records.pop(next(key for key in changes.records if key[0] == "former_shard"))


def _miscount(changes: Changes) -> None:
    next(iter(changes.counts.values()))[0] += 1


class FaultyStore(InterruptedStore):
    fault: Callable[[Changes], None] = staticmethod(lambda changes: None)
    hits = 0

    def append(self, changes: Changes, mark: Mark) -> Set[int]:
        try:
            self.fault(changes)
            FaultyStore.hits += 1
        except (IndexError, StopIteration):
            pass  # not in this commit
        return super().append(changes, mark)


@pytest.mark.parametrize(
    "fault",
    [
        _lose_a_message, _change_a_content, _change_a_count, _forget_a_send, _lose_a_definition, _lose_a_move_task,
        _lose_a_secret, _miscount,
    ],
)  # fmt: skip
def test_a_faulty_target_is_found(fault: Callable[[Changes], None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FaultyStore, "fault", staticmethod(fault))
    monkeypatch.setattr(FaultyStore, "hits", 0)
    source, target = MemorySite(1), MemorySite(2)
    target.stores = [FaultyStore(), FaultyStore()]
    fill(source.stores, seed=2)
    with pytest.raises(StoreBroken):
        migrate(source, target)
    assert FaultyStore.hits
    assert UNFINISHED in target.stores[0].open().records
