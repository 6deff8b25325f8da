"""Messages that were on their way to a queue of another shard when the servers stopped.

Those that have arrived there are left out. The others go back to where they were: same queue, same place, same
counts. So nothing is lost or doubled, whatever the shards of the target are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from penstock.broker.inbox import INBOXES
from penstock.broker.outbox import LOG_KIND, decode_departure
from penstock.migrate.stores.opened import OpenShard
from penstock.store.changes import LogRow

_ROWS_PER_READ = 1000


class Returning(NamedTuple):
    """What goes back within one shard of the source."""

    queues: dict[int, int]  # the queue of each message, by seq
    tasks: Counter[str]  # how many messages of each move task


def returning(sources: Sequence[OpenShard], index: int) -> Returning:
    found = Returning({}, Counter())
    for target in range(len(sources)):
        taken = sources[target].state.records.get(INBOXES.name, {}).get(str(index))
        arrived = INBOXES.decode(taken) if taken is not None else None
        for row in _log(sources[index], str(target)):
            if arrived is None or row.position > arrived.position or row.position in arrived.refused:
                departure = decode_departure(row.data)
                found.queues[departure.seq] = departure.queue
                found.tasks[departure.task or ""] += 1
    return found


def _log(source: OpenShard, key: str) -> list[LogRow]:
    rows: list[LogRow] = []
    while page := source.store.log(LOG_KIND, key, rows[-1].position if rows else 0, _ROWS_PER_READ):
        rows += page
    return rows
