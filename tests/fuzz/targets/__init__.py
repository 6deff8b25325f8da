"""Everything that untrusted clients reach. Each module has the same three parts:

``check(data)`` runs the real code with one input and asserts what must hold; ``seeds()`` are inputs to start
from, made of real requests; ``WORDS`` are what a mutation may insert.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import NamedTuple

SHARES = {
    "http": 2,
    "json": 4,
    "query": 2,
    "sigv4": 4,
    "policy": 4,
    "handles": 1,
    "sessions": 1,
    "encryption": 1,
    "sts": 1,
    "expressions": 1,
    "links": 1,
}
"""The share of each target in the time or the inputs of a run."""


class Target(NamedTuple):
    check: Callable[[bytes], None]
    seeds: Sequence[bytes]
    words: Sequence[bytes]


def text_of(data: bytes) -> str:
    """Returns a text that JSON or a form could contain: lone surrogates are text too."""
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("latin-1")


@cache
def load(name: str) -> Target:
    """Imported on demand: the coverage engine must be imported first."""
    module = import_module(f"fuzz.targets.{name}")
    return Target(module.check, module.seeds(), module.WORDS)
