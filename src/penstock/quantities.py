"""Durations and sizes as people write them: "30s", "4d", "96MB"."""

from __future__ import annotations

import re
from collections.abc import Mapping

SECONDS: Mapping[str, float] = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
BYTES: Mapping[str, float] = {
    "": 1, "b": 1,
    **{f"{letter}{rest}": 1024**power for power, letter in enumerate("kmgt", 1) for rest in ("", "b", "ib")},
}  # fmt: skip
_QUANTITY = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-z]*)\s*")


def parse_quantity(text: str, units: Mapping[str, float]) -> float:
    """Raises ValueError."""
    found = _QUANTITY.fullmatch(text.lower())
    if found is None or found[2] not in units:
        raise ValueError
    return float(found[1]) * units[found[2]]
