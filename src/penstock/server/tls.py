"""TLS: the server's certificate and the check of client certificates, read at the start and again on change.

TLS 1.2 or later, with forward secrecy and authenticated encryption, which every AWS SDK supports. Files are
read into a new context, which replaces the old one only if all of them are valid; open connections keep
theirs. Files that could not be read are tried again with every check.
"""

from __future__ import annotations

import hashlib
import logging
import os
import ssl
import stat
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from penstock.auth.secret_files import FileWatch

if TYPE_CHECKING:
    import asyncio

    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes

log = logging.getLogger("penstock.tls")

_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"  # of TLS 1.2; all ciphers of 1.3 are good
_SUBJECT_MAX = 256
_WARN_EVERY_S = 24 * 3600.0
_WARN_BEFORE = timedelta(days=21)
_CLIENT_AUTH = {"none": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


class TlsError(Exception):
    """One line for the operator."""


class TlsUnreadable(TlsError):
    """The files could not be read this time; another try may succeed."""


class TlsFiles(NamedTuple):
    certificate: Path
    key: Path
    client_ca: Path | None = None
    client_auth: str = "none"  # or "optional", "required"
    prefix: str = ""  # of the names of the settings

    def paths(self) -> Iterator[Path]:
        yield self.certificate
        yield self.key
        if self.client_ca is not None:
            yield self.client_ca


class Tls:
    def __init__(self, files: TlsFiles) -> None:
        """Raises TlsError."""
        self.files = files
        self._watch = FileWatch(*files.paths())
        self.context, self.expires = _read(files)
        self._watch.mark_read()
        self.problem = ""  # what was logged last about files that cannot be used
        self._warn_at_s = 0.0

    def reload(self) -> bool:
        """Read the files again. If they cannot be used, the present certificate stays, and the log says why."""
        self.problem = ""
        self._watch.is_stable()
        return self._reread()

    def _reread(self) -> bool:
        try:
            self.context, self.expires = _read(self.files)
        except TlsUnreadable as error:
            self._watch.mark_unread()
            return self._keep_present(error)
        except TlsError as error:
            self._watch.mark_read()
            return self._keep_present(error)
        self._watch.mark_read()
        self.problem = ""
        self._warn_at_s = 0.0
        log.info("certificate loaded, valid until %s", _day(self.expires))
        return True

    def _keep_present(self, error: TlsError) -> bool:
        if str(error) != self.problem:
            self.problem = str(error)
            log.error("the present certificate stays in use: %s", error)
        return False

    def check(self, now_s: float) -> bool:
        """Call this about every second (wall clock): True if new files were loaded. Also warns of a near expiry."""
        loaded = self._watch.has_changed() and self._reread()
        if now_s >= self._warn_at_s:
            self._warn_at_s = now_s + _WARN_EVERY_S
            for warning in self.warnings(datetime.fromtimestamp(now_s, UTC)):
                log.warning("%s", warning)
        return loaded

    def warnings(self, now: datetime) -> list[str]:
        """What an operator should know, though the server starts."""
        found = []
        if self.expires <= now:
            found.append(
                f"tls_certificate {self.files.certificate} has expired on {_day(self.expires)}: renew it"
            )
        elif self.expires - now < _WARN_BEFORE:
            found.append(
                f"tls_certificate {self.files.certificate} expires on {_day(self.expires)}: renew it soon"
            )
        if _is_open_to_others(self.files.key):
            found.append(f"tls_key {self.files.key} can be read by others on this machine: chmod 600 it")
        return found


class LinkTls:
    """Mutual TLS between the nodes of a cluster: both sides show a certificate of the same authority, and that of the
    side that accepts must name the host that was called."""

    def __init__(self, certificate: Path, key: Path, authority: Path) -> None:
        """Raises TlsError."""
        self._files = TlsFiles(certificate, key, authority, "required", "cluster_")
        self._watch = FileWatch(*self._files.paths())
        self.accepts, _ = _read(self._files)
        self.connects = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.connects.minimum_version = ssl.TLSVersion.TLSv1_2
        self.connects.set_ciphers(_CIPHERS)
        self.connects.load_cert_chain(certificate, key)
        self.connects.load_verify_locations(authority)
        self._watch.mark_read()

    def check(self) -> None:
        """Call this about every second: new connections use files that were renewed."""
        if not self._watch.has_changed():
            return
        try:
            _read(self._files)
            for context in (self.accepts, self.connects):
                context.load_cert_chain(self._files.certificate, self._files.key)
                context.load_verify_locations(self._files.client_ca)
        except TlsUnreadable as error:
            self._watch.mark_unread()
            log.error("the present certificate of the cluster stays in use: %s", error)
        except (TlsError, OSError) as error:
            self._watch.mark_read()
            log.error("the present certificate of the cluster stays in use: %s", error)
        else:
            self._watch.mark_read()
            log.info("certificate of the cluster loaded")


def tls_context(
    certificate: Path, key: Path, client_ca: Path | None = None, client_auth: str = "none"
) -> ssl.SSLContext:
    """Raises OSError (of which ssl.SSLError is one) if the files cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION  # clients could cause work with it
    context.set_ciphers(_CIPHERS)
    context.set_alpn_protocols(["http/1.1"])
    context.load_cert_chain(certificate, key)
    if client_ca is not None:
        context.load_verify_locations(client_ca)
        context.verify_mode = _CLIENT_AUTH[client_auth]
    return context


def client_subject(transport: asyncio.BaseTransport) -> str:
    """The subject of the verified client certificate; empty if there is none."""
    tls: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
    shown = tls.getpeercert(binary_form=True) if tls is not None else None
    return _subject(shown)[:_SUBJECT_MAX] if shown else ""


def _subject(certificate: bytes) -> str:
    """Its distinguished name (RFC 4514), or its alternative names if it has none (SPIFFE)."""
    from cryptography import x509

    try:
        read = x509.load_der_x509_certificate(certificate)
        if read.subject.rdns:
            return read.subject.rfc4514_string()
        names = read.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        return ", ".join(str(name.value) for name in names)
    except Exception:  # OpenSSL is less strict and has accepted it; the hash identifies the client
        return f"sha256:{hashlib.sha256(certificate).hexdigest()}"


def _read(files: TlsFiles) -> tuple[ssl.SSLContext, datetime]:
    """A context, and when its certificate expires. Checks the files first: the errors of OpenSSL say little."""
    certificate, key = f"{files.prefix}tls_certificate", f"{files.prefix}tls_key"
    chain = _certificates(certificate, files.certificate)
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        fitting = _public_key(key, files.key) == chain[0].public_key()
    except UnsupportedAlgorithm:
        raise TlsError(f"{key} {files.key} has an unsupported type: use RSA, P-256 or Ed25519") from None
    if not fitting:
        raise TlsError(
            f"{key} {files.key} is not the key of {certificate} {files.certificate}: give the two that belong "
            "together, with the server's own certificate first in its file"
        )
    if files.client_ca is not None:
        _certificates(f"{files.prefix}tls_{'' if files.prefix else 'client_'}ca", files.client_ca)
    try:
        context = tls_context(files.certificate, files.key, files.client_ca, files.client_auth)
    except ssl.SSLError as error:
        raise TlsError(f"cannot use {certificate} {files.certificate}: {error.reason or error}") from None
    except OSError as error:
        raise TlsUnreadable(f"cannot use {certificate} {files.certificate}: {error.strerror}") from None
    return context, chain[0].not_valid_after_utc


def _certificates(setting: str, path: Path) -> list[x509.Certificate]:
    from cryptography import x509  # only when needed: it takes long to load

    try:
        return x509.load_pem_x509_certificates(_bytes(setting, path))
    except ValueError:
        raise TlsError(f"{setting} {path} holds no certificate in PEM form") from None


def _public_key(setting: str, path: Path) -> PublicKeyTypes:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        return load_pem_private_key(_bytes(setting, path), password=None).public_key()
    except TypeError:
        raise TlsError(
            f"{setting} {path} is encrypted with a passphrase: decrypt it with `openssl pkey -in KEY -out NEW`"
        ) from None
    except ValueError:
        raise TlsError(f"{setting} {path} holds no private key in PEM form") from None


def _bytes(setting: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise TlsUnreadable(f"cannot read {setting} {path}: {error.strerror}") from None


def _is_open_to_others(path: Path) -> bool:
    """A group may read the key: that is how services share one."""
    try:
        return bool(os.stat(path).st_mode & (stat.S_IRWXO | stat.S_IWGRP))
    except OSError:
        return False


def _day(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d")
