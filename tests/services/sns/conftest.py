"""Worlds that end with their test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from services.sns.world import SnsWorld


@pytest.fixture
def sns() -> Iterator[SnsWorld]:
    with SnsWorld() as world:
        yield world
