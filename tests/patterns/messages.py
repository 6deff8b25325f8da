"""Short spellings of messages, as the tables of the tests have them."""

from __future__ import annotations

from penstock.patterns import Subject, attributes_subject, body_subject

Attributes = dict[str, tuple[str, str | None]]
_KINDS = {"S": "String", "N": "Number", "SA": "String.Array"}


def attributes(text: str) -> Attributes:
    """``a=S:x; b=N:1`` has two attributes, an empty text none."""
    found: Attributes = {}
    for each in filter(None, text.split("; ")):
        name, _, typed = each.partition("=")
        kind, _, value = typed.partition(":")
        found[name] = _KINDS.get(kind, kind), None if kind == "Binary" else value
    return found


def subject(scope: str, text: str) -> Subject:
    """``scope``: A of attributes, B of the body."""
    return attributes_subject(attributes(text)) if scope == "A" else body_subject(text)
