"""Each read goes through the index that was made for it, and none walks a table."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from penstock.store.changes import DedupRow
from penstock.store.port import LAST, Selection
from penstock.store.sql_files import load, script
from penstock.store.sqlite import read, statements
from penstock.store.sqlite.store import SqliteStore
from store.store_driver import T0, Driver, row
from support.rows import every_row

READS = load("sqlite", "read")
WRITES = load("sqlite", "write")

PLANS = {
    "log": ["PRIMARY KEY (kind=? AND key=? AND position>?)"],
    "records": ["PRIMARY KEY (kind=?)"],
    "usage_of": ["INTEGER PRIMARY KEY (rowid=?)"],
    "groups": ["by_place_loose", "by_place_grouped", "MERGE (UNION ALL)"],
    "lane_loose": ["by_place_loose (queue=? AND position>?)"],
    "lane_grouped": ["by_group (queue=? AND grp=? AND position>?)"],
    "scan": ["INTEGER PRIMARY KEY (rowid>? AND rowid<?)"],
    "by_position": ["by_place_loose", "by_place_grouped", "MERGE (UNION ALL)"],
    "by_position_of_old": ["by_age (queue=? AND enqueued>? AND enqueued<?)"],
    "by_position_in_flight": ["by_flight (queue=? AND due>? AND due<?)"],
    "by_age": ["by_age (queue=? AND (enqueued,position)>(?,?) AND enqueued<?)"],
    "by_due": ["by_delay", "by_flight", "MERGE (UNION ALL)"],
    "by_due_delayed": ["by_delay (queue=? AND (due,position)>(?,?) AND due<?)"],
    "by_due_in_flight": ["by_flight (queue=? AND (due,position)>(?,?) AND due<?)"],
    "count_old": ["COVERING INDEX by_age (queue=? AND enqueued>? AND enqueued<?)"],
    "count_by_age": ["COVERING INDEX by_age (queue=? AND enqueued>? AND enqueued<?)"],
    "count_delayed": ["by_delay (queue=? AND due>? AND due<?)"],
    "count_in_flight": ["by_flight (queue=? AND due>? AND due<?)"],
    "lookup": ["INTEGER PRIMARY KEY (rowid=?)"],
    "contents_inside": ["INTEGER PRIMARY KEY (rowid=?)"],
    "content_apart": ["INTEGER PRIMARY KEY (rowid=?)"],
    "dedup": ["PRIMARY KEY (queue=? AND seq>?)"],
}
SORTED = ("groups", "by_position_in_flight", "by_position_of_old")  # a sort is meant here, and nowhere else


@pytest.fixture(scope="module")
def empty() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(script("sqlite", "schema"))
        yield connection


def plan(connection: sqlite3.Connection, sql: str, parameters: object = None) -> str:
    if parameters is None:
        names = ("queue", "after", "now_ms", "due_ms_min", "due_ms_max", "rows_max", "grp", "seqs", "seq", "time_ms",
                 "enqueued_ms_min", "enqueued_ms_max", "position", "upto", "received", "kind", "key")  # fmt: skip
        parameters = dict.fromkeys(names, 1)
    steps = connection.execute(f"EXPLAIN QUERY PLAN {sql}", parameters).fetchall()  # type: ignore[arg-type]
    return "\n".join(step[3] for step in steps)


@every_row("name", PLANS)
def test_reads_use_their_index(empty: sqlite3.Connection, name: str) -> None:
    text = plan(empty, READS[name])
    for part in PLANS[name]:
        assert part in text
    assert "SCAN entries" not in text
    if name not in SORTED:
        assert "TEMP B-TREE FOR ORDER BY" not in text, text


def test_cleaning_up_uses_the_order_of_positions(empty: sqlite3.Connection) -> None:
    text = plan(empty, WRITES["void_entries"])
    assert "by_place_loose (queue=? AND position<?)" in text
    assert "by_place_grouped (queue=? AND position<?)" in text
    assert "SCAN entries" not in text


@pytest.mark.parametrize("name", ["update_in_place", "update_anywhere"])
def test_updates_go_from_the_news_to_the_rows(empty: sqlite3.Connection, name: str) -> None:
    text = plan(empty, statements.for_rows(WRITES[name], 64, 9), [1] * 9 * 64)
    assert "SEARCH entries USING INTEGER PRIMARY KEY (rowid=?)" in text
    assert "SCAN entries" not in text


@pytest.mark.parametrize("name", ["remove_entries", "remove_contents"])
def test_removals_go_by_key(empty: sqlite3.Connection, name: str) -> None:
    assert "INTEGER PRIMARY KEY (rowid=?)" in plan(empty, WRITES[name], ["[1]"])


@every_row("rows", [*range(1, 70), 511, 512, 513, 5000])
def test_rows_are_split_into_powers_of_two(rows: int) -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        done = list(
            statements.execute_rows(connection, "VALUES {rows}", [(number,) for number in range(rows)])
        )
        found = [number for cursor, _ in done for (number,) in cursor.fetchall()]
    assert found == list(range(rows))
    sizes = [len(part) for _, part in done]
    assert all(size & (size - 1) == 0 and size <= statements.ROWS_PER_STATEMENT_MAX for size in sizes)


def test_a_reader_and_a_writer_at_once(data: Path) -> None:
    """Every batch adds ten rows and takes the ten before away: a read that sees half of one sees another number."""
    driver = Driver(lambda: SqliteStore(data))
    driver.append(added=[row(seq, content=b"c" * 3000) for seq in range(10)])
    stop, wrong = threading.Event(), []

    def read() -> None:
        while not stop.is_set():
            rows = driver.store.lane(Selection(1, -1), None, 100)
            if len(rows) != 10 or any(entry.content != b"c" * 3000 for entry in rows):
                wrong.append(rows)
            if driver.total(after=-1) != 10:
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


@pytest.mark.parametrize("old_library", [False, True])
def test_bytes_of_every_value_are_read_back(
    data: Path, monkeypatch: pytest.MonkeyPatch, old_library: bool
) -> None:
    """Where SQLite does not keep bytes in what it gathers, they are read as digits."""
    if old_library:
        monkeypatch.setattr(read, "gathers_bytes", lambda connection: False)
    every = bytes(range(256))
    contents = [b"\0", every, every * 20, b"\xff\0,", b"\0" * 9]  # the third lies apart
    driver = Driver(lambda: SqliteStore(data))
    driver.append(
        added=[row(seq, content=content) for seq, content in enumerate(contents, 1)],
        records={("kind", "a"): every, ("kind", "b"): b"", ("kind", "c"): b"\0"},
        dedup=[DedupRow(1, seq, bytes(16), T0) for seq in (1, 2)],
    )
    driver.reopen()
    assert [entry.content for entry in driver.store.lane(Selection(1), None, 9)] == contents
    assert [entry.content for entry in driver.store.scan(0, LAST, 9, 10_000)] == contents
    assert list(driver.store.contents([1, 2, 3, 4, 5]).values()) == contents
    assert driver.store.records("kind") == {"a": every, "b": b"", "c": b"\0"}
    assert [send.digest for send in driver.store.dedup(1, 0)] == [bytes(16)] * 2
    driver.store.close()
