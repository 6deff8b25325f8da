"""Declared queues at a start: everything is checked first, then queues are created or changed."""

from __future__ import annotations

import asyncio
from collections.abc import Set
from pathlib import Path

import pytest

from penstock.errors import StoreFull
from penstock.limits import Limits
from penstock.server.settings.config import Config, ConfigError
from penstock.server.settings.declared import DeclarationError
from penstock.server.settings.load import load_config
from penstock.server.settings.queues import declare_queues, read_queues
from penstock.store.changes import Changes
from penstock.store.port import Mark
from penstock.store.sqlite.store import SqliteStore
from support.cluster import Cluster
from support.composed import serving
from support.world import name_of

ALLOW_ONLY_B = """RedriveAllowPolicy.redrivePermission = "byQueue"
RedriveAllowPolicy.sourceQueueArns = ["arn:aws:sqs:us-east-1:000000000000:b"]"""


def declared(tmp_path: Path, text: str) -> Config:
    file = tmp_path / "penstock.toml"
    file.write_text(text)
    return load_config({"config": str(file), "data": str(tmp_path / "data")}, {})


def started(config: Config) -> dict[str, str]:
    """Visibility timeout and tags of every queue after a start with these settings."""

    async def scenario() -> dict[str, str]:
        async with serving(config) as server:
            broker = server.parts.broker
            return {
                queue.name.name: f"{queue.settings.visibility_ms // 1000} {sorted(queue.tags.items())}"
                for queue in broker.queues()
            }

    return asyncio.run(scenario())


def test_a_start_creates_queues_and_a_later_one_changes_what_differs(tmp_path: Path) -> None:
    tags = 'tags = {team = "x"}'
    for timeout in (30, 45, 45):
        config = declared(tmp_path, f"[queues.a]\nVisibilityTimeout = {timeout}\n{tags}")
        assert started(config) == {"a": f"{timeout} [('team', 'x')]"}


def test_a_quota_counts_declared_queues_and_refuses_none(tmp_path: Path) -> None:
    config = declared(tmp_path, "quota_queues = 1\n[queues.a]\n[queues.b]")
    assert sorted(started(config)) == ["a", "b"]


def test_declared_queues_of_a_shard_need_no_other_shard() -> None:
    """Nodes that start together load their shards at the same time, and each serves one when its queues exist."""
    with Cluster(limits=Limits(quota_queues=9)) as cluster:
        cluster.network.cut.update({1, 2})
        node, short = cluster.nodes[0], cluster.name("q", 0)
        queues = read_queues({short: {}, cluster.name("q", 1): {}})
        node.do(declare_queues(node.broker, queues, name_of(short).space))
        assert [queue.name.name for queue in node.broker.queues()] == [short]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            '[queues.a]\ndead_letter = {queue = "d.fifo", max_receives = 3}\n[queues."d.fifo"]',
            "Dead-letter queue must be same type of queue as the source.",
        ),
        (
            '[queues."a.fifo"]\ndead_letter = {queue = "d", max_receives = 3}\n[queues.d]',
            "Dead-letter queue must be same type of queue as the source.",
        ),
        (
            f'[queues.a]\ndead_letter = {{queue = "d", max_receives = 3}}\n[queues.d]\n{ALLOW_ONLY_B}',
            "The redrive allow policy of the dead-letter queue does not allow this source.",
        ),
    ],
    ids=["standard to fifo", "fifo to standard", "not allowed"],
)
def test_a_declared_dead_letter_queue_that_does_not_fit_is_found_without_a_start(
    tmp_path: Path, text: str, reason: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        declared(tmp_path, text)
    line = str(caught.value)
    assert line.startswith("invalid queue queues.a")
    assert reason in line and line.endswith(f"({tmp_path / 'penstock.toml'})")


def test_a_refused_start_leaves_no_queue_behind(tmp_path: Path) -> None:
    text = '[queues.a]\n[queues.b]\ndead_letter = {queue = "nowhere", max_receives = 3}'
    with pytest.raises(DeclarationError, match=r"^invalid queue queues\.b: .*does not exist"):
        started(declared(tmp_path, text))
    assert started(declared(tmp_path, "")) == {}


def test_a_dead_letter_queue_that_exists_need_not_be_declared(tmp_path: Path) -> None:
    started(declared(tmp_path, "[queues.d]\n"))
    text = '[queues.a]\ndead_letter = {queue = "d", max_receives = 3}'
    assert sorted(started(declared(tmp_path, text))) == ["a", "d"]
    text = '[queues."a.fifo"]\ndead_letter = {queue = "d", max_receives = 3}'
    with pytest.raises(DeclarationError, match="must be same type of queue"):
        started(declared(tmp_path, text))


THREE = '[queues.a]\nVisibilityTimeout = 40\n[queues.b]\ntags = {team = "x"}\n[queues.c]'


def test_declared_queues_are_one_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commits = []
    append = SqliteStore.append

    def counted(store: SqliteStore, changes: Changes, mark: Mark) -> Set[int]:
        if queues := [kind for kind, _ in changes.records].count("queue"):
            commits.append(queues)
        return append(store, changes, mark)

    monkeypatch.setattr(SqliteStore, "append", counted)
    assert len(started(declared(tmp_path, THREE))) == 3
    assert commits == [3]
    started(declared(tmp_path, THREE))
    assert len(commits) == 1, "nothing differs, nothing is written"


def test_a_commit_that_is_refused_leaves_none_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started(declared(tmp_path, "[queues.a]"))

    def refused(store: SqliteStore, changes: Changes, mark: Mark) -> Set[int]:
        raise StoreFull("the disk is full")

    with monkeypatch.context() as patched, pytest.raises(StoreFull):
        patched.setattr(SqliteStore, "append", refused)
        started(declared(tmp_path, THREE))
    assert started(declared(tmp_path, "")) == {"a": "30 []"}
