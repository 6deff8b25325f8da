"""The setting ``durability``: what the store is told, and what the operator is promised."""

from __future__ import annotations

import pytest

from penstock.server.settings.config import Config, ConfigError
from penstock.server.settings.durability import promise, store_options
from penstock.server.settings.load import load_config


def test_by_default_every_commit_is_synced() -> None:
    assert store_options(Config()) == {"synchronous": "full", "sync_every_s": None}
    assert promise(Config()) == "every answer waits until its change is on disk (fsync on every commit)"


def test_an_interval() -> None:
    config = load_config({"durability": "interval", "durability_interval": "250ms"}, {})
    assert store_options(config) == {"synchronous": "normal", "sync_every_s": 0.25}
    assert "a power cut can cost what was acknowledged in the last 0.25 s" in promise(config)


def test_left_to_the_system() -> None:
    config = load_config({"durability": "system"}, {})
    assert store_options(config) == {"synchronous": "normal", "sync_every_s": None}
    assert "left to the operating system" in promise(config)


def test_memory_promises_nothing() -> None:
    assert promise(Config(memory=True)) == "none: nothing survives a stop"


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"durability": "fsync"}, "give one of commit, interval, system"),
        ({"durability_interval": "2s"}, "durability_interval is set and durability is commit"),
        (
            {"durability": "system", "durability_interval": "2s"},
            "durability is system: set durability to interval",
        ),
        ({"durability": "system", "memory": "true"}, "durability = system needs a disk, and memory is set"),
    ],
)
def test_what_would_be_passed_over_in_silence_is_refused(given: dict[str, str], line: str) -> None:
    with pytest.raises(ConfigError, match=line):
        load_config(given, {})
