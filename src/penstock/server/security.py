"""The security of a server, as its settings want it: callers, TLS, encryption at rest, rate limit and audit log.

A part that cannot be set up fails the start: nothing is served with less protection than the settings say. Files
(credentials, keys, certificates) are read again while the server runs: within seconds of a change, and on SIGHUP. A
file that cannot be used leaves everything as it was, and the log says why.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection
from concurrent.futures import Future

from penstock.auth.encryption.keyring import KeyringError
from penstock.auth.encryption.root_key import RootKey, RootKeyError
from penstock.auth.identity import Credentials, CredentialsError
from penstock.auth.identity.file import errors_about
from penstock.clock import Clock, real_s
from penstock.names import partition_of
from penstock.server.audit.file import AuditError
from penstock.server.audit.log import open_audit_log
from penstock.server.audit.recorder import AuditRecorder
from penstock.server.callers import OpenCallers, SignedCallers
from penstock.server.encryption import Encryption, root_key
from penstock.server.http.listener import Listener
from penstock.server.origin import Origins
from penstock.server.periodic import PeriodicThread, logging_errors
from penstock.server.settings.config import Config, ConfigError
from penstock.server.throttle import MakeThrottle, SharedThrottle, Throttle
from penstock.server.tls import LinkTls, Tls, TlsError, TlsFiles
from penstock.wire.service import Service

SETUP_ERRORS = (AuditError, ConfigError, CredentialsError, KeyringError, RootKeyError, TlsError)
"""Each is one line for the operator."""


class Security:
    def __init__(
        self,
        config: Config,
        clock: Clock,
        origins: Origins,
        services: Collection[Service],
        make_throttle: MakeThrottle = Throttle,
    ) -> None:
        """Raises one of SETUP_ERRORS."""
        check_plain_http(config)
        self.root = root = root_key(config, os.environ)
        files = tls_files(config)
        self.tls = None if files is None else Tls(files)
        self.link_tls = link_tls(config)
        self.credentials = open_credentials(config, root, clock)
        # In a thread of its own: clients can keep the event loop busy, and a revoked key must not profit from that.
        # The callers ask for the directory with each request, so that a reload takes effect with the next one.
        self._reloading = (
            None
            if self.credentials is None
            else PeriodicThread("reload credentials", self.credentials.reload)
        )
        self._credentials_read: Future[None] | None = None  # at the last request
        self.encryption = Encryption(config, root, clock)
        self.callers = (
            OpenCallers(config.space, origins)
            if self.credentials is None
            else SignedCallers(self.credentials, origins, config.space, regions=config.regions)
        )
        self._make_throttle = make_throttle
        self.audit = open_audit_log(config, clock.wall_ms)
        self.recorder = (
            None
            if self.audit is None
            else AuditRecorder(self.audit, origins, config.space, clock.wall_ms, services)
        )

    def start(self) -> None:
        """Call this once the data is locked: only then may files beside it be written."""
        if self.audit is not None:
            self.audit.start()
        if self._reloading is not None:
            self._reloading.start()

    def throttle(self, config: Config) -> Throttle | SharedThrottle | None:
        rate = config.requests_per_second
        return self._make_throttle(rate, config.requests_burst or rate) if rate else None

    def reload(self, listener: Listener, *, requested: bool) -> None:
        """Read files that have changed, or all of them if the operator has ``requested`` it. This is called once a
        second."""
        if requested and self._reloading is not None:
            self._credentials_read = self._reloading.run_now()
        with logging_errors("reload certificates"):
            if self.tls is not None and (self.tls.reload() if requested else self.tls.check(real_s())):
                listener.tls = self.tls.context
        with logging_errors("reload certificates of the cluster"):
            if self.link_tls is not None:
                self.link_tls.check()
        with logging_errors("reload encryption keys"):
            self.encryption.reload(requested=requested)
        with logging_errors("maintain the audit log"):
            if self.audit is not None:
                if requested:
                    self.audit.reopen()
                self.audit.tick()

    async def problems(self) -> dict[str, str]:
        """What is wrong with each of the files after a requested reload. An empty text means that the file is in
        use now."""
        found = {}
        if self.tls is not None:
            found["certificates"] = self.tls.problem
        if self.credentials is not None:
            if self._credentials_read is not None:
                await asyncio.wrap_future(self._credentials_read)
            found["credentials"] = self.credentials.problem
        if self.encryption.has_keys:
            found["keys"] = self.encryption.problem
        if self.audit is not None:
            found["audit log"] = ""
        return found

    def close(self) -> None:
        if self._reloading is not None:
            self._reloading.close()
        if self.audit is not None:
            self.audit.close()


def check_plain_http(config: Config) -> None:
    """Raises ConfigError if signed requests would cross the network without TLS, and the settings do not allow it.

    Signatures never reveal a key, but message bodies could be read on the way."""
    if config.credentials is None or config.tls_certificate is not None or config.allow_plain_http:
        return
    for address in config.addresses:
        if not address.is_loopback:
            raise ConfigError(
                f"{address} can be reached over the network, credentials are set, and TLS is not: "
                "set tls_certificate and tls_key, or allow_plain_http if a proxy in front terminates TLS"
            )


def tls_files(config: Config) -> TlsFiles | None:
    if config.tls_certificate is None or config.tls_key is None:
        return None
    return TlsFiles(config.tls_certificate, config.tls_key, config.tls_client_ca, config.tls_client_auth)


def link_tls(config: Config) -> LinkTls | None:
    """Returns None if what nodes exchange is encrypted with the secret of the cluster. Raises TlsError."""
    certificate, key, authority = (
        config.cluster_tls_certificate,
        config.cluster_tls_key,
        config.cluster_tls_ca,
    )
    if certificate is None or key is None or authority is None:
        return None
    return LinkTls(certificate, key, authority)


def open_credentials(config: Config, root: RootKey | None, clock: Clock) -> Credentials | None:
    """Returns None for an open server. Raises CredentialsError or RootKeyError."""
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
    return Credentials(path, root, clock, partition_of(config.region))
