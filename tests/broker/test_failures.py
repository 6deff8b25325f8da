"""Reports of consumers stay with the message, wherever it goes, and go with it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from penstock.broker.failures import (
    DETAIL_MAX,
    REASON_MAX,
    REPORTS_PER_MESSAGE,
    FailureReport,
    Failures,
)
from penstock.broker.shard import RecordTable
from penstock.errors import StoreError, StoreFull
from penstock.names import Requester
from penstock.store.port import LAST, Selection
from support.shards import ShardsWorld
from support.world import DAY, SECOND, World

CONSUMER = Requester("alice (AKIA1)", "10.0.0.1", "consumer/1.0")


@pytest.fixture
def shards() -> Iterator[ShardsWorld]:
    with ShardsWorld() as world:
        yield world


def report(world: World, name: str, seq: int, reason: str = "timeout", detail: str | None = None) -> None:
    queue = world.queue(name)
    asked = world.broker.partition_of(queue).failures.report(
        queue, seq, FailureReport(reason, detail), CONSUMER
    )
    world.do(asked)


def reasons(world: World, name: str, seq: int) -> list[str]:
    return [each.reason for each in world.broker.partition_of(world.queue(name)).failures.of(seq)]


def seqs(world: World, name: str) -> list[int]:
    return [row.seq for row in world.stored(name)]


def seqs_in(shards: ShardsWorld, name: str, shard: int) -> list[int]:
    rows = shards.stores[shard].select(Selection(shards.queue(name).id), rows_max=LAST)
    return [row.seq for row in rows]


def test_a_report_is_kept_with_the_message_and_in_its_history(world: World) -> None:
    world.create("q")
    world.send("q", "a")
    (seq,) = seqs(world, "q")
    queue = world.queue("q")
    given = FailureReport("timeout", "no answer from db", attempt=2, worker="host-7")
    world.do(world.broker.partition_of(queue).failures.report(queue, seq, given, CONSUMER))
    (kept,) = world.broker.partition_of(queue).failures.of(seq)
    assert kept == FailureReport("timeout", "no answer from db", 2, "host-7", world.clock.wall_ms())
    last = queue.history(seq).events[-1]
    assert (last.event, last.requester, last.detail) == ("failed", CONSUMER, "timeout")


def test_reports_survive_a_restart(world: World) -> None:
    world.create("q")
    world.send("q", "a")
    (seq,) = seqs(world, "q")
    report(world, "q", seq)
    world.crash()
    assert reasons(world, "q", seq) == ["timeout"]
    (received,) = world.receive("q")
    world.delete("q", received)
    assert reasons(world, "q", seq) == []
    world.crash()
    assert reasons(world, "q", seq) == []


def test_a_refused_report_is_not_kept(world: World) -> None:
    world.create("q")
    world.send("q", "a")
    (seq,) = seqs(world, "q")
    world.refuse_next_commit()
    with pytest.raises(StoreError):
        report(world, "q", seq)
    assert reasons(world, "q", seq) == []
    assert [each.event for each in world.queue("q").history(seq).events] == ["sent"]


def test_reports_follow_a_dead_letter_and_go_with_its_queue(world: World) -> None:
    world.create("dead")
    world.create("q", dead_letters=("dead", 1))
    world.send("q", "a")
    (seq,) = seqs(world, "q")
    world.receive("q", visibility_ms=SECOND)
    report(world, "q", seq)
    world.advance(2 * SECOND)
    assert world.receive("q") == []
    assert seqs(world, "dead") == [seq]
    world.drop("q")
    world.crash()
    assert reasons(world, "dead", seq) == ["timeout"]
    world.purge("dead")
    assert reasons(world, "dead", seq) == []


def test_reports_follow_a_dead_letter_to_another_shard(shards: ShardsWorld) -> None:
    dead, work = shards.name("dead", 1), shards.name("work", 0)
    shards.create(dead)
    shards.create(work, dead_letters=(dead, 1))
    shards.send(work, "a")
    (left,) = seqs_in(shards, work, 0)
    shards.receive(work, visibility_ms=SECOND)
    report(shards, work, left, "first")
    report(shards, work, left, "second")
    shards.advance(2 * SECOND)
    assert shards.receive(work) == []
    shards.advance(SECOND)
    (seq,) = seqs_in(shards, dead, 1)
    assert reasons(shards, dead, seq) == ["first", "second"]
    assert reasons(shards, work, left) == []
    history = shards.queue(dead).history(seq)
    assert [(each.event, each.detail) for each in history.events] == [("dead_lettered", f"from {work}")]
    assert not history.complete
    assert shards.queue(work).history(left).events[-1].event == "dead_lettered"


def test_a_moved_message_starts_again(world: World) -> None:
    world.create("dead")
    world.create("q", dead_letters=("dead", 1))
    world.send("dead", "a")
    (seq,) = seqs(world, "dead")
    report(world, "dead", seq)
    world.start_move("dead", "q")
    world.advance(SECOND)
    assert len(seqs(world, "q")) == 1
    assert reasons(world, "q", seqs(world, "q")[0]) == reasons(world, "q", seq) == []


# -- bounds --------------------------------------------------------------------------------------------------------


def test_long_texts_are_cut_and_the_last_reports_of_a_message_stay(world: World) -> None:
    world.create("q")
    world.send("q", "a")
    (seq,) = seqs(world, "q")
    for number in range(REPORTS_PER_MESSAGE + 2):
        report(world, "q", seq, f"{number}" + "x" * REASON_MAX, "y" * (DETAIL_MAX + 1))
    kept = world.broker.partition_of(world.queue("q")).failures.of(seq)
    assert [each.reason[0] for each in kept] == ["2", "3", "4", "5", "6"]
    assert {(len(each.reason), len(each.detail or "")) for each in kept} == {(REASON_MAX, DETAIL_MAX)}


def test_the_oldest_reports_of_a_shard_are_forgotten_first(world: World) -> None:
    queue = world.create("q")
    failures = Failures(world.shard, bytes_max=20_000)
    for seq in range(200):
        failures.add(queue.id, seq, [FailureReport("r", "d" * 100, at_ms=seq + 1)])
    left = [seq for seq in range(200) if failures.of(seq)]
    cost = FailureReport("r", "d" * 100).cost
    assert left == list(range(200 - 20_000 // cost, 200))


def test_after_a_restart_the_oldest_reports_are_forgotten_first(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = world.create("q")
    for seq, at_ms in ((1, 3), (2, 1), (10, 2), (9, 4)):
        world.broker.partition(0).failures.add(queue.id, seq, [FailureReport("r", at_ms=at_ms)])
    world.run()
    monkeypatch.setattr(
        "penstock.broker.partition.Failures", partial(Failures, bytes_max=4 * FailureReport("r").cost)
    )
    world.crash()
    failures = world.broker.partition(0).failures
    failures.add(queue.id, 1, [FailureReport("r", at_ms=5)])
    assert [seq for seq in (1, 2, 9, 10) if failures.of(seq)] == [1, 9, 10]
    failures.add(queue.id, 3, [FailureReport("r", at_ms=6)])
    assert [seq for seq in (1, 2, 3, 9, 10) if failures.of(seq)] == [1, 3, 9]


def test_reports_of_a_refused_commit_are_undone_without_a_look_at_the_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, report = world.create("q"), FailureReport("r", "d" * 100)
    failures = Failures(world.shard, bytes_max=200 * report.cost)
    for seq in range(200):
        failures.add(queue.id, seq, [report])
    world.run()
    looked_at, iterate = [], RecordTable.__iter__

    def counted(table: RecordTable[Any]) -> Iterator[tuple[str, Any]]:
        for each in iterate(table):
            looked_at.append(each)
            yield each

    monkeypatch.setattr(RecordTable, "__iter__", counted)
    world.refuse_next_commit()
    for seq in (*range(50, 100), *range(300, 350)):
        failures.add(queue.id, seq, [report])
    world.run()
    assert looked_at == []
    assert [seq for seq in range(400) if failures.of(seq)] == list(range(200)), "they are as before"
    assert failures._bytes == 200 * report.cost
    failures.add(queue.id, 400, [report])
    assert [seq for seq in range(401) if failures.of(seq)] == [*range(1, 200), 400]


def test_a_full_disk_refuses_reports_before_they_are_written(world: World) -> None:
    world.create("q")
    world.send("q", "a")
    (seq,) = seqs(world, "q")
    world.store.full = True
    with pytest.raises(StoreFull):
        world.send("q", "refused")
    appended, refused = len(world.store.appended), world.shard.refused_commits
    for _ in range(3):
        with pytest.raises(StoreFull):
            report(world, "q", seq)
    assert (len(world.store.appended), world.shard.refused_commits) == (appended, refused)


@pytest.mark.slow
def test_what_a_crash_left_behind_is_forgotten_when_no_message_can_be_so_old(world: World) -> None:
    world.create("q", retention_ms=14 * DAY)
    world.send("q", "a")
    (seq,) = seqs(world, "q")
    failures = world.broker.partition_of(world.queue("q")).failures
    failures.add(world.queue("q").id, 999_999, [FailureReport("lost", at_ms=world.clock.wall_ms())])
    report(world, "q", seq)
    world.advance(13 * DAY)
    assert failures.of(999_999) and failures.of(seq)
    world.advance(3 * DAY)
    assert not failures.of(999_999) and not failures.of(seq)
