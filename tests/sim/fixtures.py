"""Worlds as fixtures: most rules are tested twice, with plenty of memory and with next to none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sim.world import ROOMY, TINY, World


@pytest.fixture(params=[ROOMY, TINY], ids=["roomy", "tiny"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    with World(request.param) as world:
        yield world


@pytest.fixture
def roomy() -> Iterator[World]:
    with World(ROOMY) as world:
        yield world
