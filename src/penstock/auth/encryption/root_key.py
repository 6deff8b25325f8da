"""The root key: 32 bytes that only the operator has, and that protect all other keys and secrets on disk.

It is never stored with the data: it comes from the environment, from a command, or from a file. It encrypts
nothing itself: each purpose gets a derived key of its own (HKDF-SHA256). What is encrypted (AES-256-GCM) is
bound to a name: it can be neither changed nor used in another place.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from base64 import b64decode, b64encode
from collections.abc import Mapping
from pathlib import Path

from penstock.auth.encryption.aead import KEY_BYTES, NONCE_BYTES, Aead, NotAuthentic, derived_key
from penstock.auth.secret_files import NotPrivate, exists, read_private

VARIABLE = "PENSTOCK_ROOT_KEY"
"""Holds the key itself. There is no flag for it: other users can read the arguments of a process."""

NEW_VARIABLE = "PENSTOCK_NEW_ROOT_KEY"
"""Holds the new key for the command that replaces the root key."""

INTERRUPTED = "if penstock key replace-root was interrupted, repeat it"

FILE_NAME = "penstock-root.key"
_COMMAND_TIMEOUT_S = 30
_FILE_BYTES_MAX = 4096


class RootKeyError(Exception):
    """One line for the operator. It never contains any part of a key."""


class RootKeyUnavailable(RootKeyError):
    """The command that prints the key failed this time."""


class RootKey:
    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise RootKeyError(f"a root key has {KEY_BYTES} bytes, not {len(key)}")
        self._key = key
        self._ciphers: dict[bytes, Aead] = {}  # by purpose

    def derive(self, purpose: bytes) -> bytes:
        """A key of 32 bytes for one purpose. It reveals nothing about the root key or about other purposes."""
        return derived_key(self._key, b"penstock/" + purpose)

    @property
    def fingerprint(self) -> str:
        """Tells root keys apart without revealing them."""
        return self.derive(b"fingerprint")[:8].hex()

    def encrypt(self, purpose: bytes, plain: bytes, bound_to: bytes) -> bytes:
        nonce = os.urandom(NONCE_BYTES)
        return nonce + self._cipher(purpose).encrypt(nonce, plain, bound_to)

    def decrypt(self, purpose: bytes, encrypted: bytes, bound_to: bytes) -> bytes:
        try:
            return self._cipher(purpose).decrypt(encrypted[:NONCE_BYTES], encrypted[NONCE_BYTES:], bound_to)
        except NotAuthentic:
            raise RootKeyError("it was encrypted with another root key, or changed since") from None

    def _cipher(self, purpose: bytes) -> Aead:
        cipher = self._ciphers.get(purpose)
        if cipher is None:
            cipher = self._ciphers[purpose] = Aead(self.derive(purpose))
        return cipher


def find_root_key(
    *, environ: Mapping[str, str], command: str | None, file: Path | None, beside: Path | None
) -> RootKey | None:
    """The first source that is given wins. ``beside`` is the credentials file: a key file may be next to it.

    Raises RootKeyError."""
    given = _first_given(environ, VARIABLE, command, "root_key_command", file)
    if given is not None or beside is None:
        return given
    path = beside.with_name(FILE_NAME)
    try:
        return read_root_key_file(path) if exists(path) else None
    except OSError as error:
        raise RootKeyError(f"cannot read the root key file {path}: {error.strerror}") from None


def find_new_root_key(
    *, environ: Mapping[str, str], command: str | None, file: Path | None
) -> RootKey | None:
    """The new root key: from the same kinds of sources, with names of their own."""
    return _first_given(environ, NEW_VARIABLE, command, "--new-root-key-command", file)


def read_root_key_file(path: Path) -> RootKey:
    try:
        text = read_private(path, _FILE_BYTES_MAX)
    except OSError as error:
        raise RootKeyError(f"cannot read the root key file {path}: {error.strerror}") from None
    except NotPrivate as error:
        raise RootKeyError(f"cannot use the root key file {path}: {error}") from None
    return RootKey(_read(text.decode("latin-1"), f"the root key file {path}"))


def create_root_key_file(path: Path) -> RootKey:
    """Create a key in a new file that only its owner may read."""
    key = os.urandom(KEY_BYTES)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(b64encode(key) + b"\n")
            file.flush()
            os.fsync(descriptor)
    except FileExistsError:
        raise RootKeyError(f"{path} exists already: a root key is never overwritten") from None
    except OSError as error:
        raise RootKeyError(f"cannot create the root key file {path}: {error.strerror}") from None
    return RootKey(key)


def _first_given(
    environ: Mapping[str, str], variable: str, command: str | None, command_name: str, file: Path | None
) -> RootKey | None:
    if environ.get(variable):
        return RootKey(_read(environ[variable], f"the variable {variable}"))
    if command is not None:
        return RootKey(_read(_output(command, command_name), f"what {command_name} printed"))
    return None if file is None else read_root_key_file(file)


def _output(command: str, name: str) -> str:
    try:
        arguments = shlex.split(command)
        done = subprocess.run(
            arguments, capture_output=True, timeout=_COMMAND_TIMEOUT_S, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        raise RootKeyUnavailable(f"{name} took longer than {_COMMAND_TIMEOUT_S} seconds") from None
    except OSError as error:
        raise RootKeyError(f'cannot run "{arguments[0]}" of {name}: {error.strerror}') from None
    except (ValueError, IndexError):
        raise RootKeyError(f"invalid {name}: expected a command and its arguments, quoted as in sh") from None
    if done.returncode != 0:
        # Its output may contain the key; only standard error is shown.
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        reason = f": {lines[-1]}" if lines else ""
        raise RootKeyUnavailable(f"{name} ended with status {done.returncode}{reason}")
    return done.stdout.decode("latin-1")


def _read(text: str, where: str) -> bytes:
    text = text.strip()
    for decode in (bytes.fromhex, lambda text: b64decode(text, validate=True)):
        try:
            key = decode(text)
        except ValueError:
            continue
        if len(key) == KEY_BYTES:
            return key
    raise RootKeyError(
        f"invalid root key in {where}: expected {KEY_BYTES} bytes as base64 or as hexadecimal digits"
    )
