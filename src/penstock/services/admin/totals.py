"""Sums over all queues, computed once for all callers who ask at about the same time.

Ten thousand queues are summed up in a tenth of a second of CPU time, and each open page of the console asks once a
second. So an answer serves all who ask, for twenty times as long as it took to find, but for five seconds at most:
much of the time may be spent in waiting for other work or another process. Up to some twenty thousand queues, sums
take a twentieth of the time, however many ask; those of a few hundred queues are never older than a moment.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Hashable
from functools import partial
from math import inf
from time import monotonic
from typing import Any

import msgspec

from penstock.broker.summaries import QueueTotals
from penstock.cache import BoundedCache
from penstock.promise import Promise, start

_SERVES = 20
_SERVES_MAX_S = 5.0
_ANSWERS_MAX = 64


class _Answer(msgspec.Struct):
    totals: Promise[QueueTotals]
    until_s: float = inf  # while it is being found


class RecentTotals:
    def __init__(self, now_s: Callable[[], float] = monotonic) -> None:
        self._now_s = now_s
        self._answers: BoundedCache[Hashable, _Answer] = BoundedCache(_ANSWERS_MAX)

    def of(
        self, which: Hashable, find: Callable[[], Coroutine[Any, None, QueueTotals]]
    ) -> Promise[QueueTotals]:
        """The sums over ``which`` queues: an earlier answer, or what ``find`` returns or raises."""
        known, began_s = self._answers.get(which), self._now_s()
        if known is not None and began_s < known.until_s:
            return known.totals
        answer = self._answers.put(which, _Answer(start(find())))
        answer.totals.on_done(partial(self._found, answer, began_s))
        return answer.totals

    def _found(self, answer: _Answer, began_s: float, totals: Promise[QueueTotals]) -> None:
        now_s = self._now_s()
        serves_s = 0.0 if totals.failed else min(_SERVES * (now_s - began_s), _SERVES_MAX_S)
        answer.until_s = now_s + serves_s
