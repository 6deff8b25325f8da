"""Which metrics a SEARCH of metric math finds: ``{AWS/SQS,QueueName} MetricName="NumberOfMessagesSent"``.

The names in braces are the namespace and the names of all dimensions. A word in quotes is a whole name or value; one
without is a part of it, in any case of letters. ``QueueName=("a" OR "b")`` looks at one dimension only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from penstock.errors import ExpressionInvalid
from penstock.metrics.series import MetricKey

Matches = Callable[[MetricKey], bool]

SEARCH_LENGTH_MAX = 1024
_DEPTH_MAX = 20
_SCHEMA = re.compile(r"\s*\{([^{}]*)\}")
_WORD = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)'|([()=]|[^\s()="'{}]+))""")
_OPERATORS = frozenset(("AND", "OR", "NOT", "(", ")", "="))


class Search(NamedTuple):
    matches: Matches
    words: int  # with which a metric is compared, at most


def parse_search(text: str) -> Search:
    """Raises ExpressionInvalid."""
    if len(text) > SEARCH_LENGTH_MAX:
        raise ExpressionInvalid(f"a search has at most {SEARCH_LENGTH_MAX} characters")
    found = _SCHEMA.match(text)
    in_schema: Matches = _any_metric
    if found is not None:
        in_schema = _schema(found[1])
        text = text[found.end() :]
    words = _words(text)
    if not words:
        if found is None:
            raise ExpressionInvalid("a search needs a namespace in braces, or a word")
        return Search(in_schema, 1)
    parser = _SearchParser(words)
    matches = parser.any_of("", 0)
    if parser.at != len(words):
        raise ExpressionInvalid(f"unexpected {words[parser.at][0]!r} in a search")
    return Search(lambda key: in_schema(key) and matches(key), 1 + len(words))


def _schema(text: str) -> Matches:
    names = [name.strip().strip("\"'").strip() for name in text.split(",")]
    if not all(names):
        raise ExpressionInvalid("the braces of a search hold a namespace and names of dimensions")
    namespace, dimensions = names[0], sorted(names[1:])
    return lambda key: key.namespace == namespace and [name for name, _ in key.dimensions] == dimensions


def _words(text: str) -> list[tuple[str, bool]]:
    """Splits a text into words, each with whether it is in quotes."""
    words: list[tuple[str, bool]] = []
    at, end = 0, len(text.rstrip())
    while at < end:
        found = _WORD.match(text, at)
        if found is None:
            raise ExpressionInvalid(f"unexpected {text[at:].lstrip()[:10]!r} in a search")
        quoted = found[1] if found[1] is not None else found[2]
        words.append((found[3], False) if quoted is None else (quoted, True))
        at = found.end()
    return words


class _SearchParser:
    def __init__(self, words: list[tuple[str, bool]]) -> None:
        self._words = words
        self.at = 0

    def any_of(self, of: str, depth: int) -> Matches:
        """``of``: the only name or dimension that words are compared with; empty: all."""
        parts = [self._all(of, depth)]
        while self._take("OR"):
            parts.append(self._all(of, depth))
        return parts[0] if len(parts) == 1 else lambda key: any(part(key) for part in parts)

    def _all(self, of: str, depth: int) -> Matches:
        parts = [self._one(of, depth)]
        while self._take("AND") or not self._is_next("OR", ")"):
            parts.append(self._one(of, depth))
        return parts[0] if len(parts) == 1 else lambda key: all(part(key) for part in parts)

    def _one(self, of: str, depth: int) -> Matches:
        if depth > _DEPTH_MAX:
            raise ExpressionInvalid("a search is nested too deeply")
        if self._take("NOT"):
            part = self._one(of, depth + 1)
            return lambda key: not part(key)
        if self._take("("):
            inner = self.any_of(of, depth + 1)
            if not self._take(")"):
                raise ExpressionInvalid("a parenthesis of a search is not closed")
            return inner
        if self.at == len(self._words):
            raise ExpressionInvalid("a search ends where a word is expected")
        word, quoted = self._words[self.at]
        if not quoted and word in _OPERATORS:
            raise ExpressionInvalid(f"unexpected {word!r} in a search")
        self.at += 1
        if self._take("="):
            return self._one(word, depth + 1)
        return _word(word, quoted, of)

    def _is_next(self, *words: str) -> bool:
        return self.at == len(self._words) or self._words[self.at] in [(word, False) for word in words]

    def _take(self, word: str) -> bool:
        found = self.at < len(self._words) and self._words[self.at] == (word, False)
        self.at += found
        return found


def _word(word: str, quoted: bool, of: str) -> Matches:
    if quoted:
        return lambda key: word in _texts(key, of)
    part = word.lower()
    return lambda key: any(part in text.lower() for text in _texts(key, of))


def _texts(key: MetricKey, of: str) -> Iterable[str]:
    match of:
        case "":
            return (key.namespace, key.name, *(text for dimension in key.dimensions for text in dimension))
        case "Namespace":
            return (key.namespace,)
        case "MetricName":
            return (key.name,)
        case _:
            return [value for name, value in key.dimensions if name == of]


def _any_metric(key: MetricKey) -> bool:
    return True
