"""GetStatus, ListInternalQueues, Reload and Backup: the process that serves, its store, and the shards of all
processes."""

from __future__ import annotations

import re
from collections.abc import AsyncIterable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from penstock import __version__
from penstock.broker.internal_queue_status import (
    InternalQueuePlace,
    InternalQueuesQuestion,
    InternalQueueStatus,
)
from penstock.broker.summaries import ShardStatus, StatusQuestion
from penstock.services.admin.faults import invalid
from penstock.services.admin.resources import Admin
from penstock.services.admin.shown import limit_of, page_token, read_page_token, seconds
from penstock.services.admin.structs import (
    AuditEventInfo,
    BackupFile,
    BackupRequest,
    BackupResult,
    InternalQueueInfo,
    ListAuditEventsRequest,
    ListInternalQueuesRequest,
    ListInternalQueuesResult,
    MetricsText,
    Nothing,
    ReloadResult,
    ShardInfo,
    StatusResult,
    StoreState,
)
from penstock.wire.service import Call

if TYPE_CHECKING:
    from penstock.services.admin.testing import TestTime

_FILE_NAME = re.compile(r"\w[\w.-]{0,199}", re.ASCII)
_INTERNAL_QUEUES_DEFAULT, _INTERNAL_QUEUES_MAX = 100, 1000


class ServerFacts(NamedTuple):
    """What the process knows of itself."""

    uptime_s: float
    store: str  # "sqlite", "postgres", "memory"
    durability: str
    connections: int
    node: str | None
    encryption: str  # "off: …" or "on: …"
    disk_low: str | None  # how little is free


class ServerControl(Protocol):
    """The process, as far as requests may ask or change it."""

    account: str  # that the server belongs to

    @property
    def test_time(self) -> TestTime | None:
        """The time of the test clock; None if time is the real one."""

    async def start_over(self) -> None:
        """Forget everything, on a server with a test clock."""

    def facts(self) -> ServerFacts: ...

    async def reload(self) -> ReloadResult:
        """Reloads all processes of the server and returns the result of this one."""

    async def audit_events(self, chosen: ListAuditEventsRequest, events_max: int) -> list[AuditEventInfo]:
        """The newest first. Raises Fault if there is no audit log, or a time is invalid."""

    async def metrics(self) -> bytes:
        """The text of /metrics. Raises Unreachable."""

    async def backup(self) -> AsyncIterable[bytes]:
        """Raises Fault if the store cannot be backed up."""

    async def backup_to(self, name: str) -> BackupFile:
        """Into the directory for backups. Raises Fault."""


async def get_status(admin: Admin, request: Nothing, call: Call) -> StatusResult:
    """The state of the server: version, store, shards and tasks."""
    facts = admin.server.facts()
    shards = await admin.broker.ask(StatusQuestion())
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


async def list_internal_queues(
    admin: Admin, request: ListInternalQueuesRequest, call: Call
) -> ListInternalQueuesResult:
    """The work of the server that waits or runs in the background, of all accounts; in pages."""
    limit = limit_of(request.limit, _INTERNAL_QUEUES_DEFAULT, _INTERNAL_QUEUES_MAX)
    after = None if request.after is None else read_page_token(request.after, InternalQueuePlace)
    # One more than a page, to see whether there is another one.
    found = await admin.broker.ask(InternalQueuesQuestion(limit + 1, after))
    page = found[:limit]
    following = page_token(page[-1].place) if len(found) > limit else None
    return ListInternalQueuesResult(queues=[_internal_queue_info(each) for each in page], next=following)


async def get_metrics(admin: Admin, request: Nothing, call: Call) -> MetricsText:
    """What the server measures, as text for Prometheus."""
    return MetricsText(content=await admin.server.metrics())


async def reload(admin: Admin, request: Nothing, call: Call) -> ReloadResult:
    """Read the settings, declared queues, certificates, credentials and keys again."""
    return await admin.server.reload()


async def backup(admin: Admin, request: BackupRequest, call: Call) -> BackupResult:
    """Back up all shards at one moment: as the response, or into a file of the server."""
    if request.path is None:
        return BackupResult(content=await admin.server.backup())
    if not _FILE_NAME.fullmatch(request.path):
        raise invalid("path", "the name of a file, of letters, digits, dots, hyphens and underscores")
    return BackupResult(content=await admin.server.backup_to(request.path))


def _store_state(facts: ServerFacts, shards: list[ShardStatus]) -> StoreState:
    used = [each.used_bytes for each in shards if each.used_bytes is not None]
    free = [each.free_bytes for each in shards if each.free_bytes is not None]
    return StoreState(
        kind=facts.store,
        durability=facts.durability,
        encryption=facts.encryption,
        disk_low=facts.disk_low,
        used_bytes=sum(used) if used else None,
        free_bytes=min(free, default=None),
        refuses=next((each.refuses for each in shards if each.refuses is not None), None),
    )


def _internal_queue_info(status: InternalQueueStatus) -> InternalQueueInfo:
    place, age_ms = status.place, status.oldest_age_ms
    return InternalQueueInfo(
        kind=place.kind,
        account=place.account,
        region=place.region,
        waiting=status.waiting,
        running=status.running,
        put_off=status.put_off,
        oldest_age_s=None if age_ms is None else seconds(age_ms),
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
