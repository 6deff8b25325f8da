"""How many deliveries a second an endpoint gets: each delivery has a slot, and waits until its time has come."""

from __future__ import annotations

from penstock.limits import SECOND


class Throttles:
    """The slots of everything in a shard that has a limit."""

    def __init__(self) -> None:
        self._next_ms: dict[str, float] = {}  # of each thing, the first slot that is free
        self._reserved: dict[str, float] = {}  # slots of jobs that were put off, by the id of the job

    def wait_ms(self, of: str, per_second: float, job: str, now_ms: int, burst: int = 0) -> int:
        """Returns how long a job waits for its slot, from now on. Its slot is its own until :meth:`release`. ``of``:
        the ARN of a subscription, or what else has a limit. ``burst``: how many do not wait for those before them."""
        slot_ms = self._reserved.get(job)
        if slot_ms is None:
            if len(self._next_ms) > len(self._reserved) + 1000:
                self._forget_past(now_ms)
            interval_ms = SECOND / per_second
            next_ms = max(float(now_ms), self._next_ms.get(of, 0.0))
            self._next_ms[of] = next_ms + interval_ms
            self._reserved[job] = slot_ms = max(float(now_ms), next_ms - burst * interval_ms)
        return max(0, round(slot_ms - now_ms))

    def release(self, job: str) -> None:
        """The job has used its slot, or has no need of one any more."""
        self._reserved.pop(job, None)

    def _forget_past(self, now_ms: int) -> None:
        self._next_ms = {name: next_ms for name, next_ms in self._next_ms.items() if next_ms > now_ms}
