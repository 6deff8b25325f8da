"""``penstock cluster``: shows and steers which node owns which shard, by the rows that the nodes share."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from penstock.cli.failure import Breakdown, Failure, printable
from penstock.cli.groups import CommandGroup
from penstock.cli.options import configured, with_these_settings
from penstock.cli.output import Output, json_option
from penstock.errors import StoreError, StoreRefused
from penstock.store.leases import ClusterView, LeaseRow, Leases, NodeRow

_LATE_MS = 3000  # a node renews its row every second
_POLL_S = 0.2


def _steers(function: Callable[..., None]) -> Callable[..., None]:
    return with_these_settings("store")(json_option(function))


_MISSING = {
    "create": 'a node joins the cluster when "penstock serve" starts it with the database of the cluster',
    "set": 'use "penstock cluster drain", "penstock cluster undrain" or "penstock cluster move"',
    "delete": 'a node leaves when its server stops: "penstock cluster drain" moves its shards away before',
}


@click.group("cluster", cls=CommandGroup, missing=_MISSING)
def command() -> None:
    """Show and steer the nodes of a cluster.

    The commands read and change the rows that all nodes share in the database: no node has to be reached. The nodes
    act on a change within a second. NODE is the address that a node advertises.

    \b
    Examples:
      export PENSTOCK_STORE=postgresql://penstock@db/penstock    or --store, or --config
      penstock cluster status
      penstock cluster show 10.0.0.5:9400
      penstock cluster drain 10.0.0.5:9400 --wait
      penstock cluster undrain 10.0.0.5:9400
      penstock cluster move 7 10.0.0.6:9400
    """


@command.command("status")
@_steers
def status(as_json: bool, **flags: Any) -> None:
    """Show the nodes and the owner of every shard. Exit code 1: a shard is not served.

    A node is alive, draining, or late: it was not seen for three seconds, and is removed after five. A shard is
    served, loading, or has no owner. PLACED ON is the node that move has chosen for it.

    \b
    Examples:
      penstock cluster status --store postgresql://penstock@db/penstock
      penstock cluster status --config /etc/penstock/penstock.toml --json
    """
    with _leases(flags) as leases:
        view = leases.view()
    Output(as_json).result(_as_text(view), **_as_json(view))
    if not view.leases:
        raise Breakdown("no node was ever started with this database, so that it has no owners of shards")
    if not all(_is_served(lease, view) for lease in view.leases):
        raise SystemExit(1)


@command.command("ls")
@_steers
def ls(as_json: bool, **flags: Any) -> None:
    """List the nodes, and how many shards each owns. Whether every shard is served is what status tells.

    \b
    Examples:
      penstock cluster ls
      penstock cluster ls --json | jq -r 'select(.state != "alive") | .address'
    """
    with _leases(flags) as leases:
        view = leases.view()
    out, nodes = Output(as_json), _sorted(view.nodes)
    if as_json:
        out.json_lines(_node_facts(node, view) for node in nodes)
    elif not nodes:
        out.note("no node is alive")
    else:
        out.line(_table(_node_rows(view)))


@command.command("show")
@click.argument("node")
@_steers
def show(node: str, as_json: bool, **flags: Any) -> None:
    """Show NODE: its state, the shards that it owns, and those that move has placed on it.

    \b
    Examples:
      penstock cluster show 10.0.0.5:9400
      penstock cluster show 10.0.0.5:9400 --json | jq .shards
    """
    with _leases(flags) as leases:
        view = leases.view()
        found = next((each for each in view.nodes if each.address == node), None)
        if found is None:
            raise _no_such_node(node, leases)
    facts = _node_facts(found, view)
    placed = [lease.shard for lease in view.leases if lease.wish == node]
    out = Output(as_json)
    if as_json:
        out.json({**facts, "placed": placed})
        return
    out.facts(
        [
            ("node", node),
            ("state", facts["state"]),
            ("version", found.version),
            ("seen", _seen(found)),
            ("shards", ", ".join(map(str, facts["shards"])) or "none"),
            ("placed on it", ", ".join(map(str, placed)) or "none"),
        ]
    )


@command.command("drain")
@click.argument("node")
@_steers
@click.option("--wait", is_flag=True, help="Return when the node owns no shard any more.")
@click.option("--timeout", type=click.FloatRange(0), default=60.0, show_default=True, help="Seconds to wait.")
def drain(node: str, wait: bool, timeout: float, as_json: bool, **flags: Any) -> None:
    """Move all shards of NODE to other nodes, a few at a time, and give it no new ones.

    Every request is still answered. The node says that it is not ready, so that a load balancer sends requests
    elsewhere, and continues to serve. It drains until undrain, or until it is started again. If all nodes drain, the
    shards stay where they are.

    \b
    Examples:
      penstock cluster drain 10.0.0.5:9400
      penstock cluster drain 10.0.0.5:9400 --wait --timeout 300
    """
    with _leases(flags) as leases:
        if not leases.drain(node, is_draining=True):
            raise _no_such_node(node, leases)
        if wait:
            _wait(leases, lambda view: not _shards_of(node, view), timeout, f"{node} still owns shards")
    state = "drained" if wait else "draining"
    Output(as_json).result(f"{node} is {state}", node=node, state=state)


@command.command("undrain")
@click.argument("node")
@_steers
def undrain(node: str, as_json: bool, **flags: Any) -> None:
    """Give shards to NODE again.

    \b
    Example:
      penstock cluster undrain 10.0.0.5:9400
    """
    with _leases(flags) as leases:
        if not leases.drain(node, is_draining=False):
            raise _no_such_node(node, leases)
    Output(as_json).result(f"{node} gets shards again", node=node, state="alive")


@command.command("move")
@click.argument("shard", type=click.IntRange(0))
@click.argument("node", required=False)
@_steers
@click.option("--anywhere", is_flag=True, help="Forget the NODE that was chosen for the shard before.")
@click.option("--wait", is_flag=True, help="Return when NODE serves the shard.")
@click.option("--timeout", type=click.FloatRange(0), default=60.0, show_default=True, help="Seconds to wait.")
def move(
    shard: int, node: str | None, anywhere: bool, wait: bool, timeout: float, as_json: bool, **flags: Any
) -> None:
    """Move SHARD to NODE, where it stays while that node is alive and does not drain.

    Others are moved so that the nodes stay balanced. Every request is still answered.

    \b
    Examples:
      penstock cluster move 7 10.0.0.6:9400 --wait
      penstock cluster move 7 --anywhere
    """
    if (node is None) != anywhere or (wait and anywhere):
        raise Failure("give either NODE, or --anywhere without --wait")
    with _leases(flags) as leases:
        if node is not None and not any(each.address == node for each in leases.view().nodes):
            raise _no_such_node(node, leases)
        if not leases.wish(shard, node):
            raise Failure(
                f"there is no shard {shard}: they are numbered from 0 to {len(leases.view().leases) - 1}"
            )
        if wait and node is not None:
            _wait(
                leases,
                lambda view: view.leases[shard].is_serving and shard in _shards_of(node, view),
                timeout,
                f"shard {shard} is not served by {node} yet",
            )
    if node is None:
        text = f"shard {shard} can be anywhere"
    else:
        text = f"shard {shard} {'is served by' if wait else 'moves to'} {node}"
    Output(as_json).result(text, shard=shard, placedOn=node, served=wait)


@contextmanager
def _leases(flags: dict[str, Any]) -> Iterator[Leases]:
    config = configured(flags)
    if config.store is None:
        raise Failure(
            "store is not set: give the database of the cluster with --store, PENSTOCK_STORE or --config"
        )
    try:
        from penstock.store.postgres.connection import Database  # needs psycopg
        from penstock.store.postgres.leases import PostgresLeases

        leases = PostgresLeases(Database(config.store, "penstock"), 0)
        try:
            yield leases
        finally:
            leases.close()
    except StoreRefused as error:
        raise Failure(str(error)) from None
    except StoreError as error:
        if "42P01" in str(error):  # the table does not exist
            raise Failure("the database holds no store of Penstock: start a node with it first") from None
        raise Breakdown(str(error)) from None


def _no_such_node(node: str, leases: Leases) -> Failure:
    known = ", ".join(sorted(each.address for each in leases.view().nodes)) or "none"
    return Failure(f'there is no node "{node}": alive are {known}')


def _wait(leases: Leases, holds: Callable[[ClusterView], bool], timeout: float, otherwise: str) -> None:
    end = time.monotonic() + timeout
    while not holds(leases.view()):
        if time.monotonic() > end:
            raise Breakdown(f"{otherwise} after {timeout:g} s")
        time.sleep(_POLL_S)


def _shards_of(address: str, view: ClusterView) -> list[int]:
    ids = {node.id for node in view.nodes if node.address == address}
    return [lease.shard for lease in view.leases if lease.owner in ids]


def _is_served(lease: LeaseRow, view: ClusterView) -> bool:
    return lease.is_serving and view.node(lease.owner) is not None


def _state(node: NodeRow) -> str:
    if node.age_ms > _LATE_MS:
        return "late"
    return "draining" if node.is_draining else "alive"


def _sorted(nodes: Iterable[NodeRow]) -> list[NodeRow]:
    return sorted(nodes, key=lambda node: node.address)


def _seen(node: NodeRow) -> str:
    return f"{node.age_ms / 1000:.1f} s ago"


def _node_facts(node: NodeRow, view: ClusterView) -> dict[str, Any]:
    return {
        "address": node.address,
        "state": _state(node),
        "version": node.version,
        "lastSeenMs": node.age_ms,
        "shards": _shards_of(node.address, view),
    }


def _as_json(view: ClusterView) -> dict[str, Any]:
    return {
        "nodes": [_node_facts(node, view) for node in _sorted(view.nodes)],
        "shards": [
            {
                "shard": lease.shard,
                "owner": owner.address if (owner := view.node(lease.owner)) is not None else None,
                "served": _is_served(lease, view),
                "epoch": lease.epoch,
                "placedOn": lease.wish,
            }
            for lease in view.leases
        ],
    }


def _node_rows(view: ClusterView) -> list[tuple[str, ...]]:
    shards = Counter(lease.owner for lease in view.leases)
    return [
        ("NODE", "STATE", "SHARDS", "VERSION", "SEEN"),
        *(
            (node.address, _state(node), str(shards[node.id]), node.version, _seen(node))
            for node in _sorted(view.nodes)
        ),
    ]


def _as_text(view: ClusterView) -> str:
    leases = [("SHARD", "OWNER", "STATE", "EPOCH", "PLACED ON")]
    for lease in view.leases:
        owner = view.node(lease.owner)
        state = "no owner" if owner is None else "served" if lease.is_serving else "loading"
        address = "-" if owner is None else owner.address
        leases.append((str(lease.shard), address, state, str(lease.epoch), lease.wish or "-"))
    return f"{_table(_node_rows(view))}\n\n{_table(leases)}"


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(f"{printable(cell):<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
