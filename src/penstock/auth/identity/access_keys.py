"""New ids and secrets, and how secrets lie in the file.

A secret is sealed with the root key and bound to the id of its key: it cannot be read out of a copy of the file,
nor be moved to another key. It is not hashed, because a signature can only be checked by whoever knows the secret.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from penstock.auth.encryption.root_key import RootKey, RootKeyError
from penstock.auth.identity.book import AccessKey, CredentialsError


class SealedElsewhere(CredentialsError):
    """The secret needs another root key than the one that is there."""


TEMPORARY = "ASIA"  # how the access keys of sessions begin

_PURPOSE = b"credentials"


def new_id(prefix: str, length: int) -> str:
    """Random characters behind a prefix, ``length`` in all, as AWS shapes its ids."""
    return (prefix + base64.b32encode(os.urandom(20)).decode())[:length]


def new_access_key_id(*, temporary: bool = False) -> str:
    return new_id(TEMPORARY if temporary else "AKIA", 20)


def new_secret() -> str:
    return base64.b64encode(os.urandom(30)).decode()


class Pair(NamedTuple):
    id: str
    secret: str


def new_pair() -> Pair:
    return Pair(new_access_key_id(), new_secret())


def sealed_key(root_key: RootKey, pair: Pair, now: datetime) -> AccessKey:
    """The key as the file keeps it."""
    return AccessKey(id=pair.id, secret=_sealed_secret(root_key, pair), created=now)


def reroot_key(key: AccessKey, old: RootKey, new: RootKey) -> bool:
    """Seal its secret under another root key. False: it is so already. Raises CredentialsError."""
    try:
        opened_secret(new, key)
    except SealedElsewhere:
        key.secret = _sealed_secret(new, Pair(key.id, opened_secret(old, key)))
        return True
    return False


def _sealed_secret(root_key: RootKey, pair: Pair) -> str:
    return base64.b64encode(root_key.seal(_PURPOSE, pair.secret.encode(), pair.id.encode())).decode()


def opened_secret(root_key: RootKey, key: AccessKey) -> str:
    """Raises CredentialsError."""
    try:
        sealed = base64.b64decode(key.secret, validate=True)
        return root_key.open(_PURPOSE, sealed, key.id.encode()).decode()
    except RootKeyError as error:
        raise SealedElsewhere(f"the secret of access key {key.id} cannot be opened: {error}") from None
    except ValueError:
        raise CredentialsError(
            f"the secret of access key {key.id} is not a sealed one: make a key with penstock user rotate"
        ) from None


def check_root_key(root_key: RootKey, keys: Iterable[AccessKey]) -> None:
    """Raises CredentialsError if the secrets that are there were sealed with another one: a server opens all with one
    root key, or takes nothing of the file."""
    for key in keys:
        try:
            opened_secret(root_key, key)
        except SealedElsewhere as error:
            raise CredentialsError(
                f"{error}. Nothing was written: give the root key that the file was sealed with; "
                "if it is lost, docs/authentication.md says how to start over"
            ) from None
        except CredentialsError:
            continue  # written by hand: it says nothing about the root key
