"""``penstock key replace-root``: where the new root key comes from, what is refused, and what is said at the end."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from penstock.auth.encryption.keyring import Keyring
from penstock.auth.encryption.root_key import FILE_NAME, RootKey, create_root_key_file, read_root_key_file
from penstock.auth.identity import Credentials
from penstock.cli import main
from penstock.clock import SystemClock
from penstock.errors import StoreRefused
from penstock.store.sqlite.file import LockFile
from support.texts import says


class Site:
    """The files of a server that is stopped, its settings, and commands with them."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        self.keyring = self.data / "penstock-keys.json"
        self.credentials = folder / "credentials.toml"
        self.variables = {"PENSTOCK_DATA": str(self.data), "PENSTOCK_CREDENTIALS": str(self.credentials)}
        self("user", "create", "alice")
        self.old_file, self.new_file = folder / FILE_NAME, folder / "new.key"
        self.old, self.new = read_root_key_file(self.old_file), create_root_key_file(self.new_file)
        Keyring(self.keyring, self.old, SystemClock()).ensure_file()  # as the first start of a server does

    def __call__(self, *arguments: str) -> Result:
        return CliRunner().invoke(main, arguments, env=self.variables)

    def replaced(self, *arguments: str) -> str:
        result = self("key", "replace-root", *arguments)
        assert result.exit_code == 0, result.output
        return result.stdout

    def refused(self, *arguments: str) -> str:
        before = self.texts()
        result = self("key", "replace-root", *arguments)
        assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1), result.output
        assert self.texts() == before, "nothing was changed"
        return result.stderr

    def texts(self) -> list[bytes]:
        return [path.read_bytes() for path in (self.keyring, self.credentials)]

    def opens(self, root: RootKey) -> None:
        Keyring(self.keyring, root, SystemClock())
        Credentials(self.credentials, root, SystemClock())


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.chdir(tmp_path)
    return Site(tmp_path)


def test_the_output_says_what_changed_and_what_to_do(site: Site) -> None:
    said = site.replaced("--new-root-key-file", str(site.new_file)).splitlines()
    says(said[0], "new root key", str(site.keyring))
    says(said[1], "new root key", str(site.credentials))
    says(said[2], f"{site.new.fingerprint} now", f"old one had {site.old.fingerprint}")
    says("\n".join(said[3:]), "server", "new root key", "Sessions", "five minutes", "docs/encryption.md")
    site.opens(site.new)
    says(site("env", "alice").stderr, "another root key")  # the settings still give the old one
    site.new_file.replace(site.old_file)
    assert site("env", "alice").exit_code == 0


def test_it_can_be_repeated(site: Site) -> None:
    site.replaced("--new-root-key-file", str(site.new_file))
    says(site.replaced("--new-root-key-file", str(site.new_file)), "everything", "new root key", "already")


def test_the_new_key_comes_from_a_command_or_a_variable(site: Site) -> None:
    print_it = shlex.join([sys.executable, "-c", f"print(open({str(site.new_file)!r}).read())"])
    site.replaced("--new-root-key-command", print_it)
    site.opens(site.new)
    site.old_file.unlink()
    site.new_file.rename(site.old_file)
    site.variables["PENSTOCK_NEW_ROOT_KEY"] = "07" * 32
    site.replaced(
        "--new-root-key-command", "false", "--new-root-key-file", "nowhere"
    )  # the variable goes before
    site.opens(RootKey(bytes([7]) * 32))


def test_only_key_commands_accept_the_variable_of_the_new_key(site: Site) -> None:
    site.variables["PENSTOCK_NEW_ROOT_KEY"] = "07" * 32
    assert site("key", "ls").exit_code == 0
    for command in (["serve"], ["user", "ls"]):
        assert 'unknown setting "PENSTOCK_NEW_ROOT_KEY"' in site(*command).stderr


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "no new root key --new-root-key-file"),
        (["--new-root-key-file", FILE_NAME], "new root key settings"),
        (["--new-root-key-file", "nowhere"], "root key nowhere No such file"),
        (["--new-root-key-command", "false"], "--new-root-key-command status 1"),
        (["--new-root-key-command", "echo short"], "invalid root key --new-root-key-command"),
        (
            ["--new-root-key-file", "new.key", "--data", "stray"],
            "no keyring stray/penstock-keys.json",
        ),
        (
            ["--new-root-key-file", "new.key", "--credentials", "stray.toml"],
            "no credentials file stray.toml",
        ),
    ],
)
def test_what_is_refused(site: Site, arguments: list[str], expected: str) -> None:
    says(site.refused(*arguments), *expected.split())


def test_a_wrong_present_key_is_refused(site: Site) -> None:
    site.variables["PENSTOCK_ROOT_KEY"] = "09" * 32
    said = site.refused("--new-root-key-file", "new.key")
    says(said, site.old.fingerprint, RootKey(bytes([9]) * 32).fingerprint)
    site.old_file.unlink()
    del site.variables["PENSTOCK_ROOT_KEY"]
    says(site.refused("--new-root-key-file", "new.key"), "no root key")


@pytest.fixture
def running(site: Site) -> Iterator[None]:
    lock = LockFile(site.data / "penstock.lock")
    lock.take()
    yield
    lock.release()


def test_a_running_server_is_refused(site: Site, running: None) -> None:
    assert f"a server uses {site.data}: stop it first" in site.refused("--new-root-key-file", "new.key")


def test_no_server_can_start_during_the_replacement(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    path = site.data / "penstock.lock"
    path.touch()

    def start_a_server(*_: object) -> tuple[Path, ...]:
        with pytest.raises(StoreRefused, match="in use by process"):
            LockFile(path).take()
        return ()

    monkeypatch.setattr("penstock.server.replace_root_key.replace_in_files", start_a_server)
    site.replaced("--new-root-key-file", "new.key")
    lock = LockFile(path)
    lock.take()
    lock.release()


def test_no_lock_file_is_created(site: Site) -> None:
    """It would be root's, if root runs the command, and keep the service out."""
    site.replaced("--new-root-key-file", "new.key")
    assert not (site.data / "penstock.lock").exists()


def test_a_server_in_memory_has_its_credentials_only(site: Site, tmp_path: Path) -> None:
    (tmp_path / "penstock.toml").write_text("memory = true\n")
    site.keyring.unlink()
    said = site.replaced("--config", "penstock.toml", "--new-root-key-file", "new.key")
    first, second, *_ = said.splitlines()
    says(first, str(site.credentials))
    says(second, site.new.fingerprint)
    Credentials(site.credentials, site.new, SystemClock())


def test_a_server_without_credentials_has_its_keyring_only(site: Site) -> None:
    del site.variables["PENSTOCK_CREDENTIALS"]
    site.variables["PENSTOCK_ROOT_KEY_FILE"] = str(site.old_file)
    assert "repeat this with --credentials" in site.replaced("--new-root-key-file", "new.key")
    Keyring(site.keyring, site.new, SystemClock())


def test_the_help_shows_examples() -> None:
    text = CliRunner().invoke(main, ["key", "replace-root", "--help"]).output
    for part in ("Examples:", "--new-root-key-file new.key", "PENSTOCK_NEW_ROOT_KEY", "must be stopped"):
        assert part in text
