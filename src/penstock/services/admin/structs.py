"""Requests and responses of the admin API. A field is called as its JSON member is.

Times are RFC 3339 in UTC with milliseconds, durations are seconds. What is None is left out.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from penstock.metrics.exposition import PLAIN_TYPE
from penstock.wire.shapes import InPath, InQuery, Many, Named, Payload


class Absent(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Members that are not given are not written."""


class Asked(Absent, kw_only=True, forbid_unknown_fields=True):
    """A misspelt member of a request is refused: without it, a filter would match more messages than it should."""


# -- queues ------------------------------------------------------------------------------------------------------


class QueueInfo(Absent, kw_only=True):
    name: str
    account: str
    region: str
    arn: str
    url: str
    kind: str  # "standard" or "fifo"
    visible: int
    in_flight: int
    delayed: int
    bytes: int
    sent_rate: float  # per second, over the last minute
    received_rate: float
    deleted_rate: float
    empty_receive_rate: float  # receives that found nothing
    waiting_receives: int
    is_dead_letter_queue: bool
    created_at: str
    modified_at: str
    oldest_age_s: float | None = None
    dead_letter_queue: str | None = None
    max_receives: int | None = None
    attributes: dict[str, str] | None = None  # of GetQueue only, like the next two
    tags: dict[str, str] | None = None
    sources: list[str] | None = None  # the queues that have this one as their dead-letter queue


class QueuesRequest(Asked, kw_only=True):
    prefix: Annotated[str | None, InQuery()] = None
    contains: Annotated[str | None, InQuery()] = None
    kind: Annotated[str | None, InQuery()] = None  # standard, fifo, dlq
    sort: Annotated[str | None, InQuery()] = None  # name, visible, in_flight, delayed, age, sent_rate, bytes
    descending: Annotated[bool | None, InQuery()] = None
    limit: Annotated[int | None, InQuery()] = None
    after: Annotated[str | None, InQuery()] = None
    totals: Annotated[bool | None, InQuery()] = None


class QueuesTotals(msgspec.Struct, kw_only=True):
    """Sums over all queues that match, on whatever page they are."""

    queues: int
    visible: int
    in_flight: int
    delayed: int
    dead_letters: int  # in any state
    bytes: int
    sent_rate: float
    received_rate: float
    deleted_rate: float


class QueuesResult(Absent, kw_only=True):
    queues: list[QueueInfo]
    next: str | None = None
    totals: QueuesTotals | None = None


class AboutQueue(Asked, kw_only=True):
    """Every request about one queue."""

    queue: Annotated[str, InPath()]
    account: Annotated[str | None, InQuery()] = None


class MetricsRequest(Asked, kw_only=True):
    """What is asked for, and of which time. Times are optional: seconds since 1970, or RFC 3339."""

    metrics: Annotated[str | None, InQuery()] = None  # names, with commas between them
    statistics: Annotated[str | None, InQuery()] = None
    start: Annotated[str | None, InQuery()] = None
    end: Annotated[str | None, InQuery()] = None
    period_s: Annotated[int | None, InQuery()] = None


class QueueMetricsRequest(MetricsRequest, kw_only=True):
    queue: Annotated[str, InPath()]
    account: Annotated[str | None, InQuery()] = None


class ScalingRequest(AboutQueue, kw_only=True):
    latency_s: Annotated[float | None, InQuery()] = None  # within which the backlog is to be worked off
    messages_per_worker: Annotated[int | None, InQuery()] = None  # that a worker holds at the same time
    workers: Annotated[int | None, InQuery()] = None  # that run now
    min_workers: Annotated[int | None, InQuery()] = None
    max_workers: Annotated[int | None, InQuery()] = None


class ScalingInfo(Absent, kw_only=True):
    """Plain numbers, as autoscalers read them."""

    queue: str
    backlog: int  # messages that can be received
    in_flight: int
    sent_rate: float  # per second, over the last five minutes
    deleted_rate: float
    backlog_per_worker: float
    suggested_workers: int
    latency_s: float
    processing_time_s: float | None = None  # from a receive to the delete, on average


class AllMetricsRequest(MetricsRequest, kw_only=True):
    prefix: Annotated[str | None, InQuery()] = None
    limit: Annotated[int | None, InQuery()] = None
    after: Annotated[str | None, InQuery()] = None


class MetricSeries(Absent, kw_only=True):
    """A statistic of a metric; periods without a value are left out."""

    metric: str
    statistic: str
    unit: str
    times: list[int]  # when each period begins, in seconds since 1970
    values: list[float]


class QueueMetricsResult(Absent, kw_only=True):
    queue: str
    start: int
    end: int
    period_s: int
    series: list[MetricSeries]


class SeriesOfQueue(Absent, kw_only=True):
    queue: str
    kind: str
    series: list[MetricSeries]


class AllMetricsResult(Absent, kw_only=True):
    start: int
    end: int
    period_s: int
    queues: list[SeriesOfQueue]
    next: str | None = None


# -- messages ----------------------------------------------------------------------------------------------------


class MessageAttribute(Asked, kw_only=True):
    type: str
    value: str  # binary: base64


