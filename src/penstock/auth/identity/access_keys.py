"""Creates ids and secrets, and encrypts secrets for the credentials file.

A secret is encrypted with the root key and bound to the id of its access key: it cannot be read from a copy of the
file, nor moved to another key. It is not hashed, because the server needs it to verify signatures.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from penstock.auth.encryption.root_key import RootKey, RootKeyError
from penstock.auth.identity.model import AccessKey, CredentialsError

TEMPORARY = "ASIA"  # the prefix of the access keys of sessions

_PURPOSE = b"credentials"


class OtherRootKey(CredentialsError):
    """The secret was encrypted with another root key."""


def new_id(prefix: str, length: int) -> str:
    """Random characters behind a prefix, ``length`` in all, in the form of AWS's ids."""
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


def encrypted_key(root_key: RootKey, pair: Pair, now: datetime) -> AccessKey:
    """The key as the file holds it."""
    return AccessKey(id=pair.id, secret=encrypted_secret(root_key, pair), created=now)


def encrypted_secret(root_key: RootKey, pair: Pair) -> str:
    return base64.b64encode(root_key.encrypt(_PURPOSE, pair.secret.encode(), pair.id.encode())).decode()


def decrypted_secret(root_key: RootKey, key: AccessKey) -> str:
    """Raises CredentialsError."""
    try:
        encrypted = base64.b64decode(key.secret, validate=True)
        return root_key.decrypt(_PURPOSE, encrypted, key.id.encode()).decode()
    except RootKeyError as error:
        raise OtherRootKey(f"the secret of access key {key.id} cannot be decrypted: {error}") from None
    except ValueError:
        raise CredentialsError(
            f"the secret of access key {key.id} is not an encrypted one: create a key with penstock user rotate"
        ) from None


def check_root_key(root_key: RootKey, keys: Iterable[AccessKey]) -> None:
    """Raises CredentialsError if the existing secrets were encrypted with another root key: a server
    decrypts all with one root key, or uses nothing of the file."""
    for key in keys:
        try:
            decrypted_secret(root_key, key)
        except OtherRootKey as error:
            raise CredentialsError(
                f"{error}. Nothing was written: give the root key that encrypts the file; "
                "if it is lost, docs/authentication.md says how to start over"
            ) from None
        except CredentialsError:
            continue  # written by hand: it says nothing about the root key
