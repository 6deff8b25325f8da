"""The root key is exchanged: all that the old one opened the new one opens, whatever happens on the way."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.auth.encryption.envelope import MessageCipher
from penstock.auth.encryption.keyring import Keyring, KeyringError
from penstock.auth.encryption.root_key import RootKey, RootKeyError
from penstock.auth.identity import Credentials, CredentialsError
from penstock.auth.identity.admin import add_key, add_user
from penstock.auth.identity.file import changed_file, read_file
from penstock.auth.identity.model import all_keys
from penstock.names import KeyUse, Space
from penstock.server.replace_root_key import replace_in_files
from penstock.testing.clock import ManualClock
from support.generated import examples
from support.identities import HOME, THEN
from support.texts import says

HERE = Space(HOME, "eu-west-1")
OLD, NEW, OTHER = (RootKey(bytes([number]) * 32) for number in (1, 2, 3))


class KeyFiles:
    """A keyring and a credentials file, in folders of their own."""

    def __init__(self, folder: Path, root: RootKey = OLD) -> None:
        self.keyring = folder / "data" / "penstock-keys.json"
        self.credentials = folder / "etc" / "credentials.toml"
        self.credentials.parent.mkdir()
        self.ring(root).ensure_file()
        self.secrets: dict[str, str] = {}
        with changed_file(self.credentials):
            pass

    def user(self, name: str, root: RootKey = OLD) -> str:
        with changed_file(self.credentials) as content:
            pair = add_key(add_user(content, HOME, name, THEN), root, THEN)
        self.secrets[pair.id] = pair.secret
        return pair.id

    def ring(self, root: RootKey) -> Keyring:
        return Keyring(self.keyring, root, ManualClock())

    def trouble(self, root: RootKey) -> str:
        """Why a server does not start with this root key; empty if it does."""
        try:
            directory = Credentials(self.credentials, root, ManualClock()).directory
            self.ring(root)
        except (CredentialsError, KeyringError) as error:
            return str(error)
        assert {key: directory.secret(key, None) for key in self.secrets} == self.secrets
        return ""

    def replace_in_files(self, old: RootKey = OLD, new: RootKey = NEW) -> set[Path]:
        return set(replace_in_files(self.keyring, self.credentials, old, new))

    @property
    def both(self) -> set[Path]:
        return {self.keyring, self.credentials}

    def texts(self) -> dict[Path, bytes]:
        """All files except the empty lock files."""
        found = (path for folder in self.both for path in folder.parent.iterdir())
        return {path: path.read_bytes() for path in found if path.suffix != ".lock"}


@pytest.fixture
def files(tmp_path: Path) -> KeyFiles:
    files = KeyFiles(tmp_path)
    files.user("alice")
    files.user("bob")
    return files


def test_everything_is_encrypted_with_the_new_key_only(files: KeyFiles) -> None:
    assert files.replace_in_files() == files.both
    assert files.trouble(NEW) == ""
    with pytest.raises(KeyringError):
        files.ring(OLD)
    with pytest.raises(CredentialsError):
        Credentials(files.credentials, OLD, ManualClock())
    before = files.texts()
    assert files.replace_in_files() == set(), "there is nothing left to do"
    assert files.texts() == before


@settings(max_examples=examples(25), deadline=None)  # each makes some twenty files durable
@given(
    keys=st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=4),
    users=st.integers(0, 3),
    inactive=st.integers(0, 3),
)
def test_any_keys_stay_the_same(keys: list[tuple[int, bool]], users: int, inactive: int) -> None:
    with TemporaryDirectory() as folder:
        files = KeyFiles(Path(folder))
        ring = files.ring(OLD)
        for rotations, enabled in keys:
            key = ring.create(HERE, None)
            for _ in range(rotations):
                ring.rotate(HERE, key.id)
            ring.set_enabled(HERE, key.id, enabled)
        for number in range(users):
            files.user(f"user{number}")
        with changed_file(files.credentials) as content:
            for each in list(all_keys(content))[:inactive]:
                each.key.status = "inactive"
                del files.secrets[each.key.id]
        said, before = described(ring), read_file(files.credentials)
        encrypted, _ = MessageCipher(ring, ManualClock()).encrypt([(KeyUse(HERE, None, 0), 7, b"content")])

        assert files.replace_in_files() == ({files.keyring, files.credentials} if users else {files.keyring})

        assert files.trouble(NEW) == ""
        after = files.ring(NEW)
        assert described(after) == said
        assert MessageCipher(after, ManualClock()).decrypt(7, encrypted[0]) == b"content"
        content = read_file(files.credentials)
        for old, new in zip(all_keys(before), all_keys(content), strict=True):
            assert old.key.secret != new.key.secret
            new.key.secret = old.key.secret
        assert content == before, "only the encrypted secrets differ"


def described(ring: Keyring) -> object:
    """All that a keyring says, except for the wrapped keys."""
    file = ring.keys.file
    return file.generation, [
        (key.id, key.space, key.aliases, key.enabled, [(each.number, each.created_ms) for each in key.versions])
        for key in file.keys
    ]  # fmt: skip


# -- what fails changes nothing ------------------------------------------------------------------------------


def damage(path: Path, old: bytes, new: bytes) -> None:
    text = path.read_bytes()
    assert old in text
    path.write_bytes(text.replace(old, new, 1))


def foreign_secret(files: KeyFiles) -> None:
    files.user("carol", OTHER)


def secret_by_hand(files: KeyFiles) -> None:
    damage(files.credentials, b'secret = "', b'secret = "by hand, ')


def damaged_seal(files: KeyFiles) -> None:
    damage(files.keyring, b'"sealed": "', b'"sealed": "AAAA')


def no_json(files: KeyFiles) -> None:
    files.keyring.write_bytes(b"{")


def open_to_all(files: KeyFiles) -> None:
    files.credentials.chmod(0o644)


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (foreign_secret, "credentials file .*another root key"),
        (secret_by_hand, "credentials file .*not an encrypted"),
        (damaged_seal, "keyring .*keys cannot be used"),
        (no_json, "keyring .*version"),
        (open_to_all, "chmod 6[04]0"),
    ],
)
def test_an_unreadable_file_changes_nothing(
    files: KeyFiles, spoil: Callable[[KeyFiles], None], expected: str
) -> None:
    spoil(files)
    before = files.texts()
    with pytest.raises((KeyringError, CredentialsError), match=expected):
        files.replace_in_files()
    assert files.texts() == before


def test_a_wrong_root_key_changes_nothing(files: KeyFiles) -> None:
    before = files.texts()
    with pytest.raises(KeyringError) as caught:
        files.replace_in_files(OTHER, NEW)
    for root in (OLD, OTHER, NEW):
        assert root.fingerprint in str(caught.value)
    with pytest.raises(CredentialsError, match="another root key"):
        replace_in_files(None, files.credentials, OTHER, NEW)
    assert files.texts() == before


def failing(monkeypatch: pytest.MonkeyPatch, name: str, at: int) -> None:
    """The call of that number fails."""
    real, calls = getattr(os, name), 0

    def call(*arguments: object) -> object:
        nonlocal calls
        calls += 1
        if calls == at:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(*arguments)

    monkeypatch.setattr(os, name, call)


@pytest.mark.parametrize(("name", "at"), [("fsync", 1), ("fsync", 2), ("replace", 1)])
def test_a_full_disk_changes_nothing(
    files: KeyFiles, monkeypatch: pytest.MonkeyPatch, name: str, at: int
) -> None:
    before = files.texts()
    failing(monkeypatch, name, at)
    with pytest.raises(RootKeyError, match=r"No space left on device.*repeat"):
        files.replace_in_files()
    assert files.texts() == before
    assert files.replace_in_files() == files.both
    assert files.trouble(NEW) == ""


# -- what is not finished is finished ------------------------------------------------------------------------


def assert_half(files: KeyFiles) -> None:
    """A server starts with neither key, and says what to do."""
    for root in (OLD, NEW):
        says(files.trouble(root), "penstock key replace-root", "interrupted", "repeat")


def test_a_failure_between_the_files_is_completed_by_the_next_run(
    files: KeyFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, "replace", 2)
    with pytest.raises(RootKeyError, match="repeat the command"):
        files.replace_in_files()
    assert_half(files)
    assert files.replace_in_files() == {files.credentials}
    assert files.trouble(NEW) == ""


def test_a_restored_backup_of_one_file_is_completed(files: KeyFiles) -> None:
    before = files.texts()
    files.replace_in_files()
    for path in files.both:
        path.write_bytes(before[path])
        assert_half(files)
        assert files.replace_in_files() == {path}
        assert files.trouble(NEW) == ""


KILLED = """
import os, pathlib, signal, sys, tempfile
from penstock.server.replace_root_key import replace_in_files
from penstock.auth.encryption.root_key import RootKey

