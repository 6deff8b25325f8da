"""How a queue is consumed."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from penstock.client.consumer.retry import RetryPolicy
from penstock.client.limits import VISIBILITY_S_MAX, WAIT_S_MAX

if TYPE_CHECKING:
    from penstock.client.signatures import SignatureVerifier


@dataclass(frozen=True, kw_only=True)
class ConsumerSettings:
    """The settings of a consumer: keyword arguments of :class:`Worker`, its handlers and :class:`Consumer`.

    Times are in seconds.

        app = Worker(concurrency=20, processing_s_max=600)

    :raises ValueError: A value is invalid.
    """

    concurrency: int = 10
    """How many calls of the handler run at the same time; 10 by default."""
    prefetch: int = 10
    """How many messages may wait here for each of these calls, if they can be begun within two seconds. By default
    10."""
    visibility_timeout: int | None = None
    """How long messages are hidden without a heartbeat; None (the default): as the queue says."""
    heartbeat: bool = True
    """Whether messages are kept hidden for longer than that while they wait or are handled; True by default."""
    processing_s_max: float = 3600.0
    """How long one call may take, unless it asks for more; 3,600 seconds by default."""
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    """What follows a failure; :class:`RetryPolicy` with its defaults by default."""
    delete_on_give_up: bool = False
    """Whether messages that are given up are deleted, instead of sent to the dead-letter queue; False by default."""
    batch_size: int | None = None
    """The handler gets lists of up to this many messages; None (the default): one message."""
    batch_wait_s: float = 0.0
    """How long a batch waits to become full; not on FIFO queues. 0 by default."""
    wait_time_seconds: int = 20
    """How long the server waits for messages before it answers that there are none; 20 by default."""
    poll_interval_s: float = 0.0
    """The pause after a receive that found nothing; 0 by default."""
    envelopes: bool | Literal["auto"] = False
    """Whether handlers get what was published instead of the envelope of a topic around it: True, and then a message
    without an envelope is a failure; "auto", if there is one; False (the default), never."""
    verify_signature: bool | SignatureVerifier = False
    """Whether the signatures of envelopes are checked, which needs ``envelopes=True``; False by default. True trusts
    Amazon SNS and the server of the client, a :class:`SignatureVerifier` what it says."""

    def __post_init__(self) -> None:
        seconds, size = self.visibility_timeout, self.batch_size
        _expect(self.concurrency >= 1, "concurrency", self.concurrency, "1 or more")
        _expect(self.prefetch >= 0, "prefetch", self.prefetch, "0 or more")
        allowed = f"1 to {VISIBILITY_S_MAX}, or None"
        _expect(seconds is None or 1 <= seconds <= VISIBILITY_S_MAX, "visibility_timeout", seconds, allowed)
        _expect(self.processing_s_max > 0, "processing_s_max", self.processing_s_max, "more than 0")
        _expect(size is None or size >= 1, "batch_size", size, "1 or more, or None")
        _expect(self.batch_wait_s >= 0, "batch_wait_s", self.batch_wait_s, "0 or more")
        _expect(
            0 <= self.wait_time_seconds <= WAIT_S_MAX,
            "wait_time_seconds",
            self.wait_time_seconds,
            f"0 to {WAIT_S_MAX}",
        )
        _expect(self.poll_interval_s >= 0, "poll_interval_s", self.poll_interval_s, "0 or more")
        busy = self.wait_time_seconds == 0 and self.poll_interval_s == 0
        _expect(
            not busy, "poll_interval_s", self.poll_interval_s, "more than 0, since wait_time_seconds is 0"
        )

        is_known = self.envelopes in (True, False, "auto")
        _expect(is_known, "envelopes", self.envelopes, 'True, False or "auto"')
        # Otherwise whoever may send to the queue could leave the envelope out.
        is_checked = self.verify_signature is False or self.envelopes is True
        _expect(is_checked, "envelopes", self.envelopes, "True, since verify_signature is set")

    @property
    def messages_per_call(self) -> int:
        """The largest number of messages that the handler gets in one call."""
        return self.batch_size or 1


def _expect(holds: bool, name: str, value: object, expected: str) -> None:
    if not holds:
        raise ValueError(f"invalid value {value!r} for {name}: expected {expected}")


def default_worker_name() -> str:
    """The name of this worker in logs and reports of failures."""
    return f"{socket.gethostname()}:{os.getpid()}"
