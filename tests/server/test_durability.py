"""The setting ``durability``: what the store is configured with, and what the operator reads at the start."""

from __future__ import annotations

import pytest

from penstock.server.compose import site_of, sync_policy
from penstock.server.settings.config import Config, ConfigError
from penstock.server.settings.load import load_config
from support.texts import says


def test_by_default_every_commit_is_synced() -> None:
    assert sync_policy(Config()) == ("full", None)
    says(site_of(Config()).guarantees, "every response", "on disk", "fsync on every commit")


def test_an_interval() -> None:
    config = load_config({"durability": "interval", "durability_interval": "250ms"}, {})
    assert sync_policy(config) == ("normal", 0.25)
    says(site_of(config).guarantees, "power cut", "lose", "0.25 s")


def test_left_to_the_system() -> None:
    config = load_config({"durability": "system"}, {})
    assert sync_policy(config) == ("normal", None)
    says(site_of(config).guarantees, "operating system")


def test_memory_is_not_durable() -> None:
    says(site_of(Config(memory=True)).guarantees, "none", "stop")


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"durability": "fsync"}, "commit, interval, system"),
        ({"durability_interval": "2s"}, "durability_interval.*durability is commit"),
        (
            {"durability": "system", "durability_interval": "2s"},
            "durability_interval.*durability is system.* interval",
        ),
        ({"durability": "system", "memory": "true"}, "durability = system.*memory"),
    ],
)
def test_a_setting_without_effect_is_refused(given: dict[str, str], line: str) -> None:
    with pytest.raises(ConfigError, match=line):
        load_config(given, {})
