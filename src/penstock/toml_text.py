"""Keys and strings as TOML text. The standard library reads TOML and does not write it."""

from __future__ import annotations

import json
import re

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def toml_key(name: str) -> str:
    return name if _BARE.fullmatch(name) else toml_string(name)


def toml_string(text: str) -> str:
    # A JSON string is a TOML string, except that JSON does not escape DEL.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
