"""Values of messages, as patterns see them: texts, exact numbers, and constants."""

from __future__ import annotations

from decimal import Decimal
from enum import Enum

import msgspec

_DECIMALS = 5  # SNS: numbers of policies have so many
_SCALE = 100_000
_KEY_MAX = 10**9


class Constant(Enum):
    TRUE = "true"
    FALSE = "false"
    NULL = "null"
    OPAQUE = "(binary)"
    """The value is present, and only {"exists": true} matches it."""


Value = str | int | Decimal | Constant

CONSTANTS = {True: Constant.TRUE, False: Constant.FALSE, None: Constant.NULL}


def is_number(value: Value) -> bool:
    return isinstance(value, int | Decimal)


def number_key(value: int | Decimal) -> int | None:
    """Returns what equal numbers have in common, or None for a number that only a comparison can tell from others.

    It is what dictionaries of many patterns have as keys: Python's hashes of numbers can be made to collide, but not
    those of integers below 2 ** 61.
    """
    if not -_KEY_MAX <= value <= _KEY_MAX:
        return None
    if isinstance(value, int):
        return value * _SCALE
    key = int(value * _SCALE)
    is_whole = Decimal(key).scaleb(-_DECIMALS) == value
    return key if is_whole else None


def json_text(value: Value) -> str:
    """Returns the value as people read it: a text in quotes, a number without."""
    if isinstance(value, Constant):
        return value.value
    return msgspec.json.encode(value).decode() if isinstance(value, str) else str(value)
