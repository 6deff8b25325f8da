"""The errors of the service, in its words."""

from __future__ import annotations

from penstock.wire.service import Fault


class ThingMissing(Exception):
    pass


def to_fault(error: Exception) -> Fault | None:
    if isinstance(error, ThingMissing):
        return Fault(
            "ThingNotFound", "Things.NotFound", 404, f"No thing {error}.", modelled=True, plain_status=400
        )
    return None