class MessageHolder(Absent, kw_only=True):
    """Who has received a message that is in flight."""

    by: str
    address: str
    user_agent: str
    since: str
    until: str
    extended: int


class ReportedFailure(Absent, kw_only=True):
    """Why a consumer could not process a message, as it reported."""

    reason: str
    at: str
    detail: str | None = None
    attempt: int | None = None
    worker: str | None = None


class MessageInfo(Absent, kw_only=True):
    id: str
    state: str  # "visible", "delayed", "in_flight"
    position: str  # sorts like the place in the queue
    version: int
    edited: bool
    size: int
    sender: str
    sent_at: str
    enqueued_at: str
    expires_at: str
    receives: int
    body: str | None = None
    body_cut: bool | None = None
    unreadable: bool | None = None  # its key cannot be used, or it is damaged: its content is not shown
    attributes: dict[str, MessageAttribute] | None = None
    group: str | None = None
    dedup_id: str | None = None
    trace: str | None = None
    visible_at: str | None = None
    first_received_at: str | None = None
    source: str | None = None  # ARN of the queue that it was dead-lettered from
    sequence_number: str | None = None
    holder: MessageHolder | None = None
    failure: ReportedFailure | None = None


class Filter(Asked, kw_only=True):
    """Which messages; all conditions must hold."""

    state: str | None = None
    body: str | None = None
    regex: str | None = None
    json: str | None = None
    attribute: Many[str] | None = None
    group: str | None = None
    id: Many[str] | None = None
    source: str | None = None
    older_than_s: float | None = None
    younger_than_s: float | None = None
    receives_min: int | None = None
    receives_max: int | None = None


class ListMessagesRequest(AboutQueue, kw_only=True):
    state: Annotated[str | None, InQuery()] = None
    body: Annotated[str | None, InQuery()] = None
    regex: Annotated[str | None, InQuery()] = None
    json: Annotated[str | None, InQuery()] = None
    attribute: Annotated[Many[str] | None, InQuery()] = None
    group: Annotated[str | None, InQuery()] = None
    id: Annotated[Many[str] | None, InQuery()] = None
    source: Annotated[str | None, InQuery()] = None
    older_than_s: Annotated[float | None, InQuery()] = None
    younger_than_s: Annotated[float | None, InQuery()] = None
    receives_min: Annotated[int | None, InQuery()] = None
    receives_max: Annotated[int | None, InQuery()] = None
    order: Annotated[str | None, InQuery()] = None  # position, age, due
    limit: Annotated[int | None, InQuery()] = None
    after: Annotated[str | None, InQuery()] = None
    body_bytes: Annotated[int | None, InQuery()] = None


class ListMessagesResult(Absent, kw_only=True):
    messages: list[MessageInfo]
    looked_at: int
    next: str | None = None


class AboutMessage(AboutQueue, kw_only=True):
    """Every request about one message."""

    id: Annotated[str, InPath()]


class VersionedRequest(AboutMessage, kw_only=True):
    version: int | None = None  # the change is refused if the message has another one by now


class EditMessageRequest(VersionedRequest, kw_only=True):
    body: str | None = None
    attributes: Named[MessageAttribute] | None = None
    delay_s: float | None = None
    group: str | None = None


class ReorderMessageRequest(VersionedRequest, kw_only=True):
    to: str  # "front", "back", "before"
    before: str | None = None  # id of a message


class DeadLetterMessageRequest(VersionedRequest, kw_only=True):
    receipt_handle: str | None = None  # of a message in flight, from its receiver


class MoveMessageRequest(VersionedRequest, kw_only=True):
    to: str


class RemoveMessageRequest(AboutMessage, kw_only=True):
    version: Annotated[int | None, InQuery()] = None


class Moved(msgspec.Struct, kw_only=True):
    queue: str
    id: str


class Event(Absent, kw_only=True):
    at: str
    event: str
    by: str | None = None
    address: str | None = None
    user_agent: str | None = None
    detail: str | None = None


class MessageHistoryResult(msgspec.Struct, kw_only=True):
    events: list[Event]
    complete: bool  # False: earlier events were forgotten


class ReportFailureRequest(AboutMessage, kw_only=True):
    reason: str
    detail: str | None = None
    attempt: int | None = None
    worker: str | None = None


# -- tasks -------------------------------------------------------------------------------------------------------


class Cannot(msgspec.Struct, kw_only=True):
    reason: str
    count: int


class StartTaskRequest(AboutQueue, kw_only=True):
    operation: str
    to: str | None = None
    filter: Filter | None = None
    rate: int | None = None  # messages a second
    dry_run: bool | None = None


class Task(Absent, kw_only=True):
    """A task, or with ``dry_run`` what one would do."""

    operation: str
    queue: str
    matched: int
    looked_at: int
    cannot: list[Cannot]
    id: str | None = None
    dry_run: bool | None = None
    complete: bool | None = None  # of a dry run: all messages were looked at
    can: int | None = None  # of a dry run
    to: str | None = None
    status: str | None = None  # "running", "completed", "cancelled", "failed"
    done: int | None = None
    total: int | None = None  # how many messages the queue had when it began
    rate: int | None = None
    started_at: str | None = None
    ended_at: str | None = None
    failure: str | None = None
    filter: Filter | None = None
    filter_cut: bool | None = None  # in lists, and once it has ended, a part of a long filter is shown


