"""What the queues of this process have done and hold, in numbers, at one moment: for clients that poll often."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, NamedTuple

from penstock.broker.metering import levels_of
from penstock.broker.queue_metrics import Totals
from penstock.broker.recording import NO_LOOKS, Levels
from penstock.limits import SECOND
from penstock.names import QueueName

if TYPE_CHECKING:
    from penstock.broker.live_queue import LiveQueue
    from penstock.broker.partition import Partition

_QUEUES_PER_TURN = 200


class QueueFigures(NamedTuple):
    """What is counted of one queue since this process owns it."""

    name: QueueName
    is_active: bool
    totals: Totals
    size_counts: list[int]  # of sent messages, by SIZE_LIMITS
    levels: Levels | None  # None: not known at present
    waiting_receives: int
    oldest_age_s: int | None
    noisy_groups: int | None  # None: its messages have no groups


async def figures_of(partition: Partition) -> AsyncGenerator[list[QueueFigures], None]:
    """Yields the figures of all queues of a shard, some in each turn of the loop."""
    queues = list(partition.catalogue)
    for start in range(0, len(queues), _QUEUES_PER_TURN):
        yield [
            _figures(partition, queue)
            for queue in queues[start : start + _QUEUES_PER_TURN]
            if not queue.deleted
        ]
        await partition.shard.turn()


def _figures(partition: Partition, queue: LiveQueue) -> QueueFigures:
    metrics, metering, clock = queue.metrics, partition.metering, partition.shard.clock
    now_ms = clock.now_ms()
    metrics.pass_time(now_ms)
    levels = levels_of(queue, now_ms)
    looks = NO_LOOKS if metering is None else metering.last_looks(queue)
    holds = queue.memory.loaded and queue.rules.backlog.total > 0
    age_s = None
    if holds and looks.oldest_s is not None:
        age_s = max(0, clock.wall_ms() // SECOND - looks.oldest_s)
    return QueueFigures(
        queue.name,
        holds or metrics.used_ms > 0,
        metrics.totals,
        metrics.all_size_counts(),
        levels,
        len(queue.waiting.long_polls),
        age_s,
        None if looks.noisy is None else looks.noisy.groups,
    )
