"""Limits and time-outs of HTTP connections."""

from __future__ import annotations

import msgspec

_KIB = 1024
_MIB = 1024 * _KIB


class HttpLimits(msgspec.Struct, frozen=True, kw_only=True):
    connections_max: int = 10_000
    connections_per_address_max: int = 5_000  # 0: no limit of its own
    reserved_connections: int = 8  # beyond connections_max, for health checks only
    silent_s: float = 0.25  # that a connection has for its first request before it gives way to another
    pipelined_max: int = 32
    uri_bytes_max: int = 16 * _KIB
    header_count_max: int = 100
    header_bytes_max: int = 64 * _KIB
    body_bytes_max: int = 8 * _MIB  # a message of 1 MiB, escaped in JSON or a form, fits several times
    # Of all connections together: requests that do not run yet. Responses that are not read have as much again.
    buffered_bytes_max: int = 256 * _MIB
    # SQS clients keep a connection over polls of 20 s and pauses between them.
    idle_s: float = 75.0
    head_s: float = 15.0
    body_s: float = 20.0
    write_s: float = 30.0
    linger_s: float = 3.0

    @property
    def tick_s(self) -> float:
        """How often deadlines are checked: four times within the shortest time-out."""
        return min(1.0, min(self.idle_s, self.head_s, self.body_s, self.write_s, self.linger_s) / 4)
