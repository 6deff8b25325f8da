"""JSON as the trail spells it: what callers chose cannot steer the terminal of whoever reads the file.

Whatever is spelled here may be as large as a request, so all of it is done in few passes over bytes.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

# DEL and C1, among them CSI, which begins a command to many terminals: JSON escapes only what is below a space.
# In UTF-8 the byte C2 begins a character, and is part of no other.
_DELETE, _ESCAPED_DELETE = b"\x7f", b"\\u007f"
_C1 = [(chr(code).encode(), b"\\u%04x" % code) for code in range(0x80, 0xA0)]


def spelled(value: Any) -> bytes:
    text = plain(value).replace(_DELETE, _ESCAPED_DELETE)
    if b"\xc2" in text:
        for control, escape in _C1:
            text = text.replace(control, escape)
    return text


def plain(value: Any) -> bytes:
    """Without these escapes: never larger than what is spelled, and soon made."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:  # a lone surrogate, which only escapes can spell
        return json.dumps(value, ensure_ascii=True).encode()
