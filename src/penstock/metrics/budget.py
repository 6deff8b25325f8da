"""How much memory values over time may take, and whose go first if it is too much."""

from __future__ import annotations

from collections import Counter


class MetricBudget:
    """Counts the bytes of all values of one sort in a process, by account.

    If they exceed ``bytes_max``, the oldest values of accounts above their share are dropped. Other accounts notice
    nothing."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.used = 0
        self._by_account: Counter[str] = Counter()

    def add(self, account: str, count: int) -> None:
        """``count`` may be negative."""
        self.used += count
        self._by_account[account] += count
        if self._by_account[account] <= 0:
            del self._by_account[account]

    @property
    def is_spent(self) -> bool:
        return self.used > self.bytes_max

    @property
    def largest(self) -> str:
        """The account that uses the most. It is above its share if the budget is spent."""
        return max(self._by_account, key=self._by_account.__getitem__)

    def is_above_share(self, account: str) -> bool:
        """Whether it uses more than it could if all accounts used the same."""
        return self._by_account[account] > self.bytes_max // max(1, len(self._by_account))
