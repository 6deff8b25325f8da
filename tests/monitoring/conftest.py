"""Worlds that end with their test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from monitoring.world import MonitoringWorld


@pytest.fixture
def world() -> Iterator[MonitoringWorld]:
    with MonitoringWorld() as made:
        made.after_look()
        yield made


@pytest.fixture
def cw(world: MonitoringWorld) -> Any:
    return world.client()
