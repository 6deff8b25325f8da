"""``penstock key``: a root key, a keyring, and what is said about both."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from penstock.auth.encryption.keyring import Keyring
from penstock.auth.encryption.root_key import FILE_NAME, read_root_key_file
from penstock.broker.encryption import ReencryptionProgress
from penstock.cli import main
from penstock.clock import SystemClock
from penstock.names import Space
from penstock.server.encryption import ProgressFile
from support.texts import says

HOME = Space("000000000000", "us-east-1")


class Shell:
    """Commands with the settings of one server."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "root.key"
        self.keyring = folder / "data" / "penstock-keys.json"
        self.variables = {
            "PENSTOCK_DATA": str(folder / "data"),
            "PENSTOCK_ROOT_KEY_FILE": str(self.root),
        }

    def __call__(self, *arguments: str) -> Result:
        return CliRunner().invoke(main, ["key", *arguments], env=self.variables)

    def prints(self, *arguments: str) -> str:
        result = self(*arguments)
        assert result.exit_code == 0, result.output
        return result.output

    def fails(self, *arguments: str) -> str:
        result = self(*arguments)
        assert result.exit_code == 2
        assert result.output.startswith("penstock: ")
        assert result.output.count("\n") == 1
        return result.output

    def opened(self) -> Keyring:
        return Keyring(self.keyring, read_root_key_file(self.root), SystemClock())


@pytest.fixture
def key(tmp_path: Path) -> Shell:
    shell = Shell(tmp_path)
    shell.prints("root", str(shell.root))
    shell.opened().ensure_file()  # as the first start of a server does
    return shell


def test_a_root_key_is_made_once(key: Shell) -> None:
    assert key.root.stat().st_mode & 0o777 == 0o600
    before = key.root.read_bytes()
    assert "never overwritten" in key.fails("root", str(key.root))
    assert key.root.read_bytes() == before


def test_a_key_is_made_and_named(key: Shell) -> None:
    arn = key.prints("create", "--alias", "alias/orders").strip()
    assert re.fullmatch(r"arn:aws:kms:us-east-1:000000000000:key/[0-9a-f-]{36}", arn)
    assert key.opened().keys.find(HOME, "alias/orders").arn == arn
    other = key.prints("create", "--account", "111122223333", "--region", "eu-west-1").strip()
    assert other.startswith("arn:aws:kms:eu-west-1:111122223333:key/")
    assert "already" in key.fails("create", "--alias", "alias/orders")


@pytest.mark.parametrize("alias", ["orders", "alias/", "alias/aws/mine", "alias/a b", "alias/" + "x" * 251])
def test_an_alias_has_its_form(key: Shell, alias: str) -> None:
    assert "--alias" in key.fails("create", "--alias", alias)


def test_a_key_is_rotated_disabled_and_enabled(key: Shell) -> None:
    arn = key.prints("create", "--alias", "alias/orders").strip()
    assert key.prints("rotate", "alias/orders") == f"{arn} has 2 versions\n"
    assert key.prints("disable", arn) == f"disabled {arn}\n"
    found = key.opened().keys.find(HOME, "alias/orders")
    assert (found.newest, found.enabled) == (2, False)
    assert key.prints("enable", found.id) == f"enabled {arn}\n"
    assert key.opened().keys.find(HOME, "alias/orders").enabled


def test_a_key_is_shown_by_any_of_its_names(key: Shell) -> None:
    created = json.loads(key.prints("create", "--alias", "alias/orders", "--json"))
    key.prints("rotate", "alias/orders")
    key.prints("disable", "alias/orders")
    lines = [line.split(maxsplit=1) for line in key.prints("show", created["id"]).splitlines()]
    assert [name for name, _ in lines] == ["id", "arn", "alias", "state", "version", "version"]
    assert [value for _, value in lines[:4]] == [created["id"], created["arn"], "alias/orders", "disabled"]
    assert [value.partition(",")[0] for _, value in lines[4:]] == ["1", "2"]
    shown = json.loads(key.prints("show", "alias/orders", "--json"))
    assert shown == json.loads(key.prints("show", created["arn"], "--json"))
    assert (shown["version"], shown["enabled"]) == (2, False)
    assert [each["version"] for each in shown["versions"]] == [1, 2]
    stored = key.keyring.read_text()
    for secret in re.findall(r'"sealed":\s*"([^"]+)"', stored):
        assert secret not in json.dumps(shown)
    says(key.fails("show", "alias/none"), "no key", "alias/none")


def test_changes_of_a_key_as_json(key: Shell) -> None:
    created = json.loads(key.prints("create", "--alias", "alias/orders", "--json"))
    assert (created["aliases"], created["version"], created["enabled"]) == (["alias/orders"], 1, True)
    assert json.loads(key.prints("rotate", created["arn"], "--json")) == {**created, "version": 2}
    assert json.loads(key.prints("disable", created["id"], "--json"))["enabled"] is False
    assert json.loads(key.prints("enable", created["id"], "--json"))["enabled"] is True
    assert json.loads(key.prints("reencrypt", "--json")) == {"requested": True}


def test_all_keys_are_rotated_at_once(key: Shell) -> None:
    arns = {
        key.prints("create", "--account", account).strip() for account in ("111122223333", "444455556666")
    }
    key.prints("disable", min(arns))
    generation = key.opened().keys.file.generation
    said = key.prints("rotate", "--all").splitlines()
    assert len(said) == 4 and all(line.endswith(" has 2 versions") for line in said)
    assert arns <= {line.partition(" ")[0] for line in said}
    assert key.opened().keys.file.generation == generation + 1, "stored messages are looked at"
    assert key.opened().keys.disabled, "what was disabled stays so"
    for arguments in ([], ["alias/aws/sqs", "--all"]):
        says(key.fails("rotate", *arguments), "one key", "--all")