class ListTasksRequest(Asked, kw_only=True):
    queue: Annotated[str | None, InQuery()] = None
    limit: Annotated[int | None, InQuery()] = None
    after: Annotated[str | None, InQuery()] = None


class ListTasksResult(Absent, kw_only=True):
    tasks: list[Task]
    next: str | None = None


class AboutTask(AboutQueue, kw_only=True):
    id: Annotated[str, InPath()]


# -- the server --------------------------------------------------------------------------------------------------


class Nothing(Asked, kw_only=True):
    """A request without members."""


class StoreState(Absent, kw_only=True):
    kind: str
    durability: str
    encryption: str  # "off: …" or "on: …"
    used_bytes: int | None = None
    free_bytes: int | None = None
    disk_low: str | None = None  # how little is free, once it is too little
    refuses: str | None = None


class ShardInfo(Absent, kw_only=True):
    index: int
    open: bool  # False: its owner does not answer, and what follows is not known
    queues: int
    messages: int
    bytes: int
    commits: int
    owner: str | None = None  # where other processes reach the one that serves it


class StatusResult(Absent, kw_only=True):
    version: str
    uptime_s: float
    store: StoreState
    shards: list[ShardInfo]
    memory_budget: int
    memory_used: int
    running_tasks: int
    connections: int
    node: str | None = None


class InternalQueueInfo(Absent, kw_only=True):
    """Work that the server does in the background for an account in a region."""

    kind: str  # "alarm-actions"
    account: str
    region: str
    waiting: int
    running: int
    put_off: int  # among the waiting: they failed and wait for the next try, or are due later
    oldest_age_s: float | None = None


class ListInternalQueuesRequest(Asked, kw_only=True):
    limit: Annotated[int | None, InQuery()] = None
    after: Annotated[str | None, InQuery()] = None


class ListInternalQueuesResult(Absent, kw_only=True):
    queues: list[InternalQueueInfo]  # those that are not empty
    next: str | None = None


class Refused(msgspec.Struct, kw_only=True):
    what: str
    why: str


class ReloadResult(msgspec.Struct, kw_only=True):
    reloaded: list[str]
    unchanged: list[str]
    refused: list[Refused]


class ListPermissionsRequest(Asked, kw_only=True):
    queue: Annotated[str | None, InQuery()] = None  # without it: all queues, and the server
    topic: Annotated[str | None, InQuery()] = None  # a name or an ARN; without it: all topics
    account: Annotated[str | None, InQuery()] = None


class ListPermissionsResult(msgspec.Struct, kw_only=True):
    allowed: list[str]  # "sqs:SendMessage", "penstock:EditMessage", …
    remedies: dict[str, str]  # by permission that is missing: the command that allows it


class ListAuditEventsRequest(Asked, kw_only=True):
    """``principal`` and ``action`` may contain * and ?."""

    principal: Annotated[str | None, InQuery()] = None
    action: Annotated[str | None, InQuery()] = None
    queue: Annotated[str | None, InQuery()] = None
    denied: Annotated[bool | None, InQuery()] = None
    since: Annotated[str | None, InQuery()] = None
    until: Annotated[str | None, InQuery()] = None
    limit: Annotated[int | None, InQuery()] = None


class AuditEventInfo(msgspec.Struct, kw_only=True):
    at: str
    decision: str
    caller: str
    action: str
    queue: str
    address: str
    note: str  # the code of the error


class ListAuditEventsResult(msgspec.Struct, kw_only=True):
    events: list[AuditEventInfo]  # the newest first


class BackupRequest(Asked, kw_only=True):
    path: str | None = None  # the name of a file in backup_directory; without it the backup is the response


class BackupFile(msgspec.Struct, kw_only=True):
    """A backup that was written on the server's disk."""

    path: str
    bytes: int
    shards: int
    queues: int
    messages: int


class MetricsText(msgspec.Struct, kw_only=True):
    content: Annotated[Any, Payload(PLAIN_TYPE)]


class BackupResult(msgspec.Struct, kw_only=True):
    """A tar file; or with ``path`` a BackupFile."""

    content: Annotated[Any, Payload(b"application/x-tar")]


class TestClockInfo(msgspec.Struct, kw_only=True):
    now: str
    ahead_s: float  # of the real time
    frozen: bool


class AdvanceRequest(Asked, kw_only=True):
    """The clock is advanced by the sum of these."""

    days: float | None = None
    hours: float | None = None
    minutes: float | None = None
    seconds: float | None = None


class ChangeTestClockRequest(Asked, kw_only=True):
    frozen: bool


class ClearRequest(Asked, kw_only=True):
    account: str | None = None  # the queues of this one; without it, everything of all accounts


class ClearResult(msgspec.Struct, kw_only=True):
    deleted_queues: int


class OpenApiDocument(msgspec.Struct, kw_only=True):
    content: Annotated[Any, Payload(b"application/json")]
