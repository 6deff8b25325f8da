"""What a statement reads: about as many rows as it returns or changes, however many there are.

PostgreSQL itself counts the rows that it reads from each index and table, and reports them when a connection ends.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import pytest

from penstock.store.changes import DedupRow, Replacement
from penstock.store.port import LAST, Cursor, Order, Selection
from penstock.store.postgres.site import PostgresSite
from store.store_driver import T0, Driver, row, update_of
from support.postgres import PostgresServer

pytestmark = pytest.mark.postgres

ROWS = 4000
ENOUGH = 120  # rows read by an operation on ten


class Filled(NamedTuple):
    server: PostgresServer
    database: str


@pytest.fixture(scope="module")
def filled(postgres: PostgresServer) -> Filled:
    """Two shards with as many rows of each kind, and statistics that know it."""
    database = postgres.new_database()
    site = PostgresSite(postgres.url(database), 2)
    site.open()
    for shard in range(2):
        driver = Driver(partial(site.shard, shard))
        entries = [
            row(seq, group=f"g{seq % 20}" if seq % 4 else None, enqueued=T0 + seq, due=(seq % 2) * (T0 + seq),
                receives=seq % 3)
            for seq in range(1, ROWS + 1)
        ]  # fmt: skip
        driver.append(
            added=entries,
            dedup=[DedupRow(1, seq, seq.to_bytes(16, "big"), T0) for seq in range(1, ROWS + 1)],
            records={("kind", str(number)): b"record" for number in range(ROWS)},
        )
        driver.store.close()
    site.close()
    postgres.execute("ANALYZE", database)
    return Filled(postgres, database)


def rows_read(filled: Filled, operation: Callable[[Driver], object]) -> int:
    before = _counted(filled)
    site = PostgresSite(filled.server.url(filled.database))
    site.open()
    driver = Driver(lambda: site.shard(0))
    operation(driver)
    driver.store.close()
    site.close()
    return _counted(filled) - before


@pytest.fixture(scope="module")
def opening(filled: Filled) -> int:
    """Every operation opens the store first, which reads all records."""
    return rows_read(filled, lambda driver: None)


def _counted(filled: Filled) -> int:
    """When all connections have ended, and so have reported."""
    others = f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{filled.database}'"
    while filled.server.execute(others) != [(0,)]:
        pass
    ((total,),) = filled.server.execute(
        "SELECT sum(seq_tup_read) + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes) FROM pg_stat_user_tables",
        filled.database,
    )
    return int(total)


IN_MIDDLE = Selection(1, after=ROWS // 2)
DUE = IN_MIDDLE._replace(due_ms_min=T0 + ROWS // 2)
SEQS = range(ROWS - 9, ROWS + 1)
OPERATIONS: dict[str, Callable[[Driver], object]] = {
    "loose lane": lambda driver: driver.store.lane(IN_MIDDLE, None, 10),
    "lane of a group": lambda driver: driver.store.lane(IN_MIDDLE, "g7", 10),
    "groups": lambda driver: driver.store.groups(IN_MIDDLE, 10),
    "by position": lambda driver: driver.store.select(IN_MIDDLE, rows_max=10),
    "by age": lambda driver: driver.store.select(Selection(1), Order.AGE, after=Cursor(T0 + 2000, 2000), rows_max=10),
    "by due": lambda driver: driver.store.select(DUE, Order.DUE, rows_max=10),
    "delayed": lambda driver: driver.store.select(DUE._replace(received=False), Order.DUE, rows_max=10),
    "in flight": lambda driver: driver.store.select(
        Selection(1, due_ms_min=T0 + ROWS - 10, received=True), rows_max=LAST
    ),
    "few old": lambda driver: driver.store.select(Selection(1, enqueued_ms_max=T0 + 9), rows_max=100),
    "many old": lambda driver: driver.store.select(Selection(1, enqueued_ms_max=T0 + 3000), rows_max=10),
    "count hidden": lambda driver: driver.store.count(Selection(1, due_ms_min=T0 + ROWS - 10, received=True)),
    "lookup": lambda driver: driver.store.lookup(1, 0, SEQS),
    "contents": lambda driver: driver.store.contents(SEQS),
    "scan": lambda driver: driver.store.scan(ROWS // 2, LAST, 10, LAST),
    "remembered sends": lambda driver: driver.store.dedup(1, 0, ROWS // 2, 10),
    "update": lambda driver: driver.append(updated=[update_of(row(seq), due_ms=T0) for seq in SEQS]),
    "replace": lambda driver: driver.append(
        replaced=[Replacement(seq, 1, b"new", 1, 1, 3, None) for seq in SEQS],
    ),
    "remove": lambda driver: driver.append(removed=SEQS),
    "records": lambda driver: driver.append(records={("kind", str(n)): None if n % 2 else b"" for n in range(10)}),
    "forget": lambda driver: driver.append(dedup_forgotten={1: 10}),
    "add": lambda driver: driver.append(added=[row(ROWS + seq, queue=7) for seq in range(1, 11)]),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_reads_what_it_needs(filled: Filled, opening: int, name: str) -> None:
    assert rows_read(filled, OPERATIONS[name]) - opening <= ENOUGH


def test_a_purge_is_cleaned_up_in_pieces_that_read_little(filled: Filled, opening: int) -> None:
    def clean_up(driver: Driver) -> None:
        driver.append(purged={1: ROWS // 2})
        for _ in range(3):
            assert driver.store.maintain(10)

    assert rows_read(filled, clean_up) - opening <= 4 * ENOUGH
