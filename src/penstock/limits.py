"""Every limit of the broker in one value, so that a test or an operator can set another."""

from __future__ import annotations

import msgspec

SECOND = 1_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    # Limits of Amazon SQS.
    in_flight_max: int = 120_000
    visibility_ms_max: int = 12 * HOUR
    dedup_window_ms: int = 5 * MINUTE
    attempt_window_ms: int = 5 * MINUTE
    purge_pause_ms: int = MINUTE  # between two purges of a queue; 0: none
    delete_pause_ms: int = MINUTE  # before the name of a deleted queue can be used again; 0: none
    new_place_after_receives: int = 3
    noisy_in_flight_min: int = 30
    noisy_share: float = 0.1
    noisy_quiet_after_ms: int = 5 * MINUTE
    move_rate_max: int = 500

    expiry_pause_ms: int = 10 * MINUTE
    """After a stop of this length, what expired during it is kept for as long again; 0: not at all."""

    dead_letters_per_turn: int = 200
    """A receive that finds more dead letters goes on when the commit with so many of them is durable."""

    # Quotas of one account; 0: unlimited.
    quota_queues: int = 0
    quota_messages: int = 0
    quota_bytes: int = 0

    # Bounds for the memory of one process.
    memory_budget_bytes: int = 96 * 1024 * 1024
    lane_window_max: int = 4096
    lane_floor: int = 10
    groups_floor: int = 128
    refill_rows: int = 512
    refill_lanes: int = 64
    listed_rows: int = 25_000
    delayed_window_max: int = 8192
    lanes_max: int = 120_000
    dedup_entries_max: int = 2_000_000  # of one account
    dedup_entries_total_max: int = 4_000_000  # of all; each account may still use an equal share
    attempts_max: int = 10_000
    uncommitted_bytes_max: int = 64 * 1024 * 1024
    history_events_max: int = 50_000
    history_ms_max: int = DAY
    metrics_seconds_bytes: int = 32 * 1024 * 1024
    metrics_minutes_bytes: int = 128 * 1024 * 1024  # of a shard, until they are stored
    metrics_seconds_queues: int = 1000  # at most this many of a shard are measured every second

    # Bounds for what is stored beside messages.
    tasks_active_max: int = 100  # move tasks, and bulk tasks, of one account in one shard
    tasks_max: int = 1000  # with those that ended, of which the oldest are forgotten
    metrics_bytes_max: int = 256 * 1024 * 1024  # of all shards; 0: no metrics are kept
