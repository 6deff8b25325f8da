"""Topics whose server, or one of its processes, is killed with SIGKILL at random moments while messages are
published."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

from crash.test_kill import SEED, logged_errors
from crash.test_kill_processes import deaths
from support.fan_out import FanOut, fan_out
from support.load import ServerAddress
from support.process import ServerProcess
from support.server_processes import kill, processes_of
from support.waiting import until

ROUNDS = int(os.environ.get("CRASH_ROUNDS", "6"))


def check(published: FanOut, server: ServerProcess, rounds: int) -> None:
    """Nothing is lost, nothing is repeated."""
    wrong = published.settle(server.port)
    print(f"acknowledged: {len(published.sent)}, unsure: {len(published.unsure)}")
    assert not wrong, wrong[:10]
    assert len(published.sent) > 20 * rounds, "the load was too light to prove anything"
    assert published.unsure, "no request was under way when the server was killed"


def test_what_was_published_survives_every_kill(tmp_path: Path) -> None:
    print(f"CRASH_SEED={SEED} CRASH_ROUNDS={ROUNDS}")
    moments, address, errors = random.Random(SEED), ServerAddress(), list[str]()
    arguments = ("--data", str(tmp_path / "data"), "--shards", "3")
    server = ServerProcess(*arguments)
    address.open(server.port)
    with fan_out(address, SEED) as published:
        for _ in range(ROUNDS):
            time.sleep(moments.uniform(0.3, 0.8))
            address.rush = True
            time.sleep(moments.uniform(0.05, 0.2))
            assert server.process.poll() is None, "it died before it was killed"
            address.close()
            server.kill()
            errors += logged_errors(server)
            server = ServerProcess(*arguments)
            address.rush = False
            address.open(server.port)
        time.sleep(0.3)
    check(published, server, ROUNDS)
    assert server.stop() == 0
    assert not errors + logged_errors(server)


def test_what_was_published_survives_every_kill_of_a_process(tmp_path: Path) -> None:
    print(f"CRASH_SEED={SEED} CRASH_ROUNDS={ROUNDS}")
    moments, address = random.Random(SEED), ServerAddress()
    address.parts_may_die = True
    server = ServerProcess("--data", str(tmp_path / "data"), "--shards", "3", "--processes", "2")
    address.open(server.port)
    with fan_out(address, SEED) as published:
        for killed in range(1, ROUNDS + 1):
            time.sleep(moments.uniform(1.3, 2.0))  # more often would be a crash loop
            address.rush = True
            time.sleep(moments.uniform(0.05, 0.2))
            kill(processes_of(server)[1])  # the one that was started first: each in turn
            address.rush = False
            until(lambda: len(deaths(server)) == killed, f"killed {killed} times")  # noqa: B023
            assert server.process.poll() is None, "the server stopped"
        time.sleep(2)
    check(published, server, ROUNDS)
    assert server.stop() == 0
    assert not [line for line in logged_errors(server) if line not in deaths(server)]
