"""Writing TOML: names and texts. Reading it is the standard library's."""

from __future__ import annotations

import json
import re

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def toml_key(name: str) -> str:
    return name if _BARE.fullmatch(name) else toml_text(name)


def toml_text(text: str) -> str:
    # A JSON text is a TOML text, but for DEL, which JSON leaves as it is.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
