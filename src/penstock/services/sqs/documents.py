"""JSON documents inside attribute values and handles: read without trust, written compact."""

from __future__ import annotations

import json
from typing import Any

import msgspec


def read_object(text: str | bytes) -> dict[str, Any] | None:
    """The JSON object that ``text`` is, or None if it is anything else."""
    try:
        value = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def write(document: dict[str, Any]) -> str:
    # Not msgspec, which writes only the integers that fit 64 bits but reads larger ones.
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)
