"""Messages that are looked at: in any state and order, filtered, page by page, and without any change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from broker.encrypted_world import KMS, EncryptedWorld
from penstock.broker import inspection
from penstock.broker.inspection import MessagePage, MessageView
from penstock.errors import (
    FilterInvalid,
    FilterTooSlow,
    MessageNotAvailable,
    QueueMissing,
    SearchUnfinished,
    StoreFull,
)
from penstock.limits import DAY, HOUR, MINUTE
from penstock.queues.filters import MessageFilter
from penstock.queues.messages import Attribute, State
from penstock.store.port import LAST, Order
from support.cluster import Cluster
from support.world import SECOND, World

KINDS = pytest.mark.parametrize("name", ["q", "q.fifo"])
ORDERS = pytest.mark.parametrize("order", list(Order))


def page(world: World, name: str, filter: MessageFilter | None = None, **more: Any) -> MessagePage:
    queue = world.queue(name)
    return world.do(
        world.broker.partition_of(queue).inspection.list(queue, filter or MessageFilter(), **more)
    )


def pages(world: World, name: str, filter: MessageFilter | None = None, **more: Any) -> Iterator[MessagePage]:
    after: str | None = None
    while True:
        found = page(world, name, filter, after=after, **more)
        yield found
        after = found.next
        if after is None:
            return


def views(world: World, name: str, filter: MessageFilter | None = None, **more: Any) -> list[MessageView]:
    return [view for found in pages(world, name, filter, **more) for view in found.messages]


def bodies(world: World, name: str, filter: MessageFilter | None = None, **more: Any) -> list[str]:
    found = views(world, name, filter, **more)
    return [view.content.body for view in found if view.content is not None]


@KINDS
def test_messages_of_any_state_are_seen(world: World, name: str) -> None:
    world.create(name, visibility_ms=MINUTE, delay_ms=0)
    for i in range(6):
        world.send(name, f"m{i}", group=f"g{i}")
    world.receive(name, 2)
    assert bodies(world, name) == [f"m{i}" for i in range(6)]
    states = [view.state for view in views(world, name)]
    assert sorted(states) == [State.READY] * 4 + [State.IN_FLIGHT] * 2
    assert len(bodies(world, name, MessageFilter(state="in_flight"))) == 2
    assert len(bodies(world, name, MessageFilter(state="visible"))) == 4
    world.advance(MINUTE)
    assert {view.state for view in views(world, name)} == {State.READY}
    assert [view.row.receives for view in views(world, name)].count(1) == 2


@ORDERS
def test_delayed_messages(world: World, order: Order) -> None:
    world.create("q")
    world.send("q", "now")
    world.send("q", "later", delay_ms=MINUTE)
    world.send("q", "soon", delay_ms=SECOND)
    assert bodies(world, "q", MessageFilter(state="visible"), order=order) == ["now"]
    delayed = ["soon", "later"] if order is Order.DUE else ["later", "soon"]
    assert bodies(world, "q", MessageFilter(state="delayed"), order=order) == delayed
    world.advance(SECOND)
    assert bodies(world, "q", MessageFilter(state="delayed"), order=order) == ["later"]


@ORDERS
def test_the_delay_of_a_fifo_queue(world: World, order: Order) -> None:
    world.create("q.fifo", delay_ms=10 * SECOND)
    world.send("q.fifo", "old", group="g")
    world.advance(9 * SECOND)
    world.send("q.fifo", "young", group="g")
    world.advance(SECOND)
    assert bodies(world, "q.fifo", MessageFilter(state="delayed"), order=order) == ["young"]
    assert bodies(world, "q.fifo", MessageFilter(state="visible"), order=order) == ["old"]
    assert world.counts("q.fifo") == (1, 0, 1)


def test_the_orders(world: World) -> None:
    world.create("q", visibility_ms=MINUTE)
    world.send("q", "late", delay_ms=10 * MINUTE)
    world.advance(SECOND)
    world.send("q", "received")
    world.receive("q", 1)
    world.advance(SECOND)
    world.send("q", "plain")
    (first, *_) = views(world, "q")
    queue = world.queue("q")
    world.do(world.broker.partition_of(queue).editing.move_to_back(queue, first.row.seq))
    assert bodies(world, "q") == ["received", "plain", "late"]
    assert bodies(world, "q", order=Order.AGE) == ["late", "received", "plain"]
    assert bodies(world, "q", order=Order.DUE) == ["plain", "received", "late"]


@KINDS
@ORDERS
@pytest.mark.parametrize("limit", [1, 3, 100])
def test_pages_bring_every_message_once(world: World, name: str, order: Order, limit: int) -> None:
    world.create(name, visibility_ms=HOUR)
    sent = [f"m{i:02}" for i in range(20)]
    for i, body in enumerate(sent):
        world.send(name, body, group=f"g{i % 7}")
        world.advance(i % 3)
    world.receive(name, 5)
    found = list(pages(world, name, order=order, limit=limit))
    assert sorted(view.content.body for one in found for view in one.messages if view.content) == sent
    assert sum(one.looked_at for one in found) == 20
    assert all(len(one.messages) == limit for one in found[:-1])


def test_a_listing_goes_on_while_messages_come_and_go(world: World) -> None:
    world.create("q", visibility_ms=HOUR)
    world.send_all("q", *"abcdef")
    first = page(world, "q", limit=2)
    for message in world.drain_up_to("q", 3):
        world.delete("q", message)
    world.send("q", "g")
    rest = page(world, "q", after=first.next, limit=100)
    seen = [view.content.body for view in rest.messages if view.content]
    gone = set("abcdef") - {
        body for view in views(world, "q") if (body := view.content and view.content.body)
    }
    assert seen == [body for body in "cdefg" if body not in gone]
    assert rest.next is None


def test_few_messages_are_looked_at_per_call(world: World) -> None:
    world.create("q")
    world.send_all("q", *[f"m{i:02}" for i in range(30)])
    found = page(world, "q", MessageFilter(body="m29"), looked_max=10)
    assert (found.messages, found.looked_at) == ([], 10)
    assert found.next is not None
    all_pages = list(pages(world, "q", MessageFilter(body="m29"), looked_max=10))
    assert [len(one.messages) for one in all_pages][:3] == [0, 0, 1]
    assert sum(one.looked_at for one in all_pages) == 30


def test_few_bytes_are_looked_at_per_call(roomy: World) -> None:
    roomy.create("q")
    for i in range(12):
        roomy.send("q", str(i) + "x" * 1_000_000)
    found = list(pages(roomy, "q", MessageFilter(regex="^1")))
    assert found[0].looked_at in (4, 5)
    assert sum(one.looked_at for one in found) == 12
    assert sum(len(one.messages) for one in found) == 3


def test_the_size_of_a_page(world: World) -> None:
    world.create("q")
    world.send_all("q", *["x" * 1000] * 6)
    found = list(pages(world, "q", size_max=2500, with_content=False))
    assert [len(one.messages) for one in found] == [3, 3]
    assert [len(one.messages) for one in pages(world, "q", size_max=1)] == [1] * 6


def test_contents_are_read_only_where_needed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.create("q")
    world.send_all("q", "a", "b", "c")
    world.receive("q", 1, visibility_ms=HOUR)
    read: list[int] = []
    contents = world.store.contents

    def counted(seqs: Sequence[int]) -> dict[int, bytes]:
        read.extend(seqs)
        return contents(seqs)

    monkeypatch.setattr(world.store, "contents", counted)
    assert len(views(world, "q", with_content=False)) == 3
    assert read == []
    in_flight = views(world, "q", MessageFilter(state="in_flight"))
    assert read == [view.row.seq for view in in_flight]
    assert len(views(world, "q", MessageFilter(body="b"), with_content=False)) == 1


def test_filters(world: World) -> None:
    world.create("q")
    world.send("q", '{"id": 1}', attributes={"kind": Attribute("String", "a")}, group="g1")
    world.advance(MINUTE)
    world.send("q", '{"id": 2}', group="g2")
    for order in Order:
        for expected, wanted in [
            ([1], MessageFilter(json="$.id < 2")),
            ([2], MessageFilter(group="g2")),
            ([1], MessageFilter(attribute=("kind=a",))),
            ([1], MessageFilter(older_than_s=60)),
            ([2], MessageFilter(younger_than_s=59.9)),
            ([1, 2], MessageFilter(younger_than_s=60)),
            ([], MessageFilter(receives_min=1)),
            ([2], MessageFilter(regex="2")),
        ]:
            assert bodies(world, "q", wanted, order=order) == [f'{{"id": {i}}}' for i in expected]


@KINDS
def test_a_receive_that_is_not_durable_counts(world: World, name: str) -> None:
    world.create(name, visibility_ms=HOUR)
    world.send(name, "a", group="g")
    world.counts(name)
    world.hold_commits()
    world.poll(name, 1)
    listing = world.start(
        world.broker.partition_of(world.queue(name)).inspection.list(world.queue(name), MessageFilter())
    )
    world.release_commits()
    assert [view.state for view in listing.result().messages] == [State.IN_FLIGHT]


def test_a_receive_during_the_listing_counts(world: World) -> None:
    world.create("q", visibility_ms=HOUR)
    world.send("q", "a")
    world.counts("q")
    queue = world.queue("q")
    world.runtime.reader.paused = True
    listing = world.start(world.broker.partition_of(queue).inspection.list(queue, MessageFilter()))
    world.run()
    poll = world.poll("q", 1)
    world.runtime.reader.paused = False
    world.run()
    assert poll.done
    (view,) = listing.result().messages
    assert (view.state, view.row.receives) == (State.IN_FLIGHT, 1)


def test_a_delete_that_is_not_durable_counts(world: World) -> None:
    world.create("q", visibility_ms=HOUR)
    world.send_all("q", "a", "b")
    (received,) = world.receive("q", 1)
    world.advance(SECOND)
    queue = world.queue("q")
    world.runtime.reader.paused = True
    listing = world.start(world.broker.partition_of(queue).inspection.list(queue, MessageFilter()))
    world.run()
    world.hold_commits()
    world.start(queue.delete([received.handle]))
    world.runtime.reader.paused = False
    world.run()
    (left,) = listing.result().messages
    assert left.content is not None
    assert left.content.body != received.content.body
    world.release_commits()


def test_a_delete_while_contents_are_read_counts(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.create("q", visibility_ms=HOUR)
    world.send_all("q", "a", "b")
    (received,) = world.receive("q", 1)
    world.advance(SECOND)
    queue, contents = world.queue("q"), world.store.contents

    def contents_and_delete(seqs: Any) -> dict[int, bytes]:
        found = contents(seqs)
        world.start(queue.delete([received.handle]))
        return found

    monkeypatch.setattr(world.store, "contents", contents_and_delete)
    (left,) = page(world, "q").messages
    assert left.content is not None
    assert left.content.body != received.content.body


@pytest.mark.slow
@KINDS
def test_what_is_deleted_purged_or_expired_is_not_seen(world: World, name: str) -> None:
    world.create(name, visibility_ms=HOUR, retention_ms=DAY)
    world.send(name, "old", group="g0")
    world.advance(DAY - MINUTE)
    world.send_all(name, "a", "b", group="g")
    world.advance(MINUTE)
    assert bodies(world, name) == ["a", "b"]
    world.hold_commits()
    world.advance(SECOND)
    queue = world.queue(name)
    world.start(world.broker.purge(queue))
    listing = world.start(world.broker.partition_of(queue).inspection.list(queue, MessageFilter()))
    world.release_commits()
    assert listing.result().messages == []


def test_a_deleted_queue(world: World) -> None:
    world.create("q")
    world.send("q", "a")
    queue = world.queue("q")
    world.runtime.reader.paused = True
    listing = world.start(world.broker.partition_of(queue).inspection.list(queue, MessageFilter()))
    world.run()
    world.drop("q")
    world.runtime.reader.paused = False
    world.run()
    with pytest.raises(QueueMissing):
        listing.result()
    with pytest.raises(QueueMissing):
        world.broker.partition_of(queue)


@KINDS
def test_looking_changes_nothing(world: World, name: str) -> None:
    world.create("dead" + name[1:])
    world.create(name, visibility_ms=MINUTE, dead_letters=("dead" + name[1:], 2))
    for i in range(12):
        world.send(name, f"m{i:02}", group=f"g{i % 3}")
    earlier = {message.content.body for message in world.receive(name, 3)}
    world.advance(SECOND)
    world.counts(name)
    before = everything(world, name)
    for order in Order:
        for wanted in (MessageFilter(), MessageFilter(body="m1"), MessageFilter(state="in_flight")):
            views(world, name, wanted, order=order, limit=5)
    for view in views(world, name):
        assert view.content is not None
        world.do(
            world.broker.partition_of(world.queue(name)).inspection.get(world.queue(name), view.content.id)
        )
    assert everything(world, name) == before
    world.advance(MINUTE)
    received = {message.content.body: message.receives for message in world.drain_up_to(name, 12)}
    assert received == {body: 2 if body in earlier else 1 for body in received}
    assert received.keys() >= earlier


def everything(world: World, name: str) -> Any:
    """All that the store and memory know of a queue and its dead-letter queue."""
    memory = []
    for short in (name, "dead" + name[1:]):
        backlog = world.queue(short).rules.backlog
        entries = sorted(
            (seq, entry.state, entry.position, entry.due_ms, entry.receives, entry.first_received_ms)
            for seq, entry in backlog.index.items()
        )
        counts = (
            backlog.total,
            backlog.in_flight,
            backlog.delayed,
            sorted(backlog.timers),
            backlog.budget.used,
        )
        memory.append((entries, counts, {group: vars_of(lane) for group, lane in backlog.lanes.items()}))
    stored = world.store.scan(0, LAST, LAST, LAST), world.store.end(), world.store.usage()
    return memory, stored, world.shard.changes.number, bool(world.shard.changes)


def vars_of(lane: Any) -> tuple[Any, ...]:
    return lane.ready, lane.in_flight, lane.stored, lane.loaded_to


def test_a_listing_while_the_store_is_full(world: World) -> None:
    world.create("q", visibility_ms=HOUR)
    world.send_all("q", "a", "b")
    world.store.full = True
    with pytest.raises(StoreFull):
        world.send("q", "c")
    assert bodies(world, "q") == ["a", "b"]


@KINDS
def test_one_message_by_its_id(world: World, name: str) -> None:
    world.create(name)
    sent = [world.send(name, f"m{i}", group="g") for i in range(12)]
    queue = world.queue(name)
    inspection = world.broker.partition_of(queue).inspection
    for i, each in enumerate(sent):
        view = world.do(inspection.get(queue, each.id))
        assert view.content is not None
        assert view.content.body == f"m{i}"
        assert world.do(inspection.find(queue, each.id)) == view.row.seq
    world.create("other")
    (elsewhere,) = world.send_all("other", "x")
    for unknown in (elsewhere.id, "no id", "", "00000000-0000-4000-8000-000000000000"):
        with pytest.raises(MessageNotAvailable):
            world.do(inspection.get(queue, unknown))
    world.purge(name)
    with pytest.raises(MessageNotAvailable):
        world.do(inspection.get(queue, sent[0].id))


def test_a_dead_letter_of_another_shard_is_found_by_its_id() -> None:
    with Cluster() as cluster:
        dead, work = cluster.name("dead", 1, ""), cluster.name("work", 0, "")
        cluster.node(dead).create(dead)
        cluster.node(work).create(work, dead_letters=(dead, 1), visibility_ms=SECOND)
        ids = {body: cluster.node(work).send(work, body).id for body in ("a", "b")}
        while cluster.node(work).drain(work):
            cluster.advance(SECOND)
        cluster.advance(SECOND)
        world = cluster.node(dead)
        queue = world.queue(dead)
        for body, id in ids.items():
            view = world.do(world.broker.partition_of(queue).inspection.get(queue, id))
            assert view.content is not None
            assert (view.content.id, view.content.body) == (id, body)
            assert view.row.source is not None


def test_the_search_for_an_id_goes_through_a_long_queue_and_ends_in_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspection, "CONTENT_BYTES_MAX", 1)  # of a page; one message is always read
    world.create("q")
    for i in range(9):
        world.send("q", f"m{i}")
    missing = "2a3f0a7e-9f0c-4d5b-8a53-1d2c3b4a5968"  # made by another shard
    look = world.broker.partition_of(world.queue("q")).inspection
    with pytest.raises(MessageNotAvailable) as all_looked_at:
        world.do(look.find(world.queue("q"), missing))
    assert not isinstance(all_looked_at.value, SearchUnfinished)
    monkeypatch.setattr(inspection, "_SEARCH_MS_MAX", 0)
    with pytest.raises(SearchUnfinished):
        world.do(look.find(world.queue("q"), missing))


def test_what_no_message_can_have_as_its_id_is_not_searched_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspection, "_SEARCH_MS_MAX", 0)
    monkeypatch.setattr(inspection, "CONTENT_BYTES_MAX", 1)
    world.create("q")
    world.send("q", "a")
    world.send("q", "b")
    for text in ("A-101", "", "x" * 5000):
        with pytest.raises(MessageNotAvailable) as missing:
            world.do(world.broker.partition_of(world.queue("q")).inspection.find(world.queue("q"), text))
        assert not isinstance(missing.value, SearchUnfinished)


def test_a_slow_regular_expression_ends_the_listing(world: World) -> None:
    world.create("q")
    world.send("q", "a" * 200 + "b")
    with pytest.raises(FilterTooSlow):
        page(world, "q", MessageFilter(regex="^(a|aa)+$"))


def test_other_reads_wait_for_few_of_many_searches(world: World) -> None:
    world.create("q")
    world.send("q", "a")
    queue = world.queue("q")
    inspection = world.broker.partition_of(queue).inspection
    searches = [world.start(inspection.list(queue, MessageFilter(regex="a"))) for _ in range(20)]
    listing = world.start(inspection.list(queue, MessageFilter()))
    while not listing.done:
        assert world.runtime.step()
    assert sum(search.done for search in searches) <= 2
    world.run()
    assert all(len(search.result().messages) == 1 for search in searches)


@pytest.mark.parametrize("after", ["x", "é", "AAAA", "", "k6hwb3NpdGlvbv__"])
def test_a_cursor_that_is_none(world: World, after: str) -> None:
    world.create("q")
    with pytest.raises(FilterInvalid, match="next"):
        page(world, "q", after=after)


def test_a_cursor_of_another_order(world: World) -> None:
    world.create("q")
    world.send_all("q", "a", "b")
    after = page(world, "q", limit=1).next
    with pytest.raises(FilterInvalid, match="order=position"):
        page(world, "q", after=after, order=Order.AGE)


def test_contents_under_a_disabled_key_are_not_shown() -> None:
    with EncryptedWorld() as world:
        world.create("q", **KMS)
        sent = world.send("q", "secret")
        world.configure("q", managed_key=False, encryption_key=None)
        world.send("q", "plain")
        assert bodies(world, "q") == ["secret", "plain"]
        world.enable("alias/orders", False)
        listed = views(world, "q")
        assert [(view.content and view.content.body, view.unreadable) for view in listed] == [
            (None, True),
            ("plain", False),
        ]
        assert bodies(world, "q", MessageFilter(body="")) == ["plain"]
        queue = world.queue("q")
        assert world.do(world.broker.partition_of(queue).inspection.get(queue, sent.id)).unreadable
        world.configure("q", **KMS)
        assert [view.unreadable for view in views(world, "q")] == [True, True]
        assert views(world, "q", MessageFilter(body="")) == []
