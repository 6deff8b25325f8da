"""A stop while the queues are still being loaded: the store is closed under the reads that are left."""

from __future__ import annotations

import pytest

from penstock.broker.operations import Operation
from penstock.limits import MINUTE
from penstock.queues.filters import MessageFilter
from support.world import TINY, World, name_of


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


def test_a_stop_in_the_middle_of_tasks_logs_nothing_and_they_go_on_later(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Wherever the steps of a bulk task and of a move task are."""
    for steps in range(0, 60, 3):
        with World(TINY) as world:
            world.create("dead", visibility_ms=MINUTE)
            world.create("source", dead_letters=("dead", 1))
            world.create("other")
            world.send_all("dead", *map(str, range(30)))
            dead = world.queue("dead")
            tasks = world.broker.partition_of(dead).bulk_tasks
            world._log.addHandler(caplog.handler)
            world.start(tasks.begin(dead, Operation.COPY, name_of("other"), MessageFilter(regex="[0-9]")))
            world.start(world.broker.partition_of(dead).moves.begin(dead, name_of("source"), None))
            for _ in range(steps):
                world.runtime.step()
            stopped = world.start(world.broker.stop())
            while not stopped.done:
                assert world.runtime.step()
            world.store.close()
            world.advance(2 * MINUTE)
            assert caplog.text == "", f"after {steps} steps"
            world._open()
            world.advance(MINUTE)
            assert sum(world.counts("source")) + sum(world.counts("dead")) == 30
