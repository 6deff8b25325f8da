"""Limits of SQS and SNS that the client and the commands keep to, so that a request is not refused for them."""

from __future__ import annotations

from typing import Final

ENTRIES_MAX: Final = 10
"""The most messages of one receive, and the most entries of one batch."""
MESSAGE_BYTES_MAX: Final = 1_048_576
"""The largest message with its attributes, and the largest batch in sum."""
DELAY_S_MAX: Final = 15 * 60
WAIT_S_MAX: Final = 20
"""The longest wait of one receive."""
VISIBILITY_S_MAX: Final = 43_200
"""How long a message can be hidden from its receive on."""
PUBLISHED_BYTES_MAX: Final = 262_144
"""The largest message with its attributes that a topic takes by default, and the largest batch in sum."""
