"""The credentials that Penstock is measured with: one user, whose key is the load generator's."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from bench.sigv4 import ACCESS_KEY, SECRET_KEY
from penstock.auth.encryption.root_key import FILE_NAME, create_root_key_file
from penstock.auth.identity.access_keys import Pair
from penstock.auth.identity.editing import add_key, add_user, attach
from penstock.auth.identity.file import changed_file

ACCOUNT = "000000000000"


def make_credentials(folder: Path) -> Path:
    """The file, with its root key beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    root_key = create_root_key_file(folder / FILE_NAME)
    file = folder / "credentials.toml"
    now = datetime.now(UTC)
    with changed_file(file) as book:
        user = add_user(book, ACCOUNT, "bench", now)
        add_key(user, root_key, now, Pair(ACCESS_KEY, SECRET_KEY))
        attach(book, user, "sqs-full-access")
    return file
