"""Compares a text of our own with what its reader needs, so that its wording is free to improve."""

from __future__ import annotations

import re

_EDGE = r"(?:(?<!\w)|(?!\w))"  # not inside a word or number


def says(text: str, *words: str) -> None:
    """Requires each of these words, values or short phrases in a text, anywhere and in any order.

    Each is whole: ``1`` is not found in ``12``. Texts that AWS wrote are compared as they are.
    """
    missing = [each for each in words if not re.search(_EDGE + re.escape(each) + _EDGE, text)]
    assert words and not missing, f"{missing} missing in: {text}"
