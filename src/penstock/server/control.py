"""What the admin API may ask of the process that serves it, and have it do."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from penstock.services.admin.server import ServerFacts

if TYPE_CHECKING:
    from penstock.server.compose import Parts


class ProcessControl:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.account = parts.config.space.account
        self._started_s = time.monotonic()

    def facts(self) -> ServerFacts:
        parts = self._parts
        config = parts.config
        return ServerFacts(
            time.monotonic() - self._started_s,
            "memory" if config.memory else "sqlite" if config.store is None else "postgres",
            parts.site.guarantees,
            parts.listener.open_connections,
            config.advertise and str(config.advertise),
        )
