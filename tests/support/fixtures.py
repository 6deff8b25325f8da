"""Worlds as fixtures: most rules are tested twice, with plenty of memory and with next to none.

The latter is a part of ``make test-slow``.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.world import ROOMY, TINY, World


@pytest.fixture(params=[ROOMY, pytest.param(TINY, marks=pytest.mark.slow)], ids=["roomy", "tiny"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    with World(request.param) as world:
        yield world


@pytest.fixture
def roomy() -> Iterator[World]:
    with World(ROOMY) as world:
        yield world
