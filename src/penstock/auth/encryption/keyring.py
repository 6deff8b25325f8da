"""The keyring: the keys that messages are encrypted under, kept in one file, themselves sealed under the root key.

Rule 1: the file may lie with the data and be backed up with it: without the root key it opens nothing.
Rule 2: a key is never removed, and rotating it only adds a version: what older versions have sealed can be opened.
Rule 3: a running server sees one state of the file or another, never a mixture; a file that cannot be used changes
        nothing, and one that could not be read is tried again.
Rule 4: a new keyring becomes a file only when it is certain that the data needs no older one (:meth:`Keyring.keep`).
Rule 5: two keys are there by themselves, in every account and region: the one behind SSE-SQS, and alias/aws/sqs.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec

from penstock.auth.encryption.keys import (
    AWS_ALIAS,
    EVERYWHERE,
    SSE_ALIAS,
    Key,
    Keyfile,
    Keys,
    KeysUnusable,
    new_key,
    rerooted,
    rotated,
)
from penstock.auth.encryption.root_key import INTERRUPTED, RootKey
from penstock.auth.secret_files import NotPrivate, Stamp, read_private, replace_file, stamp, turn
from penstock.clock import Clock
from penstock.names import Space

_log = logging.getLogger("penstock.auth")


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Keyfile).decode


class KeyringError(Exception):
    """One line for the operator."""


class Keyring:
    """The newest state of the file. ``path`` None: keys that live as long as the process, for data that does too."""

    def __init__(self, path: Path | None, root: RootKey, clock: Clock) -> None:
        """Raises KeyringError. If there is no file the keys are new, and nobody has seen them: see :meth:`keep`."""
        self._path = path
        self._root = root
        self._clock = clock
        self._seen: Stamp | None = None  # the state of the file that was read last, usable or not
        self._trouble = ""  # what was told last about a file that cannot be used
        self.keys = self._first(path)

    def keep(self) -> None:
        """Make the file if there is none: from now on something may be encrypted under its keys. One that was there
        is read again if it has changed: its root key could be exchanged until the data was ours."""
        if self._path is None:
            return
        if self._seen is not None:
            if stamp(self._path) != self._seen:
                self._take_up(self._path)
            return
        with _told_with(self._path):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with turn(self._path):
                if self._path.exists():
                    self.keys = self._read(self._path)
                else:
                    self._write(self.keys.file)
                    _log.info("made a keyring: %s", self._path)

    def reload(self, *, asked: bool = False) -> str:
        """Take up a changed file. Gives one line that was also logged; empty if there was nothing to do, or
        nothing to say that was not said before. ``asked`` reads it in any case."""
        if self._path is None or (stamp(self._path) == self._seen and not asked):
            return ""
        try:
            self._take_up(self._path)
        except KeyringError as error:
            said = f"the keys stay as they were: {error}"
            if said == self._trouble and not asked:
                return ""
            self._trouble = said
            _log.error(said)
            return said
        self._trouble = ""
        disabled = len(self.keys.disabled)
        said = f"keyring reloaded: {len(self.keys.file.keys)} keys, {disabled} of them disabled"
        _log.info(said)
        return said

    # -- changes ---------------------------------------------------------------------------------------------

    def create(self, space: Space, alias: str | None) -> Key:
        with self._turn():
            if alias is not None and self.keys.has(space, alias):
                raise KeyringError(f"there is a key with the name {alias} already")
            key = new_key(self._root, space, alias, self._clock.wall_ms())
            file = self.keys.file
            self._write(msgspec.structs.replace(file, keys=(*file.keys, key)))
            return key

    def rotate(self, space: Space, name: str) -> Key:
        """Add a version: new messages use it from now on, and stored ones are encrypted anew by and by."""
        with self._turn():
            key = rotated(self._root, self.keys.find_for_operator(space, name), self._clock.wall_ms())
            self._put(key, generation=self.keys.file.generation + 1)
            return key

    def rotate_all(self) -> tuple[Key, ...]:
        """Add a version to every key, those of all accounts and those that are disabled too."""
        with self._turn():
            file, wall_ms = self.keys.file, self._clock.wall_ms()
            keys = tuple(rotated(self._root, key, wall_ms) for key in file.keys)
            self._write(msgspec.structs.replace(file, keys=keys, generation=file.generation + 1))
            return keys

    def set_enabled(self, space: Space, name: str, enabled: bool) -> Key:
        with self._turn():
            key = self.keys.find_for_operator(space, name)
            if key.managed:
                raise KeyringError(f"{name} is the server's own: it is always enabled")
            key = msgspec.structs.replace(key, enabled=enabled)
            # What could not be encrypted anew while the key was disabled can be now.
            self._put(key, generation=self.keys.file.generation + enabled)
            return key

    def encrypt_anew(self) -> None:
        """Let the server look at all that is stored: is it encrypted under the key that its queue names today?"""
        with self._turn():
            file = self.keys.file
            self._write(msgspec.structs.replace(file, generation=file.generation + 1))

    def _put(self, changed: Key, *, generation: int) -> None:
        keys = tuple(changed if key.id == changed.id else key for key in self.keys.file.keys)
        self._write(msgspec.structs.replace(self.keys.file, keys=keys, generation=generation))

    # -- the file --------------------------------------------------------------------------------------------

    def _first(self, path: Path | None) -> Keys:
        if path is not None:
            with _told_with(path):
                if path.exists():
                    return self._read(path)
        own = tuple(
            new_key(self._root, EVERYWHERE, alias, self._clock.wall_ms()) for alias in (SSE_ALIAS, AWS_ALIAS)
        )
        return Keys(Keyfile(root_key=self._root.fingerprint, keys=own), self._root)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Changes take turns, and each begins with what the one before it left."""
        if self._path is None:
            yield
            return
        with ExitStack() as stack:
            with _told_with(self._path):
                stack.enter_context(turn(self._path))
                self._take_up(self._path)
            yield

    def _take_up(self, path: Path) -> None:
        with _told_with(path):
            keys = self._read(path)
            if not keys.opens_all_of(self.keys):
                raise KeysUnusable("it lacks keys that are in use; is it an older copy?")
            self.keys = keys

    def _read(self, path: Path) -> Keys:
        found = stamp(path)  # taken before the file is read: a change meanwhile is seen the next time
        data = _bytes_of(path)
        self._seen = found
        file = _decoded(data)
        if file.root_key != self._root.fingerprint:
            given = self._root.fingerprint
            raise KeysUnusable(
                f"it is sealed under another root key (fingerprint {file.root_key}) than the one given ({given}); "
                f"{INTERRUPTED}"
            )
        return Keys(file, self._root)

    def _write(self, file: Keyfile) -> None:
        keys = Keys(file, self._root)  # what could not be opened again is not written
        if self._path is not None:
            with _told_with(self._path):
                replace_file(self._path, _encoded(file))
            self._seen = stamp(self._path)
        self.keys = keys


