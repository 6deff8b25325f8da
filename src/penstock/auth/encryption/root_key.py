"""The root key: 32 bytes that only the operator keeps. Whatever is sealed on disk is sealed by way of it.

Rule 1: it is never stored with the data it protects: it comes from the environment, from a command, or from a file.
Rule 2: it encrypts nothing itself: each purpose gets a key of its own (HKDF-SHA256).
Rule 3: what is sealed (AES-256-GCM) is bound to a name: it cannot be passed off as something else, nor changed.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from base64 import b64decode, b64encode
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from penstock.auth.encryption.aead import KEY_BYTES, NONCE_BYTES, Aead, Forged, derived_key
from penstock.auth.secret_files import NotPrivate, read_private

VARIABLE = "PENSTOCK_ROOT_KEY"
"""Holds the key itself. There is no such flag: the arguments of a process are for everyone to read."""

NEW_VARIABLE = "PENSTOCK_NEW_ROOT_KEY"
"""Holds the key that takes the place of another, for the command that exchanges the two."""

INTERRUPTED = "if penstock key reroot was interrupted, repeat it"

FILE_NAME = "penstock-root.key"
_COMMAND_PATIENCE_S = 30
_FILE_BYTES_MAX = 4096


class RootKeyError(Exception):
    """One line for the operator. It never shows any part of a key."""


class RootKeyUnavailable(RootKeyError):
    """The command that gives the key out did not, this time."""


class RootKey:
    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise RootKeyError(f"a root key has {KEY_BYTES} bytes, not {len(key)}")
        self._key = key
        self._cipher = lru_cache(maxsize=16)(lambda purpose: Aead(self.derive(purpose)))

    def derive(self, purpose: bytes) -> bytes:
        """A key of 32 bytes for one purpose; it tells nothing about the root key or about other purposes."""
        return derived_key(self._key, b"penstock/" + purpose)

    @property
    def fingerprint(self) -> str:
        """Tells root keys apart, and gives nothing away."""
        return self.derive(b"fingerprint")[:8].hex()

    def seal(self, purpose: bytes, plain: bytes, bound_to: bytes) -> bytes:
        nonce = os.urandom(NONCE_BYTES)
        return nonce + self._cipher(purpose).encrypt(nonce, plain, bound_to)

    def open(self, purpose: bytes, sealed: bytes, bound_to: bytes) -> bytes:
        try:
            return self._cipher(purpose).decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], bound_to)
        except Forged:
            raise RootKeyError("it was sealed with another root key, or changed since") from None


def find_root_key(
    *, environ: Mapping[str, str], command: str | None, file: Path | None, beside: Path | None
) -> RootKey | None:
    """The first source that is given wins. ``beside`` is the credentials file: a key file may lie next to it."""
    given = _first_given(environ, VARIABLE, command, "root_key_command", file)
    if given is None and beside is not None and (found := beside.with_name(FILE_NAME)).exists():
        return read_root_key_file(found)
    return given


def find_new_root_key(
    *, environ: Mapping[str, str], command: str | None, file: Path | None
) -> RootKey | None:
    """The one that takes the place of another: from the same sources, under names of their own."""
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
    """Make a key and keep it in a new file that only its owner may read."""
    key = os.urandom(KEY_BYTES)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(b64encode(key) + b"\n")
            file.flush()
            os.fsync(descriptor)
    except FileExistsError:
        raise RootKeyError(f"{path} is there already: a root key is never overwritten") from None
    except OSError as error:
        raise RootKeyError(f"cannot make the root key file {path}: {error.strerror}") from None
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
        done = subprocess.run(
            shlex.split(command), capture_output=True, timeout=_COMMAND_PATIENCE_S, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        raise RootKeyUnavailable(f"{name} took longer than {_COMMAND_PATIENCE_S} seconds") from None
    except (OSError, ValueError, IndexError) as error:
        raise RootKeyUnavailable(f"cannot run {name}: {error}") from None
    if done.returncode != 0:
        # Its output may hold the key; what it says to the operator goes to standard error.
        said = done.stderr.decode(errors="replace").strip().splitlines()
        reason = f": {said[-1]}" if said else ""
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
        f"{where} is not a root key: give {KEY_BYTES} bytes as base64 or as hexadecimal digits"
    )
