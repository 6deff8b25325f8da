"""Is the server alive, and may it be sent work?

Alive: it answers. Ready: everything that was announced at the start has been done, and no stop was asked for.
"""

from __future__ import annotations


class Health:
    def __init__(self) -> None:
        self._obstacles: list[str] = []

    def expect(self, obstacle: str) -> None:
        """Not ready until :meth:`done` is called with the same words; they are shown to whoever asks why."""
        self._obstacles.append(obstacle)

    def done(self, obstacle: str) -> None:
        self._obstacles.remove(obstacle)

    @property
    def ready(self) -> bool:
        return not self._obstacles

    @property
    def obstacles(self) -> list[str]:
        return list(self._obstacles)
