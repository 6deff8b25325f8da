"""The tables of nodes and leases in a real PostgreSQL: what each statement does, and that of two nodes one wins."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from penstock.errors import StoreAway
from penstock.store.leases import NodeRow
from penstock.store.postgres.leases import PostgresLeases
from penstock.store.postgres.site import PostgresSite
from support.postgres import PostgresServer, running_postgres

pytestmark = pytest.mark.postgres

SHARDS = 4
VALID_MS = 60_000

MakeLeases = Callable[[], PostgresLeases]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with running_postgres() as server:
        yield server


@pytest.fixture(params=["read committed", "serializable"])
def make_leases(server: PostgresServer, request: pytest.FixtureRequest) -> Iterator[MakeLeases]:
    isolation = request.param.replace(" ", "\\ ")
    url = server.url(server.new_database(), default_transaction_isolation=isolation)
    site = PostgresSite(url, SHARDS)
    site.open()
    made: list[PostgresLeases] = []

    def make() -> PostgresLeases:
        made.append(PostgresLeases(site.database, SHARDS))
        return made[-1]

    yield make
    for each in made:
        each.close()
    site.close()


def join(leases: PostgresLeases, id: str, *, valid_ms: int = VALID_MS) -> None:
    leases.register(id, f"{id}:9400", "1.0", proof=id.encode(), is_draining=False, valid_ms=valid_ms)


def owners(leases: PostgresLeases) -> list[str | None]:
    return [lease.owner for lease in leases.view().leases]


def test_a_new_cluster_has_all_shards_and_no_owner(make_leases: MakeLeases) -> None:
    leases = make_leases()
    join(leases, "a")
    view = leases.renew("a", valid_ms=VALID_MS, remove_expired=True)
    assert view is not None
    assert [(lease.shard, lease.owner, lease.epoch) for lease in view.leases] == [
        (shard, None, 0) for shard in range(SHARDS)
    ]
    (node,) = view.nodes
    assert node._replace(age_ms=0) == NodeRow("a", "a:9400", "1.0", False, 0, b"a")
    assert 0 <= node.age_ms < VALID_MS


def test_a_shard_without_an_owner_is_claimed_once(make_leases: MakeLeases) -> None:
    a, b = make_leases(), make_leases()
    join(a, "a")
    join(b, "b")
    assert a.claim(0, 0, "a")
    assert not b.claim(0, 0, "b"), "another epoch"
    assert not b.claim(0, 1, "b"), "its owner is alive"
    assert a.serving(0, 1, "a")
    assert not b.serving(0, 1, "b")
    lease = b.view().leases[0]
    assert (lease.owner, lease.epoch, lease.is_serving) == ("a", 1, True)


def test_a_node_is_removed_when_it_was_not_renewed_and_its_shards_can_be_claimed(
    make_leases: MakeLeases,
) -> None:
    a, b = make_leases(), make_leases()
    join(a, "a", valid_ms=1)
    join(b, "b")
    a.claim(0, 0, "a")
    time.sleep(0.01)  # the clock of the database cannot be turned
    assert not b.claim(0, 1, "b"), "it was not removed yet"
    assert b.renew("b", valid_ms=VALID_MS, remove_expired=False) is not None
    assert [node.id for node in b.view().nodes] == ["a", "b"]
    b.renew("b", valid_ms=VALID_MS, remove_expired=True)
    assert [node.id for node in b.view().nodes] == ["b"]
    assert a.renew("a", valid_ms=VALID_MS, remove_expired=True) is None
    assert b.claim(0, 1, "b")
    assert not a.hand_over(0, 1, "a", "a")


def test_a_node_that_is_late_and_was_not_removed_goes_on(make_leases: MakeLeases) -> None:
    leases = make_leases()
    join(leases, "a", valid_ms=1)
    leases.claim(0, 0, "a")
    time.sleep(0.01)
    view = leases.renew("a", valid_ms=VALID_MS, remove_expired=True)
    assert view is not None and view.leases[0].owner == "a"


def test_a_shard_is_handed_over_by_its_owner_only(make_leases: MakeLeases) -> None:
    leases = make_leases()
    join(leases, "a")
    join(leases, "b")
    leases.claim(0, 0, "a")
    leases.serving(0, 1, "a")
    assert not leases.hand_over(0, 1, "b", "b")
    assert leases.hand_over(0, 1, "a", "b")
    lease = leases.view().leases[0]
    assert (lease.owner, lease.epoch, lease.is_serving) == ("b", 2, False)
    assert not leases.hand_over(0, 1, "a", "a")


def test_a_node_that_leaves_frees_its_shards(make_leases: MakeLeases) -> None:
    leases = make_leases()
    join(leases, "a")
    join(leases, "b")
    leases.claim(0, 0, "a")
    leases.leave("a")
    assert leases.claim(0, 1, "b")


def test_operators_drain_and_place(make_leases: MakeLeases) -> None:
    leases = make_leases()
    join(leases, "a")
    assert leases.drain("a:9400", is_draining=True)
    assert not leases.drain("x:9400", is_draining=True)
    assert leases.view().nodes[0].is_draining
    assert leases.wish(3, "a:9400")
    assert not leases.wish(SHARDS, "a:9400")
    assert leases.view().leases[3].wish == "a:9400"
    assert leases.wish(3, None)
    assert leases.view().leases[3].wish is None


def test_of_many_that_claim_at_once_one_gets_each_shard(make_leases: MakeLeases) -> None:
    first = make_leases()
    names = [f"n{i}" for i in range(5)]
    for name in names:
        join(first, name)
    won: list[tuple[str, int]] = []
    start = threading.Barrier(len(names))

    def claim_all(name: str, leases: PostgresLeases) -> None:
        leases.view()
        start.wait()
        won.extend((name, shard) for shard in range(SHARDS) if leases.claim(shard, 0, name))

    threads = [threading.Thread(target=claim_all, args=(name, make_leases())) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(shard for _, shard in won) == list(range(SHARDS))
    assert owners(first) == [name for name, _ in sorted(won, key=lambda each: each[1])]


def test_a_call_that_gets_no_answer_can_be_ended(server: PostgresServer, make_leases: MakeLeases) -> None:
    leases = make_leases()
    join(leases, "a")
    failed: list[BaseException] = []

    def hang() -> None:
        try:
            leases._try(lambda connection: connection.execute("SELECT pg_sleep(60)"))
        except StoreAway as error:
            failed.append(error)

    thread = threading.Thread(target=hang)
    thread.start()
    waiting = "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%'"
    while make_leases()._try(lambda connection: connection.execute(waiting).fetchone()) is None:
        time.sleep(0.01)
    leases.abort()
    thread.join(10)
    assert failed
    assert leases.renew("a", valid_ms=VALID_MS, remove_expired=True) is not None, "on a new connection"
