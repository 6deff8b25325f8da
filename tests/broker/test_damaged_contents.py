"""Messages whose stored content is damaged: they hold up no others, none is lost, and none is doubled."""

from __future__ import annotations

from typing import Any

import pytest

from broker.test_editing import edit
from broker.test_internal_queues import Errand, Errands
from penstock.broker.internal_queues import JobKind
from penstock.broker.live_queue import LiveQueue
from penstock.errors import ContentDamaged
from penstock.limits import HOUR, MINUTE
from penstock.promise import Promise
from penstock.queues.filters import MessageFilter
from penstock.queues.messages import decode_content
from penstock.store.port import LAST
from support.texts import says
from support.world import SECOND, World

KINDS = pytest.mark.parametrize("kind", ["", ".fifo"], ids=["standard", "fifo"])


def fill(world: World, name: str, *bodies: str, **settings: Any) -> None:
    world.create(name, **settings)
    for body in bodies:
        world.send(name, body, group=body, dedup_id=body)


def seqs(world: World) -> list[int]:
    """Returns the seqs of all stored messages, in their order."""
    world.shard.write_later()
    world.do(world.broker.settled())
    return [row.seq for row in world.store.scan(0, LAST, 100, LAST)]


@pytest.mark.parametrize("damaged", [b"", b"\x91", b"\x03", b"\x92\xa2\xff\xfe\xa0", b"\xc1"])
def test_a_content_that_cannot_be_decoded(damaged: bytes) -> None:
    with pytest.raises(ContentDamaged):
        decode_content(damaged)


@KINDS
def test_a_damaged_message_does_not_hold_up_a_receive(
    roomy: World, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    world = roomy
    world._log.addHandler(caplog.handler)
    world.create("dead" + kind)
    fill(world, "q" + kind, *"abcde", dead_letters=("dead" + kind, 2), visibility_ms=HOUR)
    world.damage(seqs(world)[0])
    world.crash()
    assert sorted(world.bodies("q" + kind)) == [*"bcde"]
    says(caplog.text, "content of message", "damaged")
    for _ in range(2):
        world.advance(HOUR)
        world.bodies("q" + kind)
    assert world.counts("dead" + kind) == (5, 0, 0), "it was received too often, as the others"


@KINDS
def test_a_damaged_message_stays_until_its_retention_ends(world: World, kind: str) -> None:
    fill(world, "q" + kind, "a", retention_ms=HOUR, visibility_ms=SECOND)
    world.damage(seqs(world)[0])
    world.crash()
    for _ in range(10):
        assert world.bodies("q" + kind) == []
        world.advance(SECOND)
    assert world.counts("q" + kind) == (1, 0, 0)
    world.advance(HOUR)
    assert world.counts("q" + kind) == (0, 0, 0)


@pytest.mark.parametrize("ordered", [True, False])
def test_a_damaged_job_is_dropped_and_holds_up_no_others(
    ordered: bool, caplog: pytest.LogCaptureFixture
) -> None:
    kind = JobKind(
        "errands", Errand, pauses_ms=(), visibility_ms=SECOND, running_per_group_max=1, ordered=ordered
    )
    with Errands(kind) as world:
        world._log.addHandler(caplog.handler)
        world.hanging[0] = Promise()
        for number in range(5):
            world.add(number, group="g")
        world.damage(seqs(world)[2])
        world.hanging.clear()
        world.crash()
        world.advance(MINUTE)
        assert sorted(number for number, _ in world.done) == [0, 1, 3, 4]
        assert world.waiting() == 0
        says(caplog.text, "errands", "dropped")


def test_a_consumer_of_jobs_survives_an_unexpected_error(monkeypatch: pytest.MonkeyPatch) -> None:
    receive = LiveQueue.receive
    bug = RuntimeError("a bug")

    async def fail(*_: object) -> None:
        raise bug

    with Errands() as world:
        monkeypatch.setattr(LiveQueue, "receive", fail)
        world.bug[0] = bug
        world.add(1)
        world.advance(MINUTE)
        monkeypatch.setattr(LiveQueue, "receive", receive)
        world.advance(MINUTE)
        assert world.done == [(1, 1)]


def test_operators_see_a_damaged_message_and_can_delete_it(world: World) -> None:
    fill(world, "q", "a", "b")
    seq = seqs(world)[0]
    world.damage(seq)
    queue = world.queue("q")
    partition = world.broker.partition_of(queue)
    page = world.do(partition.inspection.list(queue, MessageFilter()))
    assert [view.unreadable for view in page.messages] == [True, False]
    page = world.do(partition.inspection.list(queue, MessageFilter(regex="a|b")))
    assert [view.row.seq for view in page.messages] == seqs(world)[1:]
    with pytest.raises(ContentDamaged):
        edit(world, "q", seq, body="other")
    with pytest.raises(ContentDamaged):
        edit(world, "q", seq, group="other")
    with pytest.raises(ContentDamaged):
        world.do(partition.editing.reset(queue, seq))
    world.do(partition.editing.delete(queue, seq))
    assert world.drain("q") == ["b"]
