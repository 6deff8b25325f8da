"""A primary and a standby: the primary is killed under load, the standby takes over.

``make test-failover`` runs this, on its own because it takes a minute. With a synchronous standby no acknowledged
commit may be lost. With an asynchronous one some are, which shows that the warning at the start is true.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager

import pytest

from penstock.errors import StoreAway, StoreLost, StoreUnknown
from penstock.store.changes import Changes
from penstock.store.port import JournalEnd, Mark, Selection
from penstock.store.postgres.site import PostgresSite
from store.store_driver import T0, row
from support.postgres import PostgresServer, server_directory
from support.texts import says

SHARDS = 3
WAIT_S_MAX = 60


class Pair:
    """A primary, a standby that follows it, and a store that reaches whichever of the two accepts writes."""

    def __init__(self, primary: PostgresServer, standby: PostgresServer) -> None:
        self.primary = primary
        self.standby = standby
        addresses = f"127.0.0.1:{primary.port},127.0.0.1:{standby.port}"
        self.site = PostgresSite(f"postgresql://penstock@{addresses}/postgres", SHARDS)

    def fail_over(self) -> None:
        self.primary.stop(signal.SIGKILL)
        self.standby.promote()


@contextmanager
def pair(*, synchronous: bool) -> Iterator[Pair]:
    with server_directory() as first, server_directory() as second:
        primary = PostgresServer(first, {"synchronous_standby_names": "standby" if synchronous else ""})
        standby = PostgresServer(second)
        primary.create()
        primary.start()
        standby.copy_from(primary, "standby")
        standby.start()
        expected = "sync" if synchronous else "async"
        wait_until(lambda: primary.execute("SELECT sync_state FROM pg_stat_replication") == [(expected,)])
        both = Pair(primary, standby)
        both.site.open()
        try:
            yield both
        finally:
            both.site.close()
            for server in (primary, standby):
                server.stop()


def wait_until(holds: Callable[[], bool]) -> None:
    for _ in range(WAIT_S_MAX * 100):
        if holds():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it did not come to that in time")


class Load:
    """Commits of one shard, one after the other, as fast as it goes; settles unknown outcomes as the broker does."""

    def __init__(self, site: PostgresSite, shard: int) -> None:
        self.store = site.shard(shard)
        self.owner = self.store.open().end.owner
        self.acknowledged: list[int] = []
        self.lost: StoreLost | None = None
        self.stop = threading.Event()

    def run(self) -> None:
        number = 0
        while not self.stop.is_set():
            changes = Changes(number + 1, number)
            changes.added.append(row(number + 1))
            try:
                if self._commit(changes):
                    number += 1
                    self.acknowledged.append(number)
            except StoreLost as error:
                self.lost = error
                return

    def _commit(self, changes: Changes) -> bool:
        """Make a commit. Returns whether it was made."""
        try:
            self.store.append(changes, Mark(1, T0, T0))
        except StoreAway:
            self.stop.wait(0.01)
            return False
        except StoreUnknown:
            return self._is_made(changes.number)
        return True

    def _is_made(self, number: int) -> bool:
        while not self.stop.is_set():
            try:
                return self.store.end() == JournalEnd(number, self.owner)
            except StoreAway:
                self.stop.wait(0.01)
        return False

    def stored(self) -> list[int]:
        return [entry.seq for entry in self.store.select(Selection(1), rows_max=10**6)]


def until_more(loads: list[Load], running: list[Future[None]]) -> None:
    """Waits until each has acknowledged more, or has ended."""
    before = [len(load.acknowledged) for load in loads]
    wait_until(
        lambda: all(
            len(load.acknowledged) >= count + 50 or each.done()
            for load, count, each in zip(loads, before, running, strict=True)
        )
    )


@pytest.mark.parametrize("round", range(3))
def test_a_failover_to_a_synchronous_standby_loses_nothing(round: int) -> None:
    with pair(synchronous=True) as both, ThreadPoolExecutor(SHARDS) as threads:
        says(both.site.guarantees, "synchronous standby (standby)", "loses nothing")
        loads = [Load(both.site, shard) for shard in range(SHARDS)]
        running = [threads.submit(load.run) for load in loads]
        until_more(loads, running)
        both.fail_over()
        before = sum(len(load.acknowledged) for load in loads)
        until_more(loads, running)
        for load in loads:
            load.stop.set()
        wait(running)
        for load, done in zip(loads, running, strict=True):
            done.result()
            assert load.lost is None
            assert load.stored() == load.acknowledged, "nothing lost, nothing twice"
            load.store.close()
        print(f"round {round}: {before} commits before the failover, none lost")


def test_a_failover_to_an_asynchronous_standby_can_lose_acknowledged_commits() -> None:
    with pair(synchronous=False) as both, ThreadPoolExecutor(1) as threads:
        says(both.site.guarantees, "failover", "can lose")
        load = Load(both.site, 0)
        running = threads.submit(load.run)
        until_more([load], [running])
        # The standby falls behind, as one does when the network between the two is slow or broken.
        both.standby.execute("ALTER SYSTEM SET primary_conninfo = ''")
        both.standby.execute("SELECT pg_reload_conf()")
        wait_until(lambda: both.primary.execute("SELECT 1 FROM pg_stat_replication") == [])
        until_more([load], [running])
        both.fail_over()
        running.result(WAIT_S_MAX)
        assert isinstance(load.lost, StoreLost), (
            "what the owner knows is not what the store holds: it must stop"
        )
        lost = set(load.acknowledged) - set(load.stored())
        assert lost, "the warning is true"
        # Another owner continues with what there is.
        store = both.site.shard(0)
        assert store.open().end.number == len(load.stored())
        store.close()
        load.store.close()
        print(f"{len(lost)} of {len(load.acknowledged)} acknowledged commits lost")


def test_a_commit_that_the_server_stopped_waiting_with_is_not_acknowledged() -> None:
    """A cancelled wait for the standby ends with a warning and counts as committed."""
    waiting = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
    with pair(synchronous=True) as both, ThreadPoolExecutor(1) as threads:
        store = both.site.shard(0)
        owner = store.open().end.owner
        both.standby.stop(signal.SIGINT)
        changes = Changes(1, 0)
        changes.added.append(row(1))
        outcome = threads.submit(store.append, changes, Mark(1, T0, T0))
        wait_until(lambda: both.primary.execute(waiting) != [])
        ((pid,),) = both.primary.execute(waiting)
        both.primary.execute(f"SELECT pg_cancel_backend({pid})")
        wait_until(lambda: outcome.done() or both.primary.execute(waiting) not in ([], [(pid,)]))
        assert not outcome.done(), "another connection makes sure of it, and waits in turn"
        both.standby.start()
        assert outcome.result(WAIT_S_MAX) == frozenset()
        both.fail_over()
        wait_until(lambda: not store.status().is_away)
        assert store.end() == JournalEnd(1, owner)
        store.close()
