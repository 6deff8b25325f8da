"""The actions of the toy service, one row each."""

from __future__ import annotations

from penstock.wire.service import Action, AuditRule

from .handlers import (
    GetNoteRequest,
    GetNoteResult,
    PutNoteRequest,
    get_note,
    note_of_name,
    put_note,
)

_ROWS = (
    Action(
        "PutNote", PutNoteRequest, None, put_note, note_of_name, "notes:PutNote",
        audit=AuditRule("Management", ("Name",)),
    ),
    Action(
        "GetNote", GetNoteRequest, GetNoteResult, get_note, note_of_name, "notes:GetNote",
        read_only=True,
        audit=AuditRule(None, ("Name",)),
    ),
)  # fmt: skip

ACTIONS = {row.name: row for row in _ROWS}
