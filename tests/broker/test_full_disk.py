"""A full disk: nothing new is taken, what is there can be worked off, and it opens again by itself."""

from __future__ import annotations

import pytest

from penstock.errors import StoreFull
from penstock.limits import HOUR
from support.world import SECOND, World, outgoing


@pytest.fixture
def full(world: World) -> World:
    """Three messages are there; the next send finds the disk full."""
    world.create("q")
    world.send_all("q", "a", "b", "c")
    world.store.full = True
    refused = world.sending("q", outgoing("refused"))
    world.run()
    with pytest.raises(StoreFull):
        refused.result()
    return world


def test_sends_and_new_queues_are_refused_at_once(full: World) -> None:
    appended = len(full.store.appended)
    with pytest.raises(StoreFull):
        full.send("q", "refused too")
    with pytest.raises(StoreFull):
        full.create("another")
    assert len(full.store.appended) == appended


def test_receive_change_delete_and_purge_go_on(full: World) -> None:
    received = full.drain_up_to("q", 3, visibility_ms=HOUR)
    assert [message.content.body for message in received] == ["a", "b", "c"]
    full.change("q", received[0], 0)
    full.delete("q", received[1])
    assert full.counts("q") == (1, 1, 0)
    full.purge("q")
    assert full.counts("q") == (0, 0, 0)


def test_it_opens_again_by_itself(full: World) -> None:
    full.advance(10 * SECOND)
    with pytest.raises(StoreFull):
        full.send("q", "still refused")
    full.store.full = False
    full.advance(2 * SECOND)
    full.send("q", "taken")
    assert sorted(full.drain("q")) == ["a", "b", "c", "taken"]


def test_nothing_of_a_refused_send_is_left(full: World) -> None:
    assert full.counts("q") == (3, 0, 0)
    full.store.full = False
    full.crash()
    assert full.counts("q") == (3, 0, 0)
