"""How many examples generated tests draw.

Few by default, so that the tests are quick. ``make test-slow`` draws six to twelve times as many
(PENSTOCK_EXAMPLES=many), the same in each run. PENSTOCK_EXAMPLES=5000 draws that many, other ones each time.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

_ASKED = os.environ.get("PENSTOCK_EXAMPLES", "few")
ENDLESS = _ASKED.isdecimal()
_LEAST = 5


def examples(many: int) -> int:
    """``many``: the number that finds what the test is meant to find, with some to spare."""
    return many if _ASKED != "few" else max(many // 6, _LEAST)


HISTORIES = settings(
    max_examples=int(_ASKED) if ENDLESS else _LEAST if _ASKED == "few" else 60,
    stateful_step_count=60 if ENDLESS else 40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
