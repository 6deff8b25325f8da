"""How much metrics, alarms and dashboards an account may have, in one value that tests and settings can replace."""

from __future__ import annotations

import msgspec

ALARM_STEPS_MAX = 100_000
"""Values that all expressions of an alarm compute, each time that it is evaluated."""

ALARM_BYTES = 8 * 1024
"""The room for each alarm that an account may have: alarms of the usual size take a tenth of it."""


class MonitoringLimits(msgspec.Struct, frozen=True, kw_only=True):
    metrics_bytes_max: int = 64 * 1024 * 1024  # of all metrics of a process in memory
    metrics_max: int = 10_000  # of one account in one shard
    alarms_max: int = 5_000  # of one account in one region
    alarm_bytes_max: int = 5_000 * ALARM_BYTES  # of all alarms of one account in one shard
    dashboards_max: int = 500  # of one account
    dashboard_bytes_max: int = 16 * 1024 * 1024  # of all dashboards of one account
