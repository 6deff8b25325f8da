"""Which node should own which shard, and the next few changes that lead there.

Pure and deterministic: every node computes it from the same rows and finds the same answer, so no node has to lead.
A shard stays where it is unless something asks for a move: its owner is gone or drains, an operator placed it
elsewhere, or one node has at least two more than another.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple


class ShardMove(NamedTuple):
    shard: int
    source: str | None  # None: it has no owner, and the target takes it
    target: str


def placed(
    owners: Mapping[int, str | None], takers: Collection[str], wishes: Mapping[int, str]
) -> dict[int, str]:
    """Where each shard belongs, with as few moves as a balanced placement needs.

    ``owners``: of every shard, None without a live one. ``takers``: the nodes that may own shards; without any the
    answer is empty. ``wishes``: shards that an operator placed; a wish for a node that is not a taker is left out of
    account until it is one."""
    if not takers:
        return {}
    nodes: dict[str, list[int]] = {node: [] for node in sorted(takers)}
    fixed: dict[str, int] = dict.fromkeys(nodes, 0)
    unowned = []
    for shard, owner in sorted(owners.items()):
        wish = wishes.get(shard)
        if wish in fixed:
            fixed[wish] += 1
        elif owner in nodes:
            nodes[owner].append(shard)
        else:
            unowned.append(shard)

    def load(node: str) -> tuple[int, str]:
        return fixed[node] + len(nodes[node]), node

    for shard in unowned:
        nodes[min(nodes, key=load)].append(shard)
    while True:
        emptiest = min(nodes, key=load)
        fullest = max((node for node in nodes if nodes[node]), key=load, default=emptiest)
        if load(fullest)[0] - load(emptiest)[0] < 2:
            break
        nodes[emptiest].append(_next_to_leave(nodes[fullest], owners, fullest))
    result = {shard: node for node, own in nodes.items() for shard in own}
    return result | {shard: wish for shard, wish in wishes.items() if wish in fixed and shard in owners}


def _next_to_leave(shards: list[int], owners: Mapping[int, str | None], node: str) -> int:
    """Take out one that has yet to move here, if there is one: it moves in any case. Else the last."""
    return shards.pop(max(range(len(shards)), key=lambda i: (owners[shards[i]] != node, i)))


def next_moves(
    owners: Mapping[int, str | None],
    takers: Collection[str],
    wishes: Mapping[int, str],
    moving: Collection[int],
    moves_max: int,
) -> list[ShardMove]:
    """What to do now: every shard without an owner is taken at once, of the others at most ``moves_max`` are on their
    way at a time. Wishes come first, then nodes that drain, then balance.

    ``moving``: those that their owner is still loading. They count, and move on only for a wish or a drain."""
    targets = placed(owners, takers, wishes)
    taken, planned = [], []
    for shard, target in sorted(targets.items()):
        source = owners[shard]
        if source is None:
            taken.append(ShardMove(shard, None, target))
        elif source != target and not (shard in moving and source in takers and shard not in wishes):
            planned.append(ShardMove(shard, source, target))
    planned.sort(key=lambda move: (wishes.get(move.shard) != move.target, move.source in takers))
    others = set(moving) - {move.shard for move in planned}
    return taken + planned[: max(0, moves_max - len(others))]
