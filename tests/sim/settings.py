"""How long the histories run: short by default, thousands of them with PENSTOCK_HYPOTHESIS=long."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

LONG = os.environ.get("PENSTOCK_HYPOTHESIS") == "long"

HISTORIES = settings(
    max_examples=int(os.environ.get("PENSTOCK_HYPOTHESIS_EXAMPLES", "5000")) if LONG else 60,
    stateful_step_count=60 if LONG else 40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
