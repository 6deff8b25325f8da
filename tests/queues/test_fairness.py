"""Fair queues: one tenant's backlog does not delay the others."""

from __future__ import annotations

import random
from collections import Counter

import msgspec
import pytest

from penstock.limits import MINUTE, SECOND, Limits
from penstock.queues.fairness import NoisyTenants
from penstock.queues.messages import Outgoing, State
from penstock.queues.standard import StandardQueue
from penstock.turns import finished
from queues.harness import Queues
from support.world import ROOMY

PAGED = msgspec.structs.replace(
    ROOMY, memory_budget_bytes=200_000, lane_window_max=64, refill_rows=64, lane_floor=8
)


def noisy_backlog(queues: Queues, messages: int) -> None:
    """This many messages of one tenant, sent in batches that are large so that this takes seconds, not minutes."""
    queues.create("q", visibility_ms=10 * MINUTE)
    batch = [Outgoing(body="noise", sender="AIDATEST", group="noisy")] * 5000
    for _ in range(messages // len(batch)):
        queues.send_messages("q", *batch)


def take_noise(queues: Queues, in_flight: int) -> None:
    taken = 0
    while taken < in_flight:
        taken += len(queues.receive("q", 10))


def test_a_quiet_tenant_is_served_at_once_behind_a_paged_backlog() -> None:
    queues = Queues(PAGED)
    noisy_backlog(queues, 100_000)
    assert len(queues.rules("q").backlog.index) < 2_000, "the backlog is not in memory"
    take_noise(queues, 30)
    queues.send("q", "quiet", group="other")
    assert "quiet" in queues.bodies("q", 10)
    assert queues.counts("q")[0] + queues.counts("q")[1] == 100_001


@pytest.mark.slow
def test_a_quiet_tenant_is_served_at_once_after_a_restart() -> None:
    queues = Queues(PAGED)
    noisy_backlog(queues, 100_000)
    take_noise(queues, 30)
    queues.send("q", "quiet", group="other")
    queues.reload()
    assert "quiet" in queues.bodies("q", 10) + queues.bodies("q", 10)


def test_messages_without_a_group_belong_to_no_tenant_and_are_quiet() -> None:
    queues = Queues(PAGED)
    noisy_backlog(queues, 5_000)
    take_noise(queues, 30)
    queues.send("q", "loose")
    assert "loose" in queues.bodies("q", 10)


def few(**more: float) -> Limits:
    return msgspec.structs.replace(ROOMY, noisy_in_flight_min=2, noisy_share=0.5, **more)


def test_a_tenant_below_its_share_is_not_noisy() -> None:
    queues = Queues(few())
    queues.create("q")
    queues.send_all("q", "n1", "n2", "n3", group="noisy")
    assert queues.bodies("q", 1) == ["n1"]
    queues.send("q", "quiet", group="other")
    assert queues.bodies("q", 1) == ["n2"], "one in flight makes no tenant noisy"
    assert queues.bodies("q", 1) == ["quiet"], "two of two do"


def test_quiet_tenants_are_served_oldest_first() -> None:
    queues = Queues(few())
    queues.create("q")
    queues.send_all("q", *[f"n{i}" for i in range(6)], group="noisy")
    queues.receive("q", 3)
    queues.send("q", "x1", group="x")
    queues.send("q", "y1", group="y")
    queues.send("q", "x2", group="x")
    assert queues.bodies("q", 10)[:3] == ["x1", "y1", "x2"]


def test_among_noisy_tenants_the_one_with_fewest_in_flight_is_next() -> None:
    queues = Queues(msgspec.structs.replace(ROOMY, noisy_in_flight_min=2, noisy_share=0.1))
    queues.create("q")
    queues.send_all("q", *[f"a{i}" for i in range(8)], group="a")
    queues.send_all("q", *[f"b{i}" for i in range(8)], group="b")
    took = "".join(body[0] for body in queues.bodies("q", 10))
    assert took[:2] == "aa" and took[2:4] == "bb"
    assert {took[4:6], took[6:8], took[8:10]} <= {"ab", "ba"}


def test_a_tenant_is_quiet_again_when_its_backlog_is_drained() -> None:
    queues = Queues(few())
    queues.create("q")
    queues.send_all("q", "n1", "n2", "n3", group="noisy")
    queues.send("q", "other", group="other")
    received = queues.receive("q", 10)
    assert [message.content.body for message in received] == ["n1", "n2", "other", "n3"]
    queues.delete("q", *received[:2])
    queues.send("q", "back", group="noisy")
    queues.send("q", "later", group="third")
    assert queues.bodies("q", 2) == ["back", "later"], "oldest first: no tenant is noisy"


def test_a_tenant_is_quiet_again_five_minutes_after_its_last_send() -> None:
    queues = Queues(few())
    queues.create("q", visibility_ms=60 * MINUTE)
    queues.send_all("q", *[f"n{i}" for i in range(6)], group="noisy")
    queues.send("q", "q0", group="quiet")
    assert queues.bodies("q", 4) == ["n0", "n1", "q0", "n2"]
    queues.advance(5 * MINUTE + SECOND)
    queues.send("q", "q1", group="quiet")
    assert queues.bodies("q", 10) == ["n3", "n4", "n5", "q1"], "oldest first: no tenant is noisy any more"


@pytest.mark.parametrize("seed", range(5))
def test_what_noisy_tenants_have_is_counted(seed: int) -> None:
    """Against a walk over all messages."""
    chance = random.Random(seed)
    queues = Queues(few())
    queues.create("q", visibility_ms=3 * SECOND)
    counts = Counter[int]()
    for _ in range(150):
        group = chance.choice([None, "a", "b", "noisy", "noisy", "noisy"])
        queues.send("q", "x", group=group, delay_ms=chance.choice([0, 0, 4 * SECOND]))
        if chance.random() < 0.6:
            for received in queues.receive("q", chance.randrange(1, 5)):
                if chance.random() < 0.4:
                    queues.delete("q", received)
        queues.advance(chance.randrange(SECOND))
        rules = queues.rules("q")
        assert isinstance(rules, StandardQueue)
        found = finished(rules.noisy_tenants(queues.clock.now_ms()))
        noisy = rules._fairness.noisy(queues.clock.now_ms())
        entries = list(rules.backlog.index.values())
        quiet = [
            each.enqueued_ms for each in entries if each.group not in noisy and not rules.is_set_aside(each)
        ]
        states = Counter(each.state for each in entries if each.group in noisy)
        assert found == NoisyTenants(
            len(noisy), states[State.READY], states[State.IN_FLIGHT], states[State.DELAYED], min(quiet, default=None)
        )  # fmt: skip
        counts[len(noisy)] += 1
    assert len(counts) > 1


def test_the_walk_over_messages_ends_with_the_last_one_that_matters() -> None:
    queues = Queues(few())
    queues.create("q", visibility_ms=10 * MINUTE)
    queues.send("q", "quiet", group="quiet")
    queues.send_messages("q", *[Outgoing(body="noise", sender="AIDATEST", group="noisy")] * 3500)
    take_noise(queues, 20)
    rules = queues.rules("q")
    assert isinstance(rules, StandardQueue)
    found = rules.noisy_tenants(queues.clock.now_ms())
    with pytest.raises(StopIteration):
        next(found)
    queues.send("q", "quiet", group="other")
    found = rules.noisy_tenants(queues.clock.now_ms())
    next(found)
    assert finished(found).tenants == 1
