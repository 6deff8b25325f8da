"""Files that are read again when they change: has anything new come, and is it whole?

Rule 1: a file that is being written is not read: it may end where it still makes sense, and a certificate comes
before its key. Files have changed when two looks in a row found the same, and it is not what was read last.
Rule 2: only what was read to its end is settled, whatever it held. What could not be read for reasons outside the
files (no descriptor was free, the disk failed once) is as good as new, or a revocation would be lost.
"""

from __future__ import annotations

from pathlib import Path

from penstock.auth.secret_files import stamp


class Watch:
    def __init__(self, *paths: Path) -> None:
        """Read the files after this, and settle them."""
        self._paths = paths
        self._noticed = self._look()
        self._settled: object = None  # equals no state

    def has_changed(self) -> bool:
        return self.is_steady() and self._noticed != self._settled

    def is_steady(self) -> bool:
        """The files are as the last look found them. A look is also taken by this."""
        before, self._noticed = self._noticed, self._look()
        return before == self._noticed

    def settle(self) -> None:
        """What the last look found was read."""
        self._settled = self._noticed

    def unsettle(self) -> None:
        """It could not be read: it counts as changed, even if it comes back as it was before."""
        self._settled = None

    def _look(self) -> object:
        return [stamp(path) for path in self._paths]
