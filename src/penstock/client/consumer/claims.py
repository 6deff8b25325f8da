"""Claims: how long received messages stay hidden for this worker, and when that is extended.

A message is extended when half of its visibility timeout has passed, together with those that are due soon. A
request that fails is repeated until the message is visible again by the worker's own clock: then it is lost, whatever
the queue would answer. SQS: a standard queue accepts an old receipt handle even while another consumer has the
message.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.client.limits import VISIBILITY_S_MAX

_RENEW_AT = 0.5  # of the visibility timeout
_TOGETHER = 0.15  # what is due within this part of the visibility timeout is extended in the same request
_REPEAT_AFTER = 0.25  # of the time that is left
_REPEAT_S_MIN = 0.2
_TOTAL_S_MAX = VISIBILITY_S_MAX - 5  # requests take time


class Claim:
    """One received message. Times are seconds of a monotonic clock."""

    __slots__ = ("end_at", "is_lost", "message", "opened", "received_at", "renew_at", "until", "wanted_s")

    def __init__(self, message: Any, now: float, until: float, end_at: float, renew_at: float) -> None:
        self.message = message
        self.opened = message  # as handlers see it
        self.received_at = now
        self.until = until  # visible again, unless it is extended
        self.end_at = end_at  # not extended beyond this
        self.renew_at = renew_at
        self.wanted_s = 0.0  # asked for by the handler
        self.is_lost = False


class HeldClaims:
    """The messages that one consumer has received and not settled."""

    def __init__(self, visibility_s: int, processing_s_max: float, *, heartbeat: bool = True) -> None:
        """``processing_s_max``: a message that waits or is handled is kept hidden for at most this long."""
        self._visibility_s = visibility_s
        self._processing_s_max = processing_s_max
        self._heartbeat = heartbeat
        self._held: dict[int, Claim] = {}  # by identity

    def __len__(self) -> int:
        return len(self._held)

    def all(self) -> list[Claim]:
        """All claims, in the order in which their messages were received."""
        return list(self._held.values())

    def take(self, message: Any, now: float) -> Claim:
        claim = Claim(
            message, now, now + self._visibility_s, now + min(self._processing_s_max, _TOTAL_S_MAX),
            now + self._visibility_s * _RENEW_AT if self._heartbeat else float("inf"),
        )  # fmt: skip
        self._held[id(claim)] = claim
        return claim

    def begin(self, claim: Claim, now: float) -> None:
        """The handler starts: the time that the message has waited does not count."""
        self._set_end(claim, now + self._processing_s_max)

    def extend(self, claim: Claim, seconds: float, now: float) -> None:
        """The handler needs at least this many more seconds."""
        self._set_end(claim, max(claim.end_at, now + seconds))
        if claim.until < now + seconds and not self._heartbeat:
            claim.wanted_s = seconds
            claim.renew_at = now

    def release(self, claim: Claim) -> bool:
        """Forget a claim that is settled or given back. Returns False if it was lost before."""
        return self._held.pop(id(claim), None) is not None

    # -- heartbeats ------------------------------------------------------------------------------------------

    def next_at(self) -> float:
        """When something has to be extended, or is lost."""
        return min((min(claim.renew_at, claim.until) for claim in self._held.values()), default=float("inf"))

    def due(self, now: float) -> list[tuple[Claim, int]]:
        """Which to extend now, each with its new visibility timeout; none if nothing is due yet."""
        if self.next_at() > now:
            return []
        soon = now + self._visibility_s * _TOGETHER
        due = []
        for claim in self._held.values():
            if claim.renew_at > soon or claim.until <= now:
                continue
            wanted_s = max(self._visibility_s, claim.wanted_s)
            seconds = int(min(wanted_s, claim.end_at - now))
            if now + seconds <= claim.until:
                claim.renew_at = float("inf")  # it has what it may have
            else:
                due.append((claim, seconds))
        return due

    def extended(self, claim: Claim, seconds: int, asked_at: float) -> None:
        claim.until = asked_at + seconds
        claim.wanted_s = 0.0
        claim.renew_at = asked_at + seconds * _RENEW_AT if self._heartbeat else float("inf")

    def not_extended(self, claims: Iterable[Claim], now: float) -> None:
        """Extend these claims again soon, as long as there is time: there was no answer, or one that says nothing
        about the messages."""
        for claim in claims:
            claim.renew_at = now + max(_REPEAT_S_MIN, (claim.until - now) * _REPEAT_AFTER)

    def refused(self, claim: Claim) -> bool:
        """Note that a message is not this worker's any more, as the queue says. Returns False if it was settled
        before."""
        claim.is_lost = claim.is_lost or self.release(claim)
        return claim.is_lost

    def ended(self, now: float) -> list[Claim]:
        """Returns the claims on messages that are visible again by now: they are lost."""
        lost = [claim for claim in self._held.values() if claim.until <= now]
        for claim in lost:
            self.refused(claim)
        return lost

    def _set_end(self, claim: Claim, end_at: float) -> None:
        if claim.end_at < end_at and claim.renew_at == float("inf") and self._heartbeat:
            claim.renew_at = claim.until - self._visibility_s * _RENEW_AT
        claim.end_at = min(end_at, claim.received_at + _TOTAL_S_MAX)
