"""The dashboards of a shard. They belong to an account, in all its regions."""

from __future__ import annotations

import msgspec

from penstock.broker.shard import Shard
from penstock.errors import DashboardMissing, QuotaReached
from penstock.names import Home
from penstock.store.changes import RecordKind
from penstock.store.moving import by_home


class Dashboard(msgspec.Struct, frozen=True):
    account: str
    name: str
    body: str
    modified_ms: int
    tags: dict[str, str] = {}


DASHBOARDS = RecordKind("dashboard", Dashboard, by_home)


def dashboards_home(account: str) -> Home:
    return Home.of("dashboards", account)


def dashboard_arn(partition: str, account: str, name: str) -> str:
    return f"arn:{partition}:cloudwatch::{account}:dashboard/{name}"


class Dashboards:
    def __init__(self, shard: Shard, dashboards_max: int, bytes_max: int) -> None:
        """The limits are those of one account."""
        self._shard = shard
        self._dashboards_max = dashboards_max
        self._bytes_max = bytes_max
        self._records = shard.table(DASHBOARDS)

    def of(self, account: str) -> list[Dashboard]:
        """Returns the dashboards of an account in order of their names."""
        return sorted(
            (each for _, each in self._records if each.account == account), key=lambda each: each.name
        )

    def get(self, account: str, name: str) -> Dashboard | None:
        return self._records.get(dashboards_home(account).key(name))

    def find(self, account: str, name: str) -> Dashboard:
        """Raises DashboardMissing."""
        found = self.get(account, name)
        if found is None:
            raise DashboardMissing(name)
        return found

    # In the open commit.

    def put(self, account: str, name: str, body: str) -> None:
        """Raises QuotaReached."""
        others = [each for each in self.of(account) if each.name != name]
        if len(others) >= self._dashboards_max:
            raise QuotaReached("dashboards", self._dashboards_max)
        if sum(len(each.body) for each in others) + len(body) > self._bytes_max:
            raise QuotaReached("bytes of dashboards", self._bytes_max)
        present = self.get(account, name)
        tags = {} if present is None else present.tags
        self._save(Dashboard(account, name, body, self._shard.clock.wall_ms(), tags))

    def tag(self, dashboard: Dashboard, tags: dict[str, str]) -> None:
        self._save(msgspec.structs.replace(dashboard, tags=tags))

    def remove(self, dashboard: Dashboard) -> None:
        self._records.remove(dashboards_home(dashboard.account).key(dashboard.name))

    def _save(self, dashboard: Dashboard) -> None:
        self._records.put(dashboards_home(dashboard.account).key(dashboard.name), dashboard)
