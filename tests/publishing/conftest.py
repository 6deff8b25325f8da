"""What is logged while a test runs."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from publishing.log_lines import Lines


@pytest.fixture
def lines() -> Iterator[Lines]:
    log, handler = logging.getLogger("penstock.topics"), Lines()
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    yield handler
    log.removeHandler(handler)
    log.setLevel(level)
