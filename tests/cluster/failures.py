"""A real cluster whose nodes are killed, paused and cut off, and whose database is restarted, under load.

What was acknowledged holds, deleted messages stay away, FIFO order is kept, and queues are served again within ten
seconds of a node's death. ``make test-cluster`` runs this, on its own because it takes minutes. CLUSTER_ROUNDS sets
how often nodes are killed, CLUSTER_SEED which and when.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.network import laid_cable
from cluster.processes import SERVED_WITHIN_S, Cluster
from penstock.cluster.membership import TIMES
from support.fan_out import NEWS, ORDERS, fan_out
from support.load import DEAD, FIFO, PLAIN
from support.postgres import PostgresServer, running_postgres

ROUNDS = int(os.environ.get("CLUSTER_ROUNDS", "2"))
SEED = int(os.environ.get("CLUSTER_SEED", random.SystemRandom().randrange(2**32)))


@pytest.fixture(scope="module")
def database() -> Iterator[PostgresServer]:
    # As it is in production: a restart of the database recovers what was committed.
    with running_postgres({"max_connections": "100"}) as server:
        yield server


@pytest.fixture
def cluster(database: PostgresServer, tmp_path: Path) -> Iterator[Cluster]:
    print(f"CLUSTER_SEED={SEED} CLUSTER_ROUNDS={ROUNDS}")
    with Cluster(database, tmp_path, SEED) as cluster:
        yield cluster


def test_nodes_are_killed_at_random(cluster: Cluster) -> None:
    took = []
    for _ in range(ROUNDS):
        time.sleep(cluster.random.uniform(0.3, 1.5))
        victim = cluster.owner_of(cluster.random.choice((PLAIN, FIFO)))
        if cluster.random.random() < 0.2:
            victim = cluster.random.choice(cluster.nodes)
        took.append(cluster.kill(victim))
        cluster.restart(victim)
        if cluster.random.random() < 0.7:  # else the next one dies while shards still move
            cluster.wait_until_balanced()
    print("served again after", ", ".join(f"{seconds:.1f}" for seconds in took), "seconds")
    cluster.wait_until_balanced()
    time.sleep(1)
    cluster.settle()
    assert max(took) < SERVED_WITHIN_S
    assert cluster.ledger.counted["sent"] > 50 * ROUNDS, "the load was too light to prove anything"


def test_topics_lose_and_repeat_nothing_when_nodes_are_killed_and_shards_move(cluster: Cluster) -> None:
    with fan_out(cluster.address, SEED) as published:
        for _ in range(ROUNDS):
            time.sleep(cluster.random.uniform(0.3, 1.0))
            victim = cluster.owner_of_topic(cluster.random.choice((NEWS, ORDERS)))
            cluster.kill(victim)
            cluster.restart(victim)
            cluster.wait_until_balanced()
            moved = cluster.owner_of_topic(cluster.random.choice((NEWS, ORDERS)))
            cluster.drain(moved)
            cluster.undrain(moved)
        cluster.wait_until_balanced()
        time.sleep(1)
    wrong = published.settle(cluster.nodes[0].process.port)
    print(f"published: {len(published.sent)}, unsure: {len(published.unsure)}")
    assert not wrong, wrong[:10]
    assert len(published.sent) > 50 * ROUNDS, "the load was too light to prove anything"
    cluster.settle()


def test_a_node_that_was_paused_for_longer_than_its_lease_commits_nothing(cluster: Cluster) -> None:
    time.sleep(1)
    paused = cluster.owner_of(FIFO)
    cluster.address.leave(paused.process.port)
    paused.signal(signal.SIGSTOP)
    # Clients that are connected to it, and other nodes that passed requests on, still wait for its answers.
    assert cluster.wait_until_served(cluster.others(paused)) < SERVED_WITHIN_S
    time.sleep(TIMES.valid)
    owners = cluster.journal_owners()
    paused.signal(signal.SIGCONT)
    cluster.wait_until_served(cluster.nodes)
    moved = {shard for shard, owner in cluster.journal_owners().items() if owner != owners[shard]}
    assert moved <= cluster.shards_of(paused), "it opened only what it was given again"
    cluster.address.open(paused.process.port)
    cluster.wait_until_balanced()
    time.sleep(1)
    cluster.settle()
    assert any("removed from the cluster" in line for line in paused.log)


def test_a_node_that_is_cut_off_from_the_database_serves_nothing(cluster: Cluster) -> None:
    """It is still reached by clients and by other nodes."""
    time.sleep(1)
    cut = cluster.nodes[-1]
    cluster.proxy.cut()
    assert cluster.wait_until_served(cluster.others(cut)) < SERVED_WITHIN_S
    deadline = time.monotonic() + SERVED_WITHIN_S
    while cluster.shards_of(cut):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert not any(cluster.is_served_through(cut, queue) for queue in (PLAIN, DEAD, FIFO))
    assert cluster.wait_until_served(cluster.others(cut)) < SERVED_WITHIN_S
    cluster.proxy.join()
    cluster.wait_until_balanced()
    cluster.wait_until_served(cluster.nodes)
    time.sleep(1)
    cluster.settle()


def test_a_node_in_a_network_of_its_own_is_cut_off_from_everything(tmp_path: Path) -> None:
    with laid_cable() as cable:
        if cable is None:
            pytest.skip("network namespaces need root and iproute2: no node was cut off from the network")
        with running_postgres({"listen_addresses": f"127.0.0.1,{cable.outside}"}) as database:
            database.allow(f"{cable.inside}/32")
            with Cluster(database, tmp_path, SEED, entries=2, cable=cable) as cluster:
                time.sleep(1)
                *others, cut = cluster.nodes
                cable.cut()
                assert cluster.wait_until_served(others) < SERVED_WITHIN_S
                while cluster.shards_of(cut):
                    time.sleep(0.05)
                assert cluster.wait_until_served(others) < SERVED_WITHIN_S
                cable.join()
                cluster.wait_until_balanced()
                assert cluster.wait_until_served(others) < SERVED_WITHIN_S
                time.sleep(1)
                cluster.settle()
                assert any("stopped serving" in line for line in cut.log)


@pytest.mark.parametrize("down_s", [0.5, TIMES.valid + 2], ids=["shortly", "for longer than the leases"])
def test_the_database_is_restarted(cluster: Cluster, down_s: float) -> None:
    time.sleep(1)
    cluster.database.stop(signal.SIGQUIT)  # without a checkpoint: it has to recover
    time.sleep(down_s)
    cluster.database.start()
    assert cluster.wait_until_served(cluster.nodes) < SERVED_WITHIN_S
    time.sleep(1)
    cluster.wait_until_balanced()
    cluster.settle()


def test_planned_moves_and_restarts_answer_every_request(database: PostgresServer, tmp_path: Path) -> None:
    """Clients stay with one node, whose own shards move as well: not one of their requests fails."""
    with Cluster(database, tmp_path, SEED, entries=1) as cluster:
        cluster.address.parts_may_die = False
        first, *others = cluster.nodes
        for node in others:
            time.sleep(0.5)
            assert node.stop() == 0
            time.sleep(0.5)
            node.start()
            cluster.wait_until_balanced()
        cluster.drain(first)
        time.sleep(0.5)
        cluster.undrain(first)
        cluster.wait_until_balanced()
        cluster.settle()
        assert not cluster.ledger.counted["sends with unknown outcome"]
