"""What the tables of declared queues and topics have in common: their errors, attributes and tags."""

from __future__ import annotations

import json
from collections.abc import Iterable


class DeclarationError(Exception):
    """The message is one line. With ``unknown`` and ``known`` the caller can suggest the nearest name."""

    def __init__(self, message: str, unknown: str = "", known: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.unknown = unknown
        self.known = tuple(known)


def attribute_text(path: str, key: str, value: object, *, is_document: bool) -> str:
    """Returns the value of an attribute as text, as it is in the API. ``is_document``: it is JSON and may be written
    as a table. Raises DeclarationError."""
    match value:
        case bool():
            return "true" if value else "false"
        case int() | str():
            return str(value)
        case dict() if is_document:
            return json_text(path, key, value)
    expected = "text, an integer, true or false" + (", or a table" if is_document else "")
    raise DeclarationError(f"invalid value {value} for {path}.{key}: expected {expected}")


def json_text(path: str, key: str, table: dict[str, object]) -> str:
    """Raises DeclarationError."""
    try:
        return json.dumps(table, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError):  # TOML: dates and times, nan and inf
        raise DeclarationError(
            f"invalid value for {path}.{key}: JSON has no dates and times, nan or inf: write them as text"
        ) from None


def read_tags(path: str, value: object) -> dict[str, str]:
    """Raises DeclarationError."""
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise DeclarationError(
            f'invalid value for {path}.tags: expected a table of text such as {{team = "billing"}}'
        )
    return dict(value)


def is_fifo(kind: str, name: str, shorthand: object, attribute: str | None) -> bool:
    """Whether the name is that of a FIFO queue or topic; ``shorthand`` and ``attribute`` have to agree. ``kind``:
    "queue" or "topic". Raises DeclarationError."""
    path = f"{kind}s.{name}"
    if isinstance(shorthand, dict):
        raise DeclarationError(f'{path}.fifo is a table: write [{kind}s."{name}.fifo"] with quotes')
    if shorthand is not None and not isinstance(shorthand, bool):
        raise DeclarationError(f"invalid value {shorthand} for {path}.fifo: expected true or false")
    wanted = attribute.lower() == "true" if attribute is not None else shorthand
    by_name = name.endswith(".fifo")
    if wanted is not None and wanted != by_name:
        raise DeclarationError(
            f"invalid {kind} {path}: names of FIFO {kind}s end in .fifo, those of standard {kind}s do not"
        )
    return by_name
