"""Changes of one message that is not in flight: edit, reorder, release, reset, delete, send to another queue. And the
reports of consumers that failed.

The id stays in all of them. ``version`` in a request refuses the change if the message has another one by now.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Coroutine
from typing import Any

from penstock.broker.editing import Editing
from penstock.broker.failures import FailureReport
from penstock.broker.live_queue import LiveQueue
from penstock.broker.operations import Edit
from penstock.errors import MessageInFlight
from penstock.limits import SECOND
from penstock.names import Arn, QueueName
from penstock.queues.messages import Attribute
from penstock.services.admin.faults import IN_FLIGHT, admin_fault, invalid
from penstock.services.admin.messages import present_message
from penstock.services.admin.resources import Admin, authorize_target, queue_named
from penstock.services.admin.shown import choice_of, wall_time
from penstock.services.admin.structs import (
    DeadLetterMessageRequest,
    EditMessageRequest,
    MessageAttribute,
    MessageInfo,
    Moved,
    MoveMessageRequest,
    RemoveMessageRequest,
    ReorderMessageRequest,
    ReportFailureRequest,
    VersionedRequest,
)
from penstock.wire.service import Call, Fault

Change = Callable[[Editing, LiveQueue, int], Coroutine[Any, Any, None]]
_DELAY_S_MAX = 1e6  # SQS accepts far less


async def edit_message(admin: Admin, request: EditMessageRequest, call: Call) -> MessageInfo:
    """Give a message another body, other attributes, another delay or group."""
    edit = _checked_edit(admin, request)
    if edit == Edit():
        raise admin_fault("InvalidParameter", "Give at least one of body, attributes, delay_s and group.")

    def change(editing: Editing, queue: LiveQueue, seq: int) -> Coroutine[Any, Any, None]:
        return editing.edit(queue, seq, edit, request.version, by=call.requester)

    return await _change_in_place(admin, request, call, change)


async def reorder_message(admin: Admin, request: ReorderMessageRequest, call: Call) -> MessageInfo:
    """Move a message to the front or the back of its queue, or before another message."""
    queue: LiveQueue = call.resource.queue
    to = choice_of(request.to, "to", ("front", "back", "before"))
    if (to == "before") != (request.before is not None):
        raise invalid("before", "the id of a message, with to=before only")
    inspection = admin.broker.partition_of(queue).inspection
    other = 0 if request.before is None else await inspection.find(queue, request.before)

    def change(editing: Editing, queue: LiveQueue, seq: int) -> Coroutine[Any, Any, None]:
        if to == "before":
            return editing.move_before(queue, seq, other, request.version, by=call.requester)
        move = editing.move_to_front if to == "front" else editing.move_to_back
        return move(queue, seq, request.version, by=call.requester)

    return await _change_in_place(admin, request, call, change)


async def release_message(admin: Admin, request: VersionedRequest, call: Call) -> MessageInfo:
    """Make a delayed message visible now."""

    def change(editing: Editing, queue: LiveQueue, seq: int) -> Coroutine[Any, Any, None]:
        return editing.release(queue, seq, request.version, by=call.requester)

    return await _change_in_place(admin, request, call, change)


async def reset_message(admin: Admin, request: VersionedRequest, call: Call) -> MessageInfo:
    """Set the receive counts and times of a message as if it had just been sent."""

    def change(editing: Editing, queue: LiveQueue, seq: int) -> Coroutine[Any, Any, None]:
        return editing.reset(queue, seq, request.version, by=call.requester)

    return await _change_in_place(admin, request, call, change)


async def delete_message(admin: Admin, request: RemoveMessageRequest, call: Call) -> None:
    """Delete a message without receiving it."""

    def change(editing: Editing, queue: LiveQueue, seq: int) -> Coroutine[Any, Any, None]:
        return editing.delete(queue, seq, request.version, by=call.requester)

    await _change(admin, request.id, call, change)


async def dead_letter_message(admin: Admin, request: DeadLetterMessageRequest, call: Call) -> Moved:
    """Send a message to the dead-letter queue of its queue. The receiver of a message in flight gives its receipt
    handle."""
    queue: LiveQueue = call.resource.queue
    redrive = queue.settings.redrive
    if redrive is None:
        raise admin_fault("NotPossible", "The queue has no dead-letter queue: set its RedrivePolicy first.")
    if request.receipt_handle is None:
        return await _send_to(admin, request, call, redrive.target)
    if request.version is not None:
        raise invalid(
            "version", "none together with a receipt_handle, since nothing changes a message in flight"
        )
    seq = await admin.broker.partition_of(queue).inspection.find(queue, request.id)
    target = await queue.dead_letter(request.receipt_handle, seq, call.requester)
    return Moved(queue=target.name, id=request.id)


async def redrive_message(admin: Admin, request: VersionedRequest, call: Call) -> Moved:
    """Send a dead letter back to the queue that it came from."""
    queue: LiveQueue = call.resource.queue
    view = await admin.broker.partition_of(queue).inspection.get(queue, request.id)
    source = Arn.parse(view.row.source or "")
    if source is None:
        text = "The message is not a dead letter of another queue: move it to a queue by name."
        raise admin_fault("NotPossible", text)
    await authorize_target(admin, source.queue, call)
    return await _send_to(admin, request, call, source.queue)


async def move_message(admin: Admin, request: MoveMessageRequest, call: Call) -> Moved:
    """Move a message to another queue of the same account and region."""
    target = queue_named(request.to, call.resource.account, call)
    await authorize_target(admin, target, call)
    return await _send_to(admin, request, call, target)


async def report_failure(admin: Admin, request: ReportFailureRequest, call: Call) -> None:
    """Say why a message could not be processed. It is kept with the message, and goes with it to other queues."""
    queue: LiveQueue = call.resource.queue
    if not request.reason:
        raise invalid("reason", "a short text by which failures can be grouped")
    if request.attempt is not None and request.attempt < 0:
        raise invalid("attempt", "an integer, 0 or more")
    seq = await admin.broker.partition_of(queue).inspection.find(queue, request.id)
    report = FailureReport(request.reason, request.detail, request.attempt, request.worker)
    await admin.broker.partition_of(queue).failures.report(queue, seq, report, call.requester)


# -- steps -------------------------------------------------------------------------------------------------------


async def _change(admin: Admin, id: str, call: Call, change: Change) -> None:
    queue: LiveQueue = call.resource.queue
    seq = await admin.broker.partition_of(queue).inspection.find(queue, id)
    try:
        await change(admin.broker.partition_of(queue).editing, queue, seq)
    except MessageInFlight:
        raise _in_flight(queue, seq) from None


async def _change_in_place(
    admin: Admin, request: VersionedRequest, call: Call, change: Change
) -> MessageInfo:
    await _change(admin, request.id, call, change)
    return await present_message(admin, call.resource.queue, request.id)


async def _send_to(admin: Admin, request: VersionedRequest, call: Call, target: QueueName) -> Moved:
    def change(editing: Editing, queue: LiveQueue, seq: int) -> Coroutine[Any, Any, None]:
        return editing.send_to(queue, seq, target, request.version, by=call.requester)

    await _change(admin, request.id, call, change)
    return Moved(queue=target.name, id=request.id)


def _in_flight(queue: LiveQueue, seq: int) -> Fault:
    holder = queue.holder(seq)
    if holder is None:
        return admin_fault("MessageInFlight", IN_FLIGHT)
    held = f"{holder.by} at {holder.address} holds it until {wall_time(holder.until_ms)}."
    return admin_fault("MessageInFlight", f"{IN_FLIGHT} {held}")


def _checked_edit(admin: Admin, request: EditMessageRequest) -> Edit:
    attributes = None if request.attributes is None else _attributes(request.attributes)
    delay_ms = None
    if request.delay_s is not None:
        if not math.isfinite(request.delay_s) or abs(request.delay_s) > _DELAY_S_MAX:
            raise invalid("delay_s", "a number of seconds")
        delay_ms = round(request.delay_s * SECOND)
    try:
        admin.sqs.check_edited(request.body, attributes, request.group, delay_ms)
    except Fault as fault:
        raise admin_fault("InvalidParameter", fault.message) from None
    return Edit(body=request.body, attributes=attributes, delay_ms=delay_ms, group=request.group)


def _attributes(given: dict[str, MessageAttribute]) -> dict[str, Attribute]:
    attributes = {}
    for name, each in given.items():
        value: str | bytes = each.value
        if each.type.partition(".")[0] == "Binary":
            try:
                value = base64.b64decode(each.value, validate=True)
            except ValueError:
                raise invalid(f"the attribute {name}", "base64 of a binary value") from None
        attributes[name] = Attribute(each.type, value)
    return attributes
