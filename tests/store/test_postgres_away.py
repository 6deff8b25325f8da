"""A database that stops and starts: errors at once while it is away, and everything goes on by itself after."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from itertools import pairwise

import psycopg
import pytest

from penstock.errors import StoreAway, StoreClosed, StoreError, StoreUnknown
from penstock.store.changes import Changes
from penstock.store.port import JournalEnd, Mark, Selection
from penstock.store.postgres.connection import PAUSE_MAX_S, READERS_MAX, Database
from penstock.store.postgres.site import PostgresSite
from store.store_driver import T0, Driver, bare, row
from support.postgres import PostgresServer, running_postgres
from support.texts import says

pytestmark = pytest.mark.postgres


@pytest.fixture(scope="module")
def stoppable() -> Iterator[PostgresServer]:
    """A crash of its processes loses nothing: what is committed is with the operating system."""
    with running_postgres() as server:
        yield server


@pytest.fixture
def site(stoppable: PostgresServer) -> Iterator[PostgresSite]:
    site = PostgresSite(stoppable.url(stoppable.new_database()), shards=2)
    site.open()
    yield site
    site.close()


def test_everything_goes_on_when_the_database_is_back(stoppable: PostgresServer, site: PostgresSite) -> None:
    driver = Driver(lambda: site.shard(0))
    driver.append(added=[row(1)])
    stoppable.stop()
    with pytest.raises(StoreUnknown):
        driver.append(added=[row(2)])
    for _ in range(3):
        with pytest.raises(StoreAway, match="database cannot be reached"):
            driver.store.end()
        with pytest.raises(StoreAway):
            driver.append(added=[row(2)])
        with pytest.raises(StoreAway):
            driver.all()
        with pytest.raises(StoreAway):
            driver.store.maintain(1)
        status = driver.store.status()
        assert status.is_away
        says(status.refuses or "", "database cannot be reached")
    stoppable.start()
    while driver.store.status().is_away:
        threading.Event().wait(0.01)  # the next attempt has its time
    assert driver.store.end() == JournalEnd(1, driver.state.end.owner)
    driver.append(added=[row(2)])
    assert driver.all() == bare([row(1), row(2)])
    driver.store.close()
    with pytest.raises(StoreClosed):
        driver.append(added=[row(3)])
    with pytest.raises(StoreClosed):
        driver.store.end()


def test_a_restart_between_two_commits_is_not_noticed(stoppable: PostgresServer, site: PostgresSite) -> None:
    driver = Driver(lambda: site.shard(0))
    driver.append(added=[row(1)])
    assert driver.total() == 1
    stoppable.stop()
    stoppable.start()
    driver.append(added=[row(2)])
    assert driver.total() == 2
    driver.store.close()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_restarts_under_load_lose_no_commit_and_repeat_none(
    stoppable: PostgresServer, site: PostgresSite, how: signal.Signals
) -> None:
    store, stop, acknowledged = site.shard(0), threading.Event(), list[int]()
    owner, failures = store.open().end.owner, list[StoreError]()

    def load() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            changes = Changes(number, number - 1)
            changes.added.append(row(number))
            try:
                store.append(changes, Mark(1, T0, T0))
            except StoreError as error:
                failures.append(error)
                if not is_made(error, number):
                    number -= 1
                    continue
            acknowledged.append(number)

    def is_made(error: StoreError, number: int) -> bool:
        """Whether the commit was made, which is found out like in the shard."""
        while isinstance(error, StoreUnknown):
            try:
                return store.end() == JournalEnd(number, owner)
            except StoreAway:
                stop.wait(0.01)
        return False

    with ThreadPoolExecutor(1) as threads:
        loading = threads.submit(load)
        for _ in range(2):
            wait_for_more(acknowledged, loading)
            stoppable.stop(how)
            stoppable.start()
        wait_for_more(acknowledged, loading)
        stop.set()
        loading.result()
    assert failures, "the restarts were noticed"
    seqs = [entry.seq for entry in store.select(Selection(1), rows_max=10**6)]
    assert seqs == acknowledged == list(range(1, len(seqs) + 1))
    store.close()


def wait_for_more(acknowledged: list[int], loading: Future[None]) -> None:
    before = len(acknowledged)
    while len(acknowledged) < before + 20 and not loading.done():
        wait([loading], 0.005)


def test_attempts_to_connect_are_spaced(monkeypatch: pytest.MonkeyPatch) -> None:
    now, attempts = 0.0, list[float]()

    def refuse(*_: object, **__: object) -> None:
        attempts.append(now)
        raise psycopg.OperationalError("connection refused")

    monkeypatch.setattr(psycopg, "connect", refuse)
    database = Database("postgresql://127.0.0.1/none", "penstock", now=lambda: now)
    for tick in range(1000):
        now = tick / 100
        with pytest.raises(StoreAway, match="connection refused"):
            database.connect()
    pauses = [later - earlier for earlier, later in pairwise(attempts)]
    assert pauses[0] < pauses[2] < pauses[-1] <= PAUSE_MAX_S * 1.01
    assert pauses == sorted(pauses)


def test_many_readers_share_a_few_connections(stoppable: PostgresServer, site: PostgresSite) -> None:
    driver = Driver(lambda: site.shard(0))
    driver.append(added=[row(1)])
    together = threading.Barrier(16)

    def read() -> int:
        together.wait()
        return sum(driver.total() for _ in range(10))

    with ThreadPoolExecutor(16) as threads:
        assert [each.result() for each in [threads.submit(read) for _ in range(16)]] == [10] * 16
    assert len(site._readers._idle) <= READERS_MAX
    driver.store.close()
