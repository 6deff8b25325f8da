"""SQL lives in ``sql/*.sql`` beside the engine that runs it, each statement under a ``-- name:`` line."""

from __future__ import annotations

import re
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_PIECE = "-- What stands for {{{}}} below.\n"


def script(engine: str, name: str) -> str:
    """A whole file of an engine, ``sqlite`` or ``postgres``."""
    return (files(f"penstock.store.{engine}") / "sql" / f"{name}.sql").read_text(encoding="utf-8")


def load(engine: str, name: str) -> dict[str, str]:
    """The named statements of a file. Pieces of text that stand for {their_name} in others say so first."""
    _, *parts = _NAME.split(script(engine, name))
    texts = {key: text.strip() for key, text in zip(parts[::2], parts[1::2], strict=True)}
    for piece in [key for key, text in texts.items() if text.startswith(_PIECE.format(key))]:
        piece_text = texts.pop(piece).removeprefix(_PIECE.format(piece))
        texts = {key: text.replace(f"{{{piece}}}", piece_text) for key, text in texts.items()}
    return texts
