"""Each read goes through the index that was made for it, and none walks a table."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from store_driver import FOREVER, T0, Driver, row

from penstock.store.sqlite import statements
from penstock.store.sqlite.store import SqliteStore

READS = statements.load("reads")
USAGE = statements.load("usage")
TIDY = statements.load("tidy")
APPEND = statements.load("append")

PLANS = {
    "tally": ["by_age", "by_flight", "by_delay"],
    "groups": ["by_place_loose", "by_place_grouped", "MERGE (UNION ALL)"],
    "waiting_loose": ["by_place_loose (queue=? AND position>?)"],
    "waiting_grouped": ["by_group (queue=? AND grp=? AND position>?)"],
    "delayed": ["by_delay (queue=? AND due>?)"],
    "in_flight": ["by_flight (queue=? AND due>?)"],
    "lookup": ["INTEGER PRIMARY KEY (rowid=?)"],
    "contents_inside": ["INTEGER PRIMARY KEY (rowid=?)"],
    "content_apart": ["INTEGER PRIMARY KEY (rowid=?)"],
    "count_expired": ["COVERING INDEX by_age (queue=? AND enqueued<?)"],
    "expired_few": ["by_age (queue=? AND enqueued<?)"],
    "expired_many": ["by_place_loose", "by_place_grouped", "MERGE (UNION ALL)"],
    "oldest_ms": ["COVERING INDEX by_age (queue=?)"],
    "younger": ["COVERING INDEX by_age (queue=? AND enqueued>?)"],
    "dedup": ["PRIMARY KEY (queue=? AND seq>?)"],
    "heads": ["INTEGER PRIMARY KEY (rowid>? AND rowid<?)", "INTEGER PRIMARY KEY (rowid=?)"],
}
SORTED = ("groups", "in_flight", "expired_few")  # a sort is meant here, and nowhere else


@pytest.fixture(scope="module")
def empty() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(statements.script("schema"))
        yield connection


def plan(connection: sqlite3.Connection, sql: str, parameters: object = None) -> str:
    if parameters is None:
        names = ("queue", "after", "now_ms", "due_ms_min", "due_ms_max", "rows_max", "grp", "seqs", "seq",
                 "enqueued_ms_min", "enqueued_ms_max", "position", "upto", "bytes_max")  # fmt: skip
        parameters = dict.fromkeys(names, 1)
    steps = connection.execute(f"EXPLAIN QUERY PLAN {sql}", parameters).fetchall()  # type: ignore[arg-type]
    return "\n".join(step[3] for step in steps)


@pytest.mark.parametrize("name", PLANS)
def test_reads_use_their_index(empty: sqlite3.Connection, name: str) -> None:
    text = plan(empty, READS[name])
    for part in PLANS[name]:
        assert part in text
    assert "SCAN entries" not in text
    if name not in SORTED:
        assert "TEMP B-TREE FOR ORDER BY" not in text, text


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("of_messages", ["entries USING INTEGER PRIMARY KEY (rowid=?)"]),
        (
            "of_purged_queue",
            ["by_place_loose (queue=? AND position>?)", "by_place_grouped (queue=? AND position>?)"],
        ),
    ],
)
def test_keeping_count_looks_at_what_a_batch_touches(
    empty: sqlite3.Connection, name: str, parts: list[str]
) -> None:
    text = plan(empty, USAGE[name])
    for part in parts:
        assert part in text
    assert "SCAN entries" not in text


def test_tidying_uses_the_order_of_positions(empty: sqlite3.Connection) -> None:
    text = plan(empty, TIDY["void_entries"])
    assert "by_place_loose (queue=? AND position<?)" in text
    assert "by_place_grouped (queue=? AND position<?)" in text
    assert "SCAN entries" not in text


@pytest.mark.parametrize("name", ["update_in_place", "update_anywhere"])
def test_updates_go_from_the_news_to_the_rows(empty: sqlite3.Connection, name: str) -> None:
    text = plan(empty, statements.for_rows(APPEND[name], 64, 9), [1] * 9 * 64)
    assert "SEARCH entries USING INTEGER PRIMARY KEY (rowid=?)" in text
    assert "SCAN entries" not in text


@pytest.mark.parametrize("name", ["remove_entries", "remove_contents"])
def test_removals_go_by_key(empty: sqlite3.Connection, name: str) -> None:
    assert "INTEGER PRIMARY KEY (rowid=?)" in plan(empty, APPEND[name], ["[1]"])


def test_rows_are_split_into_powers_of_two() -> None:
    for rows in (*range(1, 70), 511, 512, 513, 5000):
        sizes = statements.bites(rows)
        assert sum(sizes) == rows
        assert all(size & (size - 1) == 0 and size <= statements.ROWS_PER_STATEMENT_MAX for size in sizes)


def test_a_reader_and_a_writer_at_once(data: Path) -> None:
    """Every batch adds ten rows and takes the ten before away: a read that sees half of one sees another number."""
    driver = Driver(lambda: SqliteStore(data))
    driver.append(added=[row(seq, content=b"c" * 3000) for seq in range(10)])
    stop, wrong = threading.Event(), []

    def read() -> None:
        while not stop.is_set():
            rows = driver.store.waiting(1, None, -1, FOREVER, 100)
            if len(rows) != 10 or any(entry.content != b"c" * 3000 for entry in rows):
                wrong.append(rows)
            if driver.store.tally(1, -1, T0).total != 10:
                wrong.append(rows)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for first in range(10, 3000, 10):
            news = [row(seq, content=b"c" * 3000) for seq in range(first, first + 10)]
            driver.append(added=news, removed=range(first - 10, first))
    finally:
        stop.set()
        reader.join()
    driver.store.close()
    assert wrong == []
