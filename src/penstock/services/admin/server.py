"""GetStatus and Reload: the process that serves, its store, and the shards of all processes."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from penstock import __version__
from penstock.broker.summaries import ShardStatus
from penstock.services.admin.resources import Admin
from penstock.services.admin.structs import Nothing, ShardInfo, StatusResult, StoreState
from penstock.wire.service import Call


class ServerFacts(NamedTuple):
    """What the process knows of itself."""

    uptime_s: float
    store: str  # "sqlite", "postgres", "memory"
    durability: str
    connections: int
    node: str | None


class ServerControl(Protocol):
    """The process, as far as requests may ask or change it."""

    account: str  # that the server belongs to

    def facts(self) -> ServerFacts: ...


async def get_status(admin: Admin, request: Nothing, call: Call) -> StatusResult:
    """The state of the server: version, store, shards and tasks."""
    facts = admin.server.facts()
    shards = await admin.broker.statuses()
    budget = admin.broker.budget
    return StatusResult(
        version=__version__,
        uptime_s=round(facts.uptime_s, 3),
        store=_store_state(facts, shards),
        shards=[_shard_info(each) for each in shards],
        memory_budget=budget.bytes_max,
        memory_used=budget.used,
        running_tasks=sum(each.running_tasks for each in shards),
        connections=facts.connections,
        node=facts.node,
    )


def _store_state(facts: ServerFacts, shards: list[ShardStatus]) -> StoreState:
    used = [each.used_bytes for each in shards if each.used_bytes is not None]
    free = [each.free_bytes for each in shards if each.free_bytes is not None]
    return StoreState(
        kind=facts.store,
        durability=facts.durability,
        used_bytes=sum(used) if used else None,
        free_bytes=min(free, default=None),
        refuses=next((each.refuses for each in shards if each.refuses is not None), None),
    )


def _shard_info(status: ShardStatus) -> ShardInfo:
    return ShardInfo(
        index=status.index,
        open=status.is_open,
        queues=status.queues,
        messages=status.messages,
        bytes=status.bytes,
        commits=status.commits,
        owner=status.owner or None,
    )
