"""What a generator process is asked to do, and what it answers. Plain records: they travel between processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Job:
    """``first`` is the number of the first message: numbers are never used twice on a system."""

    kind: Literal["send", "drain", "life", "wake", "polls", "queues", "publish"]
    url: str  # the endpoint
    queues: Sequence[str] = ()  # their URLs; for "queues" the names to create
    pid: int | None = None  # of the server, for its CPU time
    count: int = 0  # messages, or other repetitions
    limit_s: float = 10.0  # nothing new is begun after this
    connections: int = 1
    size: int = 200
    batch: int = 1  # messages of a send
    rate: float = 0  # requests a second; 0: as quickly as the answers come
    groups: int = 0  # of a FIFO queue; 0: a standard queue
    first: int = 0
    topic: str = ""  # its ARN; ``queues`` are those that subscribe to it
    filters: int = (
        0  # of the subscriptions; each message passes one, by an attribute. 0: all queues get all messages
    )


@dataclass(kw_only=True)
class Done:
    """Times are seconds on the machine's one monotonic clock, so that processes can be compared."""

    messages: int
    begun: float
    ended: float
    server_cpu: tuple[float, float]  # its readings at the begin and at the end
    own_cpu: float
    latencies: list[float] = field(default_factory=list)
    requests: int = 0
    twice: int = 0  # deliveries of a message that had been delivered before

    @property
    def seconds(self) -> float:
        return self.ended - self.begun


def merged(parts: Sequence[Done]) -> Done:
    """What several processes did at the same time, as one."""
    return Done(
        messages=sum(part.messages for part in parts),
        begun=min(part.begun for part in parts),
        ended=max(part.ended for part in parts),
        server_cpu=(min(p.server_cpu[0] for p in parts), max(p.server_cpu[1] for p in parts)),
        own_cpu=max(part.own_cpu / part.seconds for part in parts) * max(part.seconds for part in parts),
        latencies=[latency for part in parts for latency in part.latencies],
        requests=sum(part.requests for part in parts),
        twice=sum(part.twice for part in parts),
    )
