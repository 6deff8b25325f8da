"""The setting ``durability``: what the store is configured with, and what the operator reads at the start."""

from __future__ import annotations

import pytest

from penstock.server.compose import site_of, sync_policy
from penstock.server.settings.config import Config, ConfigError
from penstock.server.settings.load import load_config


def test_by_default_every_commit_is_synced() -> None:
    assert sync_policy(Config()) == ("full", None)
    assert (
        site_of(Config()).guarantees
        == "every response waits until its change is on disk (fsync on every commit)"
    )


def test_an_interval() -> None:
    config = load_config({"durability": "interval", "durability_interval": "250ms"}, {})
    assert sync_policy(config) == ("normal", 0.25)
    assert "a power cut can lose what was acknowledged in the last 0.25 s" in site_of(config).guarantees


def test_left_to_the_system() -> None:
    config = load_config({"durability": "system"}, {})
    assert sync_policy(config) == ("normal", None)
    assert "left to the operating system" in site_of(config).guarantees


def test_memory_is_not_durable() -> None:
    assert site_of(Config(memory=True)).guarantees == "none: nothing survives a stop"


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"durability": "fsync"}, "expected one of commit, interval, system"),
        ({"durability_interval": "2s"}, "durability_interval is set but durability is commit"),
        (
            {"durability": "system", "durability_interval": "2s"},
            "durability is system: set durability to interval",
        ),
        ({"durability": "system", "memory": "true"}, "durability = system has no effect with memory"),
    ],
)
def test_a_setting_without_effect_is_refused(given: dict[str, str], line: str) -> None:
    with pytest.raises(ConfigError, match=line):
        load_config(given, {})
