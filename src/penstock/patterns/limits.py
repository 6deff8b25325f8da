"""How large a pattern may be, and how much work a message may be."""

from __future__ import annotations

from typing import NamedTuple


class PatternLimits(NamedTuple):
    # SNS: the limits of a filter policy.
    bytes_max: int = 256 * 1024
    members_max: int = 2000  # of all objects and arrays: no more can be of use, but in one anything-but
    keys_max: int = 5  # those in branches of $or count, too
    combinations_max: int = 150
    wildcards_max: int = 3  # of one text
    wildcard_points_max: int = 100
    number_max: int = 10**9  # and at least its negative


FILTER_POLICY = PatternLimits()

JSON_DEPTH_MAX = 1000  # that of the parser of AWS

WORK_MAX = 5_000_000
"""How many values all patterns together may compare one message with, which is a few seconds. A body of 256 KB has at
most 130,000 values, and a pattern compares each with each of its terms at most, so that it takes a hostile message
and many patterns to get there. What looks at up to 256 values is not counted."""

PIECE = 256
"""How many values are looked at without a pause."""
