"""How far an answer may be ahead of the disk: the setting ``durability``, for the store and in words.

Whatever it is, an answer waits until its change is with the operating system: a crash of the process costs nothing.
"""

from __future__ import annotations

from typing import TypedDict

from penstock.server.settings.config import Config
from penstock.store.sqlite.file import Synchronous


class StoreOptions(TypedDict):
    synchronous: Synchronous
    sync_every_s: float | None


def store_options(config: Config) -> StoreOptions:
    # Without a sync at every commit SQLite still syncs before the log goes into the file: a power cut can cost the
    # last commits, never the file.
    return {
        "synchronous": "full" if config.durability == "commit" else "normal",
        "sync_every_s": config.durability_interval if config.durability == "interval" else None,
    }


def promise(config: Config) -> str:
    """What an operator may rely on."""
    if config.memory:
        return "none: nothing survives a stop"
    if config.durability == "commit":
        return "every answer waits until its change is on disk (fsync on every commit)"
    if config.durability == "interval":
        within = f"what was acknowledged in the last {config.durability_interval:g} s"
        return f"synced every {config.durability_interval:g} s: a power cut can cost {within}, a crash costs nothing"
    within = "what the operating system had not written yet"
    return f"left to the operating system: a power cut can cost {within}, a crash costs nothing"
