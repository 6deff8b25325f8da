"""What is wrong with the text of a pattern."""

from __future__ import annotations

from typing import Any

from penstock.errors import PenstockError

_LENGTH_MAX = 256


def shown(text: str) -> str:
    """Returns the start of a text of a policy, as an error may have it: without control characters."""
    cut = text if len(text) <= _LENGTH_MAX else f"{text[:_LENGTH_MAX]}..."
    return "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in cut)


class PatternError(PenstockError):
    """The text is JSON, but not a pattern that can be used.

    ``is_nested``: the pattern is nested where that is not possible. Such a ``reason`` is a sentence of its own.
    """

    def __init__(self, reason: str, *, is_nested: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_nested = is_nested


class TooManyMembers(PenstockError):
    """The text has more members in its objects and arrays than are read. ``document``: what was read of it."""

    def __init__(self, document: Any) -> None:
        super().__init__("too many members")
        self.document = document


class JsonTextError(PenstockError):
    """The text is not JSON. The reason says what was met where, in the words of the parser that AWS uses."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
