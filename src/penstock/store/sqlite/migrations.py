"""The format of the data file, and how an older one becomes the present one.

``sql/schema.sql`` is always the present format, for new files. A step from version n to n + 1 is a SQL
script; all steps that a file needs run in one transaction, so it is never left in between.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

STEPS: Sequence[str] = (
    # Contents may be encrypted from here on: a program that knows nothing of it must not hand them out.
    "CREATE TABLE seals (name BLOB PRIMARY KEY) WITHOUT ROWID",
)
"""``STEPS[0]`` leads from version 1 to 2, and so on."""


def present_version(steps: Sequence[str] = STEPS) -> int:
    return 1 + len(steps)


def migrate(connection: sqlite3.Connection, version: int, steps: Sequence[str] = STEPS) -> None:
    assert 1 <= version <= present_version(steps)
    missing = steps[version - 1 :]
    if not missing:
        return
    script = ";\n".join(missing)
    try:
        connection.executescript(
            f"BEGIN IMMEDIATE;\n{script};\nPRAGMA user_version = {present_version(steps)};\nCOMMIT;"
        )
    except sqlite3.Error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
