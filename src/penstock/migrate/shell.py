"""Reads the commands of a plain shell script: words, quotes, variables and ``$(…)``; nothing is run.

What is more than a list of commands, such as loops, conditions and functions, is a command that the reader of the
script does not know.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

DEPTH_MAX = 8  # of $( ) within $( )
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_BRACED = re.compile(r"([A-Za-z_]\w*)(?::?-([^${}\"'`\\]*))?", re.ASCII)
_OPERATORS = ("&&", "||", ";;", ";", "|", "&", "(", ")")
_REDIRECTIONS = re.compile(r"\d*(>>|>&|>|<)")


class _Unreadable(Exception):
    pass


class ShellVariable(NamedTuple):
    name: str
    default: str | None  # ${NAME:-default}


class Substitution(NamedTuple):
    """``$(command)``."""

    text: str
    line: int


Part = str | ShellVariable | Substitution
Word = tuple[Part, ...]


class Command(NamedTuple):
    words: tuple[Word, ...]
    line: int
    text: str  # as it is in the script
    before: str  # the operator before it; empty: it begins a line
    after: str
    problem: str = ""  # why it cannot be read; then it has no words


def read_commands(text: str, line: int = 1) -> Iterator[Command]:
    """Yields also what cannot be read, up to the end of its line."""
    return _ScriptReader(text, line).commands()


class _ScriptReader:
    def __init__(self, text: str, line: int) -> None:
        self._text = text.replace("\r\n", "\n").replace("\\\n", "  ")  # as many characters as before
        self._first_line = line
        self._original = text.replace("\r\n", "\n")
        self._at = 0
        self._counted = (0, line)  # a place, and its line

    def commands(self) -> Iterator[Command]:
        before = ""
        while self._at < len(self._text):
            self._skip_blanks()
            began, words, problem = self._at, list[Word](), ""
            try:
                words.extend(self._words())
            except _Unreadable as error:
                words, problem = [], str(error)
                end = self._text.find("\n", began)
                self._at = len(self._text) if end < 0 else end
            text, line = self._original[began : self._at].strip(), self._line(began)
            after = self._operator()
            if words or problem:
                yield Command(tuple(words), line, text, before, after, problem)
            before = after

    def _words(self) -> Iterator[Word]:
        while True:
            self._skip_blanks()
            if (
                self._at >= len(self._text)
                or self._peek() == "\n"
                or self._text.startswith(_OPERATORS, self._at)
            ):
                return
            if (found := _REDIRECTIONS.match(self._text, self._at)) is not None:
                self._at = found.end()
                if self._text.startswith("<", self._at):
                    raise _Unreadable("here documents are not read")
                self._skip_blanks()
                self._skip_target()
                continue
            yield self._word()

    def _skip_target(self) -> None:
        """The file of a redirection, or the number of a descriptor."""
        if self._text.startswith("&", self._at):
            self._at += 1
        self._word()

    def _operator(self) -> str:
        for operator in ("\n", *_OPERATORS):
            if self._text.startswith(operator, self._at):
                self._at += len(operator)
                return "" if operator == "\n" else operator
        return ""

    def _skip_blanks(self) -> None:
        """Skips spaces, and a comment where a word could begin."""
        while self._at < len(self._text) and self._peek() in " \t":
            self._at += 1
        if self._at < len(self._text) and self._peek() == "#":
            end = self._original.find("\n", self._at)  # a comment is not continued on the next line
            self._at = len(self._text) if end < 0 else end

    def _word(self) -> Word:
        parts: list[Part] = []
        while self._at < len(self._text):
            character = self._peek()
            if character in " \t\n" or self._text.startswith(_OPERATORS, self._at):
                break
            match character:
                case "'":
                    parts.append(self._single_quoted())
                case '"':
                    parts += self._double_quoted()
                case "\\":
                    parts.append(self._text[self._at + 1 : self._at + 2])
                    self._at += 2
                case "$" | "`":
                    parts.append(self._expansion())
                case _:
                    parts.append(character)
                    self._at += 1
        return _joined(parts)

    def _single_quoted(self) -> str:
        began = self._at
        end = self._original.find("'", began + 1)
        if end < 0:
            raise _Unreadable("a quote is not closed")
        self._at = end + 1
        return self._original[began + 1 : end]  # a backslash at the end of a line is one here

    def _double_quoted(self) -> list[Part]:
        parts = list[Part]()
        self._at += 1
        while self._at < len(self._text):
            character = self._peek()
            if character == '"':
                self._at += 1
                return parts or [""]
            if self._original.startswith("\\\n", self._at):
                self._at += 2
            elif character == "\\" and self._text[self._at + 1 : self._at + 2] in ("$", "`", '"', "\\"):
                parts.append(self._text[self._at + 1])
                self._at += 2
            elif character in "$`":
                parts.append(self._expansion())
            else:
                parts.append(character)
                self._at += 1
        raise _Unreadable("a quote is not closed")

    def _expansion(self) -> Part:
        began = self._at
        if self._text.startswith("$((", began):
            raise _Unreadable("arithmetic is not read")
        if self._text.startswith("$(", began):
            return Substitution(self._until_closed(began + 2), self._line(began))
        if self._text.startswith("`", began):
            end = self._text.find("`", began + 1)
            if end < 0:
                raise _Unreadable("a ` is not closed")
            self._at = end + 1
            return Substitution(self._original[began + 1 : end], self._line(began))
        if self._text.startswith("${", began):
            end = self._text.find("}", began)
            found = _BRACED.fullmatch(self._text, began + 2, end) if end > 0 else None
            if found is None:
                raise _Unreadable("this expansion is not read")
            self._at = end + 1
            return ShellVariable(found[1], found[2])
        found = _NAME.match(self._text, began + 1)
        if found is None:
            following = self._text[began + 1 : began + 2]
            if following and following in "0123456789@*#?$!-":
                self._at += 2
                return ShellVariable(following, None)
            self._at += 1
            return "$"
        self._at = found.end()
        return ShellVariable(found[0], None)

    def _until_closed(self, began: int) -> str:
        """The text up to the bracket that closes ``$(``, whatever is quoted within."""
        self._at, depth = began, 1
        while self._at < len(self._text):
            character = self._peek()
            if character == "'":
                self._single_quoted()
                continue
            if character == '"':
                self._double_quoted()
                continue
            self._at += 2 if character == "\\" else 1
            depth += (character == "(") - (character == ")")
            if not depth:
                return self._original[began : self._at - 1]
        raise _Unreadable("a $( is not closed")

    def _peek(self) -> str:
        return self._text[self._at]

    def _line(self, at: int) -> int:
        begin, line = self._counted if self._counted[0] <= at else (0, self._first_line)
        self._counted = (at, line + self._original.count("\n", begin, at))
        return self._counted[1]


def _joined(parts: list[Part]) -> Word:
    """The parts of a word with neighbouring texts joined."""
    joined: list[Part] = []
    for part in parts:
        if isinstance(part, str) and joined and isinstance(joined[-1], str):
            joined[-1] += part
        else:
            joined.append(part)
    return tuple(joined)