def test_list_shows_keys_and_the_progress_of_reencryption(key: Shell) -> None:
    key.prints("create", "--alias", "alias/orders")
    key.prints("disable", "alias/orders")
    first, *rows, _, progress = key.prints("list").splitlines()
    assert first.split() == ["ID", "ACCOUNT", "REGION", "ALIAS", "VERSION", "ROTATED", "STATE"]
    cells = [row.split()[1:5] + row.split()[6:] for row in rows]
    assert cells == [
        ["every", "every", "alias/penstock/sqs-managed", "1", "enabled"],
        ["every", "every", "alias/aws/sqs", "1", "enabled"],
        ["000000000000", "us-east-1", "alias/orders", "1", "disabled"],
    ]
    says(progress, "re-encrypting", "waiting", "broker")
    managed, _, orders = map(json.loads, key.prints("list", "--json").splitlines())
    assert (managed["account"], managed["enabled"], managed["version"]) == (None, True, 1)
    assert (orders["region"], orders["aliases"], orders["enabled"]) == ("us-east-1", ["alias/orders"], False)

    file = ProgressFile(key.keyring)
    file.save(
        ReencryptionProgress(generation=1, upto=200, after=50, checked=40, reencrypted=30, unreadable=2)
    )
    says(key.prints("list").splitlines()[-1], "25%", "40 checked", "30 encrypted", "2 could not be decrypted")
    file.save(ReencryptionProgress(generation=1, upto=200, after=190, checked=90, reencrypted=80, done=True))
    done = key.prints("list").splitlines()[-1]
    says(done, "100%", "90 checked", "80 encrypted")
    assert "decrypted" not in done
    key.prints("reencrypt")
    assert key.prints("list").splitlines()[-1] == progress, "the next round has not begun"


def test_list_shows_the_progress_of_all_shards_together(key: Shell) -> None:
    generation = key.opened().keys.file.generation
    begun: dict[str, Any] = {"generation": generation, "upto": 200}
    shards = [
        ReencryptionProgress(**begun, after=100, checked=40, reencrypted=30, unreadable=1),
        ReencryptionProgress(**begun, after=200, checked=50, reencrypted=0, done=True),
        ReencryptionProgress(generation=generation - 1, upto=10, after=10, checked=9, done=True),
    ]
    for index, progress in enumerate(shards):
        ProgressFile(key.keyring, index).save(progress)
    says(key.prints("list").splitlines()[-1], "50%", "90 checked", "30 encrypted", "1 could not be decrypted")


def test_no_command_creates_a_keyring(key: Shell, tmp_path: Path) -> None:
    """Nor a data directory."""
    key.variables["PENSTOCK_DATA"] = str(tmp_path / "stray")
    for command in (["create"], ["list"], ["rotate", "alias/aws/sqs"], ["reencrypt"]):
        said = key.fails(*command)
        says(said, f"no keyring {tmp_path / 'stray' / 'penstock-keys.json'}", "--config", "--data")
    assert not (tmp_path / "stray").exists()


def test_former_names_of_commands_still_work(key: Shell) -> None:
    assert key.prints("reseal") == key.prints("reencrypt")
    says(key.fails("reroot"), "no new root key")
    shown = key.prints("--help")
    assert "reencrypt" in shown and "replace-root" in shown and "reseal" not in shown


def test_a_keyring_that_cannot_be_reached_is_one_line(key: Shell, tmp_path: Path) -> None:
    key.variables["PENSTOCK_DATA"] = str(tmp_path / ("x" * 300))
    assert "File name too long" in key.fails("list")
    assert "File name too long" in key.fails("replace-root", "--new-root-key-file", str(key.root))
    assert "File name too long" in key.fails("list", "--credentials", f"{'x' * 300}/credentials.toml")


def test_the_root_key_of_penstock_user_is_found(
    key: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    del key.variables["PENSTOCK_ROOT_KEY_FILE"]
    key.root.rename(tmp_path / FILE_NAME)
    says(key.fails("list"), "no root key")
    (tmp_path / "penstock-credentials.toml").touch(0o600)
    assert "alias/aws/sqs" in key.prints("list")
    key.variables["PENSTOCK_CREDENTIALS"] = str(tmp_path / "elsewhere" / "credentials.toml")
    says(key.fails("list"), "no root key")


@pytest.mark.parametrize("moment_ms", [10**400, -(10**18)], ids=["late", "early"])
def test_a_time_outside_the_calendar(key: Shell, moment_ms: int) -> None:
    key.prints("create")
    file = key.keyring
    file.write_text(re.sub(r'"created_ms": \d+', f'"created_ms": {moment_ms}', file.read_text()))
    assert "alias/aws/sqs" in key.prints("list")


def test_errors_say_what_is_missing(key: Shell) -> None:
    key.prints("create")
    assert "arn:aws:kms:us-east-1:000000000000:alias/x" in key.fails("rotate", "alias/x")
    assert "always enabled" in key.fails("disable", "alias/aws/sqs")
    key.root.chmod(0o644)
    assert re.search("chmod 6[04]0", key.fails("list"))
    del key.variables["PENSTOCK_ROOT_KEY_FILE"]
    says(key.fails("list"), "no root key")
    key.variables["PENSTOCK_ROOT_KEY"] = "00" * 32
    assert "another root key" in key.fails("list")
