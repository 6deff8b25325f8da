"""The root key is exchanged for another: what the old one sealed is sealed under the new one.

Rule 1: all is opened, sealed and written beside the files before the first of them changes. Until then a wrong key, a
damaged file or a full disk changes nothing.
Rule 2: each file changes in one step, and two files in two. Who is killed between them leaves one file under each
key: then a server starts with neither key, says why, and the same exchange once more finishes. What is under the new
key already is left alone.

A keyring that both keys open would let a server start even then. But a killed exchange would leave it open to the old
key, which may be known to others, with nobody the wiser. An exchange that is not finished had better be noticed.

What is derived from the root key is not in any file, and ends: sessions, and the memory of FIFO sends.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from penstock.auth.encryption.keyring import rerooted_keyring
from penstock.auth.encryption.root_key import RootKey, RootKeyError
from penstock.auth.identity.file import rerooted_credentials
from penstock.auth.secret_files import replace_files


def reroot(keyring: Path | None, credentials: Path | None, old: RootKey, new: RootKey) -> Sequence[Path]:
    """The files that were changed; none if all was under the new key already. They are changed while no server uses
    them: one that runs would go on with the old key. Raises RootKeyError, KeyringError or CredentialsError."""
    drafts: dict[Path, bytes | None] = {}
    with ExitStack() as turns:
        if keyring is not None:
            drafts[keyring] = turns.enter_context(rerooted_keyring(keyring, old, new))
        if credentials is not None:
            drafts[credentials] = turns.enter_context(rerooted_credentials(credentials, old, new))
        changed = {path: text for path, text in drafts.items() if text is not None}
        try:
            replace_files(changed)
        except OSError as error:
            paths = " and ".join(map(str, changed))
            raise RootKeyError(
                f"cannot write {paths}: {error.strerror}; repeat the command when that is mended"
            ) from None
    return tuple(changed)
