"""Nodes that join, leave, die, pause and lose replies: who owns what, and that nothing acknowledged is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest

from cluster.simulated import Node, World
from penstock.cluster.membership import TIMES
from penstock.errors import StoreError, StoreRefused
from support.texts import says

SEEDS = range(8)

MakeWorld = Callable[..., World]


@pytest.fixture
def make_world() -> Iterator[MakeWorld]:
    worlds: list[World] = []

    def make(seed: int, **more: Any) -> World:
        worlds.append(World(seed, **more))
        return worlds[-1]

    yield make
    for world in worlds:
        world.close()


def shares(world: World) -> list[int]:
    """How many shards each live node serves; every shard is served once."""
    assert all(len(nodes) == 1 for nodes in world.serving().values()), world.serving()
    return sorted(len(node.member.served) for node in world.nodes.values() if not node.is_dead)


def trouble(world: World, seconds: float, *, pauses: float) -> None:
    """Load, while nodes are paused for longer than their lease and killed, and replies are lost."""
    end = world.now + seconds
    while world.now < end:
        world.run(world.random.uniform(0.5, 4), requests_per_s=40)
        alive = [node for node in world.nodes.values() if not node.is_dead and node.paused_until <= world.now]
        match world.random.randrange(4):
            case 0 if len(alive) > 1:
                world.pause(world.random.choice(alive), world.random.uniform(0.5, pauses))
            case 1 if len(alive) > 2:
                victim = world.random.choice(alive)
                world.kill(victim)
                world.join(f"{victim.address}+")
    world.loss = 0.0
    world.run(25, requests_per_s=40)
    world.settle()


def test_nodes_that_start_together_share_the_shards_and_later_ones_get_theirs(make_world: MakeWorld) -> None:
    world = make_world(1, nodes=3, shards=12)
    world.run(5)
    assert shares(world) == [4, 4, 4]
    world.join("late")
    world.run(5)
    assert shares(world) == [3, 3, 3, 3]


def test_the_shards_of_a_dead_node_are_served_again_soon(make_world: MakeWorld) -> None:
    world = make_world(2, nodes=3, shards=12)
    world.run(5)
    world.kill(world.nodes["node-1"])
    world.run(TIMES.valid + TIMES.renew + 1)
    assert shares(world) == [6, 6]


def test_a_planned_move_answers_every_request(make_world: MakeWorld) -> None:
    world = make_world(3, nodes=3, shards=12)
    world.run(5)
    world.leases.drain("node-0", is_draining=True)
    requests = world.run(4, requests_per_s=60)
    assert world.nodes["node-0"].member.served == {}
    assert shares(world) == [0, 6, 6]
    world.leases.drain("node-0", is_draining=False)
    requests += world.run(4, requests_per_s=60)
    assert shares(world) == [4, 4, 4]
    world.run(TIMES.patience)
    assert all(request.is_done for request in requests)
    assert world.refused == 0
    world.settle()
    assert not world.violations


def test_a_node_that_stops_hands_everything_over_and_nothing_fails(make_world: MakeWorld) -> None:
    world = make_world(4, nodes=3, shards=12)
    world.run(5)
    leaving = world.nodes["node-2"]

    async def stop() -> None:
        await leaving.member.drain(within_s=5)
        leaving.accepts = False
        await asyncio.sleep(1)  # the time in which a server ends the requests that it has begun
        await leaving.member.leave(within_s=5)

    leaving.loop.call_soon(leaving.start, stop())
    requests = world.run(5, requests_per_s=60)
    assert [node.address for node in world.leases.view().nodes] == ["node-0", "node-1"]
    world.run(TIMES.patience)
    assert all(request.is_done for request in requests)
    world.kill(leaving)
    assert shares(world) == [6, 6]


def test_the_last_node_leaves_at_once(make_world: MakeWorld) -> None:
    world = make_world(5, nodes=1, shards=4)
    world.run(3)
    node = world.nodes["node-0"]

    async def stop() -> None:
        await node.member.drain(within_s=60)
        await node.member.leave(within_s=5)

    node.loop.call_soon(node.start, stop())
    world.run(3)
    assert world.leases.view().nodes == ()


def test_shards_are_served_even_if_all_nodes_drain(make_world: MakeWorld) -> None:
    world = make_world(9, nodes=2, shards=6)
    world.run(5)
    for node in list(world.nodes):
        world.leases.drain(node, is_draining=True)
    world.run(2)
    assert shares(world) == [3, 3]
    world.kill(world.nodes["node-0"])
    world.run(TIMES.valid + TIMES.renew + 1)
    assert shares(world) == [6]


def test_a_hint_that_a_node_is_gone_is_given_once(make_world: MakeWorld) -> None:
    world = make_world(10, nodes=3, shards=6)
    world.run(5)
    gone: list[str] = []
    world.nodes["node-0"].member._gone = gone.append
    world.kill(world.nodes["node-1"])
    world.run(TIMES.valid + 10)
    assert gone == ["node-1"]


def test_a_node_whose_address_another_has_is_refused(make_world: MakeWorld) -> None:
    world = make_world(11, nodes=2, shards=6)
    world.run(5)
    first = world.nodes["node-0"]
    world.nodes["second"] = second = Node(world, "node-0", TIMES)
    world.run(5)
    says(str(second.refused), "another node", "node-0")
    assert sorted(node.address for node in world.leases.view().nodes) == ["node-0", "node-1"]
    assert len(first.member.served) == 3, "the other one goes on"


def test_a_node_that_was_killed_can_be_started_again_at_once(make_world: MakeWorld) -> None:
    world = make_world(12, nodes=2, shards=6)
    world.run(5)
    world.kill(world.nodes["node-0"])
    again = world.join("node-0")
    world.run(TIMES.valid + 3)
    assert again.refused is None
    assert shares(world) == [3, 3]


def test_a_node_with_another_secret_is_refused_before_it_gets_a_shard(make_world: MakeWorld) -> None:
    world = make_world(21, nodes=2, shards=6)
    world.run(5)
    epochs = [lease.epoch for lease in world.leases.view().leases]
    stranger = world.join("stranger", b"another secret")
    world.run(10)
    says(str(stranger.refused), "another cluster secret")
    assert [lease.epoch for lease in world.leases.view().leases] == epochs, "no shard has moved"
    assert shares(world) == [0, 3, 3]


@pytest.mark.parametrize("seed", SEEDS)
def test_of_nodes_that_start_at_once_only_those_with_one_secret_serve(
    make_world: MakeWorld, seed: int
) -> None:
    world = make_world(seed, nodes=0, shards=6)
    nodes = [world.join(f"node-{i}", b"secret %d" % i) for i in range(3)]
    world.run(10)
    assert sum(node.refused is not None for node in nodes) >= 2
    assert sum(bool(node.member.served) for node in nodes) <= 1


@pytest.mark.parametrize("killed", [False, True])
def test_when_all_nodes_were_stopped_they_can_be_started_with_a_new_secret(
    make_world: MakeWorld, killed: bool
) -> None:
    world = make_world(22, nodes=2, shards=6)
    world.run(5)
    for node in list(world.nodes.values()):
        if not killed:
            node.start(node.member.leave(5))
            world.run(2)
        world.kill(node)
    after = [world.join(f"node-{i}", b"the new secret") for i in range(2)]
    world.run(TIMES.valid + 3)
    assert [node.refused for node in after] == [None, None]
    assert shares(world) == [3, 3]


def test_a_node_that_missed_a_change_of_the_secret_gets_no_shard_when_it_comes_back(
    make_world: MakeWorld, caplog: pytest.LogCaptureFixture
) -> None:
    world = make_world(23, nodes=2, shards=6)
    world.run(5)
    late, other = world.nodes.values()
    world.pause(late, 30)
    world.kill(other)
    world.run(TIMES.valid + 1)
    after = world.join("new", b"the new secret")
    world.run(60)
    assert after.refused is None
    assert (len(after.member.served), len(late.member.served)) == (6, 0)
    assert [node.address for node in world.leases.view().nodes] == ["new"]
    assert caplog.text.count("another cluster secret") == 1


def test_a_node_that_cannot_serve_its_shards_does_not_start(make_world: MakeWorld) -> None:
    world = make_world(13, nodes=0, shards=6)
    first = world.join("node-0")
    first.refusal = StoreRefused("a migration is not finished")
    world.run(3)
    assert first.refused is first.refusal
    assert world.leases.view().nodes == ()


def test_a_node_that_cannot_serve_a_shard_leaves_its_shards_to_others(make_world: MakeWorld) -> None:
    world = make_world(13, nodes=2, shards=6)
    world.run(5)
    late = world.join("late")
    late.refusal = StoreRefused("a key is missing")
    world.run(10)
    assert late.member.is_draining
    assert shares(world) == [0, 3, 3]
    for node in world.nodes.values():
        node.refusal = late.refusal
    world.kill(world.nodes["node-0"])
    world.run(20)
    assert len(world.nodes["node-1"].member.served) == 3, "what can be served is served by the last one"


def test_a_shard_that_cannot_be_loaded_is_tried_again_later_and_later(
    make_world: MakeWorld, caplog: pytest.LogCaptureFixture
) -> None:
    world = make_world(14, nodes=2, shards=6)
    world.run(5)
    remaining = world.nodes["node-1"]
    world.kill(world.nodes["node-0"])
    remaining.refusal = StoreError("it is damaged")
    caplog.clear()
    world.run(60, requests_per_s=20)  # requests that wait ask for the rows ten times a second
    tries = [at for at, shard in remaining.opened if shard == remaining.opened[-1][1]]
    assert 8 <= len(tries) <= 20
    assert max(later - before for before, later in pairwise(tries)) >= TIMES.retry_max
    lines = [each for each in caplog.records if "it is damaged" in each.message and each.levelname != "DEBUG"]
    assert [each.levelname for each in lines] == ["WARNING", "ERROR", "ERROR", "ERROR"], (
        "once for all, and once for each shard when it lasts"
    )
    remaining.refusal = None
    world.run(TIMES.retry_max + 1)
    assert len(remaining.member.served) == 6


def test_an_operator_places_a_shard(make_world: MakeWorld) -> None:
    world = make_world(6, nodes=3, shards=6)
    world.run(5)
    elsewhere = next(node for node in world.nodes.values() if 0 not in node.member.served)
    world.leases.wish(0, elsewhere.address)
    world.run(3)
    assert 0 in elsewhere.member.served
    assert shares(world) == [2, 2, 2]


def test_while_the_database_is_away_nothing_is_served_and_then_each_node_goes_on_with_its_own(
    make_world: MakeWorld,
) -> None:
    world = make_world(7, nodes=3, shards=12)
    world.run(5)
    before = {node.address: set(node.member.served) for node in world.nodes.values()}
    world.is_cut = True
    world.run(TIMES.serve + 0.5)
    assert all(nodes == [] for nodes in world.serving().values())
    assert not any(node.member.is_connected for node in world.nodes.values())
    world.run(20)
    world.is_cut = False
    world.run(3)
    assert {node.address: set(node.member.served) for node in world.nodes.values()} == before
    assert all(node.member.is_connected and node.member.is_loaded for node in world.nodes.values())


def test_a_short_outage_of_the_database_changes_no_owner(make_world: MakeWorld) -> None:
    world = make_world(8, nodes=3, shards=12)
    world.run(5)
    epochs = [lease.epoch for lease in world.leases.view().leases]
    world.is_cut = True
    world.run(2)
    world.is_cut = False
    world.run(10)
    assert [lease.epoch for lease in world.leases.view().leases] == epochs


@pytest.mark.parametrize("seed", SEEDS)
def test_no_history_loses_an_acknowledged_change_or_reads_an_old_one(
    make_world: MakeWorld, seed: int
) -> None:
    world = make_world(seed, loss=0.03)
    trouble(world, 60, pauses=20)
    assert not world.violations
    assert sum(world.acknowledged.values()) > 200, "the load was too light to prove anything"
    shares(world)


def test_owners_whose_clocks_are_wrong_lose_no_acknowledged_change(make_world: MakeWorld) -> None:
    """They serve for hours after their lease: two owners believe that they have the shard. Only reads may be old."""
    served_twice = 0
    for seed in SEEDS:
        world = make_world(seed, loss=0.03, times=TIMES._replace(serve=10_000.0))
        trouble(world, 60, pauses=20)
        assert not [text for text in world.violations if "was read" not in text]
        served_twice += world.served_twice
    assert served_twice > 0, "no two owners at a time: this proves nothing"


def test_a_store_that_commits_without_the_guard_is_found(make_world: MakeWorld) -> None:
    found = []
    for seed in SEEDS:
        world = make_world(seed, loss=0.03, times=TIMES._replace(serve=10_000.0), guarded=False)
        trouble(world, 60, pauses=20)
        found += [text for text in world.violations if "is stored" in text]
        if found:
            break
    assert found


def test_a_node_that_does_not_look_at_its_clock_is_found(make_world: MakeWorld) -> None:
    found = []
    for seed in SEEDS:
        world = make_world(seed, checked=False)
        trouble(world, 60, pauses=20)
        found += [text for text in world.violations if "was read" in text]
        if found:
            break
    assert found
