"""Why consumers could not process messages, as they reported: stored with each message while it lives.

A report is a record of the shard, so that it survives a restart. It goes where the message goes, also to a
dead-letter queue of another shard; so dead letters can be grouped by reason. When a message is gone, its reports are
removed by the next commit; a crash between the two leaves them behind, until they are older than any message can be.
Long texts are cut, each message keeps its last reports, and a shard the last ones of all messages.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from penstock.broker.history import FAILED
from penstock.broker.shard import Commit, Shard
from penstock.limits import DAY
from penstock.names import Requester
from penstock.store.changes import RecordKind
from penstock.store.moving import MovedRecords, Relocation, StoredRecord

if TYPE_CHECKING:
    from penstock.broker.live_queue import LiveQueue

REASON_MAX, WORKER_MAX, DETAIL_MAX = 256, 256, 2048  # characters
REPORTS_PER_MESSAGE = 5
_BYTES_MAX = 4 * 1024 * 1024  # of one shard
_REPORT_BYTES = 128  # besides its texts
_AGE_MS_MAX = 15 * DAY  # no message is kept for longer than 14


class FailureReport(msgspec.Struct, frozen=True, omit_defaults=True):
    reason: str
    detail: str | None = None
    attempt: int | None = None
    worker: str | None = None
    at_ms: int = 0  # of the wall clock; set when it is taken

    @property
    def cost(self) -> int:
        return _REPORT_BYTES + len(self.reason) + len(self.detail or "") + len(self.worker or "")


class MessageFailures(msgspec.Struct, frozen=True):
    queue: int  # that the message is in
    reports: tuple[FailureReport, ...]  # oldest first

    @property
    def cost(self) -> int:
        return sum(report.cost for report in self.reports)


def _moved(to: Relocation, record: StoredRecord) -> MovedRecords:
    """Failures go with their message, whose number is the key."""
    failures = FAILURES.decode(record.data)
    queue = to.queue(failures.queue)
    if queue is None:
        return []  # its message went with the queue
    if queue.raised_by:
        data = FAILURES.encode(msgspec.structs.replace(failures, queue=failures.queue + queue.raised_by))
        record = StoredRecord(record.kind, str(int(record.key) + queue.raised_by), data)
    return [(queue.target, record)]


FAILURES = RecordKind("failures", MessageFailures, _moved)


class Failures:
    """The reports about the messages of one shard."""

    def __init__(self, shard: Shard, bytes_max: int = _BYTES_MAX) -> None:
        self._shard = shard
        self._bytes_max = bytes_max
        self._records = shard.table(FAILURES, self._undone)  # by seq
        self._bytes = 0
        # What each record counts for, by key: the one whose last report is the oldest comes first.
        self._costs: OrderedDict[str, int] = OrderedDict()
        for key, record in sorted(self._records, key=lambda each: each[1].reports[-1].at_ms):
            self._count(key, record)
        self._watching = False
        if len(self._records):
            self._watch()

    def of(self, seq: int) -> tuple[FailureReport, ...]:
        """The failure reports of a message, the oldest first."""
        record = self._records.get(str(seq))
        return () if record is None else record.reports

    async def report(
        self, queue: LiveQueue, seq: int, report: FailureReport, requester: Requester | None = None
    ) -> None:
        """A consumer failed to process this message of the queue."""
        shard = self._shard
        shard.check_not_ended()
        shard.check_owned()
        shard.check_sends()
        report = FailureReport(
            report.reason[:REASON_MAX],
            None if report.detail is None else report.detail[:DETAIL_MAX],
            report.attempt,
            None if report.worker is None else report.worker[:WORKER_MAX],
            shard.clock.wall_ms(),
        )
        self.add(queue.id, seq, [report])
        await shard.settled()
        queue.note(seq, FAILED, requester, report.reason)

    def add(self, queue: int, seq: int, reports: Iterable[FailureReport]) -> None:
        """Add reports to those of a message, with the open commit."""
        self._put(seq, MessageFailures(queue, (*self.of(seq), *reports)[-REPORTS_PER_MESSAGE:]))
        self._costs.move_to_end(str(seq))
        while self._bytes > self._bytes_max:
            self._remove(int(next(iter(self._costs))))
        self._watch()

    def forget_old(self, wall_ms: int) -> None:
        for key, record in self._records:
            if record.reports[-1].at_ms <= wall_ms - _AGE_MS_MAX:
                self._remove(int(key))

    def _put(self, seq: int, record: MessageFailures) -> None:
        self._records.put(str(seq), record)
        self._count(str(seq), record)

    def _remove(self, seq: int) -> None:
        if str(seq) in self._costs:
            self._records.remove(str(seq))
            self._count(str(seq), None)

    def _undone(self, key: str, record: MessageFailures | None) -> None:
        was_removed = key not in self._costs
        self._count(key, record)
        if was_removed and record is not None:
            # It was removed as the oldest one, or its message is gone.
            self._costs.move_to_end(key, last=False)

    def _count(self, key: str, record: MessageFailures | None) -> None:
        """Count a record as what it is now. The others are not looked at: there may be tens of thousands."""
        before = self._costs.get(key, 0)
        if record is None:
            self._costs.pop(key, None)
        else:
            self._costs[key] = record.cost
        self._bytes += self._costs.get(key, 0) - before

    # -- messages that go ------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Most shards never have a report, and look at no commit."""
        if not self._watching:
            self._watching = True
            self._shard.watch(self._committed)

    def _committed(self, commit: Commit) -> None:
        """Messages were removed, or moved to another queue of the shard."""
        changes = commit.changes
        if not len(self._records):
            return
        for seq in changes.removed:
            self._remove(seq)
        for seq, update in changes.updated.items():
            record = self._records.get(str(seq))
            # Queue 0: on its way to another shard.
            if record is not None and update.queue not in (0, record.queue):
                self._put(seq, MessageFailures(update.queue, record.reports))
        if changes.dropped or changes.purged:
            self._forget_emptied(commit)

    def _forget_emptied(self, commit: Commit) -> None:
        dropped, purged = set(commit.changes.dropped), commit.changes.purged
        for key, record in self._records:
            purge = purged.get(record.queue)
            if record.queue in dropped or (purge is not None and int(key) <= purge.seq):
                self._remove(int(key))
