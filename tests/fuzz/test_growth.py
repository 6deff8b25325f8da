"""Memory does not grow with the number of inputs."""

from __future__ import annotations

import gc
import logging
import pkgutil
import tracemalloc
from contextlib import nullcontext, suppress
from functools import _lru_cache_wrapper
from importlib import import_module
from typing import Any, TypeVar

import pytest

import penstock
from fuzz.targets import SHARES, Target, load
from penstock.cache import BoundedCache

T = TypeVar("T")

ROUND = 300
GROWTH_BYTES_MAX = 36_000  # 120 bytes for each input: most inputs are larger

LIMITS = [
    "penstock.auth.sigv4.verify._CACHED_ENTRIES",
    "penstock.auth.policy.compiler._APPLICABLE_CACHED",
    "penstock.auth.identity.directory._CACHED_TOKEN_CHARACTERS",
    "penstock.server.callers._CACHED_MAX",
]
"""Bounds of what is remembered in dictionaries. They are set low here, so that a round reaches them."""

FINITE = {
    "settings",
    "former_settings",
    "struct_shape",  # by our structs
    "for_rows",  # by our statements for powers of two of rows
    "_members",  # by the audit rules of our actions
    "_rules_of",  # by our structs
    "_files",
    "_decode_answer",  # by our questions to other shards
}
"""These caches have no bound, because their keys are few. Those without a remark have only one."""


def living(kind: type[T]) -> list[T]:
    for module in pkgutil.walk_packages(penstock.__path__, "penstock."):
        if module.name.endswith("__main__"):
            continue
        # Adapters need frameworks that are not installed everywhere.
        with suppress(ImportError) if module.name.startswith("penstock.client.adapters.") else nullcontext():
            import_module(module.name)
    return [found for found in gc.get_objects() if isinstance(found, kind)]


def caches() -> list[_lru_cache_wrapper[Any]]:
    return [cache for cache in living(_lru_cache_wrapper) if cache.__module__.startswith("penstock.")]


def test_every_cache_has_a_bound() -> None:
    unbounded = {cache.__name__ for cache in caches() if cache.cache_parameters()["maxsize"] is None}
    assert unbounded == FINITE


@pytest.mark.parametrize("name", SHARES)
def test_inputs_leave_no_memory_behind(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in LIMITS:
        monkeypatch.setattr(limit, 4)
    for cache in living(BoundedCache):
        monkeypatch.setattr(cache, "_half", 4)
    monkeypatch.setattr(logging.root.manager, "disable", logging.CRITICAL)  # what pytest captures grows
    assert growth(load(name)) < GROWTH_BYTES_MAX


def test_growth_is_detected() -> None:
    kept: list[bytes] = []
    assert growth(Target(kept.append, [b"as long as most seeds are" * 8], [])) > GROWTH_BYTES_MAX


def growth(target: Target) -> int:
    """Bytes that one more round adds. The rounds before it fill the bounded caches."""
    tracemalloc.start()
    try:
        check_many(target, 0)
        check_many(target, ROUND)
        before = allocated_bytes()
        check_many(target, 2 * ROUND)
        return allocated_bytes() - before
    finally:
        tracemalloc.stop()


def check_many(target: Target, first: int) -> None:
    """Inputs that are all different: a seed with a number in it, at a different place each time."""
    for number in range(first, first + ROUND):
        seed = target.seeds[number % len(target.seeds)]
        place = number * 7919 % (len(seed) + 1)
        target.check(seed[:place] + str(number).encode() + seed[place:])


def allocated_bytes() -> int:
    for cache in caches():
        cache.cache_clear()
    gc.collect()
    return tracemalloc.get_traced_memory()[0]
