"""A stop while the queues are still being loaded: the store is closed under the reads that are left."""

from __future__ import annotations

import pytest

from penstock.limits import MINUTE
from sim.world import TINY, World


@pytest.mark.parametrize("reads", range(8))
def test_a_stop_right_after_a_start_logs_nothing(caplog: pytest.LogCaptureFixture, reads: int) -> None:
    with World(TINY) as world:
        for n in range(5):
            world.create(f"q{n}")
            world.send_all(f"q{n}", *map(str, range(10)))
        world.do(world.broker.stop())
        world.store.close()
        world._open()
        world._log.addHandler(caplog.handler)
        for _ in range(reads):
            world.runtime.step()
        world.runtime.reader.paused = True
        stopped = world.start(world.broker.stop())
        world.run()
        assert stopped.done
        world.store.close()
        world.runtime.reader.paused = False
        world.advance(2 * MINUTE)
        assert caplog.text == ""
