"""Is the server alive, and may it be sent work?

Alive: it answers. Ready: everything that was announced at the start has been done, no stop was asked for, and
nothing that is watched stands in the way. A server that can do some of its work is ready: what it cannot do is told
beside, and whoever sends it work decides what that means.
"""

from __future__ import annotations

from collections.abc import Callable


class Health:
    def __init__(self) -> None:
        self._obstacles: list[str] = []
        self._watched: dict[str, Callable[[], bool]] = {}
        self._told: dict[str, Callable[[], str]] = {}

    def watch(self, obstacle: str, stands: Callable[[], bool]) -> None:
        """Not ready for as long as this is so. It is asked for every request."""
        self._watched[obstacle] = stands

    def tell(self, name: str, state: Callable[[], str]) -> None:
        """Shown to whoever asks; ready or not does not depend on it."""
        self._told[name] = state

    def expect(self, obstacle: str) -> None:
        """Not ready until :meth:`done` is called with the same words; they are shown to whoever asks why."""
        self._obstacles.append(obstacle)

    def done(self, obstacle: str) -> None:
        self._obstacles.remove(obstacle)

    @property
    def ready(self) -> bool:
        return not self._obstacles and not (self._watched and self.obstacles)

    @property
    def obstacles(self) -> list[str]:
        return self._obstacles + [obstacle for obstacle, stands in self._watched.items() if stands()]

    @property
    def told(self) -> dict[str, str]:
        return {name: state() for name, state in self._told.items()}
