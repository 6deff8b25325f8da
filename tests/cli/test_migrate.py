"""``penstock migrate``, from one data directory to another."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from penstock.cli import main
from penstock.migrate.stores.copying import StoreCopy
from penstock.store.port import Store
from penstock.store.sqlite.site import SqliteSite
from support.generated_stores import dump, fill
from support.texts import says


@pytest.fixture
def source(tmp_path: Path) -> Path:
    filled(tmp_path / "old", 1)
    return tmp_path / "old"


def filled(directory: Path, shards: int) -> None:
    stores = stores_in(directory, shards)
    fill(stores, seed=4)
    for store in stores:
        store.close()


def stores_in(directory: Path, shards: int | None = None) -> list[Store]:
    site = SqliteSite(directory, shards)
    site.open()
    site.close()
    return [site.shard(index) for index in range(site.shards)]


def content(directory: Path) -> object:
    stores = stores_in(directory)
    try:
        return dump(stores)
    finally:
        for store in stores:
            store.close()


def migrate(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["migrate", *map(str, arguments)])


def test_to_more_shards_and_back(source: Path, tmp_path: Path) -> None:
    expected = content(source)
    result = migrate("--from", f"sqlite:{source}", "--to", f"sqlite:{tmp_path / 'more'}", "--shards", 4)
    assert result.exit_code == 0, result.output
    says(result.stdout, "copied", "compared", "1 to 4 shards")
    assert content(tmp_path / "more") == expected
    assert len(stores_in(tmp_path / "more")) == 4
    result = migrate("--from", f"sqlite:{tmp_path / 'more'}", "--to", f"sqlite:{tmp_path / 'one'}")
    assert result.exit_code == 0, result.output
    assert content(tmp_path / "one") == expected
    assert content(source) == expected


def test_as_json(source: Path, tmp_path: Path) -> None:
    result = migrate("--from", f"sqlite:{source}", "--to", f"sqlite:{tmp_path / 'new'}", "--json")
    report = json.loads(result.stdout)
    assert report["complete"] and not report["resumed"]
    assert (report["source_shards"], report["target_shards"]) == (1, 1)
    assert len(report["queues"]) == report["queue_count"] > 0
    assert sum(queue["messages"] for queue in report["queues"]) == report["messages"] > 0
    assert all(len(queue["checksum"]) == 32 for queue in report["queues"])


def test_a_check_creates_nothing(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "new"
    result = migrate("--from", f"sqlite:{source}", "--to", f"sqlite:{target}", "--shards", 8, "--check")
    assert result.exit_code == 0
    says(result.stdout, "would", "copied", "1 to 8 shards")
    assert "would be created" in result.stdout
    assert not target.exists()


def test_repeated(source: Path, tmp_path: Path) -> None:
    arguments = ("--from", f"sqlite:{source}", "--to", f"sqlite:{tmp_path / 'new'}")
    assert migrate(*arguments).exit_code == 0
    result = migrate(*arguments)
    assert (result.exit_code, "complete copy" in result.stdout) == (0, True)


def test_progress_in_a_pipe_is_lines(source: Path, tmp_path: Path) -> None:
    result = migrate("--from", f"sqlite:{source}", "--to", f"sqlite:{tmp_path / 'new'}")
    total = json.loads(migrate("--from", f"sqlite:{source}", "--to", "sqlite:x", "--check", "--json").stdout)
    messages = total["messages"]
    assert f"copying: {messages} of {messages} messages\n" in result.stderr
    assert f"comparing: {2 * messages} of {2 * messages} messages\n" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--from", "sqlite:{}/none", "--to", "sqlite:{}/new"), "no store"),
        (("--from", "sqlite:{}/old", "--to", "sqlite:{}/old"), "same store"),
        (("--from", "{}/old", "--to", "sqlite:{}/new"), "sqlite:DIRECTORY"),
        (("--from", "sqlite:{}/old", "--to", "mysql://u:secret@h/d"), '"mysql://u@h/d" store'),
        (("--from", "sqlite:{}/old", "--to", "sqlite:{}/used"), "target not empty"),
        (("--from", "sqlite:{}/old", "--to", "sqlite:{}/used", "--shards", "3"), "one shard not 3"),
    ],
)
def test_refusals(arguments: tuple[str, ...], text: str, source: Path, tmp_path: Path) -> None:
    filled(tmp_path / "used", 1)
    before = content(tmp_path / "used")
    result = migrate(*[argument.format(tmp_path) for argument in arguments])
    assert result.exit_code == 2
    says(result.stderr, *text.split())
    assert "secret" not in result.stderr
    assert content(tmp_path / "used") == before
    assert not (tmp_path / "none").exists() and not (tmp_path / "new").exists()


def test_a_store_in_use_is_refused(source: Path, tmp_path: Path) -> None:
    (store,) = stores_in(source)
    store.open()
    arguments = ["migrate", "--from", f"sqlite:{source}", "--to", f"sqlite:{tmp_path / 'new'}"]
    done = subprocess.run([sys.executable, "-m", "penstock", *arguments], capture_output=True, check=False)
    store.close()
    assert done.returncode == 2
    assert b"in use" in done.stderr
    assert not (tmp_path / "new").exists()


def test_interrupted(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "new"
    arguments = ("--from", f"sqlite:{source}", "--to", f"sqlite:{target}", "--shards", 3)

    def interrupt(copy: StoreCopy) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(StoreCopy, "finish", interrupt)
        result = migrate(*arguments)
    assert (result.exit_code, "repeat the command" in result.stderr) == (1, True)
    serve = [sys.executable, "-m", "penstock", "serve", "--data", str(target), "--port", "0"]
    done = subprocess.run(serve, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2, done.stderr
    assert "unfinished copy" in done.stderr and "penstock migrate" in done.stderr
    result = migrate(*arguments, "--json")
    assert json.loads(result.stdout)["resumed"]
    assert content(target) == content(source)
