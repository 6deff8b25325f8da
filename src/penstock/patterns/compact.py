"""The compact text of a pattern, and its tokens: what the compiler reads.

A position in an error is one of the compact text, because AWS also compacts first and compiles then.
"""

from __future__ import annotations

from typing import Any, NamedTuple, NoReturn

import msgspec

from penstock.patterns.errors import PatternError, shown
from penstock.patterns.json_text import parse_json, position


class NumberText(NamedTuple):
    """The literal of a number, as it was sent."""

    literal: str


class Token(NamedTuple):
    kind: str
    """``{ } [ ]``, ``name`` (of a member), ``string``, ``number``, ``true``, ``false`` or ``null``"""
    text: str  # of a string, what it says
    start: int
    end: int


_WORDS = {True: "true", False: "false", None: "null"}


def compact_json(text: str, members_max: int | None = None) -> tuple[str, list[Token]]:
    """Returns the text without spaces, with the order of members and the literals of numbers kept. Raises
    JsonTextError or TooManyMembers."""
    writer = _Writer()
    writer.write(parse_json(text, NumberText, members_max))
    return "".join(writer.pieces), writer.tokens


class _End(NamedTuple):
    kind: str


class _Name(NamedTuple):
    text: str


class _Separator(NamedTuple):
    text: str = ","


class _Writer:
    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.tokens: list[Token] = []
        self._length = 0

    def write(self, document: Any) -> None:
        """Write without recursion: what is still to be written is a stack."""
        waiting = [document]
        while waiting:
            item = waiting.pop()
            match item:
                case _Separator():
                    self._put(item.text)
                case _End():
                    self._token(item.kind, item.kind, item.kind)
                case _Name():
                    self._token("name", item.text, _quoted(item.text))
                    self._put(":")
                case NumberText():
                    self._token("number", item.literal, item.literal)
                case str():
                    self._token("string", item, _quoted(item))
                case dict():
                    self._token("{", "{", "{")
                    waiting.append(_End("}"))
                    waiting += _separated([[value, _Name(name)] for name, value in reversed(item.items())])
                case list():
                    self._token("[", "[", "[")
                    waiting.append(_End("]"))
                    waiting += _separated([[value] for value in reversed(item)])
                case _:
                    self._token(_WORDS[item], _WORDS[item], _WORDS[item])

    def _token(self, kind: str, text: str, written: str) -> None:
        start = self._length
        self._put(written)
        self.tokens.append(Token(kind, text, start, self._length))

    def _put(self, text: str) -> None:
        self.pieces.append(text)
        self._length += len(text)


def _separated(members: list[list[Any]]) -> list[Any]:
    """Returns the items of all members, last first, with a separator between two members."""
    items: list[Any] = []
    for number, member in enumerate(members):
        if number:
            items.append(_Separator())
        items += member
    return items


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()


class TokenReader:
    """Reads the tokens of a compact text one after another, and refuses what is wrong at the token at hand."""

    def __init__(self, compact: str, tokens: list[Token]) -> None:
        self._compact = compact
        self._tokens = tokens
        self._next = 0

    def next(self) -> Token:
        self._next += 1
        return self._tokens[self._next - 1]

    def peek(self) -> Token:
        return self._tokens[self._next]

    def text_since(self, token: Token) -> str:
        """Returns the text from this token up to the one at hand."""
        return self._compact[token.start : self._tokens[self._next - 1].end]

    def refuse(self, reason: str) -> NoReturn:
        """Raises PatternError with the position behind the token at hand."""
        raise PatternError(shown(reason) + position(1, self._tokens[self._next - 1].end + 1))
