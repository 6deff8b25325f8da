"""Making and opening a site on PostgreSQL: by several at once, of other versions, and what it says about itself."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from penstock.errors import StoreAway, StoreRefused
from penstock.store.postgres.site import MIGRATIONS, PostgresSite, guarantees
from store.store_driver import Driver, bare, row
from support.postgres import PostgresServer
from support.process import free_port
from support.rows import every_row

pytestmark = pytest.mark.postgres

NEXT = (*MIGRATIONS, "ALTER TABLE entries ADD COLUMN IF NOT EXISTS colour text")


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    return postgres.url(postgres.new_database())


@contextmanager
def opened(
    url: str, shards: int | None = None, migrations: Sequence[str] = MIGRATIONS
) -> Iterator[PostgresSite]:
    site = PostgresSite(url, shards, migrations=migrations)
    try:
        site.open()
        yield site
    finally:
        site.close()


def test_the_number_of_shards_is_chosen_once(url: str) -> None:
    with opened(url, shards=4) as site:
        assert site.shards == 4
    with pytest.raises(StoreRefused, match="has 4 shards, not 9"):
        PostgresSite(url, 9).open()
    with opened(url, None) as site:
        assert site.shards == 4
        with pytest.raises(StoreRefused, match=r"4 shards.* no shard 4"):
            site.shard(4)


def test_it_is_made_by_several_processes_at_once(url: str) -> None:
    def make(shards: int) -> str:
        try:
            with opened(url, shards) as site:
                return f"made with {site.shards}"
        except StoreRefused as error:
            return str(error).partition(",")[0]

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(make, range(1, 9)))
    (chosen,) = [shards for shards in range(1, 9) if answers[shards - 1] == f"made with {shards}"]
    assert answers.count(f"the store has {chosen} shards") == 7


def test_two_sites_share_a_database(url: str) -> None:
    for schema, seq in (("one", 1), ("two", 2)):
        site = PostgresSite(url, schema=schema)
        site.open()
        driver = Driver(lambda site=site: site.shard(0))  # type: ignore[misc]
        driver.append(added=[row(seq)])
        assert driver.all() == bare([row(seq)])
        driver.store.close()
        site.close()


def test_an_older_format_is_migrated_by_one_of_several(url: str) -> None:
    with opened(url) as site:
        driver = Driver(lambda: site.shard(0))
        driver.append(added=[row(1)])
        driver.store.close()
    sites = [PostgresSite(url, migrations=NEXT) for _ in range(4)]
    with ThreadPoolExecutor(len(sites)) as threads:
        list(threads.map(PostgresSite.open, sites))
    driver = Driver(lambda: sites[0].shard(0))
    assert driver.all() == bare([row(1)])
    driver.store.close()
    for each in sites:
        each.close()


def test_a_newer_format_is_refused(url: str) -> None:
    with opened(url, migrations=NEXT):
        pass
    known = len(MIGRATIONS)
    problem = rf"newer .*format {known + 1}.* {known}\b"
    with pytest.raises(StoreRefused, match=problem):
        PostgresSite(url).open()


def test_a_migration_that_fails_changes_nothing(url: str) -> None:
    with pytest.raises(StoreRefused, match="syntax error"):
        PostgresSite(url, migrations=(*NEXT, "CREATE TABLE half (id int); NONSENSE")).open()
    with opened(url, migrations=(*NEXT, "CREATE TABLE half (id int)")):
        pass


def test_a_user_who_may_not_create_tables(postgres: PostgresServer) -> None:
    database = postgres.new_database()
    postgres.execute(f"CREATE USER reader_of_{database}")
    url = postgres.url(database).replace("penstock@", f"reader_of_{database}@")
    with pytest.raises(StoreRefused, match=r"permission denied .*schema penstock"):
        PostgresSite(url).open()


def test_the_password_is_in_no_message(postgres: PostgresServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    addresses = [
        f"postgresql://penstock:secret@127.0.0.1:{free_port()}/postgres",
        f"postgresql://penstock:secret@127.0.0.1:{postgres.port}/none",
        "postgresql://penstock:secret@127.0.0.1:notaport/postgres",
        "postgresql://penstock:secret@127.0.0.1/postgres?sslmode=nonsense",
        "postgresql://penstock:secret@127.0.0.1/postgres?nonsense=1",
        "penstock:secret",
    ]
    for address in addresses:
        with pytest.raises((StoreAway, StoreRefused)) as refused:
            PostgresSite(address).open()
        error: BaseException | None = refused.value
        while error is not None:
            assert "secret" not in str(error)
            error = error.__cause__
    assert "secret" not in caplog.text


@every_row(
    ("settings", "expected"),
    [
        (("PostgreSQL 18.4", "off", "on", "*"), "fsync is off: .* lose or damage"),
        (("PostgreSQL 18.4", "on", "off", "*"), "synchronous_commit is off: .* can lose"),
        (("PostgreSQL 18.4", "on", "on", ""), "no synchronous standby: .* can lose"),
        (("PostgreSQL 18.4", "on", "local", "a"), "no synchronous standby: .* can lose"),
        (("PostgreSQL 18.4", "on", "remote_write", "a"), "unless .*standby.* crashes"),
        (("PostgreSQL 18.4", "on", "on", "a"), r"synchronous standby \(a\): .* loses nothing"),
        (("PostgreSQL 18.4", "on", "remote_apply", "a"), "loses nothing$"),
        (("CockroachDB CCL v24.1.0", None, None, None), "not tested"),
        (("PostgreSQL 15.2-YB-2.25", "on", "on", ""), "not tested"),
    ],
)
def test_what_a_failover_can_lose(settings: tuple[str, str, str, str], expected: str) -> None:
    line = guarantees(*settings)
    assert re.search(expected, line), line
    assert "\n" not in line


def test_the_settings_are_read_from_the_server(postgres: PostgresServer, url: str) -> None:
    with opened(url) as site:
        assert site.guarantees.startswith("fsync is off"), "which it is, to be quick"
        assert not site.is_local


def test_without_psycopg_the_error_names_the_extra() -> None:
    program = (
        "import sys; sys.modules['psycopg'] = None\n"
        "import penstock.server.compose\n"  # everything else works without it
        "from penstock.errors import StoreRefused\n"
        "try:\n    import penstock.store.postgres.site\n"
        "except StoreRefused as error:\n    print(error)\n"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert "pip install 'penstock-mq[postgres]'" in said
