"""ListOutbox, DeleteOutboxEntry and ClearOutbox: what could not leave the machine, such as text messages."""

from __future__ import annotations

from penstock.publishing.unsent import UnsentDeletion, UnsentMessage, UnsentQuestion
from penstock.services.admin.faults import admin_fault
from penstock.services.admin.resources import Admin
from penstock.services.admin.shown import limit_of, page_token, read_page_token
from penstock.services.admin.structs import Nothing
from penstock.services.admin.topic_structs import (
    AboutOutboxEntry,
    ClearOutboxResult,
    OutboxEntryInfo,
    OutboxRequest,
    OutboxResult,
)
from penstock.wire.service import Call

_ENTRIES_DEFAULT, _ENTRIES_MAX = 100, 1000


async def list_outbox(admin: Admin, request: OutboxRequest, call: Call) -> OutboxResult:
    """What could not leave the machine: SMS, push messages, and emails without a mail server; the latest first."""
    limit = limit_of(request.limit, _ENTRIES_DEFAULT, _ENTRIES_MAX)
    before = "" if request.after is None else read_page_token(request.after, str)
    # One more than a page, to see whether there is another one.
    found = await admin.broker.ask(UnsentQuestion(call.space.account, before, limit + 1))
    page = found[:limit]
    following = page_token(page[-1].id) if len(found) > limit else None
    return OutboxResult(entries=[_entry_info(each) for each in page], next=following)


async def delete_outbox_entry(admin: Admin, request: AboutOutboxEntry, call: Call) -> None:
    """Delete one entry of the outbox."""
    if not await admin.broker.ask(UnsentDeletion(call.space.account, [request.id])):
        raise admin_fault(
            "OutboxEntryDoesNotExist", "The outbox has no entry with this id: it was deleted, or forgotten."
        )


async def clear_outbox(admin: Admin, request: Nothing, call: Call) -> ClearOutboxResult:
    """Delete all entries of the outbox."""
    return ClearOutboxResult(deleted=await admin.broker.ask(UnsentDeletion(call.space.account, None)))


def _entry_info(message: UnsentMessage) -> OutboxEntryInfo:
    return OutboxEntryInfo(
        id=message.id,
        at_ms=message.at_ms,
        protocol=message.protocol,
        destination=message.destination,
        kind=message.kind,
        body=message.text,
        topic=message.topic or None,
        subject=message.subject or None,
    )
