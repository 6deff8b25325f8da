"""Which queues may be used: those whose encryption key can be. Asked before anything is decided about a message."""

from __future__ import annotations

from typing import Protocol

from penstock.broker.held import HeldQueue
from penstock.names import Space


class KeyGuard(Protocol):
    def check(self, space: Space, key: str) -> None:
        """Raises KeyUnavailable if a queue of this account and region that names this key cannot be used."""


class NoGuard:
    """Where keys are only names."""

    @staticmethod
    def check(space: Space, key: str) -> None:
        return


def check_key(keys: KeyGuard, queue: HeldQueue) -> None:
    key = queue.record.settings.kms_key
    if key is not None:
        keys.check(queue.record.name.space, key)
