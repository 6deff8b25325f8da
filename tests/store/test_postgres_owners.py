"""One owner at a time: whatever is lost, late or repeated, a commit is made once or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from penstock.errors import DataRefused, StoreAway, StoreLost, StoreUnknown
from penstock.store.changes import Changes
from penstock.store.port import JournalEnd, Mark
from penstock.store.postgres import write
from penstock.store.postgres.connection import Connection, is_away
from penstock.store.postgres.site import PostgresSite
from store.store_driver import T0, Driver, bare, row
from support.postgres import PostgresServer
from support.postgres_proxy import PostgresProxy

pytestmark = pytest.mark.postgres


@pytest.fixture
def database(postgres: PostgresServer) -> str:
    return postgres.new_database()


@pytest.fixture
def proxy(postgres: PostgresServer) -> Iterator[PostgresProxy]:
    proxy = PostgresProxy(postgres.port)
    yield proxy
    proxy.close()


@pytest.fixture
def site(postgres: PostgresServer, database: str, proxy: PostgresProxy) -> Iterator[PostgresSite]:
    """Reached through the proxy."""
    site = PostgresSite(postgres.url(database, port=proxy.port), shards=2)
    site.open()
    yield site
    site.close()


@pytest.fixture
def driver(site: PostgresSite) -> Iterator[Driver]:
    driver = Driver(lambda: site.shard(0))
    driver.append(added=[row(1)])
    yield driver
    driver.store.close()


def test_the_last_owner_commits_nothing_more(driver: Driver, site: PostgresSite) -> None:
    other = Driver(lambda: site.shard(0))
    assert other.state.end.number == 1
    for _ in range(2):
        with pytest.raises(StoreLost):
            driver.append(added=[row(2)])
    with pytest.raises(StoreLost):
        driver.store.maintain(10)
    with pytest.raises(StoreLost):
        driver.store.end()
    other.append(added=[row(3)])
    assert other.all() == bare([row(1), row(3)])
    other.store.close()


def test_a_shard_is_apart_from_the_others(driver: Driver, site: PostgresSite) -> None:
    other = Driver(lambda: site.shard(1))
    assert other.state.end.number == 0
    assert other.state.secret != driver.state.secret
    other.append(added=[row(1, content=b"of the other")], records={("kind", "key"): b"1"})
    driver.append(purged={1: 1})
    driver.clean_up()
    assert driver.all() == []
    assert [entry.content for entry in other.whole()] == [b"of the other"]
    assert driver.store.records("kind") == {}
    other.store.close()


def test_a_commit_whose_answer_is_lost_is_made_once(driver: Driver, proxy: PostgresProxy) -> None:
    proxy.lose_answer = True
    driver.append(added=[row(2)])
    assert not proxy.lose_answer
    assert driver.store.end() == JournalEnd(2, driver.state.end.owner)
    driver.append(added=[row(3)])
    assert driver.all() == bare([row(1), row(2), row(3)])


def test_a_commit_that_never_arrived_is_sent_again(driver: Driver, proxy: PostgresProxy) -> None:
    proxy.lose_question = True
    driver.append(added=[row(2)])
    assert not proxy.lose_question
    assert driver.all() == bare([row(1), row(2)])
    assert driver.store.end().number == 2


def test_a_commit_that_arrives_after_its_outcome_was_settled_is_refused(
    driver: Driver, proxy: PostgresProxy
) -> None:
    proxy.hold_question = True
    driver.append(added=[row(2)], records={("sent", "again"): b""})
    assert proxy.held.is_set()
    proxy.release()
    assert proxy.delivered.wait(10)
    assert driver.store.end().number == 2
    driver.append(added=[row(3)])
    assert driver.all() == bare([row(1), row(2), row(3)])


def test_a_lost_answer_of_a_shard_that_another_took_meanwhile(
    driver: Driver, postgres: PostgresServer, database: str, proxy: PostgresProxy
) -> None:
    proxy.hold_question = True
    with ThreadPoolExecutor(1) as threads, psycopg.connect(postgres.url(database)) as blocking:
        blocking.execute("UPDATE penstock.shard SET owner = 'another', writer = 'another' WHERE id = 0")
        outcome = threads.submit(driver.append, added=[row(2)])
        assert proxy.held.wait(10)
        blocking.commit()
        proxy.release()
        with pytest.raises(StoreUnknown):  # the last owner may have made it before
            outcome.result()
    with pytest.raises(StoreLost):
        driver.store.end()
    assert driver.all() == bare([row(1)])


def test_the_end_is_read_when_a_commit_under_way_is_over(
    driver: Driver, postgres: PostgresServer, database: str
) -> None:
    with psycopg.connect(postgres.url(database)) as under_way, ThreadPoolExecutor(1) as threads:
        under_way.execute("UPDATE penstock.shard SET number = number + 1 WHERE id = 0")
        end = threads.submit(driver.store.end)
        with pytest.raises(TimeoutError):
            end.result(0.2)
        under_way.commit()
        assert end.result(10).number == 2


def test_a_commit_with_a_warning_is_checked(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server warns like this that it gave up waiting for a standby."""
    send = write.CommitStatements.send
    connections = []

    def warn(self: write.CommitStatements, connection: Connection) -> object:
        skipped = send(self, connection)
        connections.append(connection)
        connection.execute("DO $$ BEGIN RAISE WARNING 'not on the standby'; END $$")
        return skipped

    monkeypatch.setattr(write.CommitStatements, "send", warn)
    driver.append(added=[row(2)])
    assert len(connections) == 1, "it was not sent again"
    assert connections[0].closed, "another connection made sure of it"
    assert driver.all() == bare([row(1), row(2)])


