"""Patterns with ``*`` and ``?``: compiled once, and never matched by trying one way after the other.

A pattern is a tuple of tokens: texts that stand for themselves, ``ANY`` for ``*``, ``ONE`` for ``?``. So a star that
came out of a variable's value stays the plain character that it is.

With a ``?`` there is a step for each character of the pattern, and it is as wide as the text. So callers must not
choose the size of either: what a request brings is short, or is not compared at all (``NotComparable``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from functools import lru_cache
from itertools import groupby
from typing import Literal

from penstock.auth.policy.caching import SizedCache

_CACHED_CHARACTERS_MAX = 256 * 1024

LENGTH_MAX = 2048
"""Characters of a request's value, and of a pattern once its variables are filled in."""


class NotComparable(Exception):
    """A value cannot be compared: the condition of an Allow is then false, that of a Deny true."""


class Wild(Enum):
    ANY = "*"
    ONE = "?"

    __hash__ = object.__hash__  # there is one of each; Enum's own hash is slow


ANY: Literal[Wild.ANY] = Wild.ANY
ONE: Literal[Wild.ONE] = Wild.ONE
Token = str | Wild
Match = Callable[[str], bool]


def tokens(text: str) -> tuple[Token, ...]:
    found: list[Token] = []
    for is_wild, characters in groupby(text, "*?".__contains__):
        if is_wild:
            found.extend(map(Wild, characters))
        else:
            found.append("".join(characters))
    return tuple(found)


def pattern(text: str) -> Match:
    return matcher(tokens(text))


def _compiled(of: tuple[Token, ...]) -> Match:
    if ANY not in of and ONE not in of:
        return _joined(of).__eq__
    if ONE in of:
        return _by_places(of)
    pieces = [""]
    for token in of:
        if isinstance(token, str):
            pieces[-1] += token
        else:
            pieces.append("")
    return _by_pieces(pieces[0], tuple(filter(None, pieces[1:-1])), pieces[-1])


def length_of(of: tuple[Token, ...]) -> int:
    return sum(len(token) if isinstance(token, str) else 1 for token in of)


matcher = SizedCache(_compiled, length_of, _CACHED_CHARACTERS_MAX)


def any_of(matches: Iterable[Match]) -> Match:
    matches = tuple(matches)
    if len(matches) == 1:
        return matches[0]

    def match(text: str) -> bool:
        for each in matches:  # noqa: SIM110 (a loop is faster than a generator)
            if each(text):
                return True
        return False

    return match


def _joined(of: tuple[Token, ...]) -> str:
    return "".join(token for token in of if isinstance(token, str))


def _by_pieces(head: str, middle: tuple[str, ...], tail: str) -> Match:
    """``head*middle*middle*tail``. Taking each piece as early as it comes leaves the most room for the next."""
    if not middle and not tail:
        return lambda text: text.startswith(head)
    shortest = len(head) + sum(map(len, middle)) + len(tail)

    def match(text: str) -> bool:
        if len(text) < shortest or not text.startswith(head) or not text.endswith(tail):
            return False
        at, end = len(head), len(text) - len(tail)
        for piece in middle:
            found = text.find(piece, at, end)
            if found < 0:
                return False
            at = found + len(piece)
        return True

    return match


def _by_places(of: tuple[Token, ...]) -> Match:
    """All ways through the pattern at once: bit n is set while what was read of it fits the first n characters."""
    shortest = length_of(tuple(token for token in of if token is not ANY))
    head = of[0] if isinstance(of[0], str) else ""

    def match(text: str) -> bool:
        if len(text) < shortest or not text.startswith(head):
            return False
        every = (2 << len(text)) - 1
        places = _places(text)
        reached = 1
        for token in of:
            if token is ANY:
                reached = every & -(reached & -reached)  # from the first place on
            elif token is ONE:
                reached = reached << 1 & every
            else:
                for character in token:
                    reached = (reached & places.get(character, 0)) << 1
            if not reached:
                return False
        return reached >> len(text) == 1

    return match


@lru_cache(maxsize=4)  # one text is mostly compared with many patterns in a row
def _places(text: str) -> dict[str, int]:
    """Where each character stands: bit n for the nth."""
    places: dict[str, int] = {}
    for number, character in enumerate(text):
        places[character] = places.get(character, 0) | 1 << number
    return places
