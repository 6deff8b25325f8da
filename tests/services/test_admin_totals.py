"""Sums over all queues serve everybody who asks, for a while that depends on what they cost."""

from __future__ import annotations

import pytest

from penstock.broker.summaries import QueueTotals
from penstock.errors import Unreachable
from penstock.promise import Promise
from penstock.services.admin.totals import RecentTotals


class Finding:
    """Finds 1, 2, 3, … queues, when the test says so; under a clock that the test controls."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.recent = RecentTotals(lambda: self.now_s)
        self.asked: list[Promise[QueueTotals]] = []

    def ask(self, which: str = "all") -> Promise[QueueTotals]:
        return self.recent.of(which, self.find)

    async def find(self) -> QueueTotals:
        self.asked.append(Promise())
        return await self.asked[-1]

    def answer_after(self, seconds: float) -> None:
        self.now_s += seconds
        self.asked[-1].resolve(QueueTotals(queues=len(self.asked)))


def test_an_answer_serves_for_twenty_times_as_long_as_it_took() -> None:
    finding = Finding()
    first, meanwhile = finding.ask(), finding.ask()
    assert len(finding.asked) == 1 and not first.done
    finding.answer_after(0.1)
    assert first.result() == meanwhile.result() == QueueTotals(queues=1)
    finding.now_s += 1.9
    assert finding.ask().result().queues == 1
    finding.now_s += 0.2
    later = finding.ask()
    assert not later.done and len(finding.asked) == 2
    finding.answer_after(0.0)
    assert later.result().queues == 2
    assert not finding.ask().done  # it cost nothing, and is not kept


def test_no_answer_serves_for_long() -> None:
    finding = Finding()
    finding.ask()
    finding.answer_after(30)  # of waiting for another process, for example
    finding.now_s += 4.9
    assert finding.ask().result().queues == 1
    finding.now_s += 0.2
    assert not finding.ask().done and len(finding.asked) == 2


def test_questions_about_other_queues_have_answers_of_their_own() -> None:
    finding = Finding()
    finding.ask("all")
    finding.answer_after(1)
    finding.ask("orders")
    finding.answer_after(1)
    assert (finding.ask("all").result().queues, finding.ask("orders").result().queues) == (1, 2)


def test_a_failure_is_not_remembered() -> None:
    finding = Finding()
    failed = finding.ask()
    finding.now_s += 5
    finding.asked[-1].fail(Unreachable("no answer"))
    with pytest.raises(Unreachable):
        failed.result()
    again = finding.ask()
    finding.answer_after(1)
    assert again.result().queues == 2
