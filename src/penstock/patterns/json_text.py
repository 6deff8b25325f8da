"""A JSON parser for the texts of attributes: what is wrong is said in the words of AWS, with the position.

It keeps the literals of numbers if asked to, needs no recursion, and ends at a depth of 1000. Messages are parsed by
msgspec, which is faster.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from penstock.patterns.errors import JsonTextError, TooManyMembers
from penstock.patterns.limits import JSON_DEPTH_MAX

_SPACE = re.compile(r"[ \t\r\n]*+")
_NUMBER = re.compile(r"-?+(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+-]?+[0-9]++)?+")
_STRING_START = re.compile(r'"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+')
_WORD = re.compile(r"[A-Za-z0-9_$]+")
_WORDS = {"true": True, "false": False, "null": None}
_WORD_LENGTH_MAX = 256  # of what a text shows of a word
_DIGITS_MAX = 300  # longer integers take time to read
_CLOSES = {"{": "}", "[": "]"}
_KINDS = {"{": "Object", "[": "Array"}
_VALUES = "JSON String, Number, Array, Object or token 'null', 'true' or 'false'"
_OPENED = object()


def position(line: int, column: int) -> str:
    """Returns the end of a text that says where something was met."""
    return (
        "\n at [Source: REDACTED (`StreamReadFeature.INCLUDE_SOURCE_IN_LOCATION` disabled); "
        f"line: {line}, column: {column}]"
    )


def parse_json(text: str, number: Callable[[str], Any] | None = None, members_max: int | None = None) -> Any:
    """Returns the value. Of two members with one name, the last one counts, at the place of the first.

    ``number`` makes a value of the literal of a number: an int or a float, if it is None. ``members_max``: of all
    objects and arrays; to read each takes some microseconds. Raises TooManyMembers, or JsonTextError, to whose reason
    the caller adds whose text it is: ``RedrivePolicy: failed to parse JSON. <reason>``.
    """
    return _Parser(
        text, number or _plain_number, sys.maxsize if members_max is None else members_max
    ).document()


def _plain_number(literal: str) -> int | float:
    if len(literal) <= _DIGITS_MAX and literal.lstrip("-").isdecimal():
        return int(literal)
    return float(literal)


class _Frame(NamedTuple):
    """An object or array that is not closed yet, with where it begins."""

    kind: str
    members: Any
    names: list[str]  # of an object: the one whose value is read
    start: int


class _Parser:
    def __init__(self, text: str, number: Callable[[str], Any], members_max: int) -> None:
        self._text = text
        self._members_left = members_max
        self._at = 0
        self._number = number
        self._frames: list[_Frame] = []

    def document(self) -> Any:
        if not self._peek():
            raise self._wrong("No content to map due to end-of-input")
        value = self._value()
        while self._frames:
            value = self._member() if value is _OPENED else self._after_member(value)
        if char := self._peek():
            raise self._unexpected(char, "expected end of input")
        return value

    def _member(self) -> Any:
        """Read the first member of what was just opened. Without one, returns what was opened."""
        frame = self._frames[-1]
        if self._peek() == _CLOSES[frame.kind]:
            return self._close()
        return self._named_value(frame)

    def _after_member(self, value: Any) -> Any:
        """Add a member, and read the next one or close what it is in."""
        frame = self._frames[-1]
        if frame.kind == "{":
            frame.members[frame.names.pop()] = value
        else:
            frame.members.append(value)
        char = self._peek()
        if char == _CLOSES[frame.kind]:
            return self._close()
        if char != ",":
            raise self._unexpected(
                char, f"was expecting comma to separate {_KINDS[frame.kind]} entries", frame
            )
        self._at += 1
        return self._named_value(frame)

    def _named_value(self, frame: _Frame) -> Any:
        self._members_left -= 1
        if self._members_left < 0:
            raise TooManyMembers(self._so_far())
        if frame.kind == "{":
            char = self._peek()
            if char != '"':
                raise self._unexpected(char, "was expecting double-quote to start field name", frame)
            frame.names.append(self._string(" in field name"))
            char = self._peek()
            if char != ":":
                raise self._unexpected(char, "was expecting a colon to separate field name and value", frame)
            self._at += 1
        return self._value()

    def _value(self) -> Any:
        """Read a scalar, or open an object or array."""
        char = self._peek()
        if char in ("{", "["):
            self._frames.append(_Frame(char, {} if char == "{" else [], [], self._at))
            if len(self._frames) > JSON_DEPTH_MAX:
                raise self._wrong(
                    f"Document nesting depth ({len(self._frames)}) exceeds the maximum allowed ({JSON_DEPTH_MAX}, "
                    "from `StreamReadConstraints.getMaxNestingDepth()`)"
                )
            self._at += 1
            return _OPENED
        if char == '"':
            return self._string(": was expecting closing quote for a string value")
        if char == "-" or "0" <= char <= "9":
            return self._numeric()
        return self._word(char)

    def _close(self) -> Any:
        self._at += 1
        return self._frames.pop().members

    def _so_far(self) -> Any:
        """Close everything that is open, and return the document."""
        value = self._frames.pop().members
        while self._frames:
            frame = self._frames.pop()
            if frame.kind == "{":
                frame.members[frame.names[-1]] = value
            else:
                frame.members.append(value)
            value = frame.members
        return value

    def _string(self, where: str) -> str:
        met = _STRING_START.match(self._text, self._at)
        assert met is not None
        start, self._at = self._at, met.end()
        char = self._text[self._at : self._at + 1]
        if not char:
            raise self._wrong(f"Unexpected end-of-input{where}")
        if char == "\\":
            raise self._bad_escape()
        if char != '"':
            raise self._wrong(
                f"Illegal unquoted character ((CTRL-CHAR, code {ord(char)})): has to be escaped using backslash to "
                "be included in string value"
            )
        self._at += 1
        raw = self._text[start + 1 : self._at - 1]
        if raw.isascii() and "\\" not in raw:
            return raw
        try:
            return msgspec.json.decode(self._text[start : self._at], type=str)
        except (msgspec.DecodeError, UnicodeError):  # half of a surrogate pair
            raise self._wrong("Invalid surrogate in a string value") from None

    def _bad_escape(self) -> JsonTextError:
        escaped = self._text[self._at + 1 : self._at + 2]
        if not escaped:
            return self._wrong("Unexpected end-of-input in character escape sequence")
        self._at += 1
        if escaped == "u":
            return self._wrong("Unexpected character: expected a hex-digit for character escape sequence")
        return self._wrong(f"Unrecognized character escape {_shown(escaped)}")

    def _numeric(self) -> Any:
        met = _NUMBER.match(self._text, self._at)
        end = met.end() if met is not None else self._at + 1
        follows = self._text[end : end + 1]
        if met is None or follows.isalnum() or follows in (".", "_", "$", "-", "+"):
            self._at = end
            if met is not None and met[0].lstrip("-") == "0" and follows.isdecimal():
                raise self._wrong("Invalid numeric value: Leading zeroes not allowed")
            raise self._unexpected(follows, "Expected space separating root-level values or a digit")
        self._at = end
        return self._number(met[0])

    def _word(self, char: str) -> Any:
        met = _WORD.match(self._text, self._at)
        if met is None:
            frame = self._frames[-1] if self._frames else None
            raise self._unexpected(char, f"expected a valid value ({_VALUES})", frame)
        if met[0] not in _WORDS:
            self._at = met.end()
            raise self._wrong(f"Unrecognized token '{met[0][:_WORD_LENGTH_MAX]}': was expecting ({_VALUES})")
        self._at = met.end()
        return _WORDS[met[0]]

    def _peek(self) -> str:
        """Returns the next character that is not a space, or an empty text at the end."""
        space = _SPACE.match(self._text, self._at)
        assert space is not None
        self._at = space.end()
        return self._text[self._at : self._at + 1]

    def _unexpected(self, char: str, expected: str, inside: _Frame | None = None) -> JsonTextError:
        if char:
            return self._wrong(f"Unexpected character ({_shown(char)}): {expected}")
        if inside is None:
            return self._wrong("Unexpected end-of-input")
        started = position(*self._place(inside.start)).removeprefix("\n at ")
        return self._wrong(
            "Unexpected end-of-input: expected close marker for "
            f"{_KINDS[inside.kind]} (start marker at {started})"
        )

    def _wrong(self, what: str) -> JsonTextError:
        return JsonTextError(what + position(*self._place(self._at)))

    def _place(self, at: int) -> tuple[int, int]:
        """Returns the line and the column, which begin with 1."""
        return self._text.count("\n", 0, at) + 1, at - self._text.rfind("\n", 0, at)


def _shown(char: str) -> str:
    if char.isprintable():
        return f"'{char}' (code {ord(char)})"
    return f"(CTRL-CHAR, code {ord(char)})"
