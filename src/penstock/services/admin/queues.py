"""ListQueues and GetQueue: queues with exact counts, ages and rates."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import cast

import msgspec

from penstock.broker.other_shards import SourcesQuestion
from penstock.broker.summaries import (
    PageEnd,
    QueueQuery,
    QueueSummary,
    SortKey,
    SummariesQuestion,
    TargetsQuestion,
    TotalsQuestion,
    summary_of,
)
from penstock.services.admin.resources import Admin
from penstock.services.admin.shown import (
    choice_of,
    limit_of,
    page_token,
    read_page_token,
    seconds,
    wall_time,
)
from penstock.services.admin.structs import (
    AboutQueue,
    QueueInfo,
    QueuesRequest,
    QueuesResult,
    QueuesTotals,
)
from penstock.turns import Steps
from penstock.wire.service import Call

_QUEUES_DEFAULT, QUEUES_MAX = 100, 1000
_KINDS = ("all", "standard", "fifo", "dlq")
_SORTS = ("name", "visible", "in_flight", "delayed", "age", "sent_rate", "bytes")
_SOURCES_MAX = 1000


async def list_queues(admin: Admin, request: QueuesRequest, call: Call) -> QueuesResult:
    """Queues with exact counts, ages and rates; filtered, sorted and in pages."""
    limit = limit_of(request.limit, _QUEUES_DEFAULT, QUEUES_MAX)
    kind = choice_of(request.kind, "kind", _KINDS)
    sort = cast(SortKey, choice_of(request.sort, "sort", _SORTS))
    after = None if request.after is None else read_page_token(request.after, PageEnd)
    targets = await admin.broker.ask(TargetsQuestion(call.space))
    query = QueueQuery(
        call.space,
        limit + 1,  # one more than a page, to see whether there is another one
        request.prefix or "",
        request.contains or "",
        kind == "fifo" if kind in ("standard", "fifo") else None,
        frozenset(targets) if kind == "dlq" else None,
        sort,
        bool(request.descending),
        after,
    )
    found = await admin.broker.ask(SummariesQuestion(query))
    page = found[:limit]
    following = page_token(page[-1].end) if len(found) > limit else None
    queues = await admin.broker.turns.run(_infos(admin, page, targets, call), call.space.account)
    totals = None
    if request.totals:  # after the page, whose queues are in memory by now and are counted exactly
        which = (call.space, query.prefix, query.contains, kind)
        question = TotalsQuestion(query, frozenset(targets))
        found_totals = await admin.totals.of(which, lambda: admin.broker.ask(question))
        sums = msgspec.structs.asdict(found_totals)
        totals = QueuesTotals(**{name: round(value, 3) for name, value in sums.items()})
    return QueuesResult(queues=queues, next=following, totals=totals)


def _infos(
    admin: Admin, page: Sequence[QueueSummary], targets: Set[str], call: Call
) -> Steps[list[QueueInfo]]:
    infos: list[QueueInfo] = []
    for each in page:
        infos.append(queue_info(admin, each, call, is_target=each.name.name in targets))
        yield
    return infos


async def get_queue(admin: Admin, request: AboutQueue, call: Call) -> QueueInfo:
    """One queue with its attributes, its tags and the queues that it is the dead-letter queue of."""
    queue = call.resource.queue
    summary = await summary_of(admin.broker.partition_of(queue), queue)
    sources = await admin.broker.ask(SourcesQuestion(queue.name, names_max=_SOURCES_MAX))
    info = queue_info(admin, summary, call, is_target=bool(sources))
    detailed: QueueInfo = msgspec.structs.replace(
        info,
        attributes=admin.sqs.attributes(queue, summary.counts),
        tags=dict(queue.tags),
        sources=[name.name for name in sources],
    )
    return detailed


def queue_info(admin: Admin, summary: QueueSummary, call: Call, *, is_target: bool) -> QueueInfo:
    name, counts, age_ms = summary.name, summary.counts, summary.oldest_age_ms
    return QueueInfo(
        name=name.name,
        account=name.account,
        region=name.region,
        arn=name.arn,
        url=admin.sqs.queue_url(call.base_url, name),
        kind="fifo" if summary.fifo else "standard",
        visible=counts.visible,
        in_flight=counts.in_flight,
        delayed=counts.delayed,
        bytes=summary.bytes,
        sent_rate=round(summary.rates.sent, 3),
        received_rate=round(summary.rates.received, 3),
        deleted_rate=round(summary.rates.deleted, 3),
        empty_receive_rate=round(summary.rates.empty, 3),
        waiting_receives=summary.waiting_receives,
        is_dead_letter_queue=is_target,
        created_at=wall_time(summary.created_ms),
        modified_at=wall_time(summary.modified_ms),
        oldest_age_s=None if age_ms is None else seconds(age_ms),
        dead_letter_queue=summary.dead_letter_queue,
        max_receives=summary.receives_max,
    )
