"""Policy variables: ``arn:aws:sqs:*:*:${aws:username}-*`` is a different queue for each user.

``${key}`` is a value of the request, ``${key, 'text'}`` has a default. ``${*}``, ``${?}`` and ``${$}`` are these
characters themselves. A value is never read as a wildcard. A variable without a value matches nothing.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.auth.policy.condition_keys import Reader, reader
from penstock.auth.policy.question import Question
from penstock.auth.policy.wildcards import ANY, LENGTH_MAX, NotComparable, Token, length_of, tokens


class Variable(NamedTuple):
    read: Reader
    default: str | None

    def value(self, question: Question) -> str | None:
        value = self.read(question)
        # IAM: a key with several values cannot be used as a variable.
        return value if isinstance(value, str) else self.default


class Template(NamedTuple):
    parts: tuple[Token | Variable, ...]

    @property
    def fixed(self) -> tuple[Token, ...] | None:
        """The pattern, if it is the same for every question; None if it has variables."""
        fixed = tuple(part for part in self.parts if not isinstance(part, Variable))
        return fixed if len(fixed) == len(self.parts) else None

    @property
    def loosest(self) -> tuple[Token, ...]:
        """A pattern that matches whatever this one can match for any question."""
        return tuple(ANY if isinstance(part, Variable) else part for part in self.parts)

    def fill(self, question: Question) -> tuple[Token, ...] | None:
        """The pattern for this question; None if a variable has no value. Raises NotComparable."""
        filled: list[Token] = []
        for part in self.parts:
            if isinstance(part, Variable):
                value = part.value(question)
                if value is None:
                    return None
                filled.append(value)
            else:
                filled.append(part)
        pattern = tuple(filled)
        if length_of(pattern) > LENGTH_MAX:
            raise NotComparable
        return pattern


def template(text: str, *, wildcards: bool, variables: bool) -> Template:
    parts: list[Token | Variable] = []

    def plain(text: str) -> None:
        parts.extend(tokens(text) if wildcards else filter(None, (text,)))

    while variables:
        before, opened, rest = text.partition("${")
        inside, closed, after = rest.partition("}")
        if not opened or not closed:
            break
        plain(before)
        parts.append(inside if inside in ("*", "?", "$") else _variable(inside))
        text = after
    plain(text)
    return Template(tuple(parts))


def _variable(inside: str) -> Variable:
    key, comma, default = inside.partition(",")
    default = default.strip()
    is_quoted = len(default) >= 2 and default[0] == default[-1] == "'"
    return Variable(reader(key.strip()), default[1:-1] if comma and is_quoted else None)
