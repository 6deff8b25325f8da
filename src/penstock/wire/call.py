"""Old names of :mod:`penstock.wire.service`."""

from penstock.wire.service import TRACE_BYTES_MAX, Call

__all__ = ["TRACE_BYTES_MAX", "Call"]
