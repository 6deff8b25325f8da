"""What can be set on a queue, in the broker's own words and units."""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from penstock.limits import DAY, SECOND
from penstock.names import QueueName


class Redrive(msgspec.Struct, frozen=True):
    """The dead-letter queue, and how often a message may be received before it goes there."""

    target: QueueName
    receives_max: int


class RedriveAllow(msgspec.Struct, frozen=True):
    """Which queues may name this one as their dead-letter queue."""

    permission: Literal["allowAll", "denyAll", "byQueue"]
    sources: tuple[str, ...] = ()


# The names under which stored definitions have these.
_STORED_NAMES = {
    "managed_key": "sse_managed",
    "encryption_key": "kms_key",
    "data_key_reuse_ms": "kms_reuse_ms",
}


class QueueSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename=_STORED_NAMES):
    fifo: bool = False
    delay_ms: int = 0
    visibility_ms: int = 30 * SECOND
    retention_ms: int = 4 * DAY
    wait_ms: int = 0
    message_bytes_max: int = 1_048_576
    redrive: Redrive | None = None
    redrive_allow: RedriveAllow | None = None
    policy: str | None = None
    content_dedup: bool = False
    # SQS fixes the scope when the queue is created; a later change is shown and has no effect.
    dedup_scope: Literal["queue", "messageGroup"] = "queue"
    dedup_scope_shown: Literal["queue", "messageGroup"] = "queue"
    throughput_limit: Literal["perQueue", "perMessageGroupId"] = "perQueue"
    managed_key: bool = True  # messages are encrypted under the server's own key
    encryption_key: str | None = None  # by its id, alias or ARN; then not under the server's own
    data_key_reuse_ms: int = 300 * SECOND
    group_in_flight_max: int = 0  # of an internal queue: messages of a group at a time; 0: any number


class QueueRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A queue's definition, as it is stored."""

    id: int
    name: QueueName
    settings: QueueSettings
    tags: dict[str, str]
    created_ms: int
    modified_ms: int
    purged_to: int = 0  # positions up to here were purged: void, whether or not their rows are still there
    purged_ms: int = 0
    internal: str = ""
    """The kind of jobs in an internal queue, which has the account and region of its name. Empty: it is a queue of
    clients."""
    home: int = 0  # of an internal queue: which shard it belongs to (:class:`penstock.names.Home`)

    @property
    def arn(self) -> str:
        return self.name.arn


class QueueDefinition(NamedTuple):
    """The name, the settings and the tags that a queue is to have."""

    name: QueueName
    settings: QueueSettings
    tags: dict[str, str]
