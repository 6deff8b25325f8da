"""Patterns with ``*`` and ``?``: compiled once, and matched without backtracking.

A pattern is a tuple of tokens: literal texts, ``ANY`` for ``*`` and ``ONE`` for ``?``. So a star in the value of a
variable stays a plain character.

A pattern with ``?`` takes time proportional to the product of both lengths. Both are limited to LENGTH_MAX; what is
longer is not compared (``NotComparable``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from itertools import groupby
from typing import Literal

from penstock.cache import BoundedCache

LENGTH_MAX = 2048
"""Characters of a request's value, and of a pattern once its variables are filled in."""


class NotComparable(Exception):
    """A value cannot be compared: the condition of an Allow is then false, that of a Deny true."""


class Wild(Enum):
    ANY = "*"
    ONE = "?"

    __hash__ = object.__hash__  # Enum's own hash is slow


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


def length_of(of: tuple[Token, ...]) -> int:
    return sum(len(token) if isinstance(token, str) else 1 for token in of)


def cached_size(of: tuple[Token, ...]) -> int:
    return 128 + length_of(of)


_matchers: BoundedCache[tuple[Token, ...], Match] = BoundedCache(256 * 1024, cached_size)


def matcher(of: tuple[Token, ...]) -> Match:
    return _matchers.get(of) or _matchers.put(of, _compiled(of))


def _compiled(of: tuple[Token, ...]) -> Match:
    if ANY not in of and ONE not in of:
        return "".join(token for token in of if isinstance(token, str)).__eq__
    if ONE in of:
        return _by_places(of)
    pieces = [""]
    for token in of:
        if isinstance(token, str):
            pieces[-1] += token
        else:
            pieces.append("")
    return _by_pieces(pieces[0], tuple(filter(None, pieces[1:-1])), pieces[-1])


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


def _by_pieces(head: str, middle: tuple[str, ...], tail: str) -> Match:
    """``head*middle*middle*tail``. The earliest match of each piece leaves the most text for the next."""
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
    """All alternatives at once: bit n is set if the pattern so far matches the first n characters."""
    shortest = length_of(tuple(token for token in of if token is not ANY))
    head = of[0] if isinstance(of[0], str) else ""

    def match(text: str) -> bool:
        if len(text) < shortest or not text.startswith(head):
            return False
        every = (2 << len(text)) - 1
        places = _last_places.get(text) or _last_places.put(text, _places(text))
        reached = 1
        for token in of:
            if token is ANY:
                reached = every & -(reached & -reached)  # from the lowest bit on
            elif token is ONE:
                reached = reached << 1 & every
            else:
                for character in token:
                    reached = (reached & places.get(character, 0)) << 1
            if not reached:
                return False
        return reached >> len(text) == 1

    return match


# One text is mostly compared with many patterns in a row.
_last_places: BoundedCache[str, dict[str, int]] = BoundedCache(8)


def _places(text: str) -> dict[str, int]:
    """The positions of each character: bit n for the nth."""
    places: dict[str, int] = {}
    for number, character in enumerate(text):
        places[character] = places.get(character, 0) | 1 << number
    return places