@contextmanager
def rerooted_keyring(path: Path, old: RootKey, new: RootKey) -> Iterator[bytes | None]:
    """What the file has to say to be sealed under another root key; None if it is already. Within the block it is
    ours to change. Raises KeyringError."""
    with ExitStack() as stack:
        with _told_with(path):
            stack.enter_context(turn(path))
            text = _rerooted(_decoded(_bytes_of(path)), old, new)
        yield text


def _rerooted(file: Keyfile, old: RootKey, new: RootKey) -> bytes | None:
    if file.root_key not in (old.fingerprint, new.fingerprint):
        given = f"neither the present one ({old.fingerprint}) nor the new one ({new.fingerprint})"
        raise KeysUnusable(f"it is sealed under the root key with the fingerprint {file.root_key}: {given}")
    if file.root_key == new.fingerprint:
        Keys(file, new)
        return None
    text = _encoded(rerooted(file, old, new))
    Keys(_decoded(text), new)  # what could not be opened again is not written
    return text


def _bytes_of(path: Path) -> bytes:
    # Its keys are sealed: whoever owns the file cannot have made them up.
    return read_private(path, root_takes_any_owner=True)


def _decoded(data: bytes) -> Keyfile:
    try:
        return _decode(data)
    except msgspec.MsgspecError as error:
        raise KeysUnusable(f"it is not a keyring of this version: {error}") from None


def _encoded(file: Keyfile) -> bytes:
    return msgspec.json.format(_encode(file)) + b"\n"


@contextmanager
def _told_with(path: Path) -> Iterator[None]:
    try:
        yield
    except (KeysUnusable, NotPrivate) as error:
        raise KeyringError(f"cannot use the keyring {path}: {error}") from None
    except OSError as error:
        raise KeyringError(f"cannot use the keyring {path}: {error.strerror}") from None
