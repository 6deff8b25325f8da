"""Encryption keys of queues: a queue can be used only while its key can."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from penstock.errors import KeyMissing, KeyUnavailable
from penstock.names import Space

if TYPE_CHECKING:
    from penstock.broker.live_queue import LiveQueue


class KeyGuard(Protocol):
    def check(self, space: Space, key: str) -> None:
        """Raises KeyUnavailable if a queue of this account and region that names this key cannot be used."""


class NoGuard:
    """Without a root key: the keys of queues are only names."""

    @staticmethod
    def check(space: Space, key: str) -> None:
        return


def without_key(queues: Iterable[LiveQueue]) -> list[LiveQueue]:
    """Those that name a key which does not exist; a disabled key exists."""
    found = []
    for queue in queues:
        try:
            queue.check_key()
        except KeyMissing:
            found.append(queue)
        except KeyUnavailable:
            continue
    return found
