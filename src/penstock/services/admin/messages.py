"""ListMessages and GetMessage: messages of a queue in any state. Looking changes nothing."""

from __future__ import annotations

import base64
from functools import partial
from typing import NamedTuple

from penstock.broker.live_queue import LiveQueue
from penstock.errors import MessageNotAvailable
from penstock.queues.messages import Attribute, Content, State, decode_content, sequence_of
from penstock.services.admin.faults import invalid
from penstock.services.admin.resources import Admin
from penstock.services.admin.shown import decided_time, limit_of, page_token, read_page_token, wall_time
from penstock.services.admin.structs import (
    AboutMessage,
    ListMessagesRequest,
    ListMessagesResult,
    MessageAttribute,
    MessageInfo,
)
from penstock.store.changes import EntryRow
from penstock.wire.service import Call

_MESSAGES_DEFAULT, MESSAGES_MAX = 100, 1000
_BODY_BYTES_DEFAULT, _BODY_BYTES_MAX = 256 * 1024, 4 * 1024 * 1024
_STATES = {State.READY: "visible", State.DELAYED: "delayed", State.IN_FLIGHT: "in_flight"}


class View(NamedTuple):
    row: EntryRow
    content: Content | None
    state: State


async def list_messages(admin: Admin, request: ListMessagesRequest, call: Call) -> ListMessagesResult:
    """Messages in any state that a filter matches, without receiving them."""
    queue = call.resource.queue
    limit = limit_of(request.limit, _MESSAGES_DEFAULT, MESSAGES_MAX)
    left = _BODY_BYTES_DEFAULT if request.body_bytes is None else request.body_bytes
    if not 0 <= left <= _BODY_BYTES_MAX:
        raise invalid("body_bytes", f"an integer from 0 to {_BODY_BYTES_MAX}")
    after = 0 if request.after is None else read_page_token(request.after, int)
    views = await _views(admin, queue, after, limit + 1)
    shown: list[MessageInfo] = []
    for view in views[:limit]:
        info = message_info(admin, queue, view, body_bytes=left)
        left -= 0 if info.body is None else len(info.body.encode())
        shown.append(info)
    more = page_token(views[limit - 1].row.position) if len(views) > limit else None
    return ListMessagesResult(messages=shown, looked_at=len(shown), next=more)


async def get_message(admin: Admin, request: AboutMessage, call: Call) -> MessageInfo:
    """One message with its whole body, without receiving it."""
    queue = call.resource.queue
    after = 0
    while views := await _views(admin, queue, after, MESSAGES_MAX):
        for view in views:
            if view.content is not None and view.content.id == request.id:
                return message_info(admin, queue, view)
        after = views[-1].row.position
    raise MessageNotAvailable


async def _views(admin: Admin, queue: LiveQueue, after: int, rows_max: int) -> list[View]:
    from penstock.broker.summaries import Selection  # type: ignore[attr-defined]

    shard = queue.shard
    rows = await admin.broker.editing(queue).list(queue, Selection(queue.id, after), rows_max=rows_max)
    contents = await shard.read(partial(shard.store.contents, [row.seq for row in rows]))
    await queue.memory.load()
    views = []
    now_ms = shard.clock.now_ms()
    for row in rows:
        entry = queue.rules.backlog.index.get(row.seq)
        state = State.READY if row.due_ms <= now_ms else State.IN_FLIGHT if row.receives else State.DELAYED
        content = contents.get(row.seq)
        views.append(
            View(
                row,
                None if content is None else decode_content(content),
                state if entry is None else entry.state,
            )
        )
    return views


def message_info(admin: Admin, queue: LiveQueue, view: View, *, body_bytes: int | None = None) -> MessageInfo:
    """``body_bytes``: how much of the body is shown at most; None: all of it."""
    row, content, clock = view.row, view.content, queue.shard.clock
    info = MessageInfo(
        id="" if content is None else content.id,
        state=_STATES[view.state],
        position=f"{row.position:020d}",
        version=row.version,
        edited=row.version > 1,
        size=row.size,
        sender="" if content is None else content.sender,
        sent_at=wall_time(0 if content is None else content.sent_ms),
        enqueued_at=decided_time(row.enqueued_ms, clock),
        expires_at=decided_time(row.enqueued_ms + queue.settings.retention_ms, clock),
        receives=row.receives,
        group=row.group,
        visible_at=None if view.state is State.READY else decided_time(row.due_ms, clock),
        first_received_at=wall_time(row.first_received_ms) if row.first_received_ms else None,
        source=row.source,
        sequence_number=admin.sqs.sequence_number(sequence_of(row.position)) if queue.settings.fifo else None,
    )
    if content is not None:
        info.attributes = _shown_attributes(content.attributes) if content.attributes else None
        info.dedup_id, info.trace = content.dedup_id, content.trace
        if body_bytes is None:
            info.body = content.body
        else:
            _cut_body(info, content.body, body_bytes)
    return info


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
