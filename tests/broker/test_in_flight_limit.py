"""The limit of messages in flight: an error for a short poll of a standard queue, silence otherwise."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from penstock.errors import TooManyInFlight
from support.world import ROOMY, SECOND, TINY, World


@pytest.fixture(params=[ROOMY, TINY], ids=["roomy", "tiny"])
def narrow(request: pytest.FixtureRequest) -> Iterator[World]:
    with World(msgspec.structs.replace(request.param, in_flight_max=3)) as world:
        yield world


def fill(world: World, queue: str) -> None:
    world.create(queue)
    for i in range(5):
        world.send(queue, f"m{i}", group=f"g{i}")
    assert len(world.drain_up_to(queue, 3)) == 3


def test_a_receive_stops_at_the_limit(narrow: World) -> None:
    fill(narrow, "q")
    assert narrow.counts("q") == (2, 3, 0)


def test_a_short_poll_of_a_standard_queue_fails(narrow: World) -> None:
    fill(narrow, "q")
    with pytest.raises(TooManyInFlight):
        narrow.receive("q")


def test_a_long_poll_comes_back_empty(narrow: World) -> None:
    fill(narrow, "q")
    poll = narrow.poll("q", wait_ms=2 * SECOND)
    narrow.advance(2 * SECOND)
    assert poll.bodies == []


def test_a_delete_makes_room_for_a_waiting_receive(narrow: World) -> None:
    narrow.create("q")
    narrow.send_all("q", *"abcd")
    (first,) = narrow.receive("q", 1)
    narrow.receive("q", 1)
    narrow.receive("q", 1)
    poll = narrow.poll("q", 1)
    assert not poll.done
    narrow.delete("q", first)
    assert poll.bodies == ["d"]


def test_a_receive_of_a_fifo_queue_never_fails(narrow: World) -> None:
    narrow.create("q.fifo")
    for i in range(5):
        narrow.send("q.fifo", f"m{i}", group=f"g{i}")
    assert len(narrow.drain_up_to("q.fifo", 3)) == 3
    assert narrow.receive("q.fifo") == []
