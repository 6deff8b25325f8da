"""What the commands about keys share: the settings that lead to the keyring and the root key, and how they fail."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any

from penstock.auth.encryption.keyring import Keyring, KeyringError
from penstock.auth.encryption.root_key import NEW_VARIABLE, RootKey, RootKeyError
from penstock.auth.identity import CredentialsError
from penstock.cli.failure import Failure
from penstock.cli.identity import DEFAULT_FILE
from penstock.cli.options import configured, with_these_settings
from penstock.clock import SystemClock
from penstock.errors import KeyMissing
from penstock.server.encryption import root_key
from penstock.server.settings.config import Config

_SETTINGS = ("data", "keyring", "root_key_file", "root_key_command", "credentials")

Command = Callable[..., None]


def with_key_settings(*more: str) -> Callable[[Command], Command]:
    """The flags that lead to the keyring, and more; the function gets the settings first."""
    names = (*_SETTINGS, *more)

    def add(function: Command) -> Command:
        @with_these_settings(*names)
        @wraps(function)
        def run(**given: Any) -> None:
            flags = {name: given.pop(name) for name in ("config", *names)}
            config = configured(flags, besides=(NEW_VARIABLE,))
            try:
                function(_with_default_credentials(config), **given)
            except (RootKeyError, KeyringError, CredentialsError) as error:
                raise Failure(str(error)) from None
            except KeyMissing as error:
                raise Failure(f"there is no key {error.key}") from None

        return run

    return add


def with_keyring(function: Command) -> Command:
    """The same, and where to find keys by name; the function gets the settings and the keyring first."""

    @with_key_settings("account", "region")
    @wraps(function)
    def run(config: Config, **given: Any) -> None:
        path = keyring_there(config)
        if path is None:
            raise Failure("a broker that keeps everything in memory has no keyring: give --keyring")
        function(config, Keyring(path, present_root_key(config), SystemClock()), **given)

    return run


def keyring_there(config: Config) -> Path | None:
    """None: the settings say that there is none. No command makes one: only the server knows whether its data needs
    an older one."""
    path = config.keyring_file
    if path is not None and not path.exists():
        raise Failure(
            f"there is no keyring {path}: give the server's --config or --data; "
            "its first start with a root key makes it"
        )
    return path


def present_root_key(config: Config) -> RootKey:
    found = root_key(config, os.environ)
    if found is None:
        raise Failure("there is no root key: give --root-key-file, or the server's --config")
    return found


def _with_default_credentials(config: Config) -> Config:
    """As penstock user finds them: the root key may lie beside the file that it makes if it is told no other."""
    here = config.credentials is None and DEFAULT_FILE.exists()
    return replace(config, credentials=DEFAULT_FILE) if here else config
