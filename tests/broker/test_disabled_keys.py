"""Messages under a key that was disabled, in queues that hold others: never shown and never lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.encrypted_world import KMS, OTHER, EncryptedWorld
from penstock.errors import KeyDisabled
from penstock.limits import MINUTE, SECOND
from penstock.queues.messages import Received
from penstock.store.changes import EntryRow
from support.generated import examples
from support.world import ROOMY, TINY, outgoing


@pytest.fixture(params=[ROOMY, TINY], ids=["roomy", "tiny"])
def world(request: pytest.FixtureRequest) -> Iterator[EncryptedWorld]:
    with EncryptedWorld(request.param) as world:
        yield world


def send_mixed(world: EncryptedWorld, queue: str, *shut_or_open: str, **more: object) -> None:
    """Bodies that begin with "shut" are encrypted under alias/orders, the others under alias/other."""
    for body in shut_or_open:
        world.configure(queue, **(KMS if body.startswith("shut") else OTHER))
        world.send(queue, body, **more)
    world.configure(queue, **OTHER)


def received_or_refused(world: EncryptedWorld, queue: str, **more: Any) -> list[str]:
    try:
        return world.bodies(queue, **more)
    except KeyDisabled:
        return []


# -- what memory holds ---------------------------------------------------------------------------------------


def test_contents_in_memory_are_not_shown_any_more(world: EncryptedWorld) -> None:
    world.create("orders", **KMS)
    world.send("orders", "secret")
    world.configure("orders", **OTHER)
    world.enable("alias/orders", False)
    with pytest.raises(KeyDisabled):
        world.receive("orders")
    world.enable("alias/orders", True)
    assert world.bodies("orders") == ["secret"]


def test_a_message_that_is_being_committed_is_not_kept_in_memory(world: EncryptedWorld) -> None:
    world.create("orders", **KMS)
    world.hold_commits()
    world.sending("orders", outgoing("secret"))
    world.run()
    world.enable("alias/orders", False)
    world.release_commits()
    world.configure("orders", **OTHER)
    assert received_or_refused(world, "orders") == []


def test_a_page_that_was_opened_before_is_thrown_away(world: EncryptedWorld) -> None:
    """The key is disabled between the reading thread's work and the loop's."""
    world.create("orders", **KMS)
    world.send_all("orders", *map(str, range(3)))
    world.configure("orders", **OTHER)
    lane, opened = world.encrypted.lane, list[bool]()

    def disabled_meanwhile(*asked: Any, **more: Any) -> list[EntryRow]:
        rows = lane(*asked, **more)
        if not opened:
            opened.append(any(row.content is not None for row in rows))
            world.enable("alias/orders", False)
        return rows

    world.encrypted.lane = disabled_meanwhile  # type: ignore[method-assign]
    world.broker.keys_changed()
    assert received_or_refused(world, "orders") == []
    assert opened == [True]


def test_receives_that_wait_go_on_waiting(world: EncryptedWorld) -> None:
    world.create("orders", **OTHER)
    world.create("jobs.fifo", **OTHER)
    polls = [world.poll(queue) for queue in ("orders", "jobs.fifo")]
    world.enable("alias/orders", False)
    world.run()
    assert not any(poll.done for poll in polls)
    world.send("orders", "one")
    world.send("jobs.fifo", "one", group="g", dedup_id="1")
    assert [poll.bodies for poll in polls] == [["one"], ["one"]]


def test_nothing_is_forgotten_that_was_decided(world: EncryptedWorld) -> None:
    world.create("jobs.fifo", **OTHER)
    for n in range(20):
        world.send("jobs.fifo", str(n), group=f"g{n % 4}", dedup_id=str(n))
    held = world.receive("jobs.fifo", 3)
    world.delete("jobs.fifo", held[0])
    world.enable("alias/orders", False)
    assert world.counts("jobs.fifo") == (17, 2, 0)
    assert world.send("jobs.fifo", "again", group="g1", dedup_id="7").sequence is not None
    assert world.counts("jobs.fifo") == (17, 2, 0), "the first send is remembered"
    world.delete("jobs.fifo", *held[1:])
    rest = list[str]()
    while messages := world.receive("jobs.fifo"):
        rest += [message.content.body for message in messages]
        world.delete("jobs.fifo", *messages)
    assert len(rest) == 17


# -- receives that meet such a message -----------------------------------------------------------------------


@pytest.mark.parametrize("visibility_ms", [None, 0])
def test_a_receive_with_a_message_under_a_disabled_key_fails_whole(
    world: EncryptedWorld, visibility_ms: int | None
) -> None:
    """It is as with SQS: no message is handed out, and none is hidden."""
    world.create("orders", **OTHER)
    send_mixed(world, "orders", "shut-1", "open-1")
    world.enable("alias/orders", False)
    for _ in range(2):
        with pytest.raises(KeyDisabled):
            world.receive("orders", visibility_ms=visibility_ms)
        assert world.counts("orders") == (2, 0, 0)
    world.enable("alias/orders", True)
    assert sorted(world.bodies("orders")) == ["open-1", "shut-1"]


def test_a_receive_that_fails_is_not_counted(world: EncryptedWorld) -> None:
    world.create("dead")
    world.create("orders", dead_letters=("dead", 1), **OTHER)
    send_mixed(world, "orders", "shut-1")
    world.enable("alias/orders", False)
    for _ in range(4):
        with pytest.raises(KeyDisabled):
            world.receive("orders")
        world.advance(2 * MINUTE)
    assert world.bodies("dead") == []
    world.enable("alias/orders", True)
    (message,) = world.receive("orders")
    assert (message.content.body, message.receives) == ("shut-1", 1)
    assert message.first_received_ms == world.clock.wall_ms()


def test_a_waiting_receive_fails_when_such_a_message_comes_back(world: EncryptedWorld) -> None:
    world.create("orders", **OTHER)
    send_mixed(world, "orders", "shut-1")
    world.receive("orders", visibility_ms=5 * SECOND)
    world.enable("alias/orders", False)
    poll = world.poll("orders")
    world.advance(5 * SECOND)
    with pytest.raises(KeyDisabled):
        poll.answer.result()
    assert world.counts("orders") == (1, 0, 0)


def test_after_a_restart_the_message_is_there(world: EncryptedWorld) -> None:
    world.create("orders", **OTHER)
    send_mixed(world, "orders", "shut-1")
    world.enable("alias/orders", False)
    assert received_or_refused(world, "orders") == []
    world.restart()
    assert world.counts("orders") == (1, 0, 0)


def test_the_keys_come_back_and_so_do_the_messages(world: EncryptedWorld) -> None:
    world.create("orders", **OTHER)
    send_mixed(world, "orders", *(f"shut-{n}" for n in range(12)))
    world.enable("alias/orders", False)
    with pytest.raises(KeyDisabled):
        world.receive("orders")
    world.enable("alias/orders", True)
    assert len(world.drain("orders")) == 12


@settings(max_examples=examples(40), deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=16),
    st.sampled_from([1, 3, 10]),
    st.sampled_from([ROOMY, TINY]),
    st.data(),
)
def test_no_group_is_ever_out_of_order(
    messages: list[tuple[str, bool]], count: int, limits: object, data: st.DataObject
) -> None:
    """Some are under a key that is disabled: what comes of a group is its first messages, in any interleaving."""
    choose: Callable[[int], int] = lambda choices: data.draw(st.integers(0, choices - 1))  # noqa: E731
    with EncryptedWorld(limits, choose) as world:  # type: ignore[arg-type]
        world.create("jobs.fifo", content_dedup=True, **OTHER)
        sent: dict[str, list[str]] = {"a": [], "b": [], "c": []}
        for n, (group, shut) in enumerate(messages):
            body = f"{'shut' if shut else 'open'}-{n}"
            send_mixed(world, "jobs.fifo", body, group=group)
            sent[group].append(body)
        world.enable("alias/orders", False)
        got: dict[str, list[str]] = {"a": [], "b": [], "c": []}
        _take_some(world, count, got)
        for group, bodies in sent.items():
            first_shut = next((n for n, body in enumerate(bodies) if body.startswith("shut")), len(bodies))
            assert got[group] == bodies[: len(got[group])]
            assert len(got[group]) <= first_shut
        world.enable("alias/orders", True)
        assert _take_some(world, count, got)
        assert got == sent


def _take_some(world: EncryptedWorld, count: int, got: dict[str, list[str]]) -> bool:
    """Receive and delete until a receive fails or finds nothing; True if all was received."""
    while found := received_messages(world, count):
        for message in found:
            assert message.group is not None
            got[message.group].append(message.content.body)
        world.delete("jobs.fifo", *found)
    return found is not None


def received_messages(world: EncryptedWorld, count: int) -> list[Received] | None:
    try:
        return world.receive("jobs.fifo", count)
    except KeyDisabled:
        return None
