"""Old names of :mod:`penstock.wire.service`."""

from penstock.wire.service import TRACE_BYTES_MAX, Asked, Call

__all__ = ["TRACE_BYTES_MAX", "Asked", "Call"]
