"""Killed with SIGKILL at random moments, started again on the same directory, and asked what is left."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from penstock.server.compose import site_of
from penstock.server.settings.config import Config
from support.ledger import Ledger
from support.load import Client, Load, ServerAddress
from support.loaded_queues import make_queues, remaining
from support.process import ServerProcess

ROUNDS = int(os.environ.get("CRASH_ROUNDS", "20"))
FEWER_ROUNDS = max(3, ROUNDS // 4)
SEED = int(os.environ.get("CRASH_SEED", random.SystemRandom().randrange(2**32)))


def what_is_left(arguments: tuple[str, ...], errors: list[str]) -> tuple[int, list[str]]:
    """How many messages the counts of a new server promise, and the bodies of all that can be received."""
    with ServerProcess(*arguments) as server:
        promised, left = remaining(server.port)
        assert server.stop() == 0
        errors += logged_errors(server)
    return promised, left


def logged_errors(server: ServerProcess) -> list[str]:
    return [line for line in server.log if '"level": "error"' in line]


@pytest.mark.parametrize(
    ("durability", "rounds"), [("commit", ROUNDS), ("interval", FEWER_ROUNDS), ("system", FEWER_ROUNDS)]
)
def test_what_was_acknowledged_survives_every_kill(tmp_path: Path, durability: str, rounds: int) -> None:
    """However seldom it is synced: what a commit wrote is with the operating system, which was not killed."""
    print(f"CRASH_SEED={SEED} CRASH_ROUNDS={ROUNDS}")
    moments = random.Random(SEED)
    address, ledger = ServerAddress(), Ledger()
    errors: list[str] = []
    data = ("--data", str(tmp_path / "data"), "--durability", durability)

    server = ServerProcess(*data)
    assert server.facts["durability"] == site_of(Config(durability=durability)).guarantees
    address.open(server.port)
    make_queues(Client(address))
    load = Load(address, ledger, SEED)
    for _ in range(rounds):
        time.sleep(moments.uniform(0.2, 0.7))
        address.rush = True
        time.sleep(moments.uniform(0.05, 0.2))
        assert server.process.poll() is None, "it died before it was killed"
        address.close()
        server.kill()
        errors += logged_errors(server)
        server = ServerProcess(*data)
        address.rush = False
        address.open(server.port)
    time.sleep(0.3)
    load.finish()
    assert server.stop() == 0
    errors += logged_errors(server)

    promised, left = what_is_left(data, errors)
    print(dict(ledger.counted), f"left: {len(left)}")
    assert not errors
    assert not ledger.settle(left)
    assert promised == len(left), "the counts are what can be received"
    assert ledger.counted["sent"] > 50 * rounds, "the load was too light to prove anything"
    assert ledger.counted["deleted"] > 10 * rounds
