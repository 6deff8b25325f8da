"""Most rules are tested twice: with plenty of memory, and with so little that everything is paged."""

from __future__ import annotations

import pytest

from queues.harness import Queues
from support.world import ROOMY, TINY


@pytest.fixture(params=[ROOMY, TINY], ids=["roomy", "tiny"])
def queues(request: pytest.FixtureRequest) -> Queues:
    return Queues(request.param)


@pytest.fixture
def roomy() -> Queues:
    return Queues(ROOMY)
