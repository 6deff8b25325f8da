"""Processes that are killed with SIGKILL at random moments, while the others go on serving."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

from crash.test_kill import SEED, logged_errors, what_is_left
from support.ledger import Ledger
from support.load import Client, Load, ServerAddress
from support.loaded_queues import make_queues
from support.process import ServerProcess
from support.server_processes import kill, processes_of
from support.waiting import until

ROUNDS = int(os.environ.get("CRASH_ROUNDS", "8"))


def deaths(server: ServerProcess) -> list[str]:
    return [line for line in server.log if "ended with signal SIGKILL" in line]


def test_what_was_acknowledged_survives_every_kill_of_a_process(tmp_path: Path) -> None:
    print(f"CRASH_SEED={SEED} CRASH_ROUNDS={ROUNDS}")
    moments = random.Random(SEED)
    address, ledger = ServerAddress(), Ledger()
    address.parts_may_die = True
    arguments = ("--data", str(tmp_path / "data"), "--processes", "2")

    server = ServerProcess(*arguments)
    address.open(server.port)
    make_queues(Client(address))
    load = Load(address, ledger, SEED)
    for killed in range(1, ROUNDS + 1):
        time.sleep(moments.uniform(1.3, 2.5))  # more often would be a crash loop
        address.rush = True
        time.sleep(moments.uniform(0.05, 0.2))
        kill(processes_of(server)[1])  # the one that was started first: each in turn
        address.rush = False
        until(lambda: len(deaths(server)) == killed, f"killed {killed} times")  # noqa: B023
        assert server.process.poll() is None, "the server stopped"
    time.sleep(3)
    load.finish()
    assert server.stop() == 0
    errors = [line for line in logged_errors(server) if line not in deaths(server)]

    promised, left = what_is_left(arguments, errors)
    print(dict(ledger.counted), f"left: {len(left)}")
    assert not errors
    assert not ledger.settle(left)
    assert promised == len(left), "the counts are what can be received"
    assert ledger.counted["sent"] > 50 * ROUNDS, "the load was too light to prove anything"
    assert ledger.counted["deleted"] > 10 * ROUNDS
