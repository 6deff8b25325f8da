"""SQL lives in ``sql/*.sql``, each statement under a ``-- name:`` line; loaded once.

A statement for many rows has ``{rows}`` where its VALUES go. Its text is made for powers of two of rows, so
that the cache of prepared statements holds them all, and any number of rows takes a handful of statements.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

ROWS_PER_STATEMENT_MAX = 512

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


def script(name: str) -> str:
    """A whole file."""
    return (files("penstock.store.sqlite") / "sql" / f"{name}.sql").read_text(encoding="utf-8")


def load(name: str) -> dict[str, str]:
    """The named statements of a file."""
    _, *parts = _NAME.split(script(name))
    return {key: text.strip() for key, text in zip(parts[::2], parts[1::2], strict=True)}


@cache
def for_rows(statement: str, rows: int, columns: int) -> str:
    row = "(" + ",".join("?" * columns) + ")"
    return statement.replace("{rows}", ",".join([row] * rows))


def bites(rows: int) -> list[int]:
    """How many rows each statement takes: powers of two, largest first."""
    sizes = [ROWS_PER_STATEMENT_MAX] * (rows // ROWS_PER_STATEMENT_MAX)
    rest = rows % ROWS_PER_STATEMENT_MAX
    while rest:
        sizes.append(1 << (rest.bit_length() - 1))
        rest -= sizes[-1]
    return sizes
