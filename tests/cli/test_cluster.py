"""``penstock cluster`` on the rows of a real database."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result

from penstock.cli import main
from penstock.store.postgres.leases import PostgresLeases
from penstock.store.postgres.site import PostgresSite
from support.postgres import PostgresServer, running_postgres
from support.process import free_port
from support.texts import says

A, B = "10.0.0.5:9400", "10.0.0.6:9400"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with running_postgres() as server:
        yield server


@pytest.fixture
def url(server: PostgresServer) -> str:
    return server.url(server.new_database())


@pytest.fixture
def leases(url: str) -> Iterator[PostgresLeases]:
    """Two nodes: the first serves shards 0 and 1, the second is loading shard 2."""
    site = PostgresSite(url, 3)
    site.open()
    leases = PostgresLeases(site.database, 3)
    for id, address in (("a", A), ("b", B)):
        leases.register(id, address, "1.2.3", proof=b"", is_draining=False, valid_ms=60_000)
    for shard, owner in ((0, "a"), (1, "a"), (2, "b")):
        leases.claim(shard, 0, owner)
    for shard in (0, 1):
        leases.serving(shard, 1, "a")
    yield leases
    leases.close()
    site.close()


def cluster(url: str, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["cluster", *arguments, "--store", url])


def test_status_shows_nodes_and_shards(url: str, leases: PostgresLeases) -> None:
    result = cluster(url, "status")
    assert result.exit_code == 1, "a shard is not served"
    lines = [line.split() for line in result.stdout.splitlines()]
    assert [A, "alive", "2", "1.2.3"] in [line[:4] for line in lines]
    assert ["0", A, "served", "1", "-"] in lines
    assert ["2", B, "loading", "1", "-"] in lines
    leases.serving(2, 1, "b")
    assert cluster(url, "status").exit_code == 0
    leases.leave("b")
    result = cluster(url, "status")
    assert result.exit_code == 1
    assert ["2", "-", "no", "owner", "1", "-"] in [line.split() for line in result.stdout.splitlines()]


def test_status_as_json(url: str, leases: PostgresLeases) -> None:
    found = json.loads(cluster(url, "status", "--json").stdout)
    assert [(node["address"], node["state"], node["shards"]) for node in found["nodes"]] == [
        (A, "alive", [0, 1]),
        (B, "alive", [2]),
    ]
    assert found["shards"][2] == {"shard": 2, "owner": B, "served": False, "epoch": 1, "placedOn": None}


def test_ls_shows_the_nodes(url: str, leases: PostgresLeases) -> None:
    result = cluster(url, "ls")
    assert result.exit_code == 0, "whether shards are served is what status tells"
    heading, *lines = [line.split() for line in result.stdout.splitlines()]
    assert heading == ["NODE", "STATE", "SHARDS", "VERSION", "SEEN"]
    assert [line[:4] for line in lines] == [[A, "alive", "2", "1.2.3"], [B, "alive", "1", "1.2.3"]]
    rows = [json.loads(line) for line in cluster(url, "ls", "--json").stdout.splitlines()]
    assert [(row["address"], row["state"], row["shards"]) for row in rows] == [
        (A, "alive", [0, 1]),
        (B, "alive", [2]),
    ]
    for node in "a", "b":
        leases.leave(node)
    result = cluster(url, "ls")
    assert (result.exit_code, result.stdout) == (0, "")
    says(result.stderr, "no node")


def test_show_is_about_one_node(url: str, leases: PostgresLeases) -> None:
    leases.wish(0, B)
    leases.drain(B, is_draining=True)
    shown = dict(line.split(maxsplit=1) for line in cluster(url, "show", A).stdout.splitlines()[:5])
    assert (shown["node"], shown["state"], shown["version"], shown["shards"]) == (A, "alive", "1.2.3", "0, 1")
    facts = json.loads(cluster(url, "show", B, "--json").stdout)
    assert (facts["address"], facts["state"], facts["shards"], facts["placed"]) == (B, "draining", [2], [0])


def test_drain_and_undrain(url: str, leases: PostgresLeases) -> None:
    drained = cluster(url, "drain", A, "--json")
    assert json.loads(drained.stdout) == {"node": A, "state": "draining"}
    assert [node.is_draining for node in leases.view().nodes] == [True, False]
    assert json.loads(cluster(url, "status", "--json").stdout)["nodes"][0]["state"] == "draining"
    assert cluster(url, "undrain", A).exit_code == 0
    assert [node.is_draining for node in leases.view().nodes] == [False, False]


def test_drain_waits_until_the_node_owns_nothing(url: str, leases: PostgresLeases) -> None:
    result = cluster(url, "drain", A, "--wait", "--timeout", "0")
    assert result.exit_code == 1
    says(result.stderr, A, "owns shards", "0 s")
    for shard in (0, 1):
        leases.hand_over(shard, 1, "a", "b")
    assert cluster(url, "drain", A, "--wait").stdout == f"{A} is drained\n"


def test_move_places_a_shard_and_forgets_the_place(url: str, leases: PostgresLeases) -> None:
    assert cluster(url, "move", "0", B).stdout == f"shard 0 moves to {B}\n"
    assert leases.view().leases[0].wish == B
    says(cluster(url, "move", "0", B, "--wait", "--timeout", "0").stderr, "shard 0", "not served", B)
    assert cluster(url, "move", "0", "--anywhere").exit_code == 0
    assert leases.view().leases[0].wish is None


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("show", "x:1"), f'no node "x:1" {A} {B}'),
        (("drain", "x:1"), f'no node "x:1" {A} {B}'),
        (("undrain", "x:1"), 'no node "x:1"'),
        (("move", "0", "x:1"), 'no node "x:1"'),
        (("move", "9", A), "no shard 9 0 2"),
        (("move", "0"), "give either NODE"),
        (("move", "0", A, "--anywhere"), "give either NODE"),
    ],
)
def test_mistakes_are_explained(
    url: str, leases: PostgresLeases, arguments: tuple[str, ...], problem: str
) -> None:
    result = cluster(url, *arguments)
    assert result.exit_code == 2
    says(result.stderr, *problem.split())


def test_a_database_without_a_store_is_refused(url: str) -> None:
    result = cluster(url, "status")
    assert result.exit_code == 2
    says(result.stderr, "no store")


def test_a_database_that_had_no_node_yet_counts_as_not_served(url: str) -> None:
    site = PostgresSite(url, 3)
    site.open()
    site.close()
    result = cluster(url, "status")
    assert result.exit_code == 1
    says(result.stderr, "no node", "database")


def test_a_database_that_is_away_is_reported() -> None:
    result = cluster("postgresql://penstock:hunter2@127.0.0.1:1/penstock", "status")
    assert result.exit_code == 1
    assert "cannot be reached" in result.stderr
    assert "hunter2" not in result.stderr


def test_without_a_database_nothing_can_be_shown() -> None:
    result = CliRunner().invoke(main, ["cluster", "status"])
    assert result.exit_code == 2
    assert "--store" in result.stderr


def test_settings_that_only_a_node_needs_may_be_incomplete(
    url: str, leases: PostgresLeases, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment of a node whose address is in its flags."""
    monkeypatch.setenv("PENSTOCK_CLUSTER_SECRET_FILE", "cluster.secret")
    leases.serving(2, 1, "b")
    result = cluster(url, "status")
    assert result.exit_code == 0, result.stderr


def test_a_failure_is_said_once() -> None:
    """The command runs in a process of its own: pytest has handlers for all logs."""
    command = [sys.executable, "-m", "penstock", "cluster", "status", "--store"]
    away = f"postgresql://penstock@127.0.0.1:{free_port()}/none"
    said = subprocess.run([*command, away], capture_output=True, text=True, check=False)
    assert said.returncode == 1
    assert said.stderr.count("cannot be reached") == 1, said.stderr