def test_the_end_is_not_known_while_the_standby_may_lack_it(
    driver: Driver, postgres: PostgresServer, database: str
) -> None:
    with psycopg.connect(postgres.url(database), autocommit=True) as admin:
        admin.execute(
            "CREATE FUNCTION penstock.warn() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE WARNING 'not on the standby'; RETURN NEW; END $$"
        )
        admin.execute(
            "CREATE TRIGGER warn BEFORE UPDATE OF writer ON penstock.shard "
            "FOR EACH ROW EXECUTE FUNCTION penstock.warn()"
        )
        with pytest.raises(StoreAway):
            driver.store.end()
        admin.execute("DROP TRIGGER warn ON penstock.shard")
    assert driver.store.end().number == 1


@pytest.mark.parametrize("state", ["40001", "40P01"])
def test_a_conflict_is_tried_again(driver: Driver, monkeypatch: pytest.MonkeyPatch, state: str) -> None:
    send, failures = write.CommitStatements.send, [state] * 3

    def fail(self: write.CommitStatements, connection: Connection) -> object:
        if failures:
            connection.execute("BEGIN")
            code = failures.pop()
            connection.execute(f"DO $$ BEGIN RAISE 'conflict' USING ERRCODE = '{code}'; END $$")
        return send(self, connection)

    monkeypatch.setattr(write.CommitStatements, "send", fail)
    driver.append(added=[row(2)])
    assert not failures
    assert driver.all() == bare([row(1), row(2)])


def test_a_connection_that_breaks_between_a_conflict_and_the_next_try(
    driver: Driver, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = [psycopg.errors.SerializationFailure("conflict")]
    send = write.CommitStatements.send

    def fail(self: write.CommitStatements, connection: Connection) -> object:
        if failures:
            connection.execute("BEGIN")
            postgres.execute(f"SELECT pg_terminate_backend({connection.info.backend_pid})")
            raise failures.pop()
        return send(self, connection)

    monkeypatch.setattr(write.CommitStatements, "send", fail)
    driver.append(added=[row(2)])
    assert not failures
    assert driver.all() == bare([row(1), row(2)])


def test_only_what_the_client_library_reports_of_the_connection_means_that_it_broke() -> None:
    assert is_away(psycopg.DatabaseError("server closed the connection unexpectedly"))
    assert is_away(psycopg.OperationalError("the connection is lost"))
    assert not is_away(psycopg.ProgrammingError("the last operation didn't produce records"))
    assert not is_away(psycopg.errors.UniqueViolation("duplicate key"))


def test_another_error_refuses_the_commit_and_leaves_the_connection(driver: Driver) -> None:
    with pytest.raises(DataRefused, match="duplicate key"):
        driver.append(added=[row(1)])
    with pytest.raises(DataRefused, match="0x00"):
        driver.append(added=[row(2)], records={("alarm", "a\0b"): b""})
    with pytest.raises(DataRefused, match="index row"):
        driver.append(added=[row(2)], records={("alarm", "".join(map(chr, range(256, 16_000)))): b""})
    driver.append(added=[row(2)])
    assert driver.all() == bare([row(1), row(2)])


def test_two_owners_in_turn_under_load(site: PostgresSite) -> None:
    """The owners commit as fast as they can, and take the shard from each other: every number is one commit's."""
    made: dict[int, str] = {}
    refused = []

    def own(name: str, turns: int) -> None:
        for _ in range(turns):
            store = site.shard(1)
            number = store.open().end.number
            try:
                for _ in range(20):
                    number += 1
                    changes = Changes(number, number - 1)
                    changes.records["made", str(number)] = name.encode()
                    store.append(changes, Mark(1, T0, T0))
                    assert number not in made
                    made[number] = name
            except StoreLost:
                refused.append(number)
            finally:
                store.close()

    with ThreadPoolExecutor(2) as threads:
        for done in [threads.submit(own, name, 8) for name in ("a", "b")]:
            done.result()
    store = site.shard(1)
    last = store.open().end.number
    stored = {int(key): data.decode() for key, data in store.records("made").items()}
    store.close()
    assert stored == made
    assert set(stored) == set(range(1, last + 1))
    assert refused, "they met"
