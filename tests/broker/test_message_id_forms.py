"""Ids of messages from before ids were encrypted numbers: a duplicate is answered with the id of the first send."""

from __future__ import annotations

import pytest

from penstock.errors import StoreError
from penstock.queues.messages import Sent
from penstock.queues.receipts import ALL_HASHED, MESSAGE_ID_FORMS, OWN_IDS, MessageIds
from support.world import World


def number_of(world: World, sent: Sent) -> int | None:
    return world.queue("q.fifo").rules.message_id.number_of(sent.id)


def upgrade(world: World) -> None:
    """Makes all that is stored look like that of an earlier release."""
    world.shard.changes.records[MESSAGE_ID_FORMS.name, OWN_IDS] = None
    world.do(world.broker.settled())
    world.crash()


def test_ids_keep_their_form_over_restarts(world: World) -> None:
    world.create("q.fifo")
    sent = world.send("q.fifo", "a", group="g")
    assert number_of(world, sent) == sent.sequence
    world.crash()
    assert world.send("q.fifo", "a", group="g") == sent


def test_numbers_from_before_the_upgrade_keep_their_ids(world: World) -> None:
    world.create("q.fifo")
    sequence = world.send("q.fifo", "a", group="g").sequence
    assert sequence is not None
    upgrade(world)
    before = Sent(MessageIds(world.shard.secret, ALL_HASHED)(sequence), sequence)
    assert world.send("q.fifo", "a", group="g") == before
    after = world.send("q.fifo", "b", group="g")
    assert number_of(world, after) == after.sequence
    world.crash()
    assert world.send("q.fifo", "a", group="g") == before
    assert world.send("q.fifo", "b", group="g") == after


def test_a_refused_commit_does_not_lose_the_form(world: World) -> None:
    world.create("q.fifo")
    upgrade(world)
    world.refuse_next_commit()
    with pytest.raises(StoreError):
        world.send("q.fifo", "a", group="g")
    sent = world.send("q.fifo", "a", group="g")
    world.crash()
    assert world.send("q.fifo", "a", group="g") == sent


def test_an_idle_shard_commits_nothing_for_it(world: World) -> None:
    world.run()
    assert world.store.appended == []
