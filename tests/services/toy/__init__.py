"""A toy service: notes, each a record in the journal. It shows all that a new service needs."""

from __future__ import annotations

from penstock.wire.service import Service

from .actions import ACTIONS
from .handlers import Notes, to_fault

__all__ = ["SERVICE", "Notes"]

SERVICE = Service(
    signing_name="notes",
    target_prefix="ToyNotes",
    shape_namespace="example.notes",
    actions=ACTIONS,
    to_fault=to_fault,
)
