"""Single values as text carries them, whatever the protocol around them.

Rule: what is not of its type is SerializationException, in the same words everywhere.
"""

from __future__ import annotations

import base64
import re

from penstock.wire.faults import malformed_input

_SURROGATE = re.compile("[\ud800-\udfff]")
_INTEGER_MAX = 2**63 - 1


def unicode_text(text: str, *, any_text: bool) -> str:
    """Lone surrogates are no Unicode; only text that its handler judges itself may hold them."""
    if not any_text and _SURROGATE.search(text):
        raise malformed_input("The request body holds text that is not Unicode.")
    return text


def is_integer(value: object) -> bool:
    """Bounded as on the wire of AWS; true and false are no numbers."""
    return (
        isinstance(value, int) and not isinstance(value, bool) and -_INTEGER_MAX - 1 <= value <= _INTEGER_MAX
    )


def blob(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise malformed_input("Invalid base64 in a binary value") from None
