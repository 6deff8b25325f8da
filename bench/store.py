"""The cost of the SQLite store: microseconds a row for each kind of write, and the reads on a large backlog.

python -m bench.store [--rows 1000000] [--directory DIR]
"""

from __future__ import annotations

import argparse
import resource
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from penstock.store.changes import Changes, EntryRow, EntryUpdate, Purge
from penstock.store.port import Mark, Order, Selection
from penstock.store.sqlite.store import SqliteStore

PLAIN, GROUPED = 1, 2
GROUPS = 100_000
BATCH = 64
MEASURED_BATCHES = 400
BODY = bytes(range(256))
NOW = 1_700_000_000_000


class Bench:
    def __init__(self, directory: Path) -> None:
        self.store = SqliteStore(directory)
        self.position = self.store.open().end.number
        self.number = 1

    def append(self, fill: Callable[[Changes], None]) -> None:
        self.position += 1
        changes = Changes(self.position, self.position - 1)
        fill(changes)
        self.store.append(changes, Mark(self.number, NOW, NOW))

    def new_row(self, queue: int) -> EntryRow:
        seq = self.number
        self.number += 1
        group = None if queue == PLAIN else f"tenant-{seq % GROUPS}"
        return EntryRow(seq, queue, seq, group, NOW + seq, 0, 0, 0, 0, None, BODY, len(BODY))


def add_rows(changes: Changes, rows: list[EntryRow]) -> None:
    changes.added.extend(rows)
    changes.counts[rows[0].queue] = [len(rows), len(rows) * len(BODY)]


def remove_rows(changes: Changes, queue: int, seqs: list[int]) -> None:
    changes.removed.extend(seqs)
    changes.counts[queue] = [-len(seqs), -len(seqs) * len(BODY)]


def received(row: EntryRow) -> EntryUpdate:
    return EntryUpdate(
        row.seq, row.queue, row.position, row.enqueued_ms, NOW + 30_000 + row.seq, 1, 0, NOW, None
    )


def report(what: str, seconds: float, rows: int, cpu: float | None = None) -> None:
    spent = f"{seconds / rows * 1e6:9.2f} us/row" + (f" {cpu / rows * 1e6:9.2f} us CPU" if cpu else "")
    print(f"{what:46} {seconds * 1e3:10.1f} ms {rows:9} rows {spent}")


def timed(what: str, rows: int, work: Callable[[], object]) -> None:
    start, cpu = time.perf_counter(), time.process_time()
    work()
    report(what, time.perf_counter() - start, rows, time.process_time() - cpu)


def measure_writes(bench: Bench, queue: int, name: str) -> None:
    rows = [[bench.new_row(queue) for _ in range(BATCH)] for _ in range(MEASURED_BATCHES)]
    total = BATCH * MEASURED_BATCHES

    def add() -> None:
        for batch in rows:
            bench.append(lambda changes, batch=batch: add_rows(changes, batch))  # type: ignore[misc]

    def update() -> None:
        for batch in rows:
            news = {row.seq: received(row) for row in batch}
            bench.append(lambda changes, news=news: changes.updated.update(news))  # type: ignore[misc]

    def remove() -> None:
        for batch in rows:
            seqs = [row.seq for row in batch]
            bench.append(lambda changes, seqs=seqs: remove_rows(changes, queue, seqs))  # type: ignore[misc]

    timed(f"{name}: added, {BATCH} a batch", total, add)
    timed(f"{name}: updated (received)", total, update)
    timed(f"{name}: removed", total, remove)


def fill(bench: Bench, queue: int, rows: int) -> None:
    def one_batch(changes: Changes) -> None:
        add_rows(changes, [bench.new_row(queue) for _ in range(4096)])

    for _ in range(rows // 4096):
        bench.append(one_batch)


def measure_reads(bench: Bench, rows: int) -> None:
    store, later = bench.store, NOW + 10**9
    oldest = store.select(Selection(PLAIN), Order.AGE, rows_max=1)
    first = oldest[0].enqueued_ms if oldest else 0
    ready = Selection(PLAIN, first - NOW + rows // 2, due_ms_max=NOW)
    grouped = Selection(GROUPED, due_ms_max=NOW)
    old = Selection(PLAIN, enqueued_ms_max=first - 1)
    timed("lane, plain queue, 512 rows", 512, lambda: store.lane(ready, None, 512))
    timed("lane again", 512, lambda: store.lane(ready, None, 512))
    timed("lane, one group of many", 8, lambda: store.lane(grouped, "tenant-77", 512))
    timed("groups, all", rows, lambda: store.groups(grouped, 10 * rows))
    timed("groups, first 10000", 10_000, lambda: store.groups(grouped, 10_000))
    timed("count, plain", rows, lambda: store.count(Selection(PLAIN)))
    timed("usage", 1, lambda: store.usage(PLAIN))
    timed("expired, none", 1, lambda: store.select(old, rows_max=1000))
    timed(
        "expired, 1000 of all", 1000, lambda: store.select(old._replace(enqueued_ms_max=later), rows_max=1000)
    )
    timed("oldest", 1, lambda: store.select(Selection(PLAIN), Order.AGE, rows_max=1))


def measure_purge(bench: Bench, directory: Path) -> None:
    purge = Purge(bench.number, bench.number)
    bench.append(lambda changes: changes.purged.update({PLAIN: purge, GROUPED: purge}))
    worst, start, bites = 0.0, time.perf_counter(), 0
    before = sum(file.stat().st_size for file in directory.iterdir())
    more = True
    while more:
        bite = time.perf_counter()
        more = bench.store.maintain(500)
        worst = max(worst, time.perf_counter() - bite)
        bites += 1
    after = sum(file.stat().st_size for file in directory.iterdir())
    spent = time.perf_counter() - start
    print(f"tidy of both queues: {spent:.1f} s, {bites} bites, longest {worst * 1e3:.1f} ms, "
          f"{before / 1e6:.0f} MB -> {after / 1e6:.0f} MB")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--directory", type=Path)
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="penstock-bench-", dir=options.directory))
    try:
        bench = Bench(directory)
        measure_writes(bench, PLAIN, "empty store, plain")
        timed("fill plain, 4096 a batch", options.rows, lambda: fill(bench, PLAIN, options.rows))
        timed("fill grouped, 4096 a batch", options.rows, lambda: fill(bench, GROUPED, options.rows))
        measure_writes(bench, PLAIN, "large store, plain")
        measure_writes(bench, GROUPED, "large store, grouped")
        measure_reads(bench, options.rows)
        timed("close", 1, bench.store.close)
        bench.store = SqliteStore(directory)
        timed("open", 1, bench.store.open)
        measure_purge(bench, directory)
        bench.store.close()
        print(f"peak resident memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MB")
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
