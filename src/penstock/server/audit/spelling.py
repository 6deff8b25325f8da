"""JSON as the trail spells it: what callers chose cannot steer the terminal of whoever reads the file."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

# DEL and C1, among them CSI, which begins a command to many terminals: JSON escapes only what is below a space.
# In UTF-8 the byte C2 begins a character, and is part of no other.
_CONTROL = re.compile(rb"\x7f|\xc2[\x80-\x9f]")


def spelled(value: Any) -> bytes:
    try:
        text = msgspec.json.encode(value)
    except UnicodeEncodeError:  # a lone surrogate, which only escapes can spell
        text = json.dumps(value, ensure_ascii=True).encode()
    return _CONTROL.sub(lambda found: b"\\u%04x" % ord(found[0].decode()), text)
