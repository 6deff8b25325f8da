"""ListMessages, GetMessage, GetMessageHistory: messages of a queue in any state. Looking changes nothing."""

from __future__ import annotations

import base64
from collections.abc import Iterable

from penstock.broker.inspection import MessageView, Order
from penstock.broker.live_queue import LiveQueue
from penstock.queues.filters import MessageFilter
from penstock.queues.messages import Attribute, State, sequence_of
from penstock.services.admin.faults import invalid
from penstock.services.admin.resources import Admin
from penstock.services.admin.shown import choice_of, decided_time, enqueued_time, limit_of, wall_time
from penstock.services.admin.structs import (
    AboutMessage,
    Event,
    Filter,
    ListMessagesRequest,
    ListMessagesResult,
    MessageAttribute,
    MessageHistoryResult,
    MessageHolder,
    MessageInfo,
    ReportedFailure,
)
from penstock.turns import Steps
from penstock.wire.service import Call

_MESSAGES_DEFAULT, MESSAGES_MAX = 100, 1000
_BODY_BYTES_DEFAULT, _BODY_BYTES_MAX = 256 * 1024, 4 * 1024 * 1024
_ORDERS = tuple(order.value for order in Order)
_STATES = {State.READY: "visible", State.DELAYED: "delayed", State.IN_FLIGHT: "in_flight"}


async def list_messages(admin: Admin, request: ListMessagesRequest, call: Call) -> ListMessagesResult:
    """Messages in any state that a filter matches, without receiving them."""
    queue = call.resource.queue
    limit = limit_of(request.limit, _MESSAGES_DEFAULT, MESSAGES_MAX)
    order = Order(choice_of(request.order, "order", _ORDERS))
    bytes_left = _BODY_BYTES_DEFAULT if request.body_bytes is None else request.body_bytes
    if not 0 <= bytes_left <= _BODY_BYTES_MAX:
        raise invalid("body_bytes", f"an integer from 0 to {_BODY_BYTES_MAX}")
    inspection = admin.broker.partition_of(queue).inspection
    page = await inspection.list(
        queue, message_filter(request), order=order, after=request.after, limit=limit
    )
    shown = await admin.broker.turns.run(_infos(admin, queue, page.messages, bytes_left), call.space.account)
    return ListMessagesResult(messages=shown, looked_at=page.looked_at, next=page.next)


def _infos(
    admin: Admin, queue: LiveQueue, views: Iterable[MessageView], bytes_left: int
) -> Steps[list[MessageInfo]]:
    """``bytes_left``: how much of all bodies together may still be shown."""
    infos: list[MessageInfo] = []
    for view in views:
        info = message_info(admin, queue, view, body_bytes=bytes_left)
        bytes_left -= 0 if info.body is None else len(info.body.encode())
        infos.append(info)
        yield
    return infos


async def get_message(admin: Admin, request: AboutMessage, call: Call) -> MessageInfo:
    """One message with its whole body, without receiving it."""
    return await present_message(admin, call.resource.queue, request.id)


async def get_message_history(admin: Admin, request: AboutMessage, call: Call) -> MessageHistoryResult:
    """What happened to a message, as far as it is remembered; also after it is gone."""
    queue: LiveQueue = call.resource.queue
    history = await admin.broker.partition_of(queue).inspection.history(queue, request.id)
    events = [
        Event(
            at=wall_time(each.at_ms),
            event=each.event,
            by=None if each.requester is None else each.requester.by,
            address=None if each.requester is None else each.requester.address,
            user_agent=None if each.requester is None else each.requester.user_agent,
            detail=each.detail,
        )
        for each in history.events
    ]
    return MessageHistoryResult(events=events, complete=history.complete)


async def present_message(admin: Admin, queue: LiveQueue, id: str) -> MessageInfo:
    """Raises MessageNotAvailable."""
    return message_info(admin, queue, await admin.broker.partition_of(queue).inspection.get(queue, id))


def message_filter(given: Filter | ListMessagesRequest) -> MessageFilter:
    """Which messages the members of a request ask for."""
    return MessageFilter(
        state=given.state,
        body=given.body,
        regex=given.regex,
        json=given.json,
        attribute=tuple(given.attribute or ()),
        group=given.group,
        id=tuple(given.id or ()),
        source=given.source,
        older_than_s=given.older_than_s,
        younger_than_s=given.younger_than_s,
        receives_min=given.receives_min,
        receives_max=given.receives_max,
    )


def message_info(
    admin: Admin, queue: LiveQueue, view: MessageView, *, body_bytes: int | None = None
) -> MessageInfo:
    """``body_bytes``: how much of the body is shown at most; None: all of it."""
    row, content, clock = view.row, view.content, queue.shard.clock
    sent_ms = 0 if content is None else content.sent_ms
    info = MessageInfo(
        id=queue.rules.message_id(row.seq) if content is None else content.id,
        state=_STATES[view.state],
        position=f"{row.position:020d}",
        version=row.version,
        edited=content is not None and content.edited,
        size=row.size if content is None else content.bytes_sent,
        sender="" if content is None else content.sender,
        sent_at=wall_time(sent_ms),
        enqueued_at=enqueued_time(row.enqueued_ms, sent_ms, clock),
        expires_at=decided_time(row.enqueued_ms + queue.settings.retention_ms, clock),
        receives=row.receives,
        group=row.group,
        visible_at=None if view.state is State.READY else decided_time(row.due_ms, clock),
        first_received_at=wall_time(row.first_received_ms) if row.first_received_ms else None,
        source=row.source,
        sequence_number=admin.sqs.sequence_number(sequence_of(row.position)) if queue.settings.fifo else None,
    )
    info.failure = _last_failure(admin, queue, row.seq)
    if view.state is State.IN_FLIGHT:
        info.holder = _holder(queue, row.seq)
    if content is None:
        info.unreadable = view.unreadable or None
    else:
        info.attributes = _shown_attributes(content.attributes) if content.attributes else None
        info.dedup_id, info.trace = content.dedup_id, content.trace
        if body_bytes is None:
            info.body = content.body
        else:
            _cut_body(info, content.body, body_bytes)
    return info


def _holder(queue: LiveQueue, seq: int) -> MessageHolder | None:
    """Who holds a message; None if that is not known since a restart."""
    holder = queue.holder(seq)
    if holder is None:
        return None
    return MessageHolder(
        by=holder.by,
        address=holder.address,
        user_agent=holder.user_agent,
        since=wall_time(holder.since_ms),
        until=wall_time(holder.until_ms),
        extended=holder.extended,
    )


def _last_failure(admin: Admin, queue: LiveQueue, seq: int) -> ReportedFailure | None:
    reports = admin.broker.partition_of(queue).failures.of(seq)
    if not reports:
        return None
    last = reports[-1]
    return ReportedFailure(
        reason=last.reason,
        at=wall_time(last.at_ms),
        detail=last.detail,
        attempt=last.attempt,
        worker=last.worker,
    )


def _cut_body(info: MessageInfo, body: str, bytes_max: int) -> None:
    encoded = body.encode()
    if len(encoded) <= bytes_max:
        info.body = body
    else:
        info.body = encoded[:bytes_max].decode(errors="ignore") or None
        info.body_cut = True


def _shown_attributes(attributes: dict[str, Attribute]) -> dict[str, MessageAttribute]:
    return {
        name: MessageAttribute(
            type=each.type,
            value=each.value if isinstance(each.value, str) else base64.b64encode(each.value).decode(),
        )
        for name, each in attributes.items()
    }
