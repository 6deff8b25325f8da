"""The locks on the doors, as the settings want them: who may come in, what is kept secret, what is written down.

Rule 1: a lock that cannot be set is a start that fails: nothing is served less guarded than the settings say.
Rule 2: what stands in files (keys, users, certificates) is read again while the server runs: within seconds of a
change, and on SIGHUP. A file that cannot be used leaves everything as it was, and the log says why.
Rule 3: how soon a key that was withdrawn counts no more is not up to its holder: nothing of it waits for the loop.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from functools import partial

from penstock.auth.encryption.keyring import KeyringError
from penstock.auth.encryption.root_key import RootKey, RootKeyError
from penstock.auth.identity import Credentials, CredentialsError
from penstock.auth.identity.file import errors_about
from penstock.clock import Clock
from penstock.server.audit.file import AuditError
from penstock.server.audit.log import open_audit_log
from penstock.server.audit.recorder import AuditRecorder
from penstock.server.callers import OpenCallers, SignedCallers
from penstock.server.encryption import Encryption, root_key
from penstock.server.http.listener import Listener
from penstock.server.origin import Origins
from penstock.server.periodic import Lookout, alone
from penstock.server.settings.config import Config, ConfigError
from penstock.server.startup_report import check_plain_http
from penstock.server.throttle import Throttle
from penstock.server.tls import Tls, TlsError, TlsFiles
from penstock.wire.service import Service

SETUP_ERRORS = (AuditError, ConfigError, CredentialsError, KeyringError, RootKeyError, TlsError)
"""Each is one line for the operator."""


class Security:
    def __init__(self, config: Config, clock: Clock, origins: Origins, services: Collection[Service]) -> None:
        """Raises one of SETUP_ERRORS."""
        check_plain_http(config)
        root = root_key(config, os.environ)
        files = tls_files(config)
        self.tls = None if files is None else Tls(files)
        self.credentials = opened_credentials(config, root, clock)
        # The gate looks at the directory for each request anew, so what the thread has read counts for the next one.
        self._lookout = (
            None if self.credentials is None else Lookout("credentials", partial(_reload, self.credentials))
        )
        self.encryption = Encryption(config, root, clock)
        self.callers = (
            OpenCallers(config.space, origins)
            if self.credentials is None
            else SignedCallers(self.credentials, origins, config.space, regions=config.regions)
        )
        rate = config.requests_per_second
        self.throttle = Throttle(rate, config.requests_burst or rate) if rate else None
        self.audit = open_audit_log(config, clock.wall_ms)
        self.witness = (
            None
            if self.audit is None
            else AuditRecorder(self.audit, origins, config.space, clock.wall_ms, services)
        )

    def look(self, listener: Listener, *, asked: bool) -> None:
        """Once a second: take up what has changed. ``asked``: because the operator asks for it, changed or not."""
        if asked and self._lookout is not None:
            self._lookout.ask()
        with alone("certificates"):
            if self.tls is not None and (self.tls.reload() if asked else self.tls.look(time.time())):
                listener.tls = self.tls.context
        with alone("encryption keys"):
            self.encryption.reload(asked=asked)
        with alone("the audit log"):
            if self.audit is not None:
                if asked:
                    self.audit.reopen()
                self.audit.tick()

    def start(self) -> None:
        """The data is ours now, and what is written beside it too."""
        if self.audit is not None:
            self.audit.start()
        if self._lookout is not None:
            self._lookout.start()

    def close(self) -> None:
        if self._lookout is not None:
            self._lookout.close()
        if self.audit is not None:
            self.audit.close()


def _reload(credentials: Credentials, asked: bool) -> None:
    credentials.reload(asked=asked)


def tls_files(config: Config) -> TlsFiles | None:
    if config.tls_certificate is None or config.tls_key is None:
        return None
    return TlsFiles(config.tls_certificate, config.tls_key, config.tls_client_ca, config.tls_client_auth)


def opened_credentials(config: Config, root: RootKey | None, clock: Clock) -> Credentials | None:
    """None: the server is open. Raises CredentialsError or RootKeyError."""
    path = config.credentials
    if path is None:
        return None
    with errors_about(path):  # before the root key: a missing file needs none
        path.stat()
    if root is None:
        raise RootKeyError(
            f"the secrets in {path} are encrypted, and there is no root key: "
            "give --root-key-file, or put penstock-root.key beside it"
        )
    return Credentials(path, root, clock)
