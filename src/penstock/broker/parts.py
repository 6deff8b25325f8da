"""The parts of a partition: what lives with a shard, whichever package it belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.broker.internal_queues import JobQueues


class Part:
    """Something that lives with a shard, such as move tasks, metrics or the alarms of a service, and does work on it
    that no request asks for."""

    @property
    def job_queues(self) -> Sequence[JobQueues[Any]]:
        """The internal queues whose jobs it does, which operators see."""
        return ()

    def start(self) -> None:
        """Begin the work, and resume what a restart interrupted."""

    def stop(self) -> None:
        """Decide nothing new: the server stops, or the shard is given back."""

    def flush(self) -> None:
        """Add to the open commit what was put off. Called after :meth:`stop`, before the last commit."""
