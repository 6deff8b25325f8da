"""The kinds of records that the broker stores."""

from __future__ import annotations

from typing import Any

from penstock.broker.bulk_tasks import BULK_TASKS, TASK_FILTERS
from penstock.broker.catalogue import COOLDOWNS, QUEUES
from penstock.broker.failures import FAILURES
from penstock.broker.inbox import INBOXES
from penstock.broker.metric_log import METRICS_STATE
from penstock.broker.move_tasks import MOVE_TARGETS, MOVE_TASKS
from penstock.broker.number_times import NUMBER_NOTES
from penstock.broker.outbox import ON_THE_WAY
from penstock.queues.backlog import EXPIRY_PAUSES
from penstock.queues.former_shards import FORMER_SHARDS
from penstock.queues.receipts import MESSAGE_ID_FORMS
from penstock.store.changes import RecordKind

BROKER_KINDS: tuple[RecordKind[Any], ...] = (
    QUEUES, COOLDOWNS, MOVE_TASKS, MOVE_TARGETS, BULK_TASKS, TASK_FILTERS, FAILURES, INBOXES, ON_THE_WAY,
    NUMBER_NOTES, METRICS_STATE, EXPIRY_PAUSES, FORMER_SHARDS, MESSAGE_ID_FORMS,
)  # fmt: skip
