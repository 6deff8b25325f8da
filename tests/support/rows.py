"""A table as one test: every row is tried, and every row that fails is reported."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import pytest

Test = Callable[..., None]
_NAMED = type(pytest.param())


class Row(NamedTuple):
    name: str
    values: tuple[Any, ...]


def every_row(names: str | tuple[str, ...], rows: Iterable[Any]) -> Callable[[Test], Test]:
    """Like ``pytest.mark.parametrize``, for rows that share their fixtures: one test is collected, not one per row.

    Each row is a subtest, named by its values or by the id of its ``pytest.param``. Two tables above one test are
    tried in all combinations. Use ``parametrize`` where a row needs fixtures of its own.
    """
    given = (names,) if isinstance(names, str) else names
    table = [_row(each, single=isinstance(names, str)) for each in rows]
    assert table, "a table without rows tests nothing"

    def decorate(test: Test) -> Test:
        fixtures = [name for name in inspect.signature(test).parameters if name not in given]
        takes_subtests = "subtests" in fixtures  # another table is below this one

        @functools.wraps(test)
        def try_every_row(*, subtests: pytest.Subtests, **values: Any) -> None:
            if takes_subtests:
                values["subtests"] = subtests
            for row in table:
                with subtests.test(row.name):
                    test(**dict(zip(given, row.values, strict=True)), **values)

        asked = dict.fromkeys([*fixtures, "subtests"])
        parameters = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in asked]
        vars(try_every_row)["__signature__"] = inspect.Signature(parameters)
        return try_every_row

    return decorate


def _row(given: Any, *, single: bool) -> Row:
    if isinstance(given, _NAMED):
        assert not given.marks, "rows of one test cannot be marked"
        return Row(str(given.id), tuple(given.values))
    values = (given,) if single else tuple(given)
    return Row(", ".join(map(_label, values)), values)


def _label(value: object) -> str:
    name = getattr(value, "name", None) or getattr(value, "__name__", None)
    text = name if isinstance(name, str) else str(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