left = int(sys.argv[3])

def counted(call):
    def run(*arguments):
        global left
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1
        return call(*arguments)
    return run

os.fsync, os.replace, tempfile.mkstemp = map(counted, (os.fsync, os.replace, tempfile.mkstemp))
replace_in_files(*map(pathlib.Path, sys.argv[1:3]), RootKey(bytes([1]) * 32), RootKey(bytes([2]) * 32))
"""

STEPS = ["make 1", "sync 1", "make 2", "sync 2", "replace 1", "replace 2", "sync folder 1", "sync folder 2"]


@pytest.mark.parametrize("step", range(len(STEPS) + 1), ids=[*STEPS, "not killed"])
def test_a_kill_at_any_moment_loses_nothing(files: KeyFiles, step: int) -> None:
    command = [sys.executable, "-c", KILLED, str(files.keyring), str(files.credentials), str(step)]
    ended = subprocess.run(command, timeout=60).returncode
    assert ended == (-signal.SIGKILL if step < len(STEPS) else 0)
    second = STEPS.index("replace 2")
    if step == second:
        assert_half(files)
    else:
        assert files.trouble(OLD if step < second else NEW) == ""
    files.replace_in_files()
    assert files.trouble(NEW) == ""
    assert files.texts().keys() == files.both, "and no litter stays"


# -- beside the files ----------------------------------------------------------------------------------------


def test_files_keep_owner_and_mode(files: KeyFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    files.replace_in_files()
    for path in files.both:
        assert path.stat().st_mode & 0o777 == 0o600
    given: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "fchown", lambda _, owner, group: given.append((owner, group)))
    before = files.keyring.stat()
    replace_in_files(files.keyring, None, NEW, OLD)
    assert given == [(before.st_uid, before.st_gid)], "what root changes stays the service's"
    assert files.keyring.stat().st_mode == before.st_mode


def test_a_link_stays_a_link(files: KeyFiles) -> None:
    real = files.keyring.rename(files.keyring.with_name("real.json"))
    files.keyring.symlink_to(real)
    files.replace_in_files()
    assert files.keyring.is_symlink()
    assert files.trouble(NEW) == ""


def test_a_server_that_read_the_keyring_before_does_not_start_on_it(files: KeyFiles) -> None:
    """It reads its files, and then takes the data: the exchange may come in between."""
    early, running = files.ring(OLD), files.ring(OLD)
    early.ensure_file()
    files.replace_in_files()
    with pytest.raises(KeyringError, match="another root key"):
        early.ensure_file()
    says(running.reload(), "keys stay in use")


def test_only_existing_files_are_changed(files: KeyFiles) -> None:
    assert set(replace_in_files(files.keyring, None, OLD, NEW)) == {files.keyring}
    assert_half(files)
    assert set(replace_in_files(None, files.credentials, OLD, NEW)) == {files.credentials}
    assert files.trouble(NEW) == ""
