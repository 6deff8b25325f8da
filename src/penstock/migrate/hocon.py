"""Parses the part of HOCON that queue configuration files use.

Objects with or without outer braces, ``=`` and ``:``, keys as paths, quoted and unquoted text, arrays, comments,
commas or line ends between members, objects merged when a key is repeated. Values are text as written ("10 seconds",
"0012"), None for null, lists and dicts; the caller converts them.

Not supported, each with its own error: substitutions, ``+=``, and objects or arrays concatenated from pieces. An
``include`` is not followed but listed in ``includes``.
"""

from __future__ import annotations

import re
from typing import NamedTuple, NoReturn

Value = str | None | list["Value"] | dict[str, "Value"]
Table = dict[str, Value]

DEPTH_MAX = 32

_BLANK = re.compile(r"(?:[^\S\n]|\ufeff)*(?:(?:#|//)[^\n]*)?")
_BLANKS = re.compile(r"(?:\s|\ufeff|(?:#|//)[^\n]*)*")
_PLAIN = re.compile(r'(?:(?!//)[^$"{}\[\]:=,+#`^?!@*&\\\n])+')  # what an unquoted text may be made of
_QUOTED = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.))")
_ESCAPED = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_INCLUDE = re.compile(r'include\s+(?:(?:required|file|classpath|url|package)\(|")[^\n]*')


class HoconError(Exception):
    """One line that begins with the line number."""


class HoconDocument(NamedTuple):
    root: Table
    includes: list[str]


def read_hocon(text: str) -> HoconDocument:
    """Raises HoconError."""
    reader = _Reader(text)
    return HoconDocument(reader.document(), reader.includes)


class _Reader:
    def __init__(self, text: str) -> None:
        self.includes: list[str] = []
        self._text = text
        self._at = 0

    def document(self) -> Table:
        self._skip(_BLANKS)
        braced = self._take("{")
        root = self._members(closing="}" if braced else "", depth=0)
        self._skip(_BLANKS)
        if self._at < len(self._text):
            self._fail(f'unexpected "{self._text[self._at]}"')
        return root

    def _members(self, closing: str, depth: int) -> Table:
        table: Table = {}
        while True:
            self._skip(_BLANKS)
            if closing and self._take(closing):
                return table
            if self._at == len(self._text):
                if closing:
                    self._fail("an object is not closed")
                return table
            if not closing and self._next("}"):
                self._fail('unmatched "}"')
            if (include := _INCLUDE.match(self._text, self._at)) is not None:
                self.includes.append(" ".join(include[0].split()))
                self._at = include.end()
                continue
            self._member(table, depth)
            self._end_of_member(closing)

    def _member(self, table: Table, depth: int) -> None:
        path = self._path()
        depth += len(path)
        if self._take("+="):
            self._fail("+= is not supported: write the whole array")
        if not self._next("{") and not self._take("=") and not self._take(":"):
            self._fail(f'no value follows the key "{".".join(path)[:80]}"')
        _put(table, path, self._value(depth))

    def _path(self) -> list[str]:
        """A key such as ``queues."orders.fifo".delay``: dots outside quotes separate its parts."""
        path, begun = [""], self._at
        while True:
            if (quoted := self._quoted()) is not None:
                path[-1] += quoted
            elif (plain := self._plain()) is not None:
                first, *more = plain.split(".")
                path[-1] += first
                path += more
            else:
                break
        path = [part.strip() for part in path]
        if "" in path:
            self._at = begun
            self._fail("a key was expected")
        return path

    def _value(self, depth: int) -> Value:
        if depth > DEPTH_MAX:
            self._fail("objects are nested too deeply")
        self._skip(_BLANKS)
        value: Value
        if self._take("{"):
            value = self._members("}", depth)
        elif self._take("["):
            value = self._array(depth)
        else:
            return self._scalar()
        self._skip(_BLANK)
        if self._next("{") or self._next("["):
            self._fail("concatenated objects and arrays are not supported")
        return value

    def _array(self, depth: int) -> list[Value]:
        values: list[Value] = []
        while True:
            self._skip(_BLANKS)
            if self._take("]"):
                return values
            if self._at == len(self._text):
                self._fail("an array is not closed")
            values.append(self._value(depth + 1))
            self._end_of_member("]")

    def _scalar(self) -> str | None:
        """Pieces on one line are concatenated: ``10 seconds``, ``"a" b``."""
        pieces: list[str] = []
        quoted_any = False
        while True:
            if (quoted := self._quoted()) is not None:
                pieces.append(quoted)
                quoted_any = True
            elif (plain := self._plain()) is not None:
                pieces.append(plain)
            else:
                break
        if self._next("${"):
            self._fail("substitutions such as ${name} are not supported: write the value itself")
        text = "".join(pieces)
        if not quoted_any:
            text = text.strip()
            if not text:
                self._fail("a value was expected")
            return None if text == "null" else text
        return text if len(pieces) == 1 else text.strip()

    def _plain(self) -> str | None:
        found = _PLAIN.match(self._text, self._at)
        if found is None:
            return None
        self._at = found.end()
        # HOCON: trailing whitespace is not part of an unquoted text.
        return found[0] if self._next('"') else found[0].rstrip()

    def _quoted(self) -> str | None:
        if self._next('"""'):
            end = self._text.find('"""', self._at + 3)
            if end < 0:
                self._fail('a text in """ is not closed')
            while self._text.startswith('"', end + 3):  # the last three quotes close it
                end += 1
            text = self._text[self._at + 3 : end]
            self._at = end + 3
            return text
        if not self._next('"'):
            return None
        found = _QUOTED.match(self._text, self._at)
        if found is None:
            self._fail("a quoted text is not closed on its line")
        text = _ESCAPE.sub(self._unescaped, found[1])
        self._at = found.end()
        # Characters outside the basic plane come as two escapes.
        try:
            return text.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            self._fail("an escaped surrogate has no pair")

    def _unescaped(self, escape: re.Match[str]) -> str:
        if escape[1]:
            return chr(int(escape[1], 16))
        if escape[2] not in _ESCAPED:
            self._fail(f"invalid escape \\{escape[2]}")
        return _ESCAPED[escape[2]]

    def _end_of_member(self, closing: str) -> None:
        begun = self._at
        self._skip(_BLANKS)
        on_a_new_line = "\n" in self._text[begun : self._at]
        done = self._take(",") or on_a_new_line or self._at == len(self._text)
        if not done and not (closing and self._next(closing)):
            if self._next("}") and not closing:
                self._fail('unmatched "}"')
            self._fail(f'unexpected "{self._text[self._at]}": is a quote or a comma missing?')

    def _skip(self, pattern: re.Pattern[str]) -> None:
        found = pattern.match(self._text, self._at)
        assert found is not None, "the pattern matches the empty string too"
        self._at = found.end()

    def _next(self, text: str) -> bool:
        return self._text.startswith(text, self._at)

    def _take(self, text: str) -> bool:
        if not self._next(text):
            return False
        self._at += len(text)
        return True

    def _line(self) -> int:
        return self._text.count("\n", 0, self._at) + 1

    def _fail(self, why: str) -> NoReturn:
        raise HoconError(f"line {self._line()}: {why}")


def _put(table: Table, path: list[str], value: Value) -> None:
    *outer, last = path
    for key in outer:
        inner = table.get(key)
        if not isinstance(inner, dict):
            inner = table[key] = {}
        table = inner
    known = table.get(last)
    if isinstance(known, dict) and isinstance(value, dict):
        for key, each in value.items():
            _put(known, [key], each)
    else:
        table[last] = value
