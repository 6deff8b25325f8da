"""Patterns with ``*`` and ``?``: compiled once, matched in time linear in the text, whatever the pattern.

A pattern is a tuple of tokens: texts that stand for themselves, ``ANY`` for ``*``, ``ONE`` for ``?``. So a star that
came out of a variable's value stays the plain character that it is.

With a ``?`` each step takes as long as the pattern is wide, and the tables grow with its square. So callers must not
choose the size of either: what a request brings is short, or is not compared at all (``TooLong``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from itertools import groupby
from typing import Literal, NamedTuple

from penstock.auth.policy.caching import SizedCache

_CACHED_SIZE_MAX = 1024 * 1024

LENGTH_MAX = 2048
"""Characters of a request's value, and of a pattern once its variables are filled in."""


class TooLong(Exception):
    """It cannot be compared, so nobody knows: an Allow does not hold, and a Deny does."""


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
        return _by_bits(of)
    pieces = [""]
    for token in of:
        if isinstance(token, str):
            pieces[-1] += token
        else:
            pieces.append("")
    return _by_pieces(pieces[0], tuple(filter(None, pieces[1:-1])), pieces[-1])


def length_of(of: tuple[Token, ...]) -> int:
    return sum(len(token) if isinstance(token, str) else 1 for token in of)


def size_of(of: tuple[Token, ...]) -> int:
    """What is kept of it, about: with a "?", that can be a table of its length for each of its characters."""
    length = length_of(of)
    return length + length * length // 8 if ONE in of else length


matcher = SizedCache(_compiled, size_of, _CACHED_SIZE_MAX)


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


class _Bits(NamedTuple):
    anything: int  # bit n: the nth character of the pattern is a "?"
    stays: int  # bit n: a "*" stands before the nth character
    whole: int
    fits: dict[str, int]  # bit n: the nth character is this one, or a "?"


def _by_bits(of: tuple[Token, ...]) -> Match:
    """All ways through the pattern at once: bit n is set while its first n characters fit what was read so far."""
    shortest = length_of(tuple(token for token in of if token is not ANY))
    made: list[_Bits] = []

    def match(text: str) -> bool:
        if len(text) < shortest:
            return False
        if not made:  # only now: of a long pattern they are large, and no text may ever be long enough
            made.append(_bits(of))
        anything, stays, whole, fits = made[0]
        reached = 1
        for character in text:
            reached = (reached & fits.get(character, anything)) << 1 | reached & stays
            if not reached:
                return False
        return reached & whole != 0

    return match


def _bits(of: tuple[Token, ...]) -> _Bits:
    anything = stays = length = 0
    fits: dict[str, int] = {}
    for token in of:
        if token is ANY:
            stays |= 1 << length
        elif token is ONE:
            anything |= 1 << length
            length += 1
        else:
            for character in token:
                fits[character] = fits.get(character, 0) | 1 << length
                length += 1
    fits = {character: bits | anything for character, bits in fits.items()}
    return _Bits(anything, stays, 1 << length, fits)
