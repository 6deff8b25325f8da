"""Conditions on JSON bodies: a path such as ``$.items[*].sku``, and optionally what its value is compared with.

A path leads to any number of values, because ``[*]`` stands for every element. A condition holds if one of them
satisfies it. Values of different kinds are never equal, nor is one of them less.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from penstock.errors import FilterInvalid

_STEP = re.compile(
    r"""\.(?P<name>[^\s.\[\]=!<>"']+)   # .name, or .* for every member
    | \[(?P<index>-?\d{1,9})\]          # [0], or [-1] from the end
    | \[(?P<every>\*)\]                 # [*]
    | \[(?P<quoted>"(?:[^"\\]|\\.)*")\] # ["any name"]
    """,
    re.VERBOSE,
)
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}
_COMPARISON = re.compile(r"\s*(?P<operator><=|>=|!=|==?|<|>)\s*(?P<value>.*?)\s*", re.DOTALL)
_EXAMPLE = 'write for example $.order.id = "x", $.items[*].price >= 10 or $.order'
_EVERY = object()


class JsonCondition(NamedTuple):
    steps: tuple[Any, ...]  # names, indexes, and _EVERY
    operator: str | None  # None: it is enough that there is such a value
    wanted: Any = None

    def holds(self, document: Any) -> bool:
        values: Iterable[Any] = [document]
        for step in self.steps:
            values = [found for value in values for found in _step(value, step)]
        if self.operator is None:
            return bool(values)
        return any(_compare(value, self.operator, self.wanted) for value in values)


@lru_cache(maxsize=64)
def parse_condition(text: str) -> JsonCondition:
    """Raises FilterInvalid."""
    text = text.strip()
    if not text.startswith("$"):
        raise FilterInvalid(f"json: a path begins with $; {_EXAMPLE}")
    steps: list[Any] = []
    at = 1
    while (step := _STEP.match(text, at)) is not None:
        at = step.end()
        if step["index"] is not None:
            steps.append(int(step["index"]))
        elif step["every"] is not None or step["name"] == "*":
            steps.append(_EVERY)
        else:
            steps.append(step["name"] if step["quoted"] is None else _literal(step["quoted"]))
    if at == len(text):
        return JsonCondition(tuple(steps), None)
    compared = _COMPARISON.fullmatch(text, at)
    if compared is None:
        raise FilterInvalid(f"json: cannot read {text[at:][:40]!r} in the path; {_EXAMPLE}")
    name = "=" if compared["operator"] == "==" else compared["operator"]
    return JsonCondition(tuple(steps), name, _literal(compared["value"]))


def _literal(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        raise FilterInvalid(
            f'json: {text[:40]!r} is not a JSON value; write a text in double quotes, as in $.id = "x", '
            "or a number, true, false or null"
        ) from None


def _step(value: Any, step: Any) -> Iterable[Any]:
    match value, step:
        case dict(), str() if step in value:
            return (value[step],)
        case list(), int() if -len(value) <= step < len(value):
            return (value[step],)
        case dict(), _ if step is _EVERY:
            return value.values()
        case list(), _ if step is _EVERY:
            return value
    return ()


def _compare(value: Any, name: str, wanted: Any) -> bool:
    kind = _kind(value)
    if kind is not _kind(wanted):
        return name == "!="
    if kind not in (float, str) and name not in ("=", "!="):
        return False
    return _OPERATORS[name](value, wanted)


def _kind(value: Any) -> type:
    """Numbers are of one kind; true is not 1."""
    return float if type(value) is int else type(value)
