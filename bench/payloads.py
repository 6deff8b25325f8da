"""The messages of the benchmark: each has a number, and its body follows from the number and the size.

So the receiver can check a message without a list of what was sent.
"""

from __future__ import annotations

import hashlib
import random
import string
from typing import Any

from bench.load_client import Wrong

_DIGITS = 16
_FILLER = "".join(random.Random(1).choices(string.ascii_letters + string.digits + "     ", k=4096))


def body(number: int, size: int) -> str:
    return f"{number:0{_DIGITS}d}" + (_FILLER * (size // len(_FILLER) + 1))[: size - _DIGITS]


def md5(text: str) -> str:
    return hashlib.md5(text.encode()).hexdigest()


def number_of(message: dict[str, Any], size: int) -> int:
    """The number of a received message; raises Wrong if it is not a message of ours, whole and unchanged."""
    text = message["Body"]
    digits = text[:_DIGITS]
    if not digits.isdigit() or text != body(int(digits), size):
        raise Wrong(f"received a body that was not sent: {text[:80]!r}")
    if message["MD5OfBody"] != md5(text):
        raise Wrong("MD5OfBody does not fit the body")
    return int(digits)
