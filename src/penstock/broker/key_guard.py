"""Which queues may be used: those whose encryption key can be. Asked before anything is decided about a message."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from penstock.broker.live_queue import LiveQueue
from penstock.errors import KeyMissing, KeyUnavailable
from penstock.names import Space


class KeyGuard(Protocol):
    def check(self, space: Space, key: str) -> None:
        """Raises KeyUnavailable if a queue of this account and region that names this key cannot be used."""


class NoGuard:
    """Where keys are only names."""

    @staticmethod
    def check(space: Space, key: str) -> None:
        return


def check_key(keys: KeyGuard, queue: LiveQueue) -> None:
    key = queue.settings.kms_key
    if key is not None:
        keys.check(queue.name.space, key)


def without_key(keys: KeyGuard, queues: Iterable[LiveQueue]) -> list[LiveQueue]:
    """Those that name a key which does not exist. A disabled one does."""
    found = []
    for queue in queues:
        try:
            check_key(keys, queue)
        except KeyMissing:
            found.append(queue)
        except KeyUnavailable:
            continue
    return found
