"""What comes between: a refused commit, a failed read or a purge while something else is under way."""

from __future__ import annotations

import pytest

from penstock.errors import StoreError
from penstock.limits import HOUR
from support.world import MINUTE, SECOND, TINY, World, outgoing

Q, F = "q", "q.fifo"


@pytest.fixture
def paged(request: pytest.FixtureRequest) -> World:
    world = World(TINY)
    request.addfinalizer(world.close)
    return world


def hide_contents(world: World, queue: str) -> None:
    """After a receive that came back, only the store has the body."""
    world.receive(queue, visibility_ms=0)


def test_a_fifo_receive_whose_commit_is_refused_fails_even_if_the_body_is_read_meanwhile(
    world: World,
) -> None:
    world.create(F)
    world.send(F, "m", group="g")
    hide_contents(world, F)
    world.runtime.reader.paused = True
    world.refuse_next_commit()
    poll = world.poll(F, wait_ms=0)
    assert not poll.done
    world.runtime.reader.paused = False
    world.run()
    with pytest.raises(StoreError):
        poll.answer.result()
    assert world.bodies(F) == ["m"]


def test_messages_whose_bodies_cannot_be_read_go_back_uncounted(
    roomy: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    roomy.create(Q)
    roomy.send(Q, "m")
    hide_contents(roomy, Q)

    def broken(seqs: object) -> dict[int, bytes]:
        raise StoreError("unreadable")

    monkeypatch.setattr(roomy.store, "contents", broken)
    with pytest.raises(StoreError):
        roomy.receive(Q)
    monkeypatch.undo()
    assert roomy.counts(Q) == (1, 0, 0)
    assert roomy.receive(Q)[0].receives == 2


def test_a_purge_answers_short_polls_that_wait_for_a_read(paged: World) -> None:
    paged.create(Q)
    for i in range(30):
        paged.send(Q, f"m{i}")
    paged.crash()
    paged.runtime.reader.paused = True
    polls = [paged.poll(Q, 10, wait_ms=0, visibility_ms=HOUR) for _ in range(8)]
    purge = paged.start(paged.broker.purge(paged.queue(Q)))
    paged.runtime.reader.paused = False
    paged.run()
    assert purge.done
    assert all(poll.done for poll in polls)


def test_names_that_have_rested_are_forgotten(world: World) -> None:
    for i in range(20):
        world.create(f"reply-{i}")
        world.drop(f"reply-{i}")
    assert len(world.store.records("cooldown")) == 20
    world.advance(3 * MINUTE)
    assert world.store.records("cooldown") == {}


def test_a_repeated_attempt_is_no_longer_remembered_after_its_window(world: World) -> None:
    world.create(F, visibility_ms=HOUR)
    world.send(F, "m", group="g")
    assert len(world.receive(F, attempt_id="once")) == 1
    world.advance(MINUTE)
    assert len(world.receive(F, attempt_id="once")) == 1
    world.send(F, "other", group="h")
    world.receive(F, attempt_id="another")
    world.advance(5 * MINUTE)
    assert world.receive(F, attempt_id="once") == []


def test_a_queue_made_after_four_billion_numbers_can_be_consumed(world: World) -> None:
    world.shard._next_number = 1 << 33
    world.create(Q)
    world.send(Q, "m")
    (message,) = world.receive(Q)
    assert world.do(world.queue(Q).delete([message.handle])) == [None]
    assert world.counts(Q) == (0, 0, 0)


def test_a_failed_move_wakes_a_long_poll_on_what_it_held(world: World) -> None:
    world.create("dead")
    world.create(Q, dead_letters=("dead", 1))
    world.send("dead", "direct")  # never was in another queue: where should it go?
    world.runtime.reader.paused = True
    hide = world.start(
        world.broker.partition_of(world.queue("dead")).moves.begin(world.queue("dead"), None, None)
    )
    world.runtime.reader.paused = False
    world.run()
    assert hide.done
    assert world.poll("dead", wait_ms=20 * SECOND).bodies == ["direct"]


def test_sends_are_refused_while_too_much_waits_for_a_slow_disk() -> None:
    with World() as world:
        world.create(Q)
        world.hold_commits()
        body = "x" * 1_000_000
        waiting = [world.sending(Q, outgoing(body)) for _ in range(80)]
        refused = [later for later in waiting if later.done]
        assert 5 < len(refused) < 20
        for later in refused:
            with pytest.raises(StoreError):
                later.result()
        world.release_commits()
        assert world.counts(Q)[0] == 80 - len(refused)
