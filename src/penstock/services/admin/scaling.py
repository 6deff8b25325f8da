"""GetScaling: the backlog of a queue per worker, and how many workers it needs, in plain numbers for autoscalers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.queue_series import SeriesQuery
from penstock.limits import SECOND
from penstock.metrics.scaling import QueueLoad, backlog_per_worker, suggested_workers
from penstock.metrics.series import MINUTE_S
from penstock.services.admin.faults import invalid
from penstock.services.admin.metrics import check_keeps_metrics
from penstock.services.admin.resources import Admin
from penstock.services.admin.structs import ScalingInfo, ScalingRequest
from penstock.wire.service import Call

if TYPE_CHECKING:
    from penstock.broker.live_queue import LiveQueue

_METRICS = ["sent", "deleted", "processing_time"]
_WINDOW_S = 5 * MINUTE_S
_LATENCY_S_DEFAULT, _LATENCY_S_MAX = 60.0, 1_209_600.0
_WORKERS_MAX = 1_000_000


async def get_scaling(admin: Admin, request: ScalingRequest, call: Call) -> ScalingInfo:
    """The backlog of a queue per worker, and how many workers would work it off in time."""
    check_keeps_metrics(admin)
    latency_s = _LATENCY_S_DEFAULT if request.latency_s is None else request.latency_s
    if not 0 < latency_s <= _LATENCY_S_MAX:
        raise invalid("latency_s", f"a number of seconds, up to {_LATENCY_S_MAX:.0f}")
    per_worker = _number(request.messages_per_worker, "messages_per_worker", 1, 1)
    least = _number(request.min_workers, "min_workers", 0, 0)
    most = _number(request.max_workers, "max_workers", least, _WORKERS_MAX)
    workers = None if request.workers is None else _number(request.workers, "workers", 0, 0)
    queue = call.resource.queue
    load, deleted_rate = await _load(admin, queue)
    return ScalingInfo(
        queue=queue.name.name,
        backlog=load.backlog,
        in_flight=load.in_flight,
        sent_rate=round(load.sent_rate, 3),
        deleted_rate=round(deleted_rate, 3),
        backlog_per_worker=round(backlog_per_worker(load, per_worker, workers), 3),
        suggested_workers=max(least, min(most, suggested_workers(load, latency_s, per_worker))),
        latency_s=latency_s,
        processing_time_s=None if load.processing_s is None else round(load.processing_s, 6),
    )


def _number(given: int | None, parameter: str, least: int, default: int) -> int:
    """Raises Fault."""
    if given is not None and not least <= given <= _WORKERS_MAX:
        raise invalid(parameter, f"an integer from {least} to {_WORKERS_MAX}")
    return default if given is None else given


async def _load(admin: Admin, queue: LiveQueue) -> tuple[QueueLoad, float]:
    """Returns the load and how many messages are deleted per second: over five minutes or a new queue's age, but at
    least over one: the first messages of a new queue are not a rate yet."""
    now_s = queue.shard.clock.wall_ms() / SECOND
    begin_s = int(now_s) // MINUTE_S * MINUTE_S - _WINDOW_S + MINUTE_S
    seconds = max(float(MINUTE_S), now_s - max(begin_s, queue.created_ms / SECOND))
    query = SeriesQuery(
        queue.name.space, _METRICS, begin_s, int(now_s) + 1, _WINDOW_S, 1, only=frozenset([queue.name.name])
    )
    found = await admin.broker.ask(query)
    series = found[0].points if found else [[]] * len(_METRICS)
    sent, deleted, processing = (points[0][1] if points else None for points in series)
    counts = await queue.counts(is_use=True)
    load = QueueLoad(
        counts.visible,
        counts.in_flight,
        sent.sum / seconds if sent is not None else 0.0,
        processing.sum / processing.count if processing is not None else None,
    )
    return load, deleted.sum / seconds if deleted is not None else 0.0
