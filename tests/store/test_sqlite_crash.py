"""A process killed in the middle of its appends: every acknowledged batch is there, and every batch is whole."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from penstock.store.sqlite.store import SqliteStore
from store.store_driver import Driver, row

ROWS_PER_BATCH = 20
LARGE_EVERY = 7


def content(seq: int) -> bytes:
    return b"%d " % seq * (1000 if seq % LARGE_EVERY == 0 else 1)


def append_forever(data: Path) -> None:
    """The child process runs this: each batch adds rows, removes a part of the one before, and says so when it is
    durable."""
    driver = Driver(lambda: SqliteStore(data))
    if driver.number == 0:
        driver.append(records={("queue", "1"): b"{}"})
    else:
        driver.know_all()
    while True:
        first = driver.number * ROWS_PER_BATCH
        before = range(first - ROWS_PER_BATCH, first - ROWS_PER_BATCH // 2)
        driver.append(
            added=[row(seq, content=content(seq)) for seq in range(first, first + ROWS_PER_BATCH)],
            removed=[seq for seq in before if seq >= ROWS_PER_BATCH],
        )
        sys.stdout.write(f"{driver.number}\n")
        sys.stdout.flush()


def expected(position: int) -> set[int]:
    seqs = set(range(ROWS_PER_BATCH, position * ROWS_PER_BATCH))
    for batch in range(1, position - 1):
        seqs -= set(range(batch * ROWS_PER_BATCH, batch * ROWS_PER_BATCH + ROWS_PER_BATCH // 2))
    return seqs


@pytest.mark.slow
@pytest.mark.parametrize("acknowledged_min", [3, 40, 300])
def test_killed_in_the_middle(data: Path, acknowledged_min: int) -> None:
    for _ in range(2):  # and once more on what the first left
        child = subprocess.Popen(
            [sys.executable, "-m", "store.test_sqlite_crash", str(data)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parent.parent,
        )
        assert child.stdout
        try:
            said = [int(child.stdout.readline()) for _ in range(acknowledged_min)]
            time.sleep(0.003)  # on into some later batch: any moment will do
        finally:
            child.send_signal(signal.SIGKILL)
            child.wait()
        said += [int(line) for line in child.stdout.read().split("\n")[:-1]]
        child.stdout.close()

        driver = Driver(lambda: SqliteStore(data))
        assert driver.number >= said[-1], "an acknowledged batch is missing"
        assert driver.number <= said[-1] + 1, "more than the batch under way"
        rows = driver.whole()
        assert {entry.seq for entry in rows} == expected(driver.number)
        assert all(entry.content == content(entry.seq) for entry in rows)
        assert driver.store.usage(1) == {1: (len(rows), sum(entry.size for entry in rows))}
        check = driver.store._writer.execute("PRAGMA integrity_check").fetchall()  # type: ignore[attr-defined]
        assert check == [("ok",)]
        driver.store.close()


if __name__ == "__main__":
    append_forever(Path(sys.argv[1]))
