"""JSON: the objects that requests and answers are made of, and what others have written."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from penstock.client.errors import Unavailable

Json = dict[str, Any]


def quoted(part: str) -> str:
    """A part of a path."""
    return quote(part, safe="")


def read_json(text: str | bytes) -> Any:
    """JSON of others. Raises ValueError, also for what is nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def read_object(content: bytes) -> Json:
    """Raises Unavailable for anything else than a JSON object."""
    try:
        read = read_json(content) if content else {}
        if b"\\ud" in content.lower():
            json.dumps(read, ensure_ascii=False).encode()  # half a surrogate pair cannot be printed
    except (ValueError, RecursionError):
        read = None
    if not isinstance(read, dict):
        raise not_a_broker()
    return read


def not_a_broker() -> Unavailable:
    return Unavailable("the answer is not that of a message broker: check the endpoint URL")
