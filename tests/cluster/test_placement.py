"""Placement, against what it promises and against all placements that are possible."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from penstock.cluster.placement import ShardMove, next_moves, placed

NODES = ("a", "b", "c", "d", "e")
Owners = dict[int, str | None]


@st.composite
def clusters(draw: st.DrawFn, shards_max: int = 40) -> tuple[Owners, set[str], dict[int, str]]:
    shards = range(draw(st.integers(1, shards_max)))
    owners = {shard: draw(st.sampled_from((None, *NODES))) for shard in shards}
    takers = draw(st.sets(st.sampled_from(NODES)))
    wishes = draw(st.dictionaries(st.sampled_from(shards), st.sampled_from(NODES), max_size=6))
    return owners, takers, wishes


def wished(takers: set[str], wishes: Mapping[int, str]) -> dict[int, str]:
    return {shard: node for shard, node in wishes.items() if node in takers}


def is_balanced(targets: Mapping[int, str], takers: set[str], fixed: Mapping[int, str]) -> bool:
    """Within one, except that a node with wished shards alone may have more."""
    load = Counter(targets.values())
    least = min(load[node] for node in takers)
    return all(load[node] <= max(least + 1, Counter(fixed.values())[node]) for node in takers)


@given(clusters())
def test_every_shard_has_a_place_among_the_takers_and_they_are_balanced(
    cluster: tuple[Owners, set[str], dict[int, str]],
) -> None:
    owners, takers, wishes = cluster
    targets = placed(owners, takers, wishes)
    if not takers:
        assert targets == {}
        return
    assert targets.keys() == owners.keys()
    assert set(targets.values()) <= takers
    fixed = wished(takers, wishes)
    assert all(targets[shard] == node for shard, node in fixed.items())
    assert is_balanced(targets, takers, fixed)


@given(clusters(shards_max=6))
def test_no_balanced_placement_moves_less(cluster: tuple[Owners, set[str], dict[int, str]]) -> None:
    owners, takers, wishes = cluster
    takers = set(sorted(takers)[:3])
    if not takers:
        return
    fixed = wished(takers, wishes)

    def moved(targets: Mapping[int, str]) -> int:
        return sum(targets[shard] != owner for shard, owner in owners.items())

    possible = (dict(zip(owners, nodes, strict=True)) for nodes in product(takers, repeat=len(owners)))
    least = min(
        moved(targets)
        for targets in possible
        if is_balanced(targets, takers, fixed) and all(targets[s] == node for s, node in fixed.items())
    )
    assert moved(placed(owners, takers, wishes)) == least


@given(clusters(), st.integers(1, 4))
def test_a_few_steps_at_a_time_lead_there_and_then_nothing_moves(
    cluster: tuple[Owners, set[str], dict[int, str]], moves_max: int
) -> None:
    owners, takers, wishes = cluster
    for _ in range(len(owners) + 1):
        moves = next_moves(owners, takers, wishes, (), moves_max)
        assert sum(move.source is not None for move in moves) <= moves_max
        if not moves:
            break
        assert all(owners[move.shard] == move.source for move in moves)
        owners = owners | {move.shard: move.target for move in moves}
    assert next_moves(owners, takers, wishes, (), moves_max) == []
    if takers:
        assert set(owners.values()) <= takers, "a draining node ends with none"


@given(clusters())
def test_all_nodes_find_the_same_whatever_order_they_read_the_rows_in(
    cluster: tuple[Owners, set[str], dict[int, str]],
) -> None:
    owners, takers, wishes = cluster
    backwards = dict(reversed(owners.items()))
    assert next_moves(owners, sorted(takers), wishes, (), 3) == next_moves(
        backwards, sorted(takers, reverse=True), wishes, (), 3
    )


def test_a_new_node_gets_its_share_in_small_steps() -> None:
    owners: Owners = dict.fromkeys(range(8), "a")
    assert next_moves(owners, ("a", "b"), {}, (), 2) == [ShardMove(4, "a", "b"), ShardMove(5, "a", "b")]
    assert next_moves(owners, ("a", "b"), {}, (6,), 2) == [ShardMove(4, "a", "b")]
    assert next_moves(owners, ("a", "b"), {}, (6, 7), 2) == []


def test_shards_without_an_owner_do_not_wait_for_planned_moves() -> None:
    owners: Owners = {0: None, 1: "a", 2: None, 3: "a"}
    assert next_moves(owners, ("a", "b"), {}, (1,), 1) == [ShardMove(0, None, "b"), ShardMove(2, None, "b")]


def test_a_wish_comes_first_and_another_shard_makes_room() -> None:
    owners: Owners = {0: "a", 1: "a", 2: "b", 3: "b"}
    assert next_moves(owners, ("a", "b"), {0: "b"}, (), 1) == [ShardMove(0, "a", "b")]
    assert next_moves(owners | {0: "b"}, ("a", "b"), {0: "b"}, (), 1) == [ShardMove(3, "b", "a")]


def test_a_wish_for_a_node_that_is_away_waits() -> None:
    owners: Owners = {0: "a", 1: "b"}
    assert next_moves(owners, ("a", "b"), {0: "c"}, (), 1) == []


def test_without_a_node_that_takes_shards_they_stay() -> None:
    assert next_moves({0: "a", 1: None}, (), {}, (), 3) == []
