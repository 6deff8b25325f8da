"""What the three batch actions share: checks of the request as a whole, and the result of a failed entry."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol, TypeVar

from penstock.services.sqs.faults import sqs_fault
from penstock.services.sqs.limits import BATCH_ENTRIES_MAX, QUEUE_NAME_LENGTH_MAX
from penstock.services.sqs.structs import BatchResultErrorEntry
from penstock.wire.faults import missing_parameter
from penstock.wire.service import Fault

_ENTRY_ID = re.compile(rf"[A-Za-z0-9_-]{{1,{QUEUE_NAME_LENGTH_MAX}}}")


class _Entry(Protocol):
    Id: str | None


AnyEntry = TypeVar("AnyEntry", bound=_Entry)


def checked_entries(entries: Sequence[AnyEntry] | None, kind: str) -> Sequence[AnyEntry]:
    """Checks that there is at least one entry, that there are not too many, and that each has an id of its own."""
    if not entries:
        raise sqs_fault("EmptyBatchRequest", f"There should be at least one {kind} in the request.")
    if len(entries) > BATCH_ENTRIES_MAX:
        raise sqs_fault(
            "TooManyEntriesInBatchRequest",
            f"Maximum number of entries per request are {BATCH_ENTRIES_MAX}. You have sent {len(entries)}.",
        )
    for number, entry in enumerate(entries, 1):
        if entry.Id is None:
            raise missing_parameter(f"{kind}.{number}.Id")
        if not _ENTRY_ID.fullmatch(entry.Id):
            raise sqs_fault(
                "InvalidBatchEntryId",
                "A batch entry id can only contain alphanumeric characters, hyphens and underscores. "
                f"It can be at most {QUEUE_NAME_LENGTH_MAX} letters long.",
            )
    ids = [entry.Id for entry in entries]
    if len(set(ids)) < len(ids):
        repeated = next(id for number, id in enumerate(ids) if id in ids[:number])
        raise sqs_fault("BatchEntryIdsNotDistinct", f"Id {repeated} repeated.")
    return entries


def failed_entry(entry_id: str | None, fault: Fault) -> BatchResultErrorEntry:
    assert entry_id is not None, "see checked_entries"
    return BatchResultErrorEntry(
        Id=entry_id, SenderFault=fault.sender_fault, Code=fault.code, Message=fault.message
    )
