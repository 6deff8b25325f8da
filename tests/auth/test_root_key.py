"""The root key: where it comes from, who may read it, and that what is encrypted stays what it was."""

from __future__ import annotations

import os
import shlex
import sys
from base64 import b64encode
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.auth.encryption.root_key import (
    FILE_NAME,
    VARIABLE,
    RootKey,
    RootKeyError,
    create_root_key_file,
    find_root_key,
    read_root_key_file,
)

KEY = bytes(range(32))
ROOT = RootKey(KEY)


def find(
    *,
    environ: dict[str, str] | None = None,
    command: str | None = None,
    file: Path | None = None,
    beside: Path | None = None,
) -> RootKey | None:
    return find_root_key(environ=environ or {}, command=command, file=file, beside=beside)


def printing(text: str, status: int = 0) -> str:
    return shlex.join([sys.executable, "-c", f"print({text!r}); raise SystemExit({status})"])


def key_file(path: Path, key: bytes, mode: int = 0o600) -> Path:
    path.write_text(b64encode(key).decode())
    path.chmod(mode)
    return path


@given(st.binary(), st.binary(), st.binary(min_size=1, max_size=20))
def test_decryption_restores_the_text(plain: bytes, bound_to: bytes, purpose: bytes) -> None:
    encrypted = ROOT.encrypt(purpose, plain, bound_to)
    assert ROOT.decrypt(purpose, encrypted, bound_to) == plain
    assert ROOT.encrypt(purpose, plain, bound_to) != encrypted


@given(st.data())
def test_a_changed_byte_is_refused(data: st.DataObject) -> None:
    encrypted = bytearray(ROOT.encrypt(b"purpose", b"secret", b"name"))
    encrypted[data.draw(st.integers(0, len(encrypted) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(RootKeyError):
        ROOT.decrypt(b"purpose", bytes(encrypted), b"name")


@given(st.integers(0, 33))
def test_a_part_is_refused(length: int) -> None:
    with pytest.raises(RootKeyError):
        ROOT.decrypt(b"purpose", ROOT.encrypt(b"purpose", b"secret", b"name")[:length], b"name")


def test_another_name_purpose_or_key_is_refused() -> None:
    encrypted = ROOT.encrypt(b"purpose", b"secret", b"name")
    for root, purpose, name in (
        (ROOT, b"purpose", b"other"), (ROOT, b"other", b"name"), (RootKey(bytes(32)), b"purpose", b"name"),
    ):  # fmt: skip
        with pytest.raises(RootKeyError):
            root.decrypt(purpose, encrypted, name)


def test_derived_keys_are_constant_and_differ() -> None:
    """RFC 5869 with this info and no salt: another version of the server must derive the same."""
    assert ROOT.derive(b"a") == RootKey(KEY).derive(b"a") != ROOT.derive(b"b")
    assert ROOT.derive(b"a").hex() == "ee6699c48b1b840033bd87f949d18f8bc2d674e06d30cdddbbca221852025251"
    assert len(ROOT.derive(b"a")) == 32
    assert ROOT.fingerprint != RootKey(bytes(32)).fingerprint


@pytest.mark.parametrize("text", [KEY.hex(), KEY.hex().upper(), b64encode(KEY).decode(), f" {KEY.hex()}\n"])
def test_a_key_is_written_as_base64_or_digits(text: str) -> None:
    found = find(environ={VARIABLE: text})
    assert found is not None
    assert found.fingerprint == ROOT.fingerprint


@pytest.mark.parametrize("text", ["secret", KEY.hex()[:-2], b64encode(KEY + b"x").decode(), "ä" * 32])
def test_an_invalid_key_is_refused_and_not_shown(text: str) -> None:
    with pytest.raises(RootKeyError) as caught:
        find(environ={VARIABLE: text})
    assert VARIABLE in str(caught.value)
    assert text not in str(caught.value)


def test_the_first_source_wins(tmp_path: Path) -> None:
    keys = [bytes([n]) * 32 for n in range(4)]
    beside = tmp_path / "credentials.toml"
    key_file(tmp_path / FILE_NAME, keys[3])
    given = {
        "environ": {VARIABLE: keys[0].hex()},
        "command": printing(keys[1].hex()),
        "file": key_file(tmp_path / "own.key", keys[2]),
        "beside": beside,
    }
    for key, source in zip(keys, list(given), strict=True):
        found = find(**given)  # type: ignore[arg-type]
        assert found is not None
        assert found.fingerprint == RootKey(key).fingerprint
        del given[source]
    assert find() is None
    assert find(beside=tmp_path / "elsewhere" / "credentials.toml") is None


def test_a_command_that_fails_says_why_and_not_what_it_printed() -> None:
    script = "import sys; print('topsecret'); sys.exit('the vault is shut')"
    with pytest.raises(RootKeyError, match="status 1: the vault is shut") as caught:
        find(command=shlex.join([sys.executable, "-c", script]))
    assert "topsecret" not in str(caught.value)


@pytest.mark.parametrize("command", ["/no/such/command", "", "'open"])
def test_a_command_that_cannot_run_is_one_line(command: str) -> None:
    with pytest.raises(RootKeyError) as caught:
        find(command=command)
    assert "root_key_command" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_created_file_is_private_and_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    made = create_root_key_file(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_root_key_file(path).fingerprint == made.fingerprint
    before = path.read_bytes()
    with pytest.raises(RootKeyError, match="never overwritten"):
        create_root_key_file(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("mode", [0o604, 0o660, 0o602, 0o666])
def test_a_file_that_others_may_use_is_refused(tmp_path: Path, mode: int) -> None:
    path = key_file(tmp_path / FILE_NAME, KEY, mode)
    with pytest.raises(RootKeyError, match=r"chmod 6[04]0"):
        find(file=path)
    path.chmod(0o400)
    assert find(file=path) is not None


def test_a_pipe_is_refused_without_blocking(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / FILE_NAME, 0o600)
    with pytest.raises(RootKeyError, match="not a regular file"):
        find(file=tmp_path / FILE_NAME)
    with pytest.raises(RootKeyError, match="not a regular file"):
        find(beside=tmp_path / "credentials.toml")


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(RootKeyError, match="No such file"):
        find(file=tmp_path / "missing.key")
    with pytest.raises(RootKeyError, match="No such file"):
        create_root_key_file(tmp_path / "missing" / "root.key")


def test_the_key_has_its_length() -> None:
    with pytest.raises(RootKeyError):
        RootKey(os.urandom(16))
